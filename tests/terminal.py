"""A program on a terminal of its own, as a person has it: keys in, screen out."""

import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
import time

WAIT_SECONDS = 30


class Terminal:
    """`argv` on a new terminal of that size. Close it, or use it in a `with`."""

    def __init__(self, argv: list[str], env: dict, columns: int = 80, rows: int = 24):
        self.master, self.slave = pty.openpty()
        self.resize(columns, rows, tell=False)
        self.before = termios.tcgetattr(self.slave)
        self.seen = b""
        self.process = subprocess.Popen(argv, env={**env, "TERM": "xterm"}, stdin=self.slave,
                                        stdout=self.slave, stderr=self.slave,
                                        start_new_session=True, preexec_fn=self._take_terminal)

    def _take_terminal(self) -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def __enter__(self):
        return self

    def __exit__(self, *unused) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def resize(self, columns: int, rows: int, tell: bool = True) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if tell:  # the kernel tells the foreground group only when the size is set on its master
            self.process.send_signal(signal.SIGWINCH)

    def type(self, text: bytes) -> None:
        os.write(self.master, text)

    def read_until(self, wanted: bytes, seconds: float = WAIT_SECONDS) -> bytes:
        """What came up to and with `wanted`, which is taken away from `seen`."""
        deadline = time.monotonic() + seconds
        os.set_blocking(self.master, False)
        while wanted not in self.seen:
            assert time.monotonic() < deadline, f"{wanted!r} did not come: {self.seen!r}"
            try:
                self.seen += os.read(self.master, 65536)
            except BlockingIOError:
                time.sleep(0.01)
        end = self.seen.index(wanted) + len(wanted)
        head, self.seen = self.seen[:end], self.seen[end:]
        return head

    def is_raw(self) -> bool:
        return not termios.tcgetattr(self.slave)[3] & termios.ICANON

    def is_restored(self) -> bool:
        return termios.tcgetattr(self.slave) == self.before

    def wait(self, seconds: float = WAIT_SECONDS) -> int:
        """The exit code; what is written until then is read, so that nothing blocks."""
        deadline = time.monotonic() + seconds
        os.set_blocking(self.master, False)
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"still runs: {self.seen!r}"
            try:
                self.seen += os.read(self.master, 65536)
            except BlockingIOError:
                time.sleep(0.01)
        with contextlib.suppress(BlockingIOError):
            while rest := os.read(self.master, 65536):
                self.seen += rest
        return self.process.returncode
