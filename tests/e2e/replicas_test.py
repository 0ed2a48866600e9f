"""Several gateways on one store: what one does the others know, and what one leaves undone another
finishes."""

import concurrent.futures
import contextlib
import signal
import subprocess
import threading
import time

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

import replicas
from deployment import IMAGE, Api, error_of, eventually, instance

TINY = {"image": IMAGE, "cpus": 0.1, "memory_mb": 32, "storage_mb": 16}
TAKEN_OVER_SECONDS = 60  # docs/operate.md says less, of a machine with nothing else to do


@pytest.fixture(scope="module")
def group():
    one = replicas.Group("sgr", 2, **{"drain-delay": "1"})
    yield one
    one.purge()


@pytest.fixture
def first(group) -> Api:
    return group.apis[0]


@pytest.fixture
def second(group) -> Api:
    return group.apis[1]


def create(api, **fields) -> dict:
    answer = api.post("/sandboxes?wait=60", {**TINY, **fields})
    assert answer.status_code == 201 and answer.json()["state"] == "ready", answer.text
    return answer.json()


def test_each_knows_the_others(group, first, second):
    ids = [[row["id"] for row in group.others(api)] for api in (first, second)]
    assert ids[0] == ids[1] and len(set(ids[0])) == 2
    answering = [[row["id"] for row in group.others(api) if row["answers"]]
                 for api in (first, second)]
    assert sorted(answering[0] + answering[1]) == sorted(ids[0])


def test_the_command_line_lists_them(group, first):
    shown = subprocess.run([first.instance.bin / "sandbox", "-o", "table", "replicas"],
                           capture_output=True, text=True, check=True, timeout=60,
                           env={"HOME": "/nonexistent", "SANDBOX_GATEWAY_URL": first.instance.url,
                                "SANDBOX_GATEWAY_TOKEN": first.instance.token})
    lines = shown.stdout.splitlines()
    assert len(lines) == 1 + len(group.gateways) and lines[0].startswith("ID"), shown.stdout
    assert sum("answers" in line for line in lines) == 1


def test_what_one_made_is_ready_and_gone_at_the_other_at_once(first, second):
    for maker, user in [(first, second), (second, first)] * 10:
        made = create(maker)["id"]
        assert user.get(f"/sandboxes/{made}").json()["state"] == "ready"
        assert user.run(made, "echo", "on")["stdout"] == "on\n"
        assert made in {row["id"] for row in user.get("/sandboxes").json()["items"]}
        answer = user.delete(f"/sandboxes/{made}?wait=30")
        assert answer.status_code == 204, answer.text
        assert maker.state(made) == "absent"
        assert error_of(maker.post(f"/sandboxes/{made}/run", {"argv": ["true"]}))[0] == 404


def test_a_wait_at_the_other_ends_with_the_start(first, second):
    made = first.post("/sandboxes", TINY).json()["id"]
    assert second.get(f"/sandboxes/{made}?wait=30").json()["state"] == "ready"
    second.remove(made)


def test_a_follower_at_the_other_hears_every_event(first, second):
    made = first.post("/sandboxes", TINY).json()["id"]
    types = []
    with second.http.stream("GET", f"/sandboxes/{made}/events?follow=true") as stream:
        for line in stream.iter_lines():
            if line.startswith("event: "):
                types.append(line.removeprefix("event: "))
                if types[-1] == "ready":
                    first.delete(f"/sandboxes/{made}")
    assert types[0] == "created" and types[-2:] == ["deleting", "deleted"]
    assert types.count("ready") == 1


def test_a_key_makes_one_sandbox_whichever_is_asked(group):
    def make(api) -> httpx.Response:
        return api.post("/sandboxes?wait=30", TINY, headers={"Idempotency-Key": "one"})

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(make, group.apis * 4))
    assert {answer.json()["id"] for answer in answers} == {answers[0].json()["id"]}
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
    assert {answer.json()["state"] for answer in answers} == {"ready"}
    group.apis[0].remove(answers[0].json()["id"])


