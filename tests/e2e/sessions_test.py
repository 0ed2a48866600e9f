"""Sessions over the API: start, follow, feed, steer, and what becomes of them when others end."""

import contextlib
import hashlib
import json
import signal
import socket
import threading

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from deployment import error_of, eventually, gateway_memory

MIB = 1024 * 1024


def start(api, box, **fields) -> dict:
    answer = api.post(f"/sandboxes/{box}/sessions", fields)
    assert answer.status_code == 201, answer.text
    return answer.json()


def path_of(box, session, ending="") -> str:
    return f"/sandboxes/{box}/sessions/{session['id']}{ending}"


def wait_exit(api, box, session, seconds=30) -> dict:
    row = api.get(path_of(box, session), params={"wait": seconds}).json()
    assert row["state"] == "exited", row
    return row


def log(api, box, session, **query) -> bytes:
    answer = api.get(path_of(box, session, "/logs"), params=query)
    assert answer.status_code == 200, answer.text
    return answer.content


def attach(api, box, session, query="", **options):
    url = api.instance.url.replace("http", "ws", 1) + path_of(box, session, "/attach") + query
    return connect(url, additional_headers={"authorization": f"Bearer {api.instance.token}"},
                   subprotocols=["sandbox.v1"], max_size=None, **options)


def test_a_session_from_start_to_end(api, box):
    made = start(api, box, command="cat; echo err >&2; exit 4", name="first", env={"A": "b"})
    assert (made["state"], made["name"], made["exit_code"]) == ("running", "first", None)
    assert made["tty"] is None and made["pid"] > 0
    assert api.get(f"/sandboxes/{box}/activity").json()["sessions"] == 1
    taken = api.http.post(path_of(box, made, "/stdin"), content=b"some ")
    assert (taken.status_code, taken.json()) == (200, {"offset": 5})
    again = api.http.post(path_of(box, made, "/stdin?offset=0&eof=1"), content=b"some more")
    assert again.json() == {"offset": 9}
    row = wait_exit(api, box, made)
    assert (row["exit_code"], row["signal"], row["timed_out"]) == (4, None, False)
    assert log(api, box, made) == b"some moreerr\n"
    assert log(api, box, made, offset=5) == b"moreerr\n"
    assert log(api, box, made, stream="stderr") == b"err\n"
    assert [s["id"] for s in api.get(f"/sandboxes/{box}/sessions").json()["items"]] == [made["id"]]
    by_name = api.get(f"/sandboxes/{box}/sessions/first")
    assert by_name.json()["id"] == made["id"]
    assert api.get(f"/sandboxes/{box}/activity").json()["sessions"] == 0
    assert error_of(api.http.post(path_of(box, made, "/stdin"), content=b"x")) == (
        409, "session_exited")
    assert error_of(api.post(path_of(box, made, "/kill"), {"signal": "TERM"})) == (
        409, "session_exited")
    assert api.delete(path_of(box, made)).status_code == 204
    assert error_of(api.get(path_of(box, made))) == (404, "not_found")


def test_a_removed_session_takes_what_it_left_running_along(api, box):
    made = start(api, box, command="setsid sleep 6691 & sleep 6692 & exit 3")
    assert wait_exit(api, box, made)["exit_code"] == 3
    other = start(api, box, argv=["sleep", "6693"])
    assert api.shell(box, "pgrep -fc '[s]leep 669[12]'")["stdout"] == "2\n"
    assert api.delete(path_of(box, made)).status_code == 204
    # KILL was sent; that they are gone is not waited for.
    eventually(lambda: api.shell(box, "pgrep -fc '[s]leep 669[12]'")["stdout"] == "0\n")
    assert api.get(path_of(box, other)).json()["state"] == "running"


def test_a_finished_session_is_forgotten_and_what_it_left_running_lives_on(api, box):
    made = start(api, box, command="setsid sleep 6694 & sleep 6695 & read go; exit 3")
    forget = path_of(box, made, "?keep_background=1")
    assert error_of(api.delete(forget)) == (409, "conflict")
    api.http.post(path_of(box, made, "/stdin?eof=1"), content=b"go\n")
    assert wait_exit(api, box, made)["exit_code"] == 3
    assert api.delete(forget).status_code == 204
    assert error_of(api.get(path_of(box, made))) == (404, "not_found")
    assert api.shell(box, "pgrep -fc '[s]leep 669[45]'")["stdout"] == "2\n"


def test_records_tell_offsets_streams_and_the_exit(api, box):
    made = start(api, box, command="printf ab; sleep 0.2; printf cd >&2; exit 2")
    records = []
    with api.http.stream("GET", path_of(box, made, "/logs?follow=true"),
                         headers={"accept": "application/x-ndjson"}) as answer:
        assert answer.headers["content-type"] == "application/x-ndjson"
        records = [json.loads(line) for line in answer.iter_lines()]
    pieces = [r for r in records if "stream" in r]
    assert [(r["offset"], r["stream"], r["data"]) for r in pieces] == [
        (0, "stdout", "ab"), (2, "stderr", "cd")]
    assert records[-1]["exit"]["exit_code"] == 2


