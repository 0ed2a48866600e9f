"""A real issuer of OpenID Connect for tests: Debian's glewlwyd, in a folder and on a port of its
own. Its people have a name, an email address and groups; its keys are the test's."""

import http.cookiejar
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from instance import free_port  # noqa: E402

SCHEMA = Path("/usr/share/dbconfig-common/data/glewlwyd/install/sqlite3")
ADMIN = ("admin", "password")  # of the package's own schema
START_SECONDS = 20
PLUGIN = "oidc"
MODULES = "/usr/lib/glewlwyd"

CONFIGURATION = """
port={port}
bind_address="127.0.0.1"
external_url="{url}"
login_url="login.html"
api_prefix="api"
static_files_path="{folder}"
log_mode="file"
log_level="INFO"
log_file="{folder}/glewlwyd.log"
cookie_secure=0
session_expiration=3600
session_key="GLEWLWYD2_SESSION_ID"
admin_scope="g_admin"
profile_scope="g_profile"
user_module_path="{modules}/user"
user_middleware_module_path="{folder}"
client_module_path="{modules}/client"
user_auth_scheme_module_path="{modules}/scheme"
plugin_module_path="{modules}/plugin"
hash_algorithm="SHA512"
database={{ type="sqlite3"; path="{folder}/glewlwyd.db"; }};
"""