@pytest.mark.parametrize("how", ["requests", "one long request"])
def test_use_over_one_is_no_idleness_for_the_other(first, second, how):
    lease = 4
    made = create(first, lease_sec=lease)["id"]
    end = time.monotonic() + lease * 2
    if how == "requests":
        while time.monotonic() < end:
            assert second.run(made, "true")["exit_code"] == 0
            time.sleep(0.5)
    else:
        assert second.run(made, "sleep", str(lease * 2))["exit_code"] == 0
    assert first.state(made) == "ready"
    eventually(lambda: first.state(made) == "absent")
    types = [row["type"] for row in first.get(f"/sandboxes/{made}/events").json()["items"]]
    assert types.count("deleting") == 1 and types.count("deleted") == 1

    def expirations() -> int:
        rows = first.get(f"/sandboxes/{made}/audit-logs").json()["items"]
        return [row["event"] for row in rows].count("sandbox.expire")

    eventually(lambda: expirations() > 0)  # the one that ended it writes its rows in batches
    time.sleep(1)
    assert expirations() == 1


def test_a_token_is_good_and_revoked_at_all(first, second):
    made = first.post("/tokens", {"name": "short", "scopes": ["member"]}).json()
    token = made["secret"] if "secret" in made else made["token"]
    other = second.client(token)
    assert other.get("/sandboxes").status_code == 200
    identity = made.get("id") or made["token"]["id"]
    assert first.delete(f"/tokens/{identity}").status_code in (200, 204)
    eventually(lambda: other.get("/sandboxes").status_code == 401)


def test_a_team_and_its_limits_are_known_at_all(first, second):
    assert first.post("/teams", {"name": "blue"}).status_code == 201
    eventually(lambda: second.get("/teams/blue").status_code == 200)
    changed = second.http.patch("/teams/blue", json={"quota": {"sandboxes": 1}})
    assert changed.status_code == 200, changed.text
    eventually(lambda: first.get("/teams/blue").json()["quota"]["sandboxes"] == 1)
    assert first.delete("/teams/blue").status_code in (200, 204)
    eventually(lambda: second.get("/teams/blue").status_code == 404)


def test_a_ticket_of_one_is_taken_once_by_the_other(first, second):
    box = create(first)["id"]
    ticket = first.post("/ws-tickets", {}).json()["ticket"]
    address = second.instance.url.replace("http", "ws", 1)
    with connect(f"{address}/sandboxes/{box}/terminal?ticket={ticket}") as terminal:
        terminal.send(b"\0echo $((40 + 2))\n")
        shown = b""
        while b"42" not in shown:
            message = terminal.recv(timeout=20)
            shown += message if isinstance(message, bytes) else b""
    for api in (first, second):
        address = api.instance.url.replace("http", "ws", 1)
        with pytest.raises(InvalidStatus), \
                connect(f"{address}/sandboxes/{box}/terminal?ticket={ticket}"):
            pass
    first.remove(box)


def alone(api) -> httpx.Client:
    return httpx.Client(base_url=api.instance.url, timeout=30, headers=api.http.headers)


def test_what_a_killed_one_was_at_work_at_is_finished_by_the_other(group, first, second):
    """Nothing that was acknowledged is lost, whatever moment it was killed at."""
    for moment in (0.02, 0.1, 0.3):
        doomed = [create(second)["id"] for _ in range(4)]
        acknowledged = []

        def make(_: int) -> None:
            with contextlib.suppress(httpx.HTTPError), alone(first) as own:
                acknowledged.append(own.post("/sandboxes", json=TINY).json()["id"])

        def end(sandbox: str) -> None:
            with contextlib.suppress(httpx.HTTPError), alone(first) as own:
                own.delete(f"/sandboxes/{sandbox}")

        with concurrent.futures.ThreadPoolExecutor(16) as threads:
            for number in range(8):
                threads.submit(make, number)
            for sandbox in doomed:
                threads.submit(end, sandbox)
            time.sleep(moment)
            first.instance.gateway.kill()

        def settled() -> bool:
            rows = second.get("/sandboxes?limit=1000").json()["items"]
            return all(row["state"] == "ready" for row in rows) and \
                {row["id"] for row in rows} == group.node_ids()

        eventually(settled, TAKEN_OVER_SECONDS)
        for sandbox in acknowledged:
            assert second.run(sandbox, "true")["exit_code"] == 0
        first.instance.start_gateway()
        for row in second.get("/sandboxes?limit=1000").json()["items"]:
            first.remove(row["id"])
        eventually(lambda: not group.node_ids())
        used = second.get("/quotas").json()["total"]["used"]
        assert set(used.values()) == {0}, used


