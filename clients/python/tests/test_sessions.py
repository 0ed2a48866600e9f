"""Sessions and what the client builds on them, with scripted answers."""

import asyncio
import base64
import contextvars
import dataclasses
import json
import signal
import threading
import time

import pytest

import sandbox_gateway as sdk
from scripted_server import Answer

RUNNING = {"id": "s-1", "name": "n", "state": "running", "exit_code": None,
           "log": {"start_offset": 0, "end_offset": 0, "dropped_bytes": 0},
           "started_at": "2026-01-01T00:00:00.000Z"}


def exited(end: int, code: int = 0) -> dict:
    return {**RUNNING, "state": "exited", "exit_code": code,
            "log": {"start_offset": 0, "end_offset": end, "dropped_bytes": 0}}


@pytest.fixture
def session(box, server):
    server.add(Answer.json(RUNNING, 201))
    made = box.sessions.start("cat")
    server.seen.clear()
    return made


def records(*rows: dict, cut: int | None = None) -> Answer:
    lines = []
    for row in rows:
        if "data" in row:
            row = {**row, "data": base64.b64encode(row["data"]).decode(), "time": "t"}
        lines.append(json.dumps(row) + "\n")
    return Answer(200, "".join(lines).encode(), {"Content-Type": "application/x-ndjson"}, cut=cut)


def out(offset: int, data: bytes, stream: str = "stdout") -> dict:
    return {"offset": offset, "stream": stream, "data": data}


END = {"exit": {"exit_code": 3, "signal": None, "timed_out": False, "oom_killed": False,
                "ended_at": "2026-01-01T00:00:01.500Z"}}


def test_start_sends_what_was_asked(box, server):
    server.add(Answer.json(RUNNING, 201), Answer.json(RUNNING, 201))
    assert box.sessions.start(["top"], tty=(100, 40), cwd="/tmp", name="n").id == "s-1"
    box.sessions.start("ls | wc", stdin=False, log_limit_bytes=9, followed=True)
    assert [seen.json() for seen in server.seen] == [
        {"argv": ["top"], "tty": {"cols": 100, "rows": 40}, "cwd": "/tmp", "name": "n",
         "stdin": True},
        {"command": "ls | wc", "stdin": False, "log_limit_bytes": 9, "followed": True}]


def test_a_start_is_not_repeated(box, server):
    server.add(Answer(drop=True))
    with pytest.raises(sdk.ConnectionFailed):
        box.sessions.start("x")
    assert len(server.seen) == 1


def test_followed_logs_resume_at_the_byte(session, server):
    text = "häßlich\n".encode()
    server.add(Answer(200, text, cut=2), Answer(drop=True), Answer(503),
               Answer(200, text[2:], cut=3), Answer(200, text[5:]), Answer.json(exited(len(text))))
    chunks = list(session.logs(follow=True))
    assert "".join(chunks) == "häßlich\n" and "\ufffd" not in "".join(chunks)
    offsets = [seen.target.split("offset=")[1].split("&")[0] for seen in server.seen[:5]]
    assert offsets == ["0", "2", "2", "2", "5"]


def test_a_stream_that_ends_early_is_not_taken_for_the_end(session, server):
    server.add(Answer(200, b"one"), Answer.json(RUNNING), Answer(200, b"two"),
               Answer.json(exited(6)))
    assert b"".join(session.logs(follow=True, bytes=True)) == b"onetwo"


def test_logs_start_where_the_ring_does(session, server):
    server.add(Answer(200, b"tail", {"X-Log-Start-Offset": "100"}, cut=2), Answer(200, b"il"),
               Answer.json(exited(104)))
    assert "".join(session.logs(follow=True)) == "tail"
    assert "offset=102" in server.seen[1].target


def test_following_gives_up_at_last(session, server):
    server.add(Answer(200, b"x"))
    server.respond = lambda seen: (server.script.popleft() if server.script
                                   else Answer(drop=True))
    with pytest.raises(sdk.ConnectionFailed):
        list(session.logs(follow=True))
    assert 10 < len(server.seen) < 40


def test_logs_of_a_session_that_is_gone_raise_at_once(session, server):
    server.add(Answer.error(404, "not_found"))
    with pytest.raises(sdk.NotFound):
        list(session.logs(follow=True))


def test_one_stream_alone_is_read_from_records(session, server):
    server.add(records(out(0, b"a"), out(1, b"ERR", "stderr"), out(4, b"b"), cut=-20),
               records(out(4, b"b"), {"keep_alive": True}, END))
    assert "".join(session.logs(follow=True, stream="stdout")) == "ab"
    assert "offset=4" in server.seen[1].target


