"""HTTP behaviour: faults that other systems had (area HT), with raw sockets and with curl."""

import contextlib
import gzip
import json
import os
import socket
import subprocess
import time
import zlib

import httpx
import pytest

from deployment import error_of, eventually, gateway_memory

LONG = os.environ.get("SANDBOX_LONG") == "1"


class Raw:
    """One connection, spoken to in bytes."""

    def __init__(self, api):
        self.api = api
        self.socket = socket.create_connection(("127.0.0.1", api.instance.settings.port), 10)
        self.file = self.socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def request(self, method: str, target: str, *headers: str, body: bytes = b"") -> None:
        lines = [f"{method} {target} HTTP/1.1", "Host: x",
                 f"Authorization: Bearer {self.api.instance.token}", *headers, "", ""]
        self.send("\r\n".join(lines).encode() + body)

    def answer(self, head_only: bool = False) -> tuple[int, dict, bytes]:
        """Status, headers and body; (0, {}, b"") when the connection was closed instead."""
        line = self.file.readline()
        if not line:
            return 0, {}, b""
        status, headers = int(line.split()[1]), {}
        while (line := self.file.readline().strip()):
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        if status == 100:
            return self.answer(head_only)
        body = b""
        if not head_only and "content-length" in headers:
            body = self.file.read(int(headers["content-length"]))
        elif not head_only and headers.get("transfer-encoding") == "chunked":
            while (size := int(self.file.readline(), 16)):
                body += self.file.read(size)
                self.file.readline()
            self.file.readline()
        return status, headers, body

    def close(self) -> None:
        self.file.close()
        self.socket.close()


@pytest.fixture
def raw(api):
    made = Raw(api)
    yield made
    made.close()


def curl(api, *argv: str, token: str | None = None, stdin: bytes = b"") -> dict:
    """Status and uploaded bytes as curl counts them."""
    done = subprocess.run(
        ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code} %{size_upload}", "-m", "20",
         "-H", f"Authorization: Bearer {token or api.instance.token}", *argv],
        input=stdin, capture_output=True, check=False, timeout=30)
    status, uploaded = done.stdout.split()
    return {"status": int(status), "uploaded": int(uploaded)}


def test_curl_uploads_with_expect(api, box, tmp_path):
    """HT-01"""
    small, big = tmp_path / "small", tmp_path / "big"
    small.write_bytes(b"small")
    big.write_bytes(os.urandom(2 * 2**20))
    url = f"{api.instance.url}/sandboxes/{box}/files?path=/up"
    data = big.read_bytes()
    for argv, size in ((["-T", small], 5), (["-T", big], len(data)),
                       (["-X", "PUT", "--data-binary", f"@{big}"], len(data)),
                       (["-T", "-"], len(data))):
        told = curl(api, *map(str, argv), url, stdin=data if argv[-1] == "-" else b"")
        assert told["status"] in (200, 201)
        assert api.output(box, "stat -c %s /up") == str(size)


def test_bad_uploads_are_refused_before_the_body(api, box, tmp_path):
    """HT-01"""
    big = tmp_path / "big"
    big.write_bytes(bytes(2 * 2**20))
    url = f"{api.instance.url}/sandboxes"
    assert curl(api, "-T", str(big), f"{url}/{box}/files?path=/x", token="wrong") == \
        {"status": 401, "uploaded": 0}
    assert curl(api, "-T", str(big), f"{url}/none/files?path=/x") == {"status": 404, "uploaded": 0}
    assert curl(api, "-T", str(big), f"{api.instance.url}/no/such") == \
        {"status": 404, "uploaded": 0}
    huge = ["-X", "POST", "-H", "Content-Length: 99999999999", "--data-binary", f"@{big}"]
    told = curl(api, *huge, "-H", "Expect: 100-continue", f"{url}/{box}/run")
    assert told == {"status": 413, "uploaded": 0}


