"""Binary exec: bytes in, bytes out, whatever the framing, the coding and the size."""

import gzip
import json
import socket
import threading

import pytest

from deployment import error_of, eventually, gateway_memory

MIB = 1024 * 1024


def exec_(api, sandbox, line, stdin=b"", headers=None, **fields):
    body = json.dumps({**line, **fields}).encode() + b"\n" + stdin
    return api.http.post(f"/sandboxes/{sandbox}/exec", content=body, headers=headers or {})


def connect(api) -> socket.socket:
    return socket.create_connection(("127.0.0.1", api.instance.settings.port), 60)


def head(api, sandbox, *extra: str) -> bytes:
    return "\r\n".join([f"POST /sandboxes/{sandbox}/exec HTTP/1.1", "Host: x",
                        f"Authorization: Bearer {api.instance.token}", *extra, "", ""]).encode()


def read_all(raw: socket.socket) -> bytes:
    got = b""
    while piece := raw.recv(65536):
        got += piece
    return got


def test_streams_lengths_and_code(api, shared_box):
    answer = exec_(api, shared_box, {"command": "cat; printf err >&2; exit 3"}, b"in\0\xff\n")
    assert answer.status_code == 200, answer.text
    assert answer.content == b"in\0\xff\nerr"
    assert answer.headers["x-stdout-length"] == "5" and answer.headers["x-stderr-length"] == "3"
    assert answer.headers["x-return-code"] == "3"
    for name in ("x-timed-out", "x-oom-killed", "x-truncated"):
        assert answer.headers[name] == "false"
    assert "x-signal" not in answer.headers
    assert int(answer.headers["x-duration-ms"]) >= 0
    assert answer.headers["content-type"] == "application/octet-stream"


def test_signal_and_time_out(api, shared_box):
    answer = exec_(api, shared_box, {"command": "kill -9 $$"})
    assert (answer.headers["x-return-code"], answer.headers["x-signal"]) == ("137", "KILL")
    answer = exec_(api, shared_box, {"command": "echo begun; sleep 100"}, timeout_sec=1)
    assert (answer.headers["x-return-code"], answer.headers["x-timed-out"]) == ("124", "true")
    assert answer.content == b"begun\n"


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 65536, 5 * MIB])
def test_codings_both_ways(api, shared_box, size, coding):
    data = bytes(i * 7 % 251 for i in range(min(size, 4096))) * (size // 4096 + 1)
    data = data[:size]
    body = gzip.compress(json.dumps({"argv": ["cat"]}).encode() + b"\n" + data)
    answer = api.http.post(f"/sandboxes/{shared_box}/exec", content=body,
                           headers={"content-encoding": "gzip", "accept-encoding": coding})
    assert answer.status_code == 200, answer.text
    assert answer.content == data
    assert answer.headers["x-stdout-length"] == str(size)
    assert answer.headers.get("content-encoding") == (coding if size >= 1024 else None)


def test_chunked_input_and_expect(api, shared_box):
    raw = connect(api)
    raw.sendall(head(api, shared_box, "Transfer-Encoding: chunked", "Expect: 100-continue",
                     "Connection: close"))
    assert raw.recv(25).startswith(b"HTTP/1.1 100 Continue\r\n")
    raw.sendall(b"6\r\n{\"argv\r\n" + b"c\r\n\":[\"cat\"]}\nx\r\n" + b"3\r\nyz!\r\n0\r\n\r\n")
    answer = read_all(raw)
    assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"\r\n\r\nxyz!"), answer


def test_a_refused_request_is_not_asked_for_its_body(api):
    raw = connect(api)
    raw.sendall(head(api, "sbx-absent", "Content-Length: 1000000000", "Expect: 100-continue"))
    assert raw.recv(12) == b"HTTP/1.1 404"


def test_large_output_costs_the_gateway_no_memory(api, box):
    size = 300 * MIB
    before = gateway_memory(api)
    seen = 0
    worst = 0
    body = json.dumps({"argv": ["head", "-c", str(size), "/dev/zero"]}).encode() + b"\n"
    with api.http.stream("POST", f"/sandboxes/{box}/exec", content=body,
                         headers={"accept-encoding": "identity"}) as answer:
        assert answer.headers["x-stdout-length"] == str(size)
        for piece in answer.iter_raw(MIB):
            seen += len(piece)
            if seen % (32 * MIB) < len(piece):
                worst = max(worst, gateway_memory(api))
    assert seen == size
    assert worst - before < 20 * MIB


def test_large_input(api, box):
    data = b"0123456789abcdef" * (4 * MIB)
    answer = exec_(api, box, {"command": "wc -c; sleep 0"}, data)
    assert answer.content.strip() == str(len(data)).encode()


def test_input_that_nobody_reads(api, shared_box):
    """The command ends while its input is still on its way."""
    answer = exec_(api, shared_box, {"argv": ["true"]}, bytes(64 * MIB))
    assert (answer.status_code, answer.headers["x-return-code"]) == (200, "0")