class IssuerError(Exception):
    """Something a person can act on."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_arguments):
        return None


class Session:
    """Somebody's browser, as far as cookies go."""

    def __init__(self, base: str):
        self.base = base
        self.opener = urllib.request.build_opener(
            urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()), _NoRedirect)

    def call(self, method: str, path: str, body=None) -> tuple[int, dict, bytes]:
        """Status, headers and body; a redirect is an answer."""
        request = urllib.request.Request(
            path if "://" in path else f"{self.base}/api{path}", method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"})
        try:
            with self.opener.open(request, timeout=20) as answer:
                return answer.status, dict(answer.headers), answer.read()
        except urllib.error.HTTPError as error:
            return error.code, dict(error.headers), error.read()

    def must(self, method: str, path: str, body=None) -> bytes:
        status, _, answer = self.call(method, path, body)
        if status != 200:
            raise IssuerError(f"{method} {path}: {status} {answer[:300]!r}")
        return answer

    def sign_in(self, name: str, password: str) -> None:
        self.must("POST", "/auth/", {"username": name, "password": password})


class Issuer:
    """Running from its construction to stop() or purge()."""

    def __init__(self, keys: dict, port: int = 0):
        """`keys`: a JWKS with private keys."""
        self.folder = Path(tempfile.mkdtemp(prefix="glewlwyd-"))
        self.port = port or free_port()
        self.url = f"http://localhost:{self.port}"
        self.process: subprocess.Popen | None = None
        self.keys = keys
        (self.folder / "glewlwyd.conf").write_text(CONFIGURATION.format(
            port=self.port, url=self.url, folder=self.folder, modules=MODULES))
        with sqlite3.connect(self.folder / "glewlwyd.db") as database:
            database.executescript(SCHEMA.read_text(encoding="utf-8"))
        self.start()
        self.admin = Session(self.url)
        self.admin.sign_in(*ADMIN)
        self.configure()

    @property
    def issuer(self) -> str:
        """As it names itself."""
        return f"{self.url}/api/{PLUGIN}"

    def start(self) -> None:
        self.process = subprocess.Popen(
            ["glewlwyd", "--config-file", self.folder / "glewlwyd.conf"], cwd=self.folder,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        deadline = time.monotonic() + START_SECONDS
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise IssuerError(f"glewlwyd does not start: {self.log()}")
            time.sleep(0.05)

    def log(self) -> str:
        try:
            return (self.folder / "glewlwyd.log").read_text(errors="replace")[-2000:]
        except FileNotFoundError:
            return "(no log)"

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/config", timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False

    def configure(self) -> None:
        module = json.loads(self.admin.must("GET", "/mod/user/database"))
        module["parameters"]["data-format"]["groups"] = {
            "multiple": True, "read": True, "write": True, "profile-read": True,
            "profile-write": False}
        module["parameters"]["data-format"]["verified"] = {
            "multiple": False, "read": True, "write": True, "profile-read": True,
            "profile-write": False}
        self.admin.must("PUT", "/mod/user/database", module)
        self.admin.must("PUT", "/mod/user/database/reset")
        self.admin.must("POST", "/mod/plugin", self.plugin())

    def plugin(self) -> dict:
        claims = [
            {"name": "groups", "user-property": "groups", "type": "string", "mandatory": True,
             "scope": ["openid"]},
            {"name": "email_verified", "user-property": "verified", "type": "boolean",
             "boolean-value-true": "1", "boolean-value-false": "0", "mandatory": True,
             "scope": ["openid"]}]
        return {"module": PLUGIN, "name": PLUGIN, "display_name": "people", "parameters": {
            "iss": self.issuer, "jwt-type": "jwks", "jwks-private": json.dumps(self.keys),
            "default-kid": self.keys["keys"][0]["kid"], "jwks-show": True, "subject-type": "public",
            "access-token-duration": 3600, "refresh-token-duration": 1209600,
            "code-duration": 600, "refresh-token-rolling": True,
            "allow-non-oidc": True, "auth-type-code-enabled": True,
            "auth-type-token-enabled": False, "auth-type-id-token-enabled": True,
            "auth-type-none-enabled": False, "auth-type-password-enabled": False,
            "auth-type-client-enabled": False, "auth-type-device-enabled": True,
            "auth-type-refresh-enabled": True, "pkce-allowed": True,
            "pkce-required": True, "pkce-method-plain-allowed": False,
            "oauth-as-iss-id": True,
            "allowed-scope": ["openid"], "name-claim": "mandatory", "email-claim": "mandatory",
            "claims": claims}}

    def use_keys(self, keys: dict) -> None:
        """From now on it signs with the first of these."""
        self.keys = keys
        self.admin.must("PUT", f"/mod/plugin/{PLUGIN}", self.plugin())
        self.admin.must("PUT", f"/mod/plugin/{PLUGIN}/reset")

    def add_client(self, client: str, secret: str, redirect: str) -> None:
        self.admin.must("POST", "/client", {
            "client_id": client, "name": client, "enabled": True, "confidential": bool(secret),
            "client_secret": secret, "token_endpoint_auth_method": ["client_secret_basic"],
            "redirect_uri": [redirect], "scope": [],
            "authorization_type": ["code", "device_authorization", "refresh_token"]})

    def add_person(self, name: str, password: str, email: str, groups: list[str],
                   verified: bool = True) -> None:
        self.admin.must("POST", "/user", {
            "username": name, "name": name, "password": password, "email": email, "enabled": True,
            "scope": ["openid", "g_profile"], "groups": groups,
            "verified": "1" if verified else "0"})

    def browser(self, name: str, password: str, client: str) -> Session:
        """Of somebody who has signed in and agreed."""
        person = Session(self.url)
        person.sign_in(name, password)
        person.must("PUT", f"/auth/grant/{client}", {"scope": "openid"})
        return person

    def confirm_device(self, code: str, name: str, password: str, client: str) -> None:
        """What a person does with the code that a program shows."""
        person = self.browser(name, password, client)
        location = f"{self.issuer}/device?code={code}"
        for address in (location, location + "&g_continue"):
            _, headers, _ = person.call("GET", address)
        if "prompt=deviceComplete" not in headers["Location"]:
            raise IssuerError(f"the code is not taken: {headers['Location']}")

    def authorize(self, location: str, name: str, password: str, client: str) -> str:
        """What a person's browser does at `location`: signs in, agrees, and is led back. The
        address that it is led to."""
        person = self.browser(name, password, client)
        for _ in range(5):
            status, headers, body = person.call("GET", location)
            if status not in (302, 303):
                raise IssuerError(f"{location}: {status} {body[:300]!r}")
            location = headers["Location"]
            if not location.startswith(self.url):
                return location
            # Its login page leads back to where it was asked from, and says so.
            query = urllib.parse.parse_qs(urllib.parse.urlparse(location).query)
            location = query["callback_url"][0] + "&g_continue"
        raise IssuerError("it leads in a circle")

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait(10)

    def purge(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
