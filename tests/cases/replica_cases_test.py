"""Several gateways on one store: faults that other systems had (SE-06, QU-01). SANDBOX_LONG=1 for
the full loads."""

import concurrent.futures
import json
import os
import threading
import time

import httpx
import pytest
from websockets.sync.client import connect

import replicas
from deployment import IMAGE, eventually

LONG = os.environ.get("SANDBOX_LONG") == "1"
TINY = {"image": IMAGE, "cpus": 0.1, "memory_mb": 32, "storage_mb": 16}


@pytest.fixture(scope="module")
def group():
    one = replicas.Group("sgq", 3 if LONG else 2)
    yield one
    one.purge()


@pytest.fixture
def anyone(group):
    """A client whose every request goes to another gateway."""
    with group.client() as http:
        yield http


def create(http: httpx.Client, **fields) -> str:
    answer = http.post("/sandboxes?wait=60", json={**TINY, **fields})
    assert answer.status_code == 201 and answer.json()["state"] == "ready", answer.text
    return answer.json()["id"]


def test_any_replica_answers_for_any_session(group, anyone):
    """SE-06: 100 requests in a row, each to another gateway, without an error"""
    box = create(anyone)
    path = f"/sandboxes/{box}"
    made = anyone.post(f"{path}/sessions", json={"argv": ["cat"], "stdin": True, "name": "echo"})
    assert made.status_code == 201, made.text
    session = f"{path}/sessions/{made.json()['id']}"
    offset = 0
    for turn in range(20):
        line = f"line {turn}\n".encode()
        written = anyone.post(f"{session}/stdin", content=line)
        assert written.status_code == 200, written.text
        seen = eventually(lambda: (log := anyone.get(f"{session}/logs?offset={offset}")).content
                          and log)
        assert seen.status_code == 200 and seen.content == line
        offset += len(line)
        assert anyone.get(path).json()["state"] == "ready"
        listed = anyone.get(f"{path}/sessions").json()["items"]
        assert [row["name"] for row in listed] == ["echo"]
        assert anyone.post(f"{path}/run", json={"argv": ["true"]}).json()["exit_code"] == 0
    killed = anyone.post(f"{session}/kill", json={"signal": "KILL"})
    assert killed.status_code in (200, 204), killed.text
    assert anyone.get(f"{session}?wait=10").json()["signal"] == "KILL"

    def audited() -> list[str]:
        rows = anyone.get(f"{path}/audit-logs?limit=1000").json()["items"]
        return sorted(row["event"] for row in rows if row["event"] in set(expected))

    # Each gateway writes what it has done within moments, in an order of its own.
    expected = ["command.run"] * 20 + ["session.kill", "session.start"]
    eventually(lambda: len(audited()) >= len(expected))
    assert audited() == expected
    assert anyone.delete(f"{path}?wait=30").status_code == 204
    assert anyone.get(path).status_code == 404


def test_what_is_followed_goes_on_at_another_when_one_is_killed(group, anyone):
    """SE-06: the session and its log are the sandbox's, not a gateway's"""
    box = create(anyone)
    path = f"/sandboxes/{box}"
    count = 60
    made = anyone.post(f"{path}/sessions", json={
        "command": f"for i in $(seq {count}); do echo $i; sleep 0.1; done"})
    session = f"{path}/sessions/{made.json()['id']}"
    log, victim = b"", group.gateways[1]
    deadline = time.monotonic() + 60
    killed = False
    try:
        while not log.endswith(f"\n{count}\n".encode()):
            assert time.monotonic() < deadline
            try:
                with anyone.stream("GET", f"{session}/logs?follow=true&offset={len(log)}") as got:
                    assert got.status_code == 200, got.read()
                    for chunk in got.iter_raw():
                        log += chunk
                        if not killed and len(log) > 20:
                            victim.gateway.kill()
                            killed = True
            except httpx.TransportError:
                pass  # it was of the one that was killed
        assert log == b"".join(b"%d\n" % i for i in range(1, count + 1))
        assert anyone.get(f"{session}?wait=10").json()["exit_code"] == 0
    finally:
        victim.start_gateway()
        eventually(lambda: len(group.balancer.ready) == len(group.gateways))
    assert anyone.delete(f"{path}?wait=30").status_code == 204


def test_a_terminal_is_the_same_at_any_replica(group, anyone):
    """SE-06: reconnect to the same shell over another gateway"""
    box = create(anyone)
    headers = {"authorization": f"Bearer {group.gateways[0].token}"}

    def at(one, keys: bytes, wanted: bytes) -> None:
        address = one.url.replace("http", "ws", 1)
        with connect(f"{address}/sandboxes/{box}/terminal", additional_headers=headers,
                     subprotocols=["sandbox.v1"], max_size=None) as terminal:
            terminal.send(b"\0" + keys)
            shown = b""
            while wanted not in shown:
                message = terminal.recv(timeout=20)
                shown += message[1:] if isinstance(message, bytes) else b""

    at(group.gateways[0], b"kept=$((6 * 7))\n", b"kept=")
    for one in group.gateways[1:] + group.gateways[:1]:
        at(one, b"echo is-$kept\n", b"is-42")
    assert anyone.delete(f"/sandboxes/{box}?wait=30").status_code == 204


