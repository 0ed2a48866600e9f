"""What tests of image builds share: contexts, calls, and a base image of nothing but busybox. A
module that builds imports `bb`, `clean` and `needs_builder` with what else it needs."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

import builder
from deployment import Api

needs_builder = pytest.mark.skipif(not builder.kept_folder().exists(),
                                   reason="no image builder here (./dev setup makes it)")
WAIT = 120


def tar_of(files: dict, modes: dict | None = None) -> bytes:
    """A context: name -> bytes, None for a folder, ("->", target) for a link."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.mode = (modes or {}).get(name, 0o755 if data is None else 0o644)
            if data is None:
                member.type = tarfile.DIRTYPE
            elif isinstance(data, tuple):
                member.type, member.linkname = tarfile.SYMTYPE, data[1]
            else:
                member.size = len(data)
            tar.addfile(member, io.BytesIO(data) if isinstance(data, bytes) else None)
    return out.getvalue()


def root_of_builder(deployed, team: str = "default") -> Path:
    """The root file system of the team's builder, as this host's root sees it."""
    name = f"builder-{hashlib.sha256(team.encode()).hexdigest()[:16]}"
    record = deployed.state / "run" / "sandboxes" / name / "record.json"
    return Path(f"/proc/{json.loads(record.read_text())['pid']}/root")


def builders(deployed) -> list[str]:
    rows = deployed.ask_node({"op": "list"})["sandboxes"]
    return [row["id"] for row in rows if row["id"].startswith(("builder-", "base-"))]


@pytest.fixture(scope="module", autouse=True)
def clean(deployed):
    """For modules that build: other tests count what is there, so the builders go with them."""
    yield
    for name in builders(deployed):
        deployed.ask_node({"op": "remove", "id": name})


@pytest.fixture(scope="module")
def bb(api) -> str:
    """A local image of nothing but busybox."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar, open("/bin/busybox", "rb") as program:
        member = tarfile.TarInfo("bin/busybox")
        data = program.read()
        member.size, member.mode = len(data), 0o755
        tar.addfile(member, io.BytesIO(data))
        for name in ("sh", "cat", "echo", "ls", "wc", "sleep", "touch", "mkdir", "find", "true",
                     "false", "id", "stat", "setsid", "mkfifo", "sort", "grep", "dd", "rm", "env",
                     "chmod", "test", "pwd", "ps", "printf"):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        for name, mode in (("tmp", 0o1777), ("etc", 0o755)):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, mode
            tar.addfile(folder)
        passwd = b"root:x:0:0:root:/:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n"
        member = tarfile.TarInfo("etc/passwd")
        member.size, member.mode = len(passwd), 0o644
        tar.addfile(member, io.BytesIO(passwd))
    for name in ("e2e-bb", "e2e-bb:idx"):
        answer = api.http.post("/images", params={"name": name}, content=out.getvalue())
        assert answer.status_code == 201, answer.text
    return "e2e-bb"


def post(api: Api, context: bytes, **options):
    """options: query parameters; arg may be a list."""
    return api.http.post("/builds", params={"wait": WAIT, **options}, content=context,
                         headers={"Content-Type": "application/x-tar"}, timeout=WAIT + 60)


def log_of(api: Api, row: dict) -> str:
    return api.get(f"/builds/{row['id']}/logs").text


def build(api: Api, dockerfile: str, files: dict | None = None, modes: dict | None = None,
          **options) -> dict:
    """A build that succeeds."""
    context = tar_of({"Dockerfile": dockerfile.encode(), **(files or {})}, modes)
    answer = post(api, context, **options)
    assert answer.status_code in (200, 201), answer.text
    row = answer.json()
    assert row["state"] == "succeeded", (row, log_of(api, row))
    return row


def failed(api: Api, dockerfile: str, files: dict | None = None, **options) -> dict:
    answer = post(api, tar_of({"Dockerfile": dockerfile.encode(), **(files or {})}), **options)
    assert answer.status_code == 201, answer.text
    row = answer.json()
    assert row["state"] == "failed", row
    return row


def output(api: Api, image: str, command: str, **fields) -> str:
    made = api.create(image, memory_mb=64)
    try:
        return api.output(made["id"], command, **fields)
    finally:
        api.remove(made["id"])
