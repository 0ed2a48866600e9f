"""What tests of image builds share: contexts, calls, and a base image of nothing but busybox. A
module that builds imports `bb`, `clean` and `needs_builder` with what else it needs."""

import hashlib
import json
from pathlib import Path

import pytest

import builder
from deployment import Api
from tar_files import archive, busybox, entry, folder, member

needs_builder = pytest.mark.skipif(not builder.kept_folder().exists(),
                                   reason="no image builder here (./dev setup makes it)")
WAIT = 120


def tar_of(files: dict, modes: dict | None = None) -> bytes:
    """A context: name -> bytes, None for a folder, ("->", target) for a link."""
    fields = {name: {"mode": mode} for name, mode in (modes or {}).items()}
    return archive(*(entry(name, what, **fields.get(name, {})) for name, what in files.items()))


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
    names = ("sh", "cat", "echo", "ls", "wc", "sleep", "touch", "mkdir", "find", "true", "false",
             "id", "stat", "setsid", "mkfifo", "sort", "grep", "dd", "rm", "env", "chmod", "test",
             "pwd", "ps", "printf")
    image = archive(
        *busybox(names), folder("tmp", 0o1777), folder("etc"),
        member("etc/passwd", b"root:x:0:0:root:/:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n"))
    for name in ("e2e-bb", "e2e-bb:idx"):
        answer = api.http.post("/images", params={"name": name}, content=image)
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