@pytest.mark.parametrize(("framing", "body", "goes_on"), [
    ("Content-Length: 200000", bytes(200_000), True),
    ("Content-Length: 8000000", bytes(300_000), False),
    ("Transfer-Encoding: chunked", b"5\r\nabcde\r\n", False),
])
def test_an_early_answer_says_whether_its_connection_goes_on(raw, framing, body, goes_on):
    """HT-01: a client that is not told would send its next request into the close."""
    raw.request("POST", "/no/such", framing)
    status, headers, _ = raw.answer()
    assert (status, headers.get("connection") != "close") == (404, goes_on)
    raw.send(body)
    if goes_on:
        raw.request("GET", "/healthz")
        assert raw.answer()[0] == 200
    else:
        assert raw.answer()[0] == 0


def test_expect_nonsense_and_a_body_sent_at_once(api, box, raw):
    """HT-01"""
    raw.request("PUT", f"/sandboxes/{box}/files?path=/n", "Content-Length: 3", "Expect: nonsense",
                body=b"abc")
    status, _, _ = raw.answer()
    assert status in (200, 201, 417)
    other = Raw(api)
    other.request("PUT", f"/sandboxes/{box}/files?path=/n", "Content-Length: 3",
                  "Expect: 100-continue", body=b"abc")
    assert other.answer()[0] in (200, 201)
    other.close()


def test_head_leaves_the_connection_right(api, box, raw):
    """HT-03"""
    api.output(box, "mkdir -p /d; head -c 1048576 /dev/zero >/d/m; : >/d/zero; echo small >/small")
    base = f"/sandboxes/{box}/files?path="
    for target, status, length in ((f"{base}/d/m", 200, "1048576"), (f"{base}/d/zero", 200, "0"),
                                   (f"{base}/none", 404, None), (f"{base}/d", 409, None),
                                   (f"{base}/d&tar=1", 200, "chunked"),
                                   (f"{base}/d&list=1", 200, "chunked"), ("/sandboxes", 200, None)):
        raw.request("HEAD", target)
        told, headers, _ = raw.answer(head_only=True)
        assert told == status, target
        if length == "chunked":  # as that of a GET: no length is known
            assert "content-length" not in headers, target
        elif length is not None:
            assert headers["content-length"] == length
        raw.request("GET", f"{base}/small")
        assert raw.answer()[2] == b"small\n", target


def test_head_of_a_follow_does_not_block(api, box, raw):
    """HT-03"""
    made = api.post(f"/sandboxes/{box}/sessions", {"command": "sleep 100"}).json()
    raw.request("HEAD", f"/sandboxes/{box}/sessions/{made['id']}/logs?follow=true")
    assert raw.answer(head_only=True)[0] == 200
    raw.request("GET", "/healthz")
    assert raw.answer()[0] == 200


@pytest.mark.parametrize("request_line,allowed", [
    ("OPTIONS /sandboxes", {405, 404, 204}), ("PATCH /sandboxes", {405}), ("FOO /sandboxes", {405}),
    ("GET //sandboxes", {404}), ("GET /sandboxes/%2e%2e", {404}),
    (f"GET /{'a' * 100_000}", {414, 431, 400})])
def test_unknown_methods_and_paths(raw, request_line, allowed):
    """HT-03"""
    method, target = request_line.split()
    raw.request(method, target)
    status, headers, _ = raw.answer()
    assert status in allowed
    if status == 405:
        assert "GET" in headers["allow"]


@pytest.mark.parametrize("headers,allowed", [
    ([f"X-{i}: 1" for i in range(200)], {431}), (["X-Big: " + "b" * 65536], {431}),
    (["X-Nul: a\0b"], {400}), (["Content-Length: 1", "Content-Length: 2"], {400}),
    (["Content-Length: 4", "Transfer-Encoding: chunked"], {400}),
    (["Content-Length: -1"], {400}), (["Transfer-Encoding: gzip, chunked"], {400, 501}),
    (["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"], {400})])
def test_broken_heads(api, raw, headers, allowed):
    """HT-03, and every pair of lengths that two readers could disagree on"""
    raw.request("POST", "/sandboxes", *headers)
    assert raw.answer()[0] in allowed
    assert api.get("/healthz").status_code == 200


