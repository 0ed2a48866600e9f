"""What tests of compose files share: an image of nothing but busybox, and calls. A module imports
`image` and `up` with what else it needs."""

import io
import json
import subprocess
import tarfile

import pytest

IMAGE = "e2e-compose"
PAGE = "data/page"


@pytest.fixture(scope="module", autouse=True)
def image(api):
    """Nothing but busybox, a user, and a folder with a file of that user's."""
    listed = subprocess.run(["/bin/busybox", "--list"], capture_output=True, text=True, check=True)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        def add(name: str, data: bytes | None = None, mode: int = 0o755, link: str = "",
                uid: int = 0) -> None:
            member = tarfile.TarInfo(name)
            member.mode, member.uid, member.gid = mode, uid, uid
            member.type = tarfile.DIRTYPE if data is None else tarfile.REGTYPE
            if link:
                member.type, member.linkname = tarfile.SYMTYPE, link
            member.size = len(data or b"")
            tar.addfile(member, io.BytesIO(data or b""))
        for folder, mode in (("bin", 0o755), ("tmp", 0o1777), ("etc", 0o755)):
            add(folder, mode=mode)
        add("bin/busybox", open("/bin/busybox", "rb").read())
        for name in sorted(set(listed.stdout.split()) - {"busybox"}):
            add(f"bin/{name}", link="busybox")
        add("etc/passwd", b"root:x:0:0:root:/:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n", 0o644)
        add("data", uid=1000, mode=0o750)
        add(PAGE, b"from the image\n", 0o640, uid=1000)
    answer = api.http.post("/images", params={"name": IMAGE}, content=out.getvalue())
    assert answer.status_code in (200, 201), answer.text
    return IMAGE


def post(api, *files: str | dict, wait: int = 60, compose: dict | None = None, **fields):
    texts = [file if isinstance(file, str) else json.dumps(file) for file in files]
    body = {"cpus": 1, "memory_mb": 256, **fields, "compose": {"files": texts, **(compose or {})}}
    return api.post(f"/sandboxes?wait={wait}", {k: v for k, v in body.items() if v is not None})


@pytest.fixture
def up(api):
    """Makes sandboxes that are deleted at the test's end."""
    made = []

    def create(*files, state: str = "ready", **options) -> dict:
        answer = post(api, *files, **options)
        assert answer.status_code == 201, answer.text
        made.append(answer.json()["id"])
        assert answer.json()["state"] == state, answer.text
        return answer.json()

    yield create
    for box in made:
        api.remove(box)


def services(**named) -> dict:
    """Of that image, and of what only waits unless they say otherwise."""
    return {name: {"image": IMAGE, "command": ["sleep", "1000"], **(keys or {})}
            for name, keys in named.items()}


def containers(api, box: str) -> dict[str, dict]:
    return {one["name"]: one for one in api.get(f"/sandboxes/{box}").json()["containers"]}


def log(api, box: str, container: str) -> str:
    answer = api.get(f"/sandboxes/{box}/logs", params={"container": container})
    assert answer.status_code == 200, answer.text
    return answer.text
