"""Measures of what flows: output of commands, files, tars, a terminal's echo, many at once."""

import base64
import json
import os
import selectors
import socket
import statistics
import struct
import tarfile
import threading
import time
import urllib.parse
from pathlib import Path

from table import BOUNDS, output, settle_disk

MIB = 2**20
STREAM_MIB = 1024
SMALL_FILES = 20_000
PRODUCE = ["/root/bounds", "produce", str(STREAM_MIB)]
ECHOES = 300
STREAMS, STANDING = 100, 10
CROWD_SANDBOXES, CROWD = 200, 1000
CROWD_SECONDS = 10


class Streams:
    """One sandbox with room, and the measures that share it."""

    def __init__(self, bench):
        self.bench = bench
        self.id = bench.make(memory_mb=3072, storage_mb=6144)
        self.prefix = f"/sandboxes/{self.id}"
        self.address = f"127.0.0.1:{bench.one.settings.port}"
        bench.load("send", self.address, f"{self.prefix}/files?path=/root/bounds&mode=755", BOUNDS)

    def stop(self) -> None:
        self.bench.one.request("DELETE", f"{self.prefix}?wait=30")

    def all(self) -> None:
        for measure in (self.session, self.exec, self.ndjson, self.file, self.tar, self.echo,
                        self.standing_readers):
            try:
                measure()
            except (SystemExit, OSError, AssertionError) as error:
                self.bench.table.add(measure.__name__, f"failed: {str(error)[-60:]}", "", False)

    # --- talk ----------------------------------------------------------------------------
    def ask(self, method: str, path: str, body=None):
        status, answer = self.bench.one.request(method, self.prefix + path, body, 300)
        if status >= 300:
            raise SystemExit(f"{method} {path}: {status} {answer}")
        return answer

    def run(self, *argv) -> dict:
        answer = self.ask("POST", "/run", {"argv": [str(a) for a in argv]})
        if answer["exit_code"] != 0:
            raise SystemExit(f"{argv}: {answer}")
        return answer

    def fetch(self, method: str, path: str, body: str = "") -> tuple[float, int]:
        done = self.bench.load("fetch", self.address, method, path, body)
        return done["wall_ms"], done["bytes"]

    def share(self, name: str, ms: float, bound_ms: float, least: float, of: str,
              beside: str = "") -> None:
        part = bound_ms / ms
        self.bench.table.add(name, f"{STREAM_MIB / ms * 1000:.0f} MiB/s = {part:.0%} of {of}",
                             f">= {least:.0%}", part >= least, beside)

    # --- output --------------------------------------------------------------------------
    def session(self) -> None:
        times = []
        for _ in range(3):
            started = time.monotonic()
            made = self.ask("POST", "/sessions", {"argv": PRODUCE, "followed": True})
            path = f"/sessions/{made['id']}/logs?offset=0&follow=true"
            _, size = self.fetch("GET", self.prefix + path)
            times.append((time.monotonic() - started) * 1000)
            assert size == STREAM_MIB * MIB, f"{size} bytes"
            self.bench.one.request("DELETE", f"{self.prefix}/sessions/{made['id']}")
        bound = min(float(output(BOUNDS, "pipe", STREAM_MIB)) for _ in range(3))
        self.share("stdout of 1 GiB, session", min(times), bound, 0.5, "pipe to socket",
                   self.bench.docker.get("output", ""))

    def exec(self) -> None:
        body = json.dumps({"argv": PRODUCE}) + "\n"
        times = []
        for _ in range(3):
            took, size = self.fetch("POST", f"{self.prefix}/exec", body)
            assert size == STREAM_MIB * MIB, f"{size} bytes"
            times.append(took)
        bound = min(float(self.run("/root/bounds", "spool", "/root/spool", STREAM_MIB)["stdout"])
                    for _ in range(3))
        self.share("stdout of 1 GiB, exec", min(times), bound, 0.6, "file, then socket")

    def ndjson(self) -> None:
        body = json.dumps({"command": " ".join(PRODUCE)})
        times = []
        for _ in range(3):
            took, size = self.fetch("POST", f"/api/v1{self.prefix}/exec", body)
            assert size > STREAM_MIB * MIB, f"{size} bytes"
            times.append(took)
        rate = STREAM_MIB * MIB / 1e6 / (min(times) / 1000)
        self.bench.table.add("stdout of 1 GiB, NDJSON", f"{rate:.0f} MB/s", ">= 200 MB/s",
                             rate >= 200)

    # --- files ---------------------------------------------------------------------------
    def file(self) -> None:
        for direction, least in (("up", 0.5), ("down", 0.8)):
            ours = min(self.bench.load(direction, self.address, self.prefix, "/root/f",
                                       STREAM_MIB)["wall_ms"] for _ in range(3))
            copies = [self.run("cp", "--reflink=never", "/root/f", "/root/g")["duration_ms"]
                      for _ in range(3)]
            self.share(f"file of 1 GiB, {direction}", ours, min(copies), least, "cp",
                       self.bench.docker.get(direction, ""))
        self.run("rm", "-f", "/root/f", "/root/g")

    def tar(self) -> None:
        folder = self.bench.one.state / "many"
        output(BOUNDS, "many", folder, SMALL_FILES)
        packed = folder.with_suffix(".tar")
        with tarfile.open(packed, "w") as archive:
            archive.add(folder, arcname=".")
        ups, downs = [], []
        for i in range(3):
            target = f"{self.prefix}/files?path=/root/many-{i}&tar=1"
            settle_disk()
            ups.append(self.bench.load("send", self.address, target, packed)["wall_ms"])
            settle_disk()
            downs.append(self.fetch("GET", target)[0])
        up, down = statistics.median(ups), statistics.median(downs)
        for direction, ours in (("up", up), ("down", down)):
            theirs = self.bench.docker_tar_ms.get(direction)
            self.bench.table.add(
                f"tar of {SMALL_FILES} files, {direction}", f"{ours:.0f} ms", ">= 5x docker cp",
                theirs >= 5 * ours if theirs else None,
                f"docker cp {theirs:.0f} ms = {theirs / ours:.1f}x" if theirs else "")

    # --- terminal ------------------------------------------------------------------------
    def echo(self) -> None:
        """Each key to a program behind the terminal, which gives it back."""
        terminal = WebSocket(self.bench.one, f"{self.prefix}/terminal?cols=80&rows=24")
        terminal.send(0, b"stty raw -echo; echo re''ady; exec cat\n")
        seen = b""
        while b"ready\n" not in seen:
            seen += terminal.output()
        times = []
        for i in range(ECHOES):
            key = bytes([ord("a") + i % 26])
            started = time.monotonic()
            terminal.send(0, key)
            got = terminal.output()
            times.append((time.monotonic() - started) * 1000)
            assert got == key, f"{got!r} for {key!r}"
        terminal.close()
        middle = statistics.median(times)
        self.bench.table.add("keystroke echo, median", f"{middle:.2f} ms", "<= 2 ms", middle <= 2)

    # --- many ----------------------------------------------------------------------------
    def standing_readers(self) -> None:
        """The gateway's memory while many read an endless output and some do not."""
        script = "while :; do head -c 65536 /dev/zero; sleep 0.02; done"
        rows = [self.ask("POST", "/sessions", {"command": script, "followed": True})
                for _ in range(STREAMS)]
        readers = [open_stream(self.bench.one, f"{self.prefix}/sessions/{row['id']}/logs"
                                               "?offset=0&follow=true") for row in rows]
        stopped, count = threading.Event(), [0]
        reading = threading.Thread(target=read_all, args=(readers[STANDING:], stopped, count))
        reading.start()
        time.sleep(5)
        before, bytes_before = resident_mib(self.bench.one.gateway.pid()), count[0]
        samples = []
        for _ in range(15):
            time.sleep(1)
            samples.append(resident_mib(self.bench.one.gateway.pid()) - before)
        stopped.set()
        reading.join()
        for reader in readers:
            reader.close()
        for row in rows:
            self.bench.one.request("DELETE", f"{self.prefix}/sessions/{row['id']}")
        worst, read = max(samples, key=abs), (count[0] - bytes_before) / MIB / 15
        self.bench.table.add(f"memory, {STREAMS} streams, {STANDING} stand still",
                             f"{worst:+.1f} MiB of {before:.0f} at {read:.0f} MiB/s",
                             "within 20 MiB", abs(worst) <= 20)