@pytest.mark.parametrize("head", [b"GET /healthz HTTP/1.1\nHost: x\n\n",
                                  b"GET /healthz HTTP/1.1\r\n\r\n"[:-2] + b"Host x\r\n\r\n",
                                  b"GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n",
                                  b"\0" * 100 + b"\r\n\r\n"])
def test_broken_request_lines(api, raw, head):
    """HT-03"""
    raw.send(head)
    assert raw.answer()[0] in (400, 505)
    assert api.get("/healthz").status_code == 200


@pytest.mark.parametrize("chunks", [b"zz\r\nabc\r\n0\r\n\r\n", b"3\nabc\n0\n\n",
                                    b"3\r\nabcX\r\n0\r\n\r\n",
                                    b"-3\r\nabc\r\n0\r\n\r\n", b"fffffffffffffffff\r\nabc",
                                    b"3 ;" + b"x" * 70000 + b"\r\nabc\r\n0\r\n\r\n"])
def test_broken_chunks(api, box, raw, chunks):
    """Bad input: chunked bodies of every malformed kind"""
    raw.request("PUT", f"/sandboxes/{box}/files?path=/chunked", "Transfer-Encoding: chunked",
                body=chunks)
    assert raw.answer()[0] in (0, 400)
    assert api.shell(box, "test -e /chunked")["exit_code"] == 1


def test_pipelined_answers_come_in_order(api, box, raw):
    """HT-03"""
    for i in range(20):
        assert api.upload(box, f"/p/{i}", str(i).encode()).status_code in (200, 201)
    lines = "".join(f"GET /sandboxes/{box}/files?path=/p/{i} HTTP/1.1\r\nHost: x\r\n"
                    f"Authorization: Bearer {api.instance.token}\r\n\r\n" for i in range(20))
    raw.send(lines.encode())
    assert [raw.answer()[2] for _ in range(20)] == [str(i).encode() for i in range(20)]


@pytest.mark.parametrize("form", ["run", "exec", "stream"])
@pytest.mark.parametrize("end", ["close", "reset", "half"])
def test_when_the_caller_goes_the_command_goes(api, box, form, end):
    """HT-05"""
    text = "sleep 600 & setsid sleep 601 & wait"
    target, body = {
        "run": (f"/sandboxes/{box}/run", json.dumps({"command": text})),
        "exec": (f"/sandboxes/{box}/exec", json.dumps({"command": text}) + "\n"),
        "stream": (f"/api/v1/sandboxes/{box}/exec", json.dumps({"command": text}))}[form]
    for _ in range(30 if LONG else 2):
        raw = Raw(api)
        raw.request("POST", target, f"Content-Length: {len(body)}", body=body.encode())
        eventually(lambda: api.shell(box, "pgrep -f 'sleep 60[01]'")["exit_code"] == 0)
        if end == "half":
            raw.socket.shutdown(socket.SHUT_WR)
        elif end == "reset":
            raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            raw.close()
        else:
            raw.close()
        eventually(lambda: api.shell(box, "pgrep -f 'sleep 60[01]'")["exit_code"] == 1, 10,
                   "the tree is gone")
        raw.close()


def test_a_followed_session_goes_on_without_its_follower(api, box):
    """HT-05"""
    made = api.post(f"/sandboxes/{box}/sessions", {"command": "sleep 602"}).json()
    with api.http.stream("GET", f"/sandboxes/{box}/sessions/{made['id']}/logs?follow=true"):
        pass
    time.sleep(4)  # longer than the grace in which a tree would be ended
    assert api.shell(box, "pgrep -f '[s]leep 602'")["exit_code"] == 0


def test_slow_readers_slow_the_producer(api, box):
    """HT-04"""
    clients = 50 if LONG else 10
    before = gateway_memory(api)
    opened = []
    body = json.dumps({"command": "yes"})
    for _ in range(clients):
        raw = Raw(api)
        raw.request("POST", f"/api/v1/sandboxes/{box}/exec", f"Content-Length: {len(body)}",
                    body=body.encode())
        raw.socket.recv(1024)
        opened.append(raw)
    time.sleep(3)  # the readers stand still
    assert gateway_memory(api) - before < clients * 2**20
    usage = "cat /proc/$(pgrep -o yes)/stat | cut -d' ' -f14"

    def is_blocked() -> bool:
        first = int(api.output(box, usage))
        time.sleep(1)
        return int(api.output(box, usage)) - first < 20  # ticks of 10 ms

    eventually(is_blocked)
    for raw in opened:
        raw.close()
    eventually(lambda: api.shell(box, "pgrep -x yes")["exit_code"] == 1)


