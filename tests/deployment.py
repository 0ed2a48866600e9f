"""What end-to-end and chaos tests share: an instance of their own, and the API as few calls."""

import atexit
import concurrent.futures
import contextlib
import functools
import json
import os
import sys
import time
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(ROOT / "clients" / "python"))
import demo_image  # noqa: E402
import instance  # noqa: E402
import postgresql  # noqa: E402

IMAGE = demo_image.NAME
WAIT_SECONDS = 60  # of what comes at once on a machine that has nothing else to do
STATE_PARENT = Path("/var/lib")  # a real file system, open to every user
POOL_MB = 4096
# "postgresql": instances keep their records in a server of this run instead of SQLite.
STORE = os.environ.get("SANDBOX_TEST_STORE", "sqlite")
# Two runs on one machine do not meet when each has a lane of its own, 1 to 8.
LANE = int(os.environ.get("SANDBOX_TEST_LANE", "0"))
FIRST_LANE_ID, LANE_IDS = 1_000_000_000, 300_000_000
FIRST_LANE_NET = 208  # 10.208.0.0/16

remover = concurrent.futures.ThreadPoolExecutor(1)
removals: dict[Path, concurrent.futures.Future] = {}  # of what instances left, begun or over


@functools.cache
def postgresql_server() -> postgresql.Server:
    """One for the whole run."""
    server = postgresql.Server()
    atexit.register(server.purge)
    return server


def make_instance(name: str, subnet: str, id_base: int, shells: int = 8) -> instance.Instance:
    """An instance with everything of its own; what a killed run left is removed first. `name` is
    its interface prefix too, so it is short."""
    if LANE:
        name = f"l{chr(ord('a') + LANE)}{name[-1]}"
        subnet = f"10.{FIRST_LANE_NET + LANE}.0.0/16"
        id_base = FIRST_LANE_ID + LANE * LANE_IDS
    programs = Path(os.environ.get("SANDBOX_BUILD", ROOT / "build" / "release")).resolve()
    settings = instance.Settings(
        name_prefix=name, subnet=subnet, id_base=id_base, port=instance.free_port(),
        metrics_port=instance.free_port(), shells=shells, storage_pool_mb=POOL_MB,
        # On a disk that is nearly full a node removes images that nobody uses.
        node_options={"image-free-percent": "0"},
        store=postgresql_server().create_database(name) if STORE == "postgresql" else "")
    one = instance.Instance(STATE_PARENT / f"sandbox-gateway-test-{name}", programs, settings)
    if one.state.exists():
        one.purge()
        one.settings = settings
    for folder in STATE_PARENT.glob(f"{one.state.name}*.gone-*"):
        if folder not in removals:
            instance.remove(folder)  # of a run that was killed
    return one


def purge(one: instance.Instance) -> None:
    """Ends it; that its files go is waited for at the end of the run, since hundreds of small ones
    take seconds."""
    one.kill()
    if one.state.exists():
        gone = one.state.with_name(f"{one.state.name}.gone-{len(removals)}")
        one.state.rename(gone)
        removals[gone] = remover.submit(instance.remove, gone)


def purge_server(server: postgresql.Server) -> None:
    """The same of a store's server that nobody uses any more."""
    removals[server.folder] = remover.submit(server.purge)


def finish_removals() -> None:
    for removal in removals.values():
        removal.result()


@functools.cache
def demo_tar() -> Path:
    return demo_image.make_tar(ROOT / "build" / "demo-image")


def import_demo_image(one: instance.Instance) -> None:
    with demo_tar().open("rb") as tar:
        status, answer = one.request("POST", f"/images?name={IMAGE}", tar, 300)
    assert status in (200, 201), answer


@contextlib.contextmanager
def running(one: instance.Instance):
    """Started, with the demo image; afterwards nothing is left of it."""
    try:
        one.start()
        import_demo_image(one)
        yield one
    finally:
        purge(one)