def test_a_write_whose_answer_is_lost_is_sent_again_at_its_offset(session, server):
    server.add(Answer.json({"offset": 5}), Answer(drop=True), Answer.json({"offset": 8}))
    session.write("hello")
    session.write(b"abc", eof=True)
    assert [(seen.target.rpartition("?")[2], seen.body) for seen in server.seen] == [
        ("offset=0", b"hello"), ("offset=5&eof=1", b"abc"), ("offset=5&eof=1", b"abc")]


def test_a_write_that_was_taken_in_part_goes_on_there(session, server):
    server.add(Answer.json({"offset": 2}), Answer.json({"offset": 5}))
    session.write("hello")
    assert server.seen[1].body == b"llo" and "offset=2" in server.seen[1].target


def test_the_end_of_input_may_be_said_twice(session, server):
    server.add(Answer(drop=True), Answer.error(409, "conflict"), Answer(drop=True),
               Answer.error(409, "conflict"), Answer.error(409, "conflict"))
    session.write(b"", eof=True)
    session.close_stdin()
    with pytest.raises(sdk.Conflict):
        session.write(b"more")


def test_two_writers_are_noticed(session, server):
    server.add(Answer.json({"offset": 99}))
    with pytest.raises(sdk.Conflict):
        session.write("hello")


def test_a_session_that_was_looked_up_asks_where_its_input_is(box, server):
    server.add(Answer.json(RUNNING), Answer.json({"offset": 7}), Answer.json({"offset": 8}))
    box.sessions.get("s-1").write("x")
    assert server.seen[2].target.endswith("offset=7")


def test_signals_go_by_name_and_a_stream_that_is_none_is_no_empty_log(session, server):
    server.add(*[Answer(204)] * 3)
    for name in ("INT", "SIGINT", signal.SIGINT):
        session.kill(name)
        assert server.seen.pop().json() == {"signal": "INT"}
    with pytest.raises(sdk.InvalidRequest):
        list(session.logs(stream="stdlog"))
    assert not server.seen


def test_the_rest_of_a_session(session, box, server):
    server.add(Answer(204), Answer(204), Answer.json({"offset": 0}), Answer.json(RUNNING),
               Answer.json(exited(0, 7)), Answer.error(409, "session_exited"),
               Answer.error(404, "not_found"), Answer.json({"items": [RUNNING],
                                                            "next_cursor": None}))
    session.kill(signal.SIGINT)
    session.resize(80, 25)
    session.close_stdin()
    assert session.wait() == 7 and session.exit_code == 7
    with pytest.raises(sdk.SessionExited):
        session.write("x")
    session.delete()
    assert [row.id for row in box.sessions.list()] == ["s-1"]
    assert server.seen[0].json() == {"signal": "INT"}
    assert server.seen[3].target.endswith("/sessions/s-1?wait=60")


def test_waiting_in_limited_time(session, server):
    server.respond = lambda _: Answer.json(RUNNING)
    with pytest.raises(sdk.WaitTimeout):
        session.wait(timeout=0)


# Commands over a session: when output is wanted as it comes, or input is large.

def test_output_is_told_as_it_comes(box, server):
    server.add(Answer.json(RUNNING, 201),
               records(out(0, b"a\xc3"), out(2, b"\xa4"), out(3, b"e", "stderr"), END),
               Answer(204))
    seen, errors = [], []
    result = box.exec("x", on_stdout=seen.append, on_stderr=errors.append)
    assert (seen, errors) == (["a", "ä"], ["e"])
    assert (result.stdout, result.stderr, result.exit_code) == ("aä", "e", 3)
    assert result.duration_ms == 1500 and not result.truncated
    assert server.seen[0].json()["followed"] is True
    assert server.seen[-1].target.endswith("/sessions/s-1?keep_background=1")
    assert server.seen[-1].method == "DELETE"


def test_output_in_bytes_and_over_a_broken_connection(box, server):
    server.add(Answer.json(RUNNING, 201), records(out(0, b"a\xff"), out(2, b"lost"), cut=-5),
               records({"keep_alive": True}, out(2, b"b"), END), Answer(204))
    seen = []
    result = box.exec(["x"], on_stdout=seen.append, text=False)
    assert seen == [b"a\xff", b"b"] and result.stdout_bytes == b"a\xffb"
    assert "offset=2" in server.seen[2].target