def test_events_of_any_are_followed_over_any(group):
    """SE-06: whoever does the work, a follower at another hears of it"""
    makers = [group.apis[turn % len(group.apis)] for turn in range(6)]

    def life(turn: int) -> list[str]:
        maker, follower = makers[turn], group.apis[(turn + 1) % len(group.apis)]
        made = maker.post("/sandboxes", TINY).json()["id"]
        seen = []
        with httpx.Client(base_url=follower.instance.url, timeout=60,
                          headers=follower.http.headers) as own, \
                own.stream("GET", f"/sandboxes/{made}/events?follow=true") as stream:
            for line in stream.iter_lines():
                if line.startswith("data: "):
                    seen.append(json.loads(line.removeprefix("data: "))["type"])
                    if seen[-1] == "ready":
                        maker.delete(f"/sandboxes/{made}")
        return seen

    with concurrent.futures.ThreadPoolExecutor(len(makers)) as threads:
        for seen in threads.map(life, range(len(makers))):
            assert seen[0] == "created" and seen[-1] == "deleted", seen
            assert all(seen.count(one) == 1 for one in ("admitted", "ready", "deleting")), seen


def set_quota(api, **amounts) -> None:
    answer = api.http.patch("/teams/default", json={"quota": amounts})
    assert answer.status_code == 200, answer.text


class Sampler:
    """The most sandboxes that the engine had at once."""

    def __init__(self, group):
        self.group, self.most, self.done = group, 0, threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        while not self.done.wait(0.05):
            self.most = max(self.most, len(self.group.node_ids()))

    def stop(self) -> int:
        self.done.set()
        self.thread.join()
        return self.most


def test_limits_hold_under_creates_over_several_replicas(group):
    """QU-01: never more than the limit, the rest wait and come, none is lost"""
    limit, count, rounds = 5, 50 if LONG else 24, 20 if LONG else 2
    set_quota(group.apis[0], sandboxes=limit)
    sampler = Sampler(group)

    def one_life(number: int) -> str:
        maker, user = (group.apis[(number + turn) % len(group.apis)] for turn in (0, 1))
        with httpx.Client(base_url=maker.instance.url, timeout=180,
                          headers=maker.http.headers) as own:
            made = own.post("/sandboxes", json=TINY)
            assert made.status_code == 201, made.text
            assert made.json()["state"] in ("queued", "starting", "ready")
            identity = made.json()["id"]
        with httpx.Client(base_url=user.instance.url, timeout=180,
                          headers=user.http.headers) as own:
            ready = own.get(f"/sandboxes/{identity}?wait=120")
            assert ready.json()["state"] == "ready", ready.text
            ran = own.post(f"/sandboxes/{identity}/run", json={"argv": ["true"]})
            assert ran.status_code == 200, ran.text
            assert own.delete(f"/sandboxes/{identity}?wait=60").status_code == 204
        return identity

    try:
        for _ in range(rounds):
            with concurrent.futures.ThreadPoolExecutor(count) as threads:
                ids = list(threads.map(one_life, range(count)))
            assert len(set(ids)) == count
    finally:
        most = sampler.stop()
        set_quota(group.apis[0], sandboxes=None)
    assert most <= limit
    eventually(lambda: not group.node_ids())
    for api in group.apis:
        used = api.get("/quotas").json()["total"]["used"]
        assert set(used.values()) == {0}, used


def test_a_limit_that_is_raised_and_lowered_holds_for_all(group):
    """QU-01: raised it admits at once, lowered it ends nothing"""
    first, second = group.apis[:2]
    set_quota(first, sandboxes=2)
    ids = [api.post("/sandboxes", TINY).json()["id"] for api in (first, second) * 4]
    states = lambda: [second.get(f"/sandboxes/{one}").json()["state"] for one in ids]  # noqa: E731
    eventually(lambda: states() == ["ready"] * 2 + ["queued"] * 6)
    set_quota(second, sandboxes=5)
    eventually(lambda: states() == ["ready"] * 5 + ["queued"] * 3)
    set_quota(first, sandboxes=5, cpus=0.5)
    for ended in ids[:3]:
        second.remove(ended)
    eventually(lambda: [first.state(one) for one in ids[3:]] == ["ready"] * 5)
    eventually(lambda: second.get("/teams/default").json()["quota"]["cpus"] == 0.5)
    never = second.post("/sandboxes", {**TINY, "cpus": 1})
    assert never.status_code == 422 and never.json()["error"]["code"] == "quota_never"
    set_quota(first, sandboxes=None, cpus=None)
    for one in ids:
        first.remove(one)
    eventually(lambda: not group.node_ids())
