"""Sessions: faults that other systems had (area SE); SANDBOX_LONG=1 for the full loads."""

import contextlib
import os
import random
import threading

import httpx
import pytest

from deployment import error_of, eventually

LONG = os.environ.get("SANDBOX_LONG") == "1"


def start(api, box, command: str, **fields) -> str:
    answer = api.post(f"/sandboxes/{box}/sessions", {"command": command, **fields})
    assert answer.status_code == 201, answer.text
    return f"/sandboxes/{box}/sessions/{answer.json()['id']}"


def follow(api, path: str, offset: int = 0, stop_after: int | None = None,
           on_head=lambda: None) -> bytes:
    """Raw log from `offset`; breaks the connection off after so many bytes, and is broken off by
    a gateway that is killed."""
    got = b""
    with contextlib.suppress(httpx.TransportError), \
            httpx.Client(base_url=api.instance.url, timeout=60,
                         headers=api.http.headers) as client, \
            client.stream("GET", f"{path}/logs",
                          params={"offset": offset, "follow": "true"}) as answer:
        assert answer.status_code == 200, answer.read()
        on_head()
        for chunk in answer.iter_raw():
            got += chunk
            if stop_after is not None and len(got) >= stop_after:
                break
    return got


def test_follow_drop_and_resume(api, box):
    """SE-01: nothing lost, nothing twice"""
    count = 5000
    path = start(api, box, f"i=0; while [ $i -lt {count} ]; do i=$((i+1)); echo $i; "
                 "[ $((i%50)) = 0 ] && sleep 0.02; done")
    expected = "".join(f"{i}\n" for i in range(1, count + 1)).encode()
    whole = []
    second = threading.Thread(target=lambda: whole.append(follow(api, path)))
    second.start()
    chance = random.Random(7)
    got, breaks = b"", 0
    while len(got) < len(expected):
        last = breaks >= 40
        got += follow(api, path, len(got), None if last else chance.randint(1, 1200))
        breaks += 1
        if breaks == 10:
            api.instance.gateway.kill()
            api.instance.start_gateway()
    second.join()
    assert got == expected
    assert expected.startswith(whole[0])  # its gateway was killed once; what it got is right
    assert follow(api, path, len(expected)) == b""
    assert api.get(f"{path}/logs", params={"offset": -1}).status_code in (400, 422)
    assert api.get(f"{path}/logs", params={"offset": "x"}).status_code in (400, 422)


def test_kill_ends_the_tree_with_a_grace(api, box):
    """SE-03"""
    other = start(api, box, "sleep 300")
    path = start(api, box, '(trap "" TERM; while :; do date >> /tmp/k; sleep 0.3; done) & '
                 "setsid sleep 500 & exec sleep 400")
    eventually(lambda: api.shell(box, "pgrep -f '[s]leep 500'")["exit_code"] == 0)
    told, connected = [], threading.Event()
    follower = threading.Thread(
        target=lambda: told.append(follow(api, path, on_head=connected.set)))
    follower.start()
    assert connected.wait(20)
    assert api.delete(path).status_code in (200, 202, 204)
    eventually(lambda: api.shell(box, "pgrep -f '[s]leep [45]00'")["exit_code"] == 1)
    sizes = api.output(box, "stat -c %s /tmp/k; sleep 0.7; stat -c %s /tmp/k").split()
    assert sizes[0] == sizes[1]
    follower.join(timeout=60)
    assert told == [b""]
    assert api.delete(path).status_code in (200, 204, 404, 409)
    assert api.get(other).json()["state"] == "running"


def test_kill_lets_a_clean_program_end(api, box):
    """SE-03"""
    path = start(api, box, "trap 'sleep 1; echo bye; exit 7' TERM; echo up; "
                 "while :; do sleep 0.1; done")
    eventually(lambda: b"up" in api.get(f"{path}/logs").content)
    assert api.post(f"{path}/kill", {"signal": "TERM"}).status_code in (200, 202, 204)
    ended = api.get(path, params={"wait": 20}).json()
    assert (ended["state"], ended["exit_code"]) == ("exited", 7)
    assert b"bye" in api.get(f"{path}/logs").content
    again = api.post(f"{path}/kill", {"signal": "TERM"})
    assert again.status_code in (200, 204, 409), again.text


@pytest.mark.parametrize("signal,code", [("INT", 130), ("HUP", 129), ("KILL", 137)])
def test_any_signal_by_name(api, box, signal, code):
    """SE-03"""
    path = start(api, box, "exec sleep 100")
    assert api.post(f"{path}/kill", {"signal": signal}).status_code in (200, 202, 204)
    ended = api.get(path, params={"wait": 20}).json()
    assert (ended["state"], ended["exit_code"], ended["signal"]) == ("exited", code, signal)


def test_unknown_signal(api, box):
    """SE-03"""
    path = start(api, box, "exec sleep 100")
    assert error_of(api.post(f"{path}/kill", {"signal": "NOPE"})) == (422, "invalid_field")
    assert api.get(path).json()["state"] == "running"


def test_the_stored_log_is_bounded(api, box):
    """SE-05: a slow follower neither blocks the program for ever nor eats memory"""
    size = 2**31 if LONG else 2**27
    path = start(api, box, f"yes 0123456789 | head -c {size}; echo END", log_limit_bytes=2**22)
    got = follow(api, path, 0, 2**20)  # and leaves in the middle
    assert b"0123456789\n0123456789\n" in got
    ended = api.get(path, params={"wait": 120}).json()
    assert (ended["state"], ended["exit_code"]) == ("exited", 0)
    log = ended["log"]
    assert log["end_offset"] == size + 4
    assert log["start_offset"] == log["dropped_bytes"] > 0
    assert log["end_offset"] - log["start_offset"] <= 2**22
    answer = api.get(f"{path}/logs", params={"offset": 0})
    assert int(answer.headers["x-log-start-offset"]) == log["start_offset"]
    assert answer.content.endswith(b"END\n")
    assert len(answer.content) == log["end_offset"] - log["start_offset"]