def exec_gzip(api, box, body: bytes, **headers):
    return api.http.post(f"/sandboxes/{box}/exec", content=body,
                         headers={"content-encoding": "gzip", **headers})


def test_gzip_both_ways(api, box):
    """HT-07"""
    data = os.urandom(2**20) * 10
    body = gzip.compress(b'{"argv":["cat"]}\n' + data)
    for accept in ("gzip", "identity", "gzip;q=0"):
        answer = exec_gzip(api, box, body, **{"accept-encoding": accept})
        assert answer.status_code == 200, answer.text
        assert answer.content == data
        assert answer.headers["x-stdout-length"] == str(len(data))
        assert answer.headers["x-stderr-length"] == "0"
        assert answer.headers.get("content-encoding", "identity") == \
            ("gzip" if accept == "gzip" else "identity")
    two = gzip.compress(b'{"argv":["cat"]}\n' + b"one ") + gzip.compress(b"two")
    assert exec_gzip(api, box, two).content == b"one two"


def test_a_compressed_stream_is_not_held_back(api, box):
    """HT-07"""
    with api.http.stream("POST", f"/api/v1/sandboxes/{box}/exec",
                         json={"command": "echo 1; until [ -e /tmp/go ]; do sleep 0.1; done"},
                         headers={"accept-encoding": "gzip"}) as answer:
        lines = answer.iter_lines()
        next(lines)
        api.output(box, "touch /tmp/go")
        assert list(lines)


@pytest.mark.parametrize("broken", ["cut", "crc", "trailing", "empty"])
def test_broken_gzip(api, box, broken):
    """HT-07"""
    whole = gzip.compress(b'{"argv":["cat"]}\n' + b"data" * 1000)
    body = {"cut": whole[:-12], "crc": whole[:-8] + b"\0" * 8, "trailing": whole + b"rubbish",
            "empty": b""}[broken]
    answer = exec_gzip(api, box, body)
    assert answer.status_code in (400, 422), answer.text
    assert api.output(box, "echo next") == "next"


@pytest.mark.parametrize("coding", ["br", "gzip, gzip", "nonsense"])
def test_other_codings(api, box, coding):
    """HT-07"""
    answer = api.http.post(f"/sandboxes/{box}/run", content=b"x",
                           headers={"content-encoding": coding})
    assert answer.status_code in (415, 422), answer.text


def bomb() -> bytes:
    """Zeros that inflate to a gibibyte."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = bytes(2**20)
    return b"".join(packer.compress(block) for _ in range(1024)) + packer.flush()


def test_gzip_bombs(api):
    """HT-07"""
    box = api.create(storage_mb=64)["id"]
    data, before = bomb(), gateway_memory(api)
    answer = api.http.post(f"/sandboxes/{box}/run", content=data,
                           headers={"content-encoding": "gzip"})
    assert error_of(answer) == (413, "body_too_large")
    answer = api.http.post(f"/sandboxes/{box}/exec", content=data,
                           headers={"content-encoding": "gzip"})
    assert answer.status_code in (400, 413, 422)
    answer = api.http.put(f"/sandboxes/{box}/files?path=/bomb", content=data,
                          headers={"content-encoding": "gzip"})
    assert answer.status_code in (413, 507), answer.text
    with api.client("wrong") as stranger, contextlib.suppress(httpx.TransportError):
        told = stranger.post(f"/sandboxes/{box}/run", content=data,
                             headers={"content-encoding": "gzip"})
        assert told.status_code == 401
    assert gateway_memory(api) - before < 32 * 2**20
    assert api.shell(box, "test -e /bomb")["exit_code"] == 1
    api.remove(box)
