"""A small issuer of OpenID Connect whose keys and words a test chooses, right or hostile: what no
real issuer would do. Serves its discovery document and its keys on loopback."""

import base64
import hashlib
import hmac
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

AUDIENCE = "sandbox"


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Key:
    """A private key and its public half as a JWK."""

    def __init__(self, algorithm: str, kid: str):
        self.algorithm, self.kid = algorithm, kid
        if algorithm in ("RS256", "PS256"):
            self.private, codec = rsa.generate_private_key(65537, 2048), RSAAlgorithm
        elif algorithm == "ES256":
            self.private, codec = ec.generate_private_key(ec.SECP256R1()), ECAlgorithm
        else:
            self.private, codec = ed25519.Ed25519PrivateKey.generate(), OKPAlgorithm
        self.public = {**json.loads(codec.to_jwk(self.private.public_key())), "kid": kid,
                       "use": "sig", "alg": algorithm}
        self.public.pop("key_ops", None)
        self.with_private = {**json.loads(codec.to_jwk(self.private)), "kid": kid,
                             "use": "sig", "alg": algorithm}
        self.with_private.pop("key_ops", None)

    def public_pem(self) -> bytes:
        return self.private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

    def token(self, claims: dict, **head) -> str:
        return jwt.encode(claims, self.private, self.algorithm, headers={"kid": self.kid, **head})


def hmac_token(secret: bytes, claims: dict, **head) -> str:
    """Signed with a shared secret, which no library would take a public key for."""
    text = ".".join(base64url(json.dumps(part).encode())
                    for part in ({"alg": "HS256", "typ": "JWT", **head}, claims))
    return f"{text}.{base64url(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"


class Issuer:
    def __init__(self, *keys: Key, port: int = 0, tls: tuple | None = None):
        """`tls`: certificate and key files."""
        self.keys = list(keys)
        self.asked = []  # paths, in order
        self.open = threading.Event()  # while it is not set, questions wait
        self.open.set()
        self.changes = {}  # of the discovery document
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.path)
                outer.open.wait(60)
                status, body = outer.answer(self.path)
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    pass  # it did not wait

            def log_message(self, *_arguments):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

        self.server = Server(("127.0.0.1", port), Handler)
        self.port = self.server.server_port
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def answer(self, path: str) -> tuple[int, bytes]:
        if path == "/.well-known/openid-configuration":
            document = {"issuer": self.url, "jwks_uri": f"{self.url}/keys",
                        "authorization_endpoint": f"{self.url}/auth",
                        "token_endpoint": f"{self.url}/token", **self.changes}
            return 200, json.dumps(document).encode()
        if path == "/keys":
            return 200, json.dumps({"keys": [key.public for key in self.keys]}).encode()
        return 404, b"{}"

    def fetches(self) -> int:
        return self.asked.count("/keys")

    def claims(self, **changes) -> dict:
        """Of somebody in the group `devs`; a change to None leaves one out."""
        now = int(time.time())
        claims = {"iss": self.url, "aud": AUDIENCE, "sub": "1", "email": "amy@example.org",
                  "email_verified": True, "groups": ["devs"], "iat": now, "exp": now + 600,
                  **changes}
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, key: Key | None = None, **changes) -> str:
        return (key or self.keys[0]).token(self.claims(**changes))

    def close(self) -> None:
        self.open.set()
        self.server.shutdown()
        self.server.server_close()