def postgresql_fixtures(name: str, subnet: str, id_base: int):
    """For a test module: its fixtures `server` (a PostgreSQL of its own, which it may kill),
    `deployed` (an instance whose records are there, as database "gateway") and `api`."""
    @pytest.fixture(scope="module", name="server")
    def server():
        one = postgresql.Server()
        yield one
        purge_server(one)

    @pytest.fixture(scope="module", name="deployed")
    def deployed(server):
        one = make_instance(name, subnet, id_base, shells=2)
        one.settings.store = server.create_database("gateway")
        with running(one):
            yield one

    @pytest.fixture(scope="module", name="api")
    def api(deployed) -> Api:
        return Api(deployed)

    return server, deployed, api


def eventually(condition, seconds: float = WAIT_SECONDS, what: str = ""):
    """The first true value of condition(); level-triggered. It is asked often at first."""
    deadline = time.monotonic() + seconds
    pause = 0.005
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"not within {seconds} s: {what or condition}"
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)


# Read once: a client that reads them anew takes 40 ms of a processor.
AUTHORITIES = httpx.create_ssl_context()


class Api:
    """The API as a caller sees it. Plain calls give the response; the others assert success."""

    def __init__(self, one: instance.Instance):
        self.instance = one
        self.http = self.client(one.token)

    def client(self, token: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        trust = True if self.instance.trust else AUTHORITIES
        return httpx.Client(base_url=self.instance.url, timeout=120, headers=headers, verify=trust)

    def post(self, path: str, body=None, **options) -> httpx.Response:
        return self.http.post(path, json=body, **options)

    def get(self, path: str, **options) -> httpx.Response:
        return self.http.get(path, **options)

    def delete(self, path: str, **options) -> httpx.Response:
        return self.http.delete(path, **options)

    def create(self, image: str = IMAGE, **fields) -> dict:
        body = {"image": image, "cpus": 1, "memory_mb": 256, **fields}
        answer = self.post("/sandboxes?wait=60", body)
        assert answer.status_code == 201, answer.text
        assert answer.json()["state"] == "ready", answer.text
        return answer.json()

    def run(self, sandbox: str, *argv: str, **fields) -> dict:
        answer = self.post(f"/sandboxes/{sandbox}/run", {"argv": list(argv), **fields})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def shell(self, sandbox: str, command: str, **fields) -> dict:
        answer = self.post(f"/sandboxes/{sandbox}/run", {"command": command, **fields})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def output(self, sandbox: str, command: str, **fields) -> str:
        """Standard output of a shell command that must succeed."""
        result = self.shell(sandbox, command, **fields)
        assert result["exit_code"] == 0, result
        return result["stdout"].strip()

    def upload(self, sandbox: str, path: str, data: bytes, **query) -> httpx.Response:
        return self.http.put(f"/sandboxes/{sandbox}/files", params={"path": path, **query},
                             content=data)

    def download(self, sandbox: str, path: str, **query) -> httpx.Response:
        return self.http.get(f"/sandboxes/{sandbox}/files", params={"path": path, **query})

    def remove(self, sandbox: str) -> None:
        answer = self.delete(f"/sandboxes/{sandbox}?wait=60")
        assert answer.status_code in (202, 204, 404), answer.text

    def state(self, sandbox: str) -> str:
        answer = self.get(f"/sandboxes/{sandbox}")
        return answer.json()["state"] if answer.status_code == 200 else "absent"


def gateway_memory(api: Api) -> int:
    """Resident bytes of the gateway."""
    status = Path(f"/proc/{api.instance.gateway.pid()}/status").read_text(encoding="ascii")
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def agent_pid(api: Api, sandbox: str) -> int:
    """The host's pid of a sandbox's PID 1, from the node's record of it."""
    record = api.instance.state / "run" / "sandboxes" / sandbox / "record.json"
    return json.loads(record.read_text())["pid"]


def error_of(answer: httpx.Response) -> tuple[int, str]:
    """Status and code; every error body has the one form and the request's id."""
    error = answer.json()["error"]
    assert set(error) == {"code", "message", "details"}, error
    assert error["message"], error
    assert error["details"]["request_id"] == answer.headers["x-request-id"]
    return answer.status_code, error["code"]