def test_what_is_followed_from_its_start_loses_nothing_before_its_follower_comes(api, box):
    limit = MIB
    made = start(api, box, command="seq 1 400000", followed=True, log_limit_bytes=limit)
    # The follower is late: by now all is written that the command may write without one.
    eventually(lambda: api.get(path_of(box, made)).json()["log"]["end_offset"] >= limit * 3 // 4)
    whole = "".join(f"{number}\n" for number in range(1, 400_001)).encode()
    assert log(api, box, made, follow="true") == whole


def test_offsets_beyond_the_end(api, box):
    made = start(api, box, command="printf abc")
    wait_exit(api, box, made)
    assert log(api, box, made, offset=3) == b""
    beyond = api.get(path_of(box, made, "/logs?offset=4"))
    assert error_of(beyond) == (416, "range_not_satisfiable")
    assert error_of(api.get(path_of(box, made, "/logs?offset=-1"))) == (422, "invalid_field")


@pytest.mark.parametrize("fields, field", [
    ({"argv": []}, "argv"), ({"argv": [""]}, "argv"), ({"argv": ["a\0"]}, "argv"),
    ({"argv": ["a"], "command": "b"}, "command"),
    ({"argv": ["a"], "tty": {"cols": 80}}, "tty.rows"),
    ({"argv": ["a"], "tty": {"cols": 0, "rows": 1}}, "tty.cols"),
    ({"argv": ["a"], "name": "a/b"}, "name"), ({"argv": ["a"], "log_limit_bytes": 1}, None),
    ({"argv": ["a"], "what": 1}, "what"), ({"argv": ["a"], "stdin": "text"}, "stdin")])
def test_bad_starts(api, shared_box, fields, field):
    answer = api.post(f"/sandboxes/{shared_box}/sessions", fields)
    assert answer.status_code == 422, answer.text
    if field:
        assert answer.json()["error"]["details"]["field"] == field
    assert api.get(f"/sandboxes/{shared_box}/sessions").json()["items"] == []


def test_several_followers_and_one_that_stands_still(api, box):
    """The slow one gets every byte too, later."""
    size = 24 * MIB
    made = start(api, box, command=f"head -c {size} /dev/zero", log_limit_bytes=2 * size)
    still = socket.create_connection(("127.0.0.1", api.instance.settings.port), 60)
    still.sendall(f"GET {path_of(box, made, '/logs?follow=true')} HTTP/1.1\r\nHost: x\r\n"
                  f"Authorization: Bearer {api.instance.token}\r\nConnection: close\r\n\r\n"
                  .encode())
    told = []

    def follow():
        client = api.client(api.instance.token)
        with client.stream("GET", path_of(box, made, "/logs?follow=true")) as answer:
            told.append(sum(len(piece) for piece in answer.iter_raw()))

    threads = [threading.Thread(target=follow) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == [size] * 3
    received = 0
    while piece := still.recv(MIB):
        received += len(piece)
    assert received > size


def test_a_flood_arrives_whole(api, box):
    """More than the log holds many times over, and the log's own wrap within a piece."""
    numbers = 8_000_000
    made = start(api, box, command=f"read go; seq 1 {numbers}", log_limit_bytes=3_000_001)
    whole, size = hashlib.sha256(), 0
    with api.http.stream("GET", path_of(box, made, "/logs?follow=true")) as answer:
        assert api.http.post(path_of(box, made, "/stdin"), content=b"go\n").is_success
        for piece in answer.iter_raw():
            whole.update(piece)
            size += len(piece)
    expected = hashlib.sha256()
    for first in range(1, numbers + 1, 100_000):
        expected.update("".join(f"{n}\n" for n in range(first, first + 100_000)).encode())
    assert whole.hexdigest() == expected.hexdigest()
    status = wait_exit(api, box, made)
    assert (status["exit_code"], status["log"]["end_offset"]) == (0, size)


def test_a_follower_goes_on_after_the_gateway_was_killed(api, box):
    made = start(api, box, command="i=0; while [ $i -lt 60 ]; do echo line $i; i=$((i+1)); "
                                   "sleep 0.1; done")
    got = b""
    kills = 0
    while True:
        try:
            with api.http.stream("GET", path_of(box, made, "/logs"),
                                 params={"follow": "true", "offset": len(got)}) as answer:
                for piece in answer.iter_raw():
                    got += piece
                    if kills < 2 and len(got) > 100 * (kills + 1):
                        kills += 1
                        api.instance.gateway.signal(signal.SIGKILL)
            break
        except Exception as error:  # noqa: BLE001 - whatever a client calls a broken connection
            assert kills, error
            api.instance.gateway.wait_gone(20)
            api.instance.start_gateway()
    assert kills == 2
    assert got == b"".join(b"line %d\n" % i for i in range(60))
    assert wait_exit(api, box, made)["exit_code"] == 0


def test_attach_speaks_the_framing(api, box):
    made = start(api, box, command="read line; echo got $line; read line || echo eof >&2; exit 3")
    with attach(api, box, made) as link:
        assert link.subprotocol == "sandbox.v1"
        assert json.loads(link.recv()) == {"type": "offset", "offset": 0}
        link.send(b"\0hello\n")
        told = []
        link.send(json.dumps({"type": "eof"}))
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                told.append(link.recv(timeout=20))
    assert closed.value.rcvd.code == 1000
    output = b"".join(m[1:] for m in told if isinstance(m, bytes) and m[0] == 1)
    errors = b"".join(m[1:] for m in told if isinstance(m, bytes) and m[0] == 2)
    assert (output, errors) == (b"got hello\n", b"eof\n")
    end = [json.loads(m) for m in told if isinstance(m, str)]
    assert end[-1]["type"] == "exit" and end[-1]["exit_code"] == 3
    assert {"type": "offset", "offset": len(output) + len(errors)} in end


@pytest.mark.parametrize("message, code", [
    (b"\1not input", 1008), (b"", 1008), ("{", 1008), ('{"type":"dance"}', 1008),
    ('{"type":"resize","cols":0,"rows":1}', 1008), (b"\0" + bytes(2 * MIB), 1009)])
def test_wrong_messages_end_the_connection_and_not_the_session(api, box, message, code):
    made = start(api, box, command="sleep 100")
    with attach(api, box, made) as link:
        with pytest.raises(ConnectionClosed) as closed:
            link.send(message)  # a large one is not taken to its end
            while True:
                link.recv(timeout=20)
    assert closed.value.rcvd.code == code
    assert api.get(path_of(box, made)).json()["state"] == "running"


@pytest.mark.parametrize("frame, code", [
    (b"\x82\x01x", 1002),             # not masked
    (b"\xc2\x80\0\0\0\0", 1002),      # a reserved bit
    (b"\x83\x80\0\0\0\0", 1002),      # an unknown opcode
    (b"\x09\x80\0\0\0\0", 1002),      # a ping in fragments
    (b"\x89\xfe\0\xff\0\0\0\0", 1002),  # a ping that is too long
    (b"\x80\x80\0\0\0\0", 1002),      # a continuation of nothing
    (b"\x81\x81\0\0\0\0\xff", 1007),  # text that is not UTF-8
    (b"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0", 1009)])
def test_broken_frames(api, box, frame, code):
    made = start(api, box, command="sleep 100")
    raw = socket.create_connection(("127.0.0.1", api.instance.settings.port), 60)
    raw.sendall((f"GET {path_of(box, made, '/attach')} HTTP/1.1\r\nHost: x\r\n"
                 f"Authorization: Bearer {api.instance.token}\r\nConnection: Upgrade\r\n"
                 "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n").encode() + frame)
    got = b""
    while piece := raw.recv(65536):
        got += piece
    assert got.startswith(b"HTTP/1.1 101 ")
    at = got.rindex(b"\x88")
    assert int.from_bytes(got[at + 2:at + 4], "big") == code
    assert api.get(path_of(box, made)).json()["state"] == "running"


def test_resuming_an_attach_repeats_and_loses_nothing(api, box):
    made = start(api, box, command="i=0; while [ $i -lt 40 ]; do echo $i; i=$((i+1)); "
                                   "sleep 0.05; done")
    got, offset = b"", 0
    for part in range(3):
        with attach(api, box, made, f"?offset={offset}", close_timeout=0) as link:
            done = False
            while not done and (part == 2 or len(got) < 30 * (part + 1)):
                message = link.recv(timeout=20)
                if isinstance(message, bytes):
                    got += message[1:]
                    offset += len(message) - 1
                else:
                    done = json.loads(message)["type"] == "exit"
            link.socket.close()  # without a word
    assert got == b"".join(b"%d\n" % i for i in range(40))


def test_a_follower_keeps_the_sandbox_alive(api):
    box = api.create(lease_sec=3)["id"]
    made = start(api, box, command="sleep 100")
    with attach(api, box, made):
        eventually(lambda: api.get(f"/sandboxes/{box}/activity").json()["sessions"] == 1)
        threading.Event().wait(4)  # longer than the lease
        assert api.state(box) == "ready"
    eventually(lambda: api.state(box) == "absent", what="without a follower the lease ends it")


def test_streams_cost_bounded_memory(api):
    """A hundred streams, ten of whose readers stand still."""
    boxes = [api.create(memory_mb=256)["id"] for _ in range(4)]
    before = gateway_memory(api)
    with contextlib.ExitStack() as opened:
        links = []
        for number in range(100):
            box = boxes[number % 4]
            made = start(api, box, command="head -c 3000000 /dev/zero; sleep 100",
                         log_limit_bytes=4 * MIB)
            links.append(opened.enter_context(attach(api, box, made, close_timeout=0)))
        readers = [threading.Thread(target=_read_bytes, args=(link, 3_000_000))
                   for link in links[10:]]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        grown = gateway_memory(api) - before
        for link in links:
            link.socket.close()
    for box in boxes:
        api.remove(box)
    assert grown < 20 * MIB, grown


def _read_bytes(link, wanted):
    seen = 0
    while seen < wanted:
        message = link.recv(timeout=60)
        seen += len(message) - 1 if isinstance(message, bytes) else 0
