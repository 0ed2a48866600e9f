"""kill -9 of the gateway at every step of what is done inside a sandbox, and of the node meanwhile.

The sandbox and what runs in it live on; what was answered holds; what was not can be asked again
and is done once; every action that began is in the audit log once.
"""

import concurrent.futures
import hashlib
import time

import httpx
import pytest

from deployment import error_of, eventually
from faults import (BODY, LONG, arm, assert_audit_is_whole, assert_no_leak, attempt, fault_points,
                    restart)
from tar_files import archive, member

POINTS = fault_points("gateway", "relay.")
CONTENT = b"new" * 100_000


@pytest.fixture(scope="module")
def box(api, baseline):
    made = api.post("/sandboxes?wait=60", BODY).json()["id"]
    yield made
    api.remove(made)


class Work:
    """One kind of request: what is there before, the call that is killed under the client, and
    what must be true afterwards. Each has names of its own in the sandbox."""

    event = ""  # of the audit log; empty: it has no row

    def __init__(self, api, box: str, name: str):
        self.api, self.box, self.name = api, box, name

    def prepare(self) -> None:
        """What the call needs; before each one."""

    def call(self) -> httpx.Response:
        raise NotImplementedError

    def check(self, answer: httpx.Response | None) -> None:
        """`answer` where the client got one."""
        raise NotImplementedError

    # What several of them do.
    def path(self, ending: str = "") -> str:
        return f"/sandboxes/{self.box}{ending}"

    def start_session(self, **fields) -> str:
        answer = self.api.post(self.path("/sessions"), {"name": self.name, **fields})
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    def sleepers(self) -> str:
        return self.api.output(self.box, "pgrep -cf 'sleep 100[0]' || true")


class Run(Work):
    event = "command.run"

    def prepare(self):
        self.api.output(self.box, f"rm -f /tmp/{self.name}")

    def call(self):
        return self.api.post(self.path("/run"), {
            "command": f"echo ran >>/tmp/{self.name}; sleep 0.2", "timeout_sec": 60})

    def check(self, answer):
        assert answer is None or answer.json()["exit_code"] == 0, answer.text
        ran = self.api.output(self.box, f"cat /tmp/{self.name} 2>/dev/null || true").split()
        assert ran in ([], ["ran"]) and (answer is None or ran), ran


class LongRun(Work):
    """Its client is gone with the gateway, and so is the whole tree."""

    event = "command.run"

    def call(self):
        return self.api.post(self.path("/run"), {"command": "sleep 1000 & sleep 1000; true"},
                             timeout=20)

    def check(self, answer):
        assert answer is None and self.sleepers() == "0"


class Exec(Work):
    event = "command.exec"

    def call(self):
        line = b'{"argv":["sh","-c","cat | wc -c"]}\n'
        return self.api.http.post(self.path("/exec"), content=line + CONTENT)

    def check(self, answer):
        assert answer is None or int(answer.content) == len(CONTENT)


class Upload(Work):
    event = "file.write"

    def prepare(self):
        assert self.api.upload(self.box, f"/srv/{self.name}/x", b"old").status_code == 200

    def call(self):
        return self.api.upload(self.box, f"/srv/{self.name}/x", CONTENT)

    def check(self, answer):
        found = self.api.download(self.box, f"/srv/{self.name}/x").content
        assert found == CONTENT or (found == b"old" and answer is None)
        assert self.api.output(self.box, f"ls -A /srv/{self.name}") == "x"


class Archive(Work):
    event = "file.write"
    files = 50

    def call(self):
        packed = archive(*(member(f"f{number}", b"abc") for number in range(self.files)))
        return self.api.upload(self.box, f"/srv/{self.name}", packed, tar=1)

    def check(self, answer):
        if answer is None:  # the same again puts the same there
            answer = self.call()
        assert answer.status_code == 200, answer.text
        sums = self.api.output(self.box, f"cd /srv/{self.name} && sha256sum * | cut -d' ' -f1")
        assert sums.split() == [hashlib.sha256(b"abc").hexdigest()] * self.files


class SessionStart(Work):
    event = "session.start"

    def call(self):
        return self.api.post(self.path("/sessions"), {"name": self.name, "argv": ["cat"]})

    def check(self, answer):
        again = self.call()
        assert again.status_code in (201, 409), again.text
        assert answer is None or again.status_code == 409
        found = [row for row in self.api.get(self.path("/sessions")).json()["items"]
                 if row["name"] == self.name]
        assert [row["state"] for row in found] == ["running"], found
        assert answer is None or found[0]["id"] == answer.json()["id"]
        assert self.api.delete(self.path(f"/sessions/{self.name}")).status_code == 204