def test_run_over_a_session_raises_with_the_output(box, server):
    server.add(Answer.json(RUNNING, 201), records(out(0, b"why", "stderr"), END), Answer(204))
    with pytest.raises(sdk.CommandError, match="exit code 3: why"):
        box.run("x", on_stdout=print)


def test_what_left_the_ring_unread_is_counted(box, server):
    server.add(Answer.json(RUNNING, 201), records(out(10, b"tail"), END), Answer(204))
    result = box.exec("x", on_stdout=lambda _: None)
    assert result.truncated and result.stdout_dropped_bytes == 10


class Fed:
    """One command with input. Its log comes when it is `done`: at the end of its input, when it
    refused some, and when it is deleted. `stuck`, it takes none of its input until it is deleted,
    and its log comes before."""

    def __init__(self, server, *rows: dict, stuck: bool = False, refusal: Answer | None = None):
        self.rows = rows
        self.stuck = stuck
        self.refusal = refusal
        self.taken = 0
        self.began = threading.Event()  # to be given input
        self.done = threading.Event()
        self.deleted = False
        server.respond = self.respond

    def respond(self, seen) -> Answer:
        if seen.method == "DELETE":
            self.deleted = self.deleted or "keep_background" not in seen.target
            self.done.set()
            return Answer(204)
        if seen.target.endswith("/sessions"):
            return Answer.json(RUNNING, 201)
        if "/stdin" not in seen.target:
            return dataclasses.replace(records(*self.rows, END),
                                       after=self.began if self.stuck else self.done)
        self.began.set()
        if self.stuck:
            return dataclasses.replace(Answer.error(409, "session_exited"), after=self.done)
        if self.refusal:
            if self.refusal.status in (404, 409):
                self.done.set()
            return self.refusal
        assert f"offset={self.taken}" in seen.target
        self.taken += len(seen.body)
        if "eof=1" in seen.target:
            self.done.set()
        return Answer.json({"offset": self.taken})


def in_turn(server, plan):
    """What that comes to with either client: `plan(sandbox)`, to be awaited or not."""
    with sdk.Gateway(server.url, "t") as gateway:
        yield lambda: plan(sdk.Sandbox(gateway, {"id": "sbx-1"}))

    async def main():
        async with sdk.AsyncGateway(server.url, "t") as gateway:
            return await plan(sdk.AsyncSandbox(gateway, {"id": "sbx-1"}))

    yield lambda: asyncio.run(main())


def nothing_goes_on() -> bool:
    return not [one for one in threading.enumerate() if one.name == "sandbox-gateway-beside"]


def test_input_of_any_kind_goes_in_pieces_while_output_is_read(server):
    data = b"x" * (5 << 20)
    for source, size in ((lambda: data, len(data)), (lambda: (b"ab" for _ in range(3)), 6)):
        for call in in_turn(server, lambda box: box.exec("wc -c", stdin=source())):  # noqa: B023
            fed = Fed(server)
            assert call().exit_code == 3 and nothing_goes_on()
            assert fed.taken == size and not fed.deleted


def test_a_command_that_wants_no_more_input_is_no_error(server):
    read = []

    def pieces():
        for number in range(100):
            read.append(number)
            yield b"x"

    for refusal in (Answer.error(409, "session_exited"), Answer.error(409, "conflict"),
                    Answer.error(404, "not_found")):
        for call in in_turn(server, lambda box: box.exec("true", stdin=pieces())):
            read.clear()
            fed = Fed(server, refusal=refusal)
            assert call().exit_code == 3 and nothing_goes_on()
            assert read == [0] and not fed.deleted


def test_input_that_fails_ends_the_command_and_is_what_is_raised(server):
    def pieces():
        yield b"x"
        raise sdk.NotFound("of the caller's own")

    for call in in_turn(server, lambda box: box.exec("cat", stdin=pieces())):
        fed = Fed(server)
        with pytest.raises(sdk.NotFound, match="of the caller's own"):
            call()
        assert fed.deleted and nothing_goes_on()
    for call in in_turn(server, lambda box: box.exec("cat", stdin=b"x" * (5 << 20))):
        fed = Fed(server, refusal=Answer.error(403, "forbidden"))
        with pytest.raises(sdk.Forbidden):
            call()
        assert fed.deleted and nothing_goes_on()


def test_output_that_fails_ends_a_command_that_takes_no_input(server):
    for error in (KeyError, KeyboardInterrupt):
        def take(_):
            raise error  # noqa: B023

        for call in in_turn(server, lambda box: box.exec("x", stdin=iter([b"y"]), on_stdout=take)):
            fed = Fed(server, out(0, b"a"), stuck=True)
            with pytest.raises(error):
                call()
            assert fed.deleted and nothing_goes_on()


