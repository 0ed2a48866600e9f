"""A registry on loopback that counts what it is asked and misbehaves as told."""

import base64
import contextlib
import gzip
import http.server
import json
import threading
import time

from deployment import demo_image
from tar_files import archive, busybox, folder, member

INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
USER, PASSWORD = "u", "canary-stub-password"
BUSYBOX_NAMES = ("sh", "cat", "echo", "ls", "find", "id", "pwd", "stat", "sleep", "test", "true",
                 "wc", "sort", "grep", "env", "ps", "tail")


def busybox_layer() -> bytes:
    """A root file system of nothing but busybox, with the users root and node."""
    return archive(
        *busybox(BUSYBOX_NAMES), folder("tmp", 0o1777), folder("etc"), folder("root", 0o700),
        member("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnode:x:1000:1000::/:/bin/sh\n"))


def descriptor(media_type: str, data: bytes, **fields) -> dict:
    return {"mediaType": media_type, "digest": demo_image.digest(data), "size": len(data),
            **fields}


def platform(architecture: str, system: str = "linux", **fields) -> dict:
    return {"platform": {"architecture": architecture, "os": system, **fields}}


class StubRegistry(contextlib.AbstractContextManager):
    """`manifests` by repository and tag or digest, `blobs` by digest. What it does beside the
    answers: `limited` requests of manifests are told 429 with `retry_after`; `auth` is "basic" or
    "bearer"; `redirect(digest)` names where a blob is instead."""

    def __init__(self, port: int = 0):
        self.manifests: dict[tuple[str, str], tuple[str, bytes]] = {}
        self.blobs: dict[str, bytes] = {}
        self.asked: list[tuple[str, str, str]] = []  # method, path, scheme of the credentials
        self.limited = 0
        self.retry_after = "1"
        self.auth = ""
        self.refuse_head = False
        self.blob_pause = 0.0
        self.redirect = None
        stub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                stub.serve(self)

            do_HEAD = do_GET

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.host = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __exit__(self, *_) -> None:
        self.server.shutdown()
        self.server.server_close()

    # --- what it has
    def put_blob(self, data: bytes) -> str:
        digest = demo_image.digest(data)
        self.blobs[digest] = data
        return digest

    def put_manifest(self, repository: str, tag: str, media_type: str, data: bytes) -> str:
        digest = demo_image.digest(data)
        self.manifests[repository, digest] = self.manifests[repository, tag] = (media_type, data)
        return digest

    def push(self, repository: str, layers: list, config: dict | None = None, tag: str = "latest",
             architecture: str = "amd64", diff_ids: list | None = None) -> str:
        """An image of these layers: a plain tar, or (media type, packed, plain tar). The digest."""
        rows, plain = [], []
        for layer in layers:
            media_type, packed, content = layer if isinstance(layer, tuple) else (
                demo_image.LAYER_TYPE, gzip.compress(layer, 1, mtime=0), layer)
            self.put_blob(packed)
            rows.append(descriptor(media_type, packed))
            plain.append(demo_image.digest(content))
        body = json.dumps({"architecture": architecture, "os": "linux", "config": config or {},
                           "rootfs": {"type": "layers", "diff_ids": diff_ids or plain}}).encode()
        self.put_blob(body)
        return self.put_manifest(repository, tag, demo_image.MANIFEST_TYPE, json.dumps({
            "schemaVersion": 2, "mediaType": demo_image.MANIFEST_TYPE,
            "config": descriptor(demo_image.CONFIG_TYPE, body), "layers": rows}).encode())

    def push_index(self, repository: str, tag: str, entries: list) -> str:
        return self.put_manifest(repository, tag, INDEX_TYPE, json.dumps(
            {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": entries}).encode())

    def entry(self, repository: str, tag: str, **fields) -> dict:
        """The index entry of a manifest that is here."""
        media_type, data = self.manifests[repository, tag]
        return descriptor(media_type, data, **fields)

    def count(self, part: str, method: str = "GET") -> int:
        """How often paths with that part were asked for."""
        return sum(one[0] == method and part in one[1] for one in list(self.asked))

    # --- what it says
    def serve(self, request) -> None:
        path = request.path.split("?")[0]
        credentials = request.headers.get("Authorization", "")
        self.asked.append((request.command, request.path, credentials.split(" ")[0]))
        if path == "/token":
            right = credentials == "Basic " + self.basic()
            token = b'{"token": "good-one"}'
            return self.answer(request, 200 if right else 401, token if right else b"{}")
        if not self.allowed(credentials) or (self.refuse_head and request.command == "HEAD"):
            realm = ('Basic realm="stub"' if self.auth == "basic" else
                     f'Bearer realm="http://{self.host}/token",service="stub"')
            return self.answer(request, 401, b"{}", {"WWW-Authenticate": realm})
        if path.rstrip("/") == "/v2":
            return self.answer(request, 200, b"{}")
        kind = "/manifests/" if "/manifests/" in path else "/blobs/"
        repository, _, reference = path.removeprefix("/v2/").partition(kind)
        if kind == "/manifests/":
            return self.serve_manifest(request, repository, reference)
        if reference in self.blobs:
            time.sleep(self.blob_pause)
            if self.redirect:
                return self.answer(request, 307, b"", {"Location": self.redirect(reference)})
            return self.answer(request, 200, self.blobs[reference])
        return self.answer(request, 404, b'{"errors":[{"code":"BLOB_UNKNOWN"}]}')

    def serve_manifest(self, request, repository: str, reference: str) -> None:
        if self.limited > 0:
            self.limited -= 1
            return self.answer(
                request, 429, b'{"errors":[{"code":"TOOMANYREQUESTS","message":"pull rate"}]}',
                {"Retry-After": self.retry_after})
        if (repository, reference) not in self.manifests:
            return self.answer(request, 404, b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}')
        media_type, data = self.manifests[repository, reference]
        return self.answer(request, 200, data, {
            "Content-Type": media_type, "Docker-Content-Digest": demo_image.digest(data)})

    @staticmethod
    def basic() -> str:
        return base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

    def allowed(self, credentials: str) -> bool:
        if self.auth == "basic":
            return credentials == "Basic " + self.basic()
        if self.auth == "bearer":
            return credentials.startswith("Bearer good-")
        return True

    @staticmethod
    def answer(request, status: int, body: bytes, headers: dict | None = None) -> None:
        request.send_response(status)
        for name, value in (headers or {}).items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(body)