def test_a_refusal_of_the_agent_comes_at_once(api, shared_box):
    answer = exec_(api, shared_box, {"argv": ["cat"]}, bytes(16 * MIB), cwd="/absent")
    assert error_of(answer) == (422, "cwd_invalid")
    answer = exec_(api, shared_box, {"argv": ["cat"]}, user="nobody-here")
    assert error_of(answer) == (422, "user_unknown")


@pytest.mark.parametrize("input_bytes", [0, 4 * MIB, 64 * MIB])
def test_a_client_that_leaves_ends_the_command(api, box, input_bytes):
    """With input that the command does not take, too."""
    raw = connect(api)
    line = b'{"argv":["sleep","1234"]}\n'
    raw.sendall(head(api, box, f"Content-Length: {len(line) + input_bytes}") + line)
    sender = threading.Thread(target=lambda: _send_quietly(raw, bytes(input_bytes)))
    sender.start()
    eventually(lambda: api.shell(box, "pgrep -f 'sleep [1]234'")["exit_code"] == 0)
    raw.shutdown(socket.SHUT_RDWR)
    raw.close()
    sender.join()
    eventually(lambda: api.shell(box, "pgrep -f 'sleep [1]234'")["exit_code"] == 1)


def _send_quietly(raw, data):
    try:
        raw.sendall(data)
    except OSError:
        pass


def test_an_open_input_keeps_the_command(api, box):
    """Input that pauses for long is not the end of it."""
    raw = connect(api)
    raw.sendall(head(api, box, "Transfer-Encoding: chunked", "Connection: close") +
                b"10\r\n{\"argv\":[\"cat\"]}\r\n" + b"2\r\n\na\r\n")
    eventually(lambda: api.get(f"/sandboxes/{box}/activity").json()["running_commands"] == 1)
    raw.sendall(b"1\r\nb\r\n0\r\n\r\n")
    assert read_all(raw).endswith(b"\r\n\r\nab")


BAD_BODIES = [
    (["Content-Length: 5", "Content-Length: 6"], b"{}\nxxx"),
    (["Content-Length: 5", "Transfer-Encoding: chunked"], b"0\r\n\r\n"),
    (["Transfer-Encoding: chunked"], b"zz\r\n{}\r\n0\r\n\r\n"),
    (["Transfer-Encoding: chunked"], b"-1\r\n\r\n"),
    (["Transfer-Encoding: chunked"], b"ffffffffffffffffff\r\n"),
    (["Transfer-Encoding: chunked"], b"2\n{}\n0\n\n"),
    (["Transfer-Encoding: chunked"], b'1a\r\n{"argv":["cat"]}\nlonger than said\r\n0\r\n\r\n'),
    (["Transfer-Encoding: chunked"], b'12\r\n{"argv":["cat"]}\nx\r\nnonsense\r\n'),
    (["Transfer-Encoding: gzip, chunked"], b"0\r\n\r\n"),
    (["Content-Length: 8", "Content-Encoding: gzip"], b"nonsense"),
    (["Content-Length: -1"], b""),
    (["Content-Length: 2"], b"{\n"),
]


@pytest.mark.parametrize("headers, body", BAD_BODIES)
def test_broken_bodies(api, shared_box, headers, body):
    raw = connect(api)
    raw.sendall(head(api, shared_box, *headers, "Connection: close") + body)
    answer = read_all(raw)
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 422 ")), answer
    assert b'"error"' in answer
    assert exec_(api, shared_box, {"argv": ["echo", "next"]}).content == b"next\n"


def test_a_gzip_bomb_is_the_commands_own_input(api, shared_box):
    """It costs the gateway nothing; the line before it stays limited."""
    before = gateway_memory(api)
    bomb = gzip.compress(b'{"command":"wc -c"}\n' + bytes(256 * MIB), 9)
    answer = api.http.post(f"/sandboxes/{shared_box}/exec", content=bomb,
                           headers={"content-encoding": "gzip"})
    assert answer.content.strip() == str(256 * MIB).encode()
    line = gzip.compress(b'{"command":"' + b"x" * (64 * MIB) + b'"}\n', 9)
    answer = api.http.post(f"/sandboxes/{shared_box}/exec", content=line,
                           headers={"content-encoding": "gzip"})
    assert error_of(answer) == (413, "body_too_large")
    assert gateway_memory(api) - before < 20 * MIB


def test_many_commands_at_once(api):
    """More than the agent's backlog and the pool's idle connections, on few sandboxes."""
    made = [api.create(memory_mb=256)["id"] for _ in range(4)]
    told = []

    def run(number):
        client = api.client(api.instance.token)
        body = json.dumps({"argv": ["echo", str(number)]}).encode() + b"\n"
        answer = client.post(f"/sandboxes/{made[number % 4]}/exec", content=body)
        told.append((answer.status_code, answer.content == f"{number}\n".encode()))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in made:
        api.remove(one)
    assert told == [(200, True)] * 200