class SessionInput(Work):
    def prepare(self):
        self.session = self.start_session(argv=["cat"])

    def call(self):
        return self.api.http.post(self.path(f"/sessions/{self.session}/stdin"),
                                  params={"offset": 0, "eof": "true"}, content=CONTENT)

    def check(self, answer):
        if answer is None:  # what was taken before is not taken again
            answer = self.call()
            over = error_of(answer) if answer.status_code == 409 else ()
            assert answer.status_code == 200 or over == (409, "session_exited"), answer.text
        row = self.api.get(self.path(f"/sessions/{self.session}"), params={"wait": 30}).json()
        assert (row["state"], row["exit_code"]) == ("exited", 0), row
        told = self.api.get(self.path(f"/sessions/{self.session}/logs")).content
        assert told == CONTENT
        assert self.api.delete(self.path(f"/sessions/{self.session}")).status_code == 204


class LogFollow(Work):
    lines = b"".join(b"line %d\n" % number for number in range(40))

    def prepare(self):
        self.session = self.start_session(
            command="i=0; while [ $i -lt 40 ]; do echo line $i; i=$((i+1)); sleep 0.02; done")
        self.got = b""

    def call(self):
        with self.api.http.stream(
                "GET", self.path(f"/sessions/{self.session}/logs"),
                params={"follow": "true", "offset": len(self.got)}) as answer:
            assert answer.status_code == 200
            for piece in answer.iter_raw():
                self.got += piece
        return answer

    def check(self, answer):
        if answer is None:
            self.call()
        assert self.got == self.lines
        assert self.api.delete(self.path(f"/sessions/{self.session}")).status_code == 204


class SessionDelete(Work):
    event = "session.delete"

    def prepare(self):
        self.session = self.start_session(command="sleep 1000 & sleep 1000; true")

    def call(self):
        return self.api.delete(self.path(f"/sessions/{self.session}"))

    def check(self, answer):
        assert answer is None or answer.status_code == 204
        assert self.call().status_code in (204, 404)
        assert self.call().status_code == 404
        assert self.sleepers() == "0"


KINDS = (Run, LongRun, Exec, Upload, Archive, SessionStart, SessionInput, LogFollow, SessionDelete)
# What never ends is never answered.
PAIRS = [(kind, point) for kind in KINDS for point in POINTS
         if kind is not LongRun or point.endswith(("begun", "asked"))]
if not LONG:  # each kind twice, each step with half of the kinds
    PAIRS = [pair for number, pair in enumerate(PAIRS) if number % 2 == (number // 4) % 2]


def running_commands(api, box: str) -> int:
    return api.get(f"/sandboxes/{box}/activity").json()["running_commands"]


def begun_actions(api, box: str, event: str) -> list[dict]:
    if not event:
        return []
    answer = api.get(f"/sandboxes/{box}/audit-logs", params={"event": event, "limit": 1000})
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


@pytest.mark.parametrize("kind, point", PAIRS,
                         ids=[f"{kind.__name__}-{point}" for kind, point in PAIRS])
def test_kill_of_the_gateway(api, deployed, box, kind, point):
    work = kind(api, box, f"{kind.__name__}-{point.rsplit('.', 1)[1]}")
    work.prepare()
    arm(deployed, point)
    before = len(begun_actions(api, box, kind.event))
    answer = attempt(work.call)
    assert deployed.gateway.wait_gone(10), f"{point} was not reached"
    restart(deployed)
    rows = begun_actions(api, box, kind.event)
    assert len(rows) == before + (kind.event != ""), rows[:3]
    assert api.state(box) == "ready"
    if kind.event.startswith("command."):  # who asked for it is gone
        eventually(lambda: running_commands(api, box) == 0)
    work.check(answer if answer is not None and answer.is_success else None)


def test_kill_of_the_node_under_all_of_it(api, deployed, box):
    """The node is not on the way of any request into a sandbox: none notices."""
    works = [kind(api, box, f"{kind.__name__}-node") for kind in KINDS if kind is not LongRun]
    over = []

    def again_and_again(work: Work) -> None:
        while not over:
            work.prepare()
            answer = work.call()
            assert answer.is_success, answer.text
            work.check(answer)

    with concurrent.futures.ThreadPoolExecutor(len(works)) as threads:
        running = [threads.submit(again_and_again, work) for work in works]
        try:
            for _ in range(10 if LONG else 3):
                time.sleep(0.2)  # the moment is the point of the test
                deployed.node.kill()
                deployed.start_node()
        finally:
            over.append(True)
        for row in running:
            row.result()
    assert api.state(box) == "ready"


def test_nothing_is_left_and_the_audit_log_is_whole(api, deployed, box, baseline):
    api.remove(box)
    assert_no_leak(deployed, baseline)
    assert_audit_is_whole(deployed)
