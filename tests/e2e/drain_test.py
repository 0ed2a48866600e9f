"""SIGTERM of the gateway: it says so, refuses new work, lets what runs end, and takes nothing with
it that lives in the sandboxes."""

import signal
import threading
import time

import httpx
import pytest

import certificates
from deployment import IMAGE, Api, error_of, eventually


@pytest.fixture
def restart(deployed):
    """Restarts the gateway with these options; at the end one is there without them."""
    def again(**options) -> Api:
        deployed.gateway.stop()
        deployed.settings.gateway_options = {name.replace("_", "-"): str(value)
                                             for name, value in options.items()}
        deployed.start_gateway()
        return Api(deployed)

    yield again
    if deployed.settings.gateway_options:
        again()


def start_plainly(api) -> None:
    """Without the options of `restart`, so that its next end waits for nothing."""
    api.instance.settings.gateway_options = {}
    api.instance.start_gateway()


@pytest.fixture(params=["http", "https"])
def scheme_options(request, deployed):
    """Options for either kind of connection."""
    if request.param == "http":
        return {}
    folder = deployed.state / "drain-tls"
    authority = certificates.Authority(folder)
    folder.chmod(0o755)
    authority.issue(folder / "c.pem", folder / "k.pem")
    return {"tls-cert": folder / "c.pem", "tls-key": folder / "k.pem"}


def client(api) -> httpx.Client:
    return httpx.Client(base_url=api.instance.url, timeout=60, verify=False,
                        headers={"Authorization": f"Bearer {api.instance.token}"})


class Call(threading.Thread):
    """A request on a connection of its own."""

    def __init__(self, api, sandbox: str, command: str):
        super().__init__()
        self.api, self.sandbox, self.command = api, sandbox, command
        self.answer = self.error = None
        self.start()

    def run(self) -> None:
        try:
            with client(self.api) as http:
                self.answer = http.post(f"/sandboxes/{self.sandbox}/run",
                                        json={"command": self.command})
        except httpx.HTTPError as error:
            self.error = error


def wait_for_file(http, sandbox: str, path: str) -> None:
    eventually(lambda: http.get(f"/sandboxes/{sandbox}/files", params={"path": path})
               .status_code == 200)


def test_it_announces_refuses_finishes_and_ends(restart, scheme_options):
    api = restart(drain_delay=3, drain_patience=60, **scheme_options)
    with client(api) as http:
        box = http.post("/sandboxes?wait=60", json={"image": IMAGE, "cpus": 1, "memory_mb": 256}
                        ).json()["id"]
        session = http.post(f"/sandboxes/{box}/sessions",
                            json={"command": "read x; echo got $x"}).json()["id"]
        call = Call(api, box, "touch /tmp/runs; until [ -e /tmp/go ]; do sleep 0.1; done; "
                              "head -c 3000000 /dev/zero | tr '\\0' x")
        wait_for_file(http, box, "/tmp/runs")
        api.instance.gateway.signal(signal.SIGTERM)
        # Announced: not ready any more, yet everything is served, and each answer says good-bye.
        eventually(lambda: http.get("/readyz").status_code == 503)
        answer = http.get("/readyz")
        assert error_of(answer) == (503, "draining")
        assert answer.headers["connection"] == "close"
        served = http.put(f"/sandboxes/{box}/files?path=/tmp/late", content=b"x")
        assert served.status_code in (200, 201) and served.headers["connection"] == "close"
        # Refused: nothing new, on new connections too.
        eventually(lambda: http.get("/sandboxes").status_code == 503)
        for answer in (http.post("/sandboxes", json={"image": IMAGE}),
                       http.put(f"/sandboxes/{box}/files?path=/tmp/go", content=b"x"),
                       http.get(f"/sandboxes/{box}")):
            assert error_of(answer) == (503, "draining")
            assert int(answer.headers["retry-after"]) >= 1
            assert answer.headers["connection"] == "close"
        assert http.get("/healthz").status_code == 200
        assert api.instance.gateway.pid() is not None and call.is_alive()
        # What runs ends as if nothing were, with the whole of its answer, and then the gateway.
        run_inside(api, box, "touch /tmp/go")
        call.join(30)
        assert call.answer is not None, call.error
        assert len(call.answer.json()["stdout"]) == 3_000_000
        assert api.instance.gateway.wait_gone(30)
    start_plainly(api)
    with client(api) as http:
        assert http.get(f"/sandboxes/{box}").json()["state"] == "ready"
        assert http.get(f"/sandboxes/{box}/sessions/{session}").json()["state"] == "running"
        http.delete(f"/sandboxes/{box}?wait=30")


def run_inside(api, sandbox: str, command: str) -> None:
    """Past the gateway: on the agent's own socket."""
    socket = api.instance.state / "run" / "sandboxes" / sandbox / "agent.sock"
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(socket)), timeout=30) as http:
        answer = http.post("http://agent/run", json={"argv": ["sh", "-c", command]})
        assert answer.status_code == 200, answer.text


def test_what_outlasts_the_patience_is_ended_and_its_sandbox_lives(restart):
    api = restart(drain_patience=1)
    box = api.create()["id"]
    call = Call(api, box, "touch /tmp/runs; sleep 54321")
    wait_for_file(api.http, box, "/tmp/runs")
    began = time.monotonic()
    api.instance.gateway.signal(signal.SIGTERM)
    assert api.instance.gateway.wait_gone(30)
    assert time.monotonic() - began >= 1
    call.join(30)
    assert call.answer is None or call.answer.status_code >= 500
    start_plainly(api)
    eventually(lambda: api.output(box, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | "
                                       "grep -c 'p [5]4321' || true") == "0")
    api.remove(box)


def test_another_signal_ends_the_wait(restart):
    api = restart(drain_delay=600, drain_patience=600)
    box = api.create()["id"]
    call = Call(api, box, "touch /tmp/runs; sleep 54321")
    wait_for_file(api.http, box, "/tmp/runs")
    api.instance.gateway.signal(signal.SIGTERM)
    eventually(lambda: api.get("/readyz").status_code == 503)
    api.instance.gateway.signal(signal.SIGTERM)  # ends the delay
    eventually(lambda: api.get("/sandboxes").status_code == 503)
    assert api.instance.gateway.pid() is not None
    api.instance.gateway.signal(signal.SIGTERM)  # ends the patience
    assert api.instance.gateway.wait_gone(30)
    call.join(30)
    start_plainly(api)
    api.remove(box)


def test_idle_connections_and_endless_streams_hold_nothing_up(restart):
    api = restart(drain_patience=600)
    box = api.create()["id"]
    with client(api) as idle, client(api) as follower:
        assert idle.get("/healthz").status_code == 200
        with follower.stream("GET", f"/sandboxes/{box}/events?follow=1") as events:
            assert events.status_code == 200
            api.instance.gateway.signal(signal.SIGTERM)
            assert api.instance.gateway.wait_gone(30)
    start_plainly(api)
    api.remove(box)
