"""The terminal's WebSocket: who may open it, and our xterm.js add-on on it."""

import os
import shutil
import signal
import subprocess
import threading

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from deployment import ROOT, error_of, eventually


def url_of(api, box, query="") -> str:
    return f"{api.instance.url.replace('http', 'ws', 1)}/sandboxes/{box}/terminal{query}"


def opens(url, **options) -> bool:
    """Whether the handshake was answered by 101; 401 is the only other answer."""
    try:
        with connect(url, close_timeout=0.1, **options):
            return True
    except InvalidStatus as error:
        assert error.response.status_code == 401
        return False


def read_until(link, wanted: bytes) -> None:
    """Of what the terminal shows."""
    shown = b""
    while wanted not in shown:
        message = link.recv(timeout=30)
        shown += message[1:] if isinstance(message, bytes) else b""


def test_tokens_and_tickets(api, box):
    url = url_of(api, box)
    token = api.instance.token
    assert opens(url, additional_headers={"authorization": f"Bearer {token}"})
    with connect(url, subprotocols=["sandbox.v1", f"bearer.{token}"]) as link:
        assert link.subprotocol == "sandbox.v1"
    assert not opens(url)
    assert not opens(url, subprotocols=["sandbox.v1", "bearer.wrong"])
    made = api.http.post("/ws-tickets")
    assert made.status_code == 201, made.text
    ticket = made.json()["ticket"]
    assert opens(url_of(api, box, f"?ticket={ticket}"))
    assert not opens(url_of(api, box, f"?ticket={ticket}")), "a ticket is for one use"
    other = api.http.post("/ws-tickets", json={}).json()["ticket"]
    plain = api.client("").get(f"/sandboxes/{box}/sessions?ticket={other}")
    assert error_of(plain) == (401, "unauthenticated")
    assert error_of(api.http.post("/ws-tickets", json={"x": 1})) == (422, "unknown_field")


def test_secrets_of_handshakes_are_in_no_log(api, box):
    ticket = api.http.post("/ws-tickets").json()["ticket"]
    opens(url_of(api, box, f"?ticket={ticket}"))
    text = api.instance.log_tail("sandbox-gateway", 10_000)
    assert ticket not in text and api.instance.token not in text


def test_a_gateway_that_stops_ends_terminals_at_once_and_the_shell_is_found_again(api, box):
    headers = {"authorization": f"Bearer {api.instance.token}"}
    with connect(url_of(api, box), additional_headers=headers) as link:
        link.send(b"\0kept=over-stops; echo re''ady\n")
        read_until(link, b"ready\r\n")
        api.instance.gateway.signal(signal.SIGTERM)
        try:
            with pytest.raises(ConnectionClosed):
                while True:
                    link.recv(timeout=8)  # requests that run would have 10 s
        finally:
            api.instance.gateway.stop()
            api.instance.start()
    with connect(url_of(api, box), additional_headers=headers) as link:
        link.send(b"\0echo $kept-$((1+1))\n")
        read_until(link, b"over-stops-2\r\n")


HANDSHAKE = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
             "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}


@pytest.mark.parametrize("change", [
    {"Connection": "close"}, {"Upgrade": "h2c"}, {"Sec-WebSocket-Version": "8"},
    {"Sec-WebSocket-Key": "c2hvcnQ="}, {"Sec-WebSocket-Key": "***"},
    {"Sec-WebSocket-Protocol": "chat, superchat"}, {"Content-Length": "3"}])
def test_broken_handshakes(api, shared_box, change):
    answer = api.http.request("GET", f"/sandboxes/{shared_box}/terminal",
                              headers={**HANDSHAKE, **change},
                              content=b"abc" if "Content-Length" in change else None)
    assert error_of(answer) == (400, "malformed")


@pytest.mark.parametrize("query, code", [
    ("?cols=0", "invalid_field"), ("?rows=10001", "invalid_field"), ("?cols=x", "invalid_field"),
    ("?session=a%2fb", "invalid_field"), ("?offset=-1", "invalid_field"),
    ("?what=1", "unknown_field")])
def test_bad_parameters(api, shared_box, query, code):
    answer = api.http.get(f"/sandboxes/{shared_box}/terminal{query}", headers=HANDSHAKE)
    assert error_of(answer) == (422, code)


def test_unknown_sandboxes_and_sessions(api, shared_box):
    for path in ("/sandboxes/sbx-absent/terminal",
                 f"/sandboxes/{shared_box}/sessions/absent/attach"):
        assert error_of(api.http.get(path, headers=HANDSHAKE)) == (404, "not_found")


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here")
def test_the_xterm_add_on(api, box):
    done = subprocess.run(
        ["node", "--experimental-websocket", "--test",
         ROOT / "clients" / "js" / "sandbox-terminal.test.mjs"],
        env={**os.environ, "SANDBOX_GATEWAY_URL": api.instance.url, "SANDBOX_ID": box,
             "SANDBOX_GATEWAY_TOKEN": api.instance.token},
        capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "# skipped 0" in done.stdout


def test_a_terminal_is_activity(api):
    box = api.create(lease_sec=2)["id"]
    with connect(url_of(api, box), additional_headers={
            "authorization": f"Bearer {api.instance.token}"}) as link:
        link.send(b"\0echo here\r")
        eventually(lambda: api.get(f"/sandboxes/{box}/activity").json()["sessions"] == 1)
        threading.Event().wait(3)  # longer than the lease
        assert api.state(box) == "ready"
    eventually(lambda: api.state(box) == "absent", what="without a terminal the lease ends it")
