"""What tests of compose files share: an image of nothing but busybox, and calls. A module imports
`image` and `up` with what else it needs."""

import json
import subprocess

import pytest

from tar_files import archive, busybox, folder, member

IMAGE = "e2e-compose"
PAGE = "data/page"


@pytest.fixture(scope="module", autouse=True)
def image(api):
    """Nothing but busybox, a user, and a folder with a file of that user's."""
    listed = subprocess.run(["/bin/busybox", "--list"], capture_output=True, text=True, check=True)
    image = archive(
        *busybox(sorted(set(listed.stdout.split()) - {"busybox"})), folder("tmp", 0o1777),
        folder("etc"),
        member("etc/passwd", b"root:x:0:0:root:/:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n"),
        folder("data", 0o750, uid=1000, gid=1000),
        member(PAGE, b"from the image\n", mode=0o640, uid=1000, gid=1000))
    answer = api.http.post("/images", params={"name": IMAGE}, content=image)
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
