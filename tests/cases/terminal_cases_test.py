"""Terminals: faults that other systems had (area PT), over the WebSocket that browsers use."""

import json
import os
import re
import threading

import pytest
from websockets.sync.client import connect

from deployment import eventually

LONG = os.environ.get("SANDBOX_LONG") == "1"


class Terminal:
    """A connected terminal: what it showed so far, keys, size, its end."""

    def __init__(self, api, box, **query):
        parameters = "&".join(f"{name}={value}" for name, value in query.items())
        url = api.instance.url.replace("http", "ws", 1)
        self.socket = connect(f"{url}/sandboxes/{box}/terminal?{parameters}",
                              additional_headers={"authorization": f"Bearer {api.instance.token}"},
                              subprotocols=["sandbox.v1"], max_size=None).__enter__()
        self.shown = b""
        self.exit = None

    def key(self, text: str) -> None:
        self.socket.send(b"\0" + text.encode())

    def resize(self, cols: int, rows: int) -> None:
        self.socket.send(json.dumps({"type": "resize", "cols": cols, "rows": rows}))

    def read(self, seconds: float) -> bool:
        """One message; false when none came."""
        try:
            message = self.socket.recv(timeout=seconds)
        except TimeoutError:
            return False
        if isinstance(message, bytes):
            assert message[0] in (1, 2)
            self.shown += message[1:]
        else:
            told = json.loads(message)
            if told["type"] == "exit":
                self.exit = told
        return True

    def wait(self, pattern: str) -> re.Match:
        """Reads until the screen's text matches; gives the match and forgets what is before."""
        for _ in range(2000):
            found = re.search(pattern.encode(), self.shown)
            if found:
                self.shown = self.shown[found.end():]
                return found
            assert self.read(20), f"no {pattern!r} in {self.shown[-2000:]!r}"
        raise AssertionError(f"no {pattern!r}")

    def wait_exit(self) -> dict:
        while self.exit is None:
            assert self.read(20)
        return self.exit

    def cut(self) -> None:
        """Ends the connection without a close frame."""
        self.socket.socket.close()


@pytest.mark.parametrize("size,expected", [({"cols": 137, "rows": 41}, "41 137"), ({}, "24 80")])
def test_the_first_program_sees_the_window_size(api, box, size, expected):
    """PT-01, while other terminals are being opened"""
    def one(number):
        terminal = Terminal(api, box, session=f"t{number}", **size)
        terminal.key("stty size; echo do''ne; stty size\r")
        terminal.wait(f"{expected}\r\ndone\r\n{expected}\r\n")
        terminal.key("exit 0\r")
        terminal.wait_exit()
        seen.append(number)

    seen = []
    for batch in range(7 if LONG else 1):
        threads = [threading.Thread(target=one, args=(batch * 8 + i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(seen) == (56 if LONG else 8)


def test_control_keys_and_job_control(api, box):
    """PT-02"""
    terminal = Terminal(api, box, cols=80, rows=24)
    terminal.key("echo st''art\r")
    terminal.wait("start\r\n")
    assert b"no job control" not in terminal.shown
    terminal.key("sleep 100\r")
    eventually(lambda: api.shell(box, "pgrep -x sleep")["exit_code"] == 0)
    terminal.key("\x03")
    terminal.key("echo rc=$?.\r")
    terminal.wait(r"rc=130\.")
    terminal.key("sleep 101\r")
    eventually(lambda: api.shell(box, "pgrep -f 'sleep [1]01'")["exit_code"] == 0)
    terminal.key("\x1a")
    terminal.wait("Stopped")
    terminal.key("bg; jobs; kill %1; wait; echo jobs''done\r")
    terminal.wait("Running")
    terminal.wait("jobsdone\r\n")
    terminal.key("cat\r")
    eventually(lambda: api.shell(box, "pgrep -x cat")["exit_code"] == 0)
    terminal.key("\x04")
    terminal.key("echo after''cat\r")
    terminal.wait("aftercat\r\n")
    terminal.key("sh -c 'trap \"echo g''ot\" INT; echo rea''dy; sleep 5'\r")
    terminal.wait("ready\r\n")
    terminal.key("\x03")
    terminal.wait("got\r\n")
    terminal.key("tty\r")
    terminal.wait(r"/dev/pts/\d+\r\n")
    terminal.key("exit 7\r")
    assert terminal.wait_exit()["exit_code"] == 7
    assert api.output(box, "echo up") == "up"


def test_reconnect_shows_the_past_once(api, box):
    """PT-04"""
    terminal = Terminal(api, box, cols=80, rows=24, session="kept")
    terminal.key("echo pid=$$.; for i in $(seq 1 500); do echo line-$i.; done; echo en''d\r")
    pid = terminal.wait(r"pid=(\d+)\.").group(1)
    terminal.wait("end\r\n")
    for _ in range(3):
        terminal.cut()
        terminal = Terminal(api, box, cols=100, rows=30, session="kept")
        terminal.key("echo pid=$$.; stty size; echo ag''ain\r")
        past = b""
        while b"again\r\n" not in past:
            assert terminal.read(20)
            past = terminal.shown
        lines = re.findall(rb"(?<![-\w$])line-(\d+)\.", past)
        assert lines == [str(i).encode() for i in range(1, 501)]
        assert past.rindex(b"pid=" + pid) > past.rindex(b"line-500.")
        assert b"30 100\r\n" in past
    api.instance.gateway.kill()
    api.instance.start_gateway()
    terminal = Terminal(api, box, cols=100, rows=30, session="kept")
    terminal.key("echo pid=$$.; echo restar''ted\r")
    terminal.wait("restarted\r\n")
    terminal.key("exit 0\r")
    assert terminal.wait_exit()["exit_code"] == 0
