"""The agent ends, as by kill -9, at every step of what it does. It is the first process of its
sandbox, so the sandbox is over: `failed`, reason `agent_lost`, quota given back, and nothing of it
left on the machine. The request under way ends with an error, no other sandbox notices."""

import os
import signal
import threading

import pytest

from deployment import agent_pid, error_of, eventually
from faults import BODY, assert_no_leak, assert_quota_used, attempt, fault_points
from tar_files import archive, member


def packed() -> bytes:
    return archive(*(member(f"f{number}") for number in range(3)))


def session_of(api, box: str) -> str:
    return api.post(f"/sandboxes/{box}/sessions", {"argv": ["cat"]}).json()["id"]


def in_session(api, box: str, method: str, ending: str = "", **options):
    return api.http.request(method, f"/sandboxes/{box}/sessions/{session_of(api, box)}{ending}",
                            **options)


# What reaches a point, by the middle of its name.
REQUESTS = {
    "run": lambda api, box: api.post(f"/sandboxes/{box}/run", {"argv": ["true"]}),
    "upload": lambda api, box: api.upload(box, "/root/x", b"x" * 300_000),
    "archive": lambda api, box: api.upload(box, "/root", packed(), tar=1),
    "session.started": lambda api, box: api.post(f"/sandboxes/{box}/sessions", {"argv": ["cat"]}),
    "session.input": lambda api, box: in_session(api, box, "POST", "/stdin", content=b"x"),
    "session.told": lambda api, box: in_session(api, box, "GET", "/logs?follow=true"),
    "session.removed": lambda api, box: in_session(api, box, "DELETE"),
}


def request_of(point: str):
    what = point.removeprefix("agent.")
    return REQUESTS.get(what) or REQUESTS.get(what.split(".")[0])


def assert_over(api, box: str) -> None:
    row = eventually(lambda: (r := api.get(f"/sandboxes/{box}").json())["state"] == "failed" and r)
    assert row["reason"] == "agent_lost" and row["message"], row
    refused = api.post(f"/sandboxes/{box}/run", {"argv": ["true"]})
    assert error_of(refused) == (409, "not_ready")
    assert refused.json()["error"]["details"]["state"] == "failed"
    types = [event["type"] for event in api.get(f"/sandboxes/{box}/events").json()["items"]]
    assert types.count("failed") == 1 and "deleted" not in types, types


@pytest.mark.parametrize("point", fault_points("agent"))
def test_the_agent_ends_at_a_fault_point(api, deployed, baseline, point):
    neighbour = api.create(**BODY)["id"]
    box = api.create(**BODY, env={"SANDBOX_FAULT": point})["id"]
    answer = attempt(lambda: request_of(point)(api, box))
    # Either an error, or an answer whose head was out: then it does not look complete.
    if answer is not None:
        assert error_of(answer)[1] in ("agent_failed", "not_ready"), answer.text
    assert_over(api, box)
    assert api.run(neighbour, "true")["exit_code"] == 0
    # The row stays to be looked at and holds nothing.
    eventually(lambda: api.get("/quotas").json()["total"]["used"]["sandboxes"] == 1)
    eventually(lambda: box not in str(deployed.ask_node({"op": "list"})["sandboxes"]))
    api.remove(neighbour)
    api.remove(box)
    assert api.state(box) == "absent"
    assert_quota_used(api, 0)
    assert_no_leak(deployed, baseline)


def test_the_agent_is_killed_while_everything_is_in_use(api, deployed, baseline):
    """From outside, with a command, an upload and a follower that would all go on for long."""
    box = api.create(**BODY)["id"]
    session = api.post(f"/sandboxes/{box}/sessions", {"command": "while :; do echo x; done"}).json()
    over = threading.Event()
    ends = []

    def endless():
        while not over.wait(0.01) and len(ends) < 2:  # many clients look for no answer before
            yield b"x" * 1000

    def run():
        return api.post(f"/sandboxes/{box}/run", {"argv": ["sleep", "1000"]})

    def upload():
        return api.http.put(f"/sandboxes/{box}/files", params={"path": "/x"}, content=endless())

    def follow():
        with api.http.stream("GET", f"/sandboxes/{box}/sessions/{session['id']}/logs",
                             params={"follow": "true"}) as answer:
            for _ in answer.iter_raw():
                pass
        return answer

    threads = [threading.Thread(target=lambda call=call: ends.append(attempt(call)))
               for call in (run, upload, follow)]
    for thread in threads:
        thread.start()
    eventually(lambda: api.get(f"/sandboxes/{box}/activity").json()["running_commands"] >= 2)
    eventually(lambda: api.output(box, "ls -A / | grep -c '^[.]upload'") == "1")
    os.kill(agent_pid(api, box), signal.SIGKILL)
    try:
        for thread in threads:
            thread.join(30)
        assert [call.__name__ for call, thread in zip((run, upload, follow), threads)
                if thread.is_alive()] == []
    finally:
        over.set()
    assert all(end is None or error_of(end)[1] in ("agent_failed", "not_ready") for end in ends)
    assert_over(api, box)
    api.remove(box)
    assert_quota_used(api, 0)
    assert_no_leak(deployed, baseline)