def test_an_interrupt_does_not_wait_for_input_that_does_not_come(box, server):
    fed, more, asked = Fed(server, out(0, b"a")), threading.Event(), threading.Event()

    def pieces():
        asked.set()
        more.wait(10)
        yield b"too late"

    def take(_):
        assert asked.wait(10)
        raise KeyboardInterrupt

    fed.done.set()
    with pytest.raises(KeyboardInterrupt):
        box.exec("x", stdin=pieces(), on_stdout=take)
    assert fed.deleted and not more.is_set()
    more.set()
    deadline = time.monotonic() + 10
    while not nothing_goes_on():
        assert time.monotonic() < deadline
    assert not fed.began.is_set()


def test_input_is_read_in_the_context_of_the_caller(box, server):
    variable = contextvars.ContextVar("variable", default="none")
    variable.set("the caller's")
    fed = Fed(server)
    box.exec("cat", stdin=(variable.get().encode() for _ in range(1)))
    assert fed.taken == len("the caller's")


def test_large_input_of_a_short_command_goes_in_one_request(box, server):
    server.add(Answer(200, b"outerr", {"X-Stdout-Length": "3", "X-Stderr-Length": "3",
                                       "X-Return-Code": "4", "X-Timed-Out": "false"}))
    result = box.exec(["wc"], stdin=b"y" * (5 << 20), timeout_sec=5)
    assert (result.stdout, result.stderr, result.exit_code) == ("out", "err", 4)
    line, _, body = server.seen[0].body.partition(b"\n")
    assert json.loads(line) == {"argv": ["wc"], "timeout_sec": 5} and len(body) == 5 << 20


def test_a_start_whose_answer_is_lost_is_found_by_its_name(box, server):
    def respond(seen):
        if seen.method == "POST":
            server.named = seen.json()["name"]
            return Answer(drop=True)
        if seen.target.endswith("/sessions"):
            return Answer.json({"items": [{**RUNNING, "name": "other"},
                                          {**RUNNING, "id": "s-2", "name": server.named}],
                                "next_cursor": None})
        return Answer(204) if seen.method == "DELETE" else records(END)

    server.respond = respond
    assert box.exec("x", on_stdout=print).exit_code == 3
    assert [seen.method for seen in server.seen] == ["POST", "GET", "GET", "DELETE"]
    assert server.seen[-1].target.endswith("/sessions/s-2?keep_background=1")


def test_a_callback_that_raises_ends_the_command(box, server):
    server.add(Answer.json(RUNNING, 201), records(out(0, b"a"), END), Answer(204))

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        box.exec("x", on_stdout=stop)
    assert server.seen[-1].method == "DELETE"
    assert server.seen[-1].target.endswith("/sessions/s-1")  # and what it has left running


def test_async_sessions(server):
    async def main():
        async with sdk.AsyncGateway(server.url, "t") as gateway:
            server.add(Answer.json({"id": "sbx-1", "state": "ready"}), Answer.json(RUNNING, 201),
                       Answer.json({"offset": 2}), Answer(200, b"a\xc3\xa4", cut=2),
                       Answer(200, b"\xa4"), Answer.json(exited(3)), Answer(204),
                       Answer.json(RUNNING, 201), records(out(0, b"hi"), END), Answer(204))
            sbx = await gateway.get("sbx-1")
            async with await sbx.sessions.start("cat") as session:
                await session.write("hi")
                assert [chunk async for chunk in session.logs(follow=True)] == ["a", "ä"]
            seen = []

            async def take(text):
                seen.append(text)

            assert (await sbx.exec("x", on_stdout=take)).stdout == "hi"
            assert seen == ["hi"]

    asyncio.run(main())


def test_async_cancelling_a_streamed_command_ends_its_session(server):
    async def main():
        async with sdk.AsyncGateway(server.url, "t") as gateway:
            waiting = asyncio.Event()
            server.add(Answer.json({"id": "sbx-1", "state": "ready"}), Answer.json(RUNNING, 201),
                       records(out(0, b"hi"), END), Answer(204))
            sbx = await gateway.get("sbx-1")

            async def take(_):
                waiting.set()
                await asyncio.sleep(60)

            task = asyncio.create_task(sbx.exec("x", on_stdout=take))
            await waiting.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    assert server.seen[-1].method == "DELETE"