def crowd(bench) -> None:
    """1,000 commands at once on 200 sandboxes."""
    address = f"127.0.0.1:{bench.one.settings.port}"
    bench.load("life", address, bench.image, 10, CROWD_SANDBOXES // 10, 0, "keep")
    _, rows = bench.one.request("GET", "/sandboxes?limit=1000&state=ready")
    prefixes = ",".join(f"/sandboxes/{row['id']}" for row in rows["items"])
    took = bench.load("crowd", address, prefixes, CROWD, CROWD_SECONDS)
    done = len(took["run_ms"])
    bench.table.add(f"{CROWD} commands at once, {CROWD_SANDBOXES} sandboxes",
                    f"{done} done in {took['wall_ms'] / 1000 - CROWD_SECONDS:.1f} s + their own",
                    "no error", done == CROWD)
    bench.remove_all()


def resident_mib(pid: int) -> float:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / MIB


def open_stream(one, path: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", one.settings.port))
    connection.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n"
                       f"authorization: Bearer {one.token}\r\n\r\n".encode())
    return connection


def read_all(readers: list[socket.socket], stopped: threading.Event, count: list[int]) -> None:
    with selectors.DefaultSelector() as ready:
        for reader in readers:
            ready.register(reader, selectors.EVENT_READ)
        while not stopped.is_set():
            for key, _ in ready.select(0.2):
                count[0] += len(key.fileobj.recv(MIB))


class WebSocket:
    """As much of RFC 6455 as a keystroke needs."""

    def __init__(self, one, path: str):
        url = urllib.parse.urlsplit(one.url)
        self.socket = socket.create_connection((url.hostname, url.port), timeout=20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((
            f"GET {path} HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\n"
            f"connection: Upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: {key}\r\n"
            f"authorization: Bearer {one.token}\r\n\r\n").encode())
        self.bytes = b""
        while b"\r\n\r\n" not in self.bytes:
            self.bytes += self.receive()
        head, self.bytes = self.bytes.split(b"\r\n\r\n", 1)
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise SystemExit(f"terminal: {head[:100]!r}")

    def receive(self) -> bytes:
        got = self.socket.recv(65536)
        if not got:
            raise OSError("the terminal was closed")
        return got

    def send(self, channel: int, data: bytes) -> None:
        payload = bytes([channel]) + data
        mask = os.urandom(4)
        masked = bytes(b ^ mask[i % 4] for i, b in enumerate(payload))
        self.socket.sendall(bytes([0x82, 0x80 | len(payload)]) + mask + masked)

    def frame(self) -> tuple[int, bytes]:
        """The next frame's opcode and payload."""
        def need(count: int) -> bytes:
            while len(self.bytes) < count:
                self.bytes += self.receive()
            taken, self.bytes = self.bytes[:count], self.bytes[count:]
            return taken
        first, size = need(2)
        if size == 126:
            size = struct.unpack(">H", need(2))[0]
        elif size == 127:
            size = struct.unpack(">Q", need(8))[0]
        return first & 15, need(size)

    def output(self) -> bytes:
        """What the next frame brings of the terminal's output."""
        while True:
            opcode, payload = self.frame()
            if opcode == 2 and payload[:1] == b"\x01":
                return payload[1:]

    def close(self) -> None:
        self.socket.close()