def test_one_that_stood_still_does_no_harm_when_it_goes_on(group, first, second):
    made = create(first)["id"]
    first.instance.gateway.signal(signal.SIGSTOP)
    try:
        eventually(lambda: len(group.others(second)) == 1, TAKEN_OVER_SECONDS)
        second.remove(made)
        fresh = create(second)["id"]
    finally:
        first.instance.gateway.signal(signal.SIGCONT)
    eventually(lambda: len(group.others(first)) == 2, TAKEN_OVER_SECONDS)
    assert first.state(made) == "absent"
    assert first.run(fresh, "true")["exit_code"] == 0
    first.remove(fresh)


class Users:
    """Threads that make, use and delete through the balancer until they are told to stop."""

    def __init__(self, group, count: int):
        self.group, self.stopping = group, threading.Event()
        self.lives, self.failures = 0, []
        self.threads = [threading.Thread(target=self.run, args=(number,))
                        for number in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self, number: int) -> None:
        while not self.stopping.is_set():
            try:
                with self.group.client() as http:
                    self.live(http, number)
                self.lives += 1
            except Exception as error:  # whatever it is, it is a failed request
                self.failures.append(repr(error))
                return

    @staticmethod
    def live(http: httpx.Client, number: int) -> None:
        made = http.post("/sandboxes?wait=60", json=TINY)
        assert made.status_code == 201 and made.json()["state"] == "ready", made.text
        path = f"/sandboxes/{made.json()['id']}"
        for turn in range(3):
            ran = http.post(f"{path}/run", json={"command": f"sleep 0.1; echo {number} {turn}"})
            assert ran.status_code == 200, ran.text
            assert ran.json()["stdout"] == f"{number} {turn}\n", ran.text
        written = http.put(f"{path}/files?path=/tmp/a", content=b"x" * 100_000)
        assert written.status_code in (200, 201), written.text
        assert http.get(f"{path}/files?path=/tmp/a").content == b"x" * 100_000
        gone = http.delete(f"{path}?wait=60")
        assert gone.status_code == 204, gone.text

    def stop(self) -> None:
        self.stopping.set()
        for thread in self.threads:
            thread.join()


def test_a_rolling_upgrade_fails_no_request(group):
    """Each gateway in turn is told to stop, ends and is started anew, under load."""
    users = Users(group, 4)
    try:
        for one in group.gateways * 2:
            time.sleep(1)
            one.gateway.stop()
            assert len(group.balancer.ready) == 1
            one.start_gateway()
            eventually(lambda: len(group.balancer.ready) == 2)
    finally:
        users.stop()
    assert users.failures == []
    assert users.lives > 10
    eventually(lambda: not group.node_ids())


def refusal(group, *options: str) -> str:
    one = group.gateways[0]
    done = subprocess.run([one.bin / "sandbox-gateway", "--config", "", "--listen", "127.0.0.1:0",
                           "--metrics-listen", "", *options], capture_output=True, text=True,
                          timeout=60, check=False, user=instance.GATEWAY_UID,
                          group=instance.GATEWAY_UID, extra_groups=[],
                          env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 1, done.stderr
    return done.stderr


def test_one_with_another_key_does_not_start(group):
    one = group.gateways[0]
    folder = one.state / "stranger"
    (folder / "gateway").mkdir(parents=True)
    for path in (folder, folder / "gateway"):
        instance.os.chown(path, instance.GATEWAY_UID, instance.GATEWAY_UID)
    told = refusal(group, "--state", str(folder), "--store", one.settings.store)
    assert "secret.key is missing" in told
    assert not (folder / "gateway" / "secret.key").exists()
    (folder / "gateway" / "secret.key").write_bytes(b"k" * 32)
    (folder / "gateway" / "secret.key").chmod(0o644)
    told = refusal(group, "--state", str(folder), "--store", one.settings.store)
    assert "is not the key that this store is used with" in told


def test_two_do_not_share_a_folder_or_a_file(group, tmp_path):
    one = group.gateways[0]
    told = refusal(group, "--state", str(one.state), "--store", one.settings.store)
    assert "is used by another sandbox-gateway" in told
