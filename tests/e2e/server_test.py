"""The HTTP front as a whole: its end, its limits, and answers that are silent for long."""

import concurrent.futures
import json
import resource
import signal
import socket
import threading

import pytest

from deployment import eventually

CONNECTIONS_MAX = 8192  # docs/operate.md
KEEP_ALIVE_SECONDS = 15  # docs/commands.md


def connect(api) -> socket.socket:
    return socket.create_connection(("127.0.0.1", api.instance.settings.port), 60)


def test_open_requests_end_before_the_gateway_does(api, box):
    told = []

    def run():
        told.append(api.run(box, "sleep", "1"))

    runner = threading.Thread(target=run)
    runner.start()
    eventually(lambda: api.get(f"/sandboxes/{box}/activity").json()["running_commands"] == 1)
    follower = connect(api)
    follower.sendall(f"GET /sandboxes/{box}/events?follow=true HTTP/1.1\r\nHost: x\r\n"
                     f"Authorization: Bearer {api.instance.token}\r\n\r\n".encode())
    assert follower.recv(12) == b"HTTP/1.1 200"
    api.instance.gateway.signal(signal.SIGTERM)
    runner.join()
    assert told and told[0]["exit_code"] == 0
    while follower.recv(65536):
        pass  # an endless answer is ended, not waited for
    assert api.instance.gateway.wait_gone(20)
    api.instance.start_gateway()
    assert api.output(box, "echo again") == "again"


def test_connections_beyond_the_limit_are_told_so(api):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < CONNECTIONS_MAX + 500:
        pytest.skip("this process may not open that many files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, CONNECTIONS_MAX + 2000), hard))
    opened = []
    try:
        for _ in range(CONNECTIONS_MAX + 8):
            opened.append(connect(api))
        answer = opened[-1].recv(4096)
        assert answer.startswith(b"HTTP/1.1 429"), answer
        assert b"retry-after: 1" in answer.lower() and b'"overloaded"' in answer
    finally:
        for one in opened:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    eventually(lambda: api.get("/healthz").status_code == 200, what="it takes connections again")


def silent_answer(api, box, form) -> bytes:
    """All bytes of the answer to a command that says nothing for 17 s; a pause longer than the
    promised one is an error."""
    body, target, accept = json.dumps({"command": "sleep 17; echo end"}), "", "*/*"
    method = "POST"
    if form == "session":
        made = api.post(f"/sandboxes/{box}/sessions", {"command": "sleep 17; echo end"}).json()
        target = f"/sandboxes/{box}/sessions/{made['id']}/logs?follow=true"
        method, body, accept = "GET", "", "application/x-ndjson"
    else:
        target = f"/sandboxes/{box}/run" if form == "run" else f"/api/v1/sandboxes/{box}/exec"
    one = connect(api)
    one.settimeout(KEEP_ALIVE_SECONDS + 1.5)
    one.sendall(f"{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                f"Accept: {accept}\r\n"
                f"Authorization: Bearer {api.instance.token}\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
    got = b""
    while (piece := one.recv(65536)):
        got += piece
    return got


def test_silent_answers_are_kept_awake(api, box):
    """A byte comes at least every 15 s, and the answer is right all the same."""
    forms = ("run", "stream", "session")
    with concurrent.futures.ThreadPoolExecutor(len(forms)) as threads:
        for got in threads.map(lambda form: silent_answer(api, box, form), forms):
            assert got.startswith(b"HTTP/1.1 200") and b"end\\n" in got
