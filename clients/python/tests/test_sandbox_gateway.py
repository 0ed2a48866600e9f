"""The SDK against a real HTTP server with scripted answers."""

import asyncio
import base64
import copy
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import sandbox_gateway as sdk
from scripted_server import Answer

READY = {"id": "sbx-1", "state": "ready", "image": "debian", "labels": {"a": "b"}}
STARTING = {**READY, "state": "starting"}
FAILED = {**READY, "state": "failed", "reason": "image_not_found", "message": "no such image"}


def ran(exit_code=0, stdout=b"", stderr=b"", **more) -> Answer:
    return Answer.json({"exit_code": exit_code, "signal": None, "timed_out": False,
                        "stdout": base64.b64encode(stdout).decode(),
                        "stderr": base64.b64encode(stderr).decode(), "duration_ms": 3, **more})


def create(gateway, **more):
    return gateway.create("debian", cpus=1, memory_mb=64, **more)


def box(gateway, server) -> sdk.Sandbox:
    server.add(Answer.json(READY, 201))
    made = create(gateway)
    server.seen.clear()
    return made


def test_create_sends_the_fields_and_the_token(gateway, server):
    server.add(Answer.json(READY, 201))
    made = create(gateway, env={"A": "1"}, labels={"k": "v"}, network="none", lease_sec=60)
    assert (made.id, made.state, made.labels) == ("sbx-1", "ready", {"a": "b"})
    asked = server.seen[0]
    assert asked.headers["authorization"] == "Bearer token-1"
    assert asked.target == "/sandboxes?wait=60"
    assert asked.json() == {"image": "debian", "cpus": 1, "memory_mb": 64, "env": {"A": "1"},
                            "labels": {"k": "v"}, "network": {"mode": "none"}, "lease_sec": 60}


def test_a_name_that_would_make_another_address_is_asked_of_nobody(gateway, server):
    """httpx makes "/teams/a" of "/teams/a/members/..", and that would be deleted."""
    sandbox = box(gateway, server)
    for name in ("", ".", ".."):
        for call in (gateway.get, sandbox.sessions.get, gateway.images.get, gateway.images.remove,
                     gateway.builds.get, gateway.builds.cancel, gateway.teams.get,
                     gateway.teams.delete, gateway.tokens.get, gateway.tokens.revoke,
                     gateway.sign_ins.end, lambda x: gateway.teams.remove_member("a", x),
                     lambda x: gateway.teams.add_member("a", x, "member")):
            with pytest.raises(sdk.InvalidRequest, match="is no name of anything"):
                call(name)
    assert not server.seen


def test_errors_go_to_other_processes_and_come_back_as_they_were():
    result = sdk.Result(exit_code=3, stdout_bytes=b"o", stderr_bytes=b"e", duration_ms=1)
    made = [sdk.CommandError(["a", "b"], result), sdk.UnsafeArchive("n", "is bad"),
            sdk.SandboxFailed("m", code="image_not_found", data={"id": "x"})]
    kinds = [sdk.GatewayError]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if kind not in map(type, made):
            made.append(kind("m", code="c", status=400, details={"a": 1}, request_id="r"))
    for error in made:
        for same in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert type(same) is type(error)
            assert (str(same), vars(same)) == (str(error), vars(error))


def test_a_command_is_words_and_its_failure_is_told_whatever_they_were(gateway, server):
    sandbox = box(gateway, server)
    server.add(ran(1), ran(1))
    for words in (["sleep", 1, Path("/x")], (word for word in ("sleep", "1", "/x"))):
        with pytest.raises(sdk.CommandError, match="sleep 1 /x"):
            sandbox.run(words, cwd=Path("/tmp"))
        asked = server.seen.pop().json()
        assert (asked["argv"], asked["cwd"]) == (["sleep", "1", "/x"], "/tmp")
    for call in (sandbox.run, sandbox.exec, sandbox.sessions.start):
        for wrong in (b"echo", ["echo", b"a"], ["echo", None]):
            with pytest.raises(TypeError):
                call(wrong)
    assert not server.seen


def test_what_is_not_bytes_is_not_sent_as_if_it_were(gateway, server, tmp_path):
    sandbox = box(gateway, server)
    with pytest.raises(TypeError, match="nothing to upload"):
        sandbox.fs.upload(None, "/x")
    assert not server.seen
    for wrong in (io.StringIO("abc"), ["a", "b"]):
        with pytest.raises(TypeError, match="must give bytes"):
            sdk._OpenSource(wrong).read()


def test_teams_and_tokens_are_asked_for_as_the_api_has_them(gateway, server):
    server.add(Answer.json({"name": "a b"}, 201), Answer.json({"name": "a b"}),
               Answer.json({"subject": "x/y", "role": "admin"}),
               Answer.json({"id": "tok-1", "name": "ci", "secret": "s", "new": 1}, 201),
               Answer.json({"changes": [], "applied": False}), Answer.json({"subject": "me"}))
    gateway.teams.create("a b", quota={"cpus": 2})
    gateway.teams.update("a b", quota={"cpus": None})
    gateway.teams.add_member("a b", "x/y", "admin")
    token = gateway.tokens.create("ci", ["read"], expires_in_sec=60)
    assert (token.secret, "secret" in repr(token)) == ("s", False)
    gateway.teams.apply([{"name": "red"}], dry_run=True)
    assert gateway.me()["subject"] == "me"
    assert [(seen.method, seen.target) for seen in server.seen] == [
        ("POST", "/teams"), ("PATCH", "/teams/a%20b"), ("PUT", "/teams/a%20b/members/x%2Fy"),
        ("POST", "/tokens"), ("PUT", "/teams?dry_run=true"), ("GET", "/me")]
    assert server.seen[1].json() == {"quota": {"cpus": None}}
    assert server.seen[3].json() == {"name": "ci", "scopes": ["read"], "expires_in_sec": 60}


def test_create_goes_on_waiting_until_ready(gateway, server):
    server.add(Answer.json(STARTING, 201), Answer.json(STARTING), Answer.json(READY))
    assert create(gateway).state == "ready"
    assert [seen.target for seen in server.seen[1:]] == ["/sandboxes/sbx-1?wait=60"] * 2


def test_create_without_waiting_answers_at_once(gateway, server):
    server.add(Answer.json(STARTING, 201))
    assert create(gateway, wait=False).state == "starting"
    assert server.seen[0].target == "/sandboxes"


def test_create_repeats_a_lost_answer_with_the_same_key(gateway, server):
    server.add(Answer(drop=True), Answer.json(READY, 201))
    create(gateway)
    keys = [seen.headers["idempotency-key"] for seen in server.seen]
    assert len(keys) == 2 and keys[0] == keys[1] != ""


def test_create_deletes_what_failed_and_raises_its_reason(gateway, server):
    server.add(Answer.json(FAILED, 201), Answer(202))
    with pytest.raises(sdk.SandboxFailed) as caught:
        create(gateway)
    assert caught.value.code == "image_not_found"
    assert "no such image" in str(caught.value)
    assert (server.seen[-1].method, server.seen[-1].target) == ("DELETE", "/sandboxes/sbx-1")


def test_create_in_limited_time_deletes_and_says_so(gateway, server):
    server.add(Answer.json(STARTING, 201), Answer.json(STARTING), Answer(202))
    with pytest.raises(sdk.WaitTimeout):
        create(gateway, wait=0.001)
    assert server.seen[-1].method == "DELETE"


def test_a_refused_create_asks_once(gateway, server):
    server.add(Answer.error(422, "invalid_field", "cpus", field="cpus"))
    with pytest.raises(sdk.InvalidRequest) as caught:
        create(gateway)
    assert caught.value.details["field"] == "cpus"
    assert len(server.seen) == 1


def test_context_manager_deletes(gateway, server):
    server.add(Answer.json(READY, 201), Answer(204))
    with create(gateway):
        pass
    assert server.seen[-1].method == "DELETE"


def test_delete_waits_until_gone_and_takes_404_for_gone(gateway, server):
    sbx = box(gateway, server)
    server.add(Answer(202), Answer.error(404, "not_found"))
    sbx.delete()
    assert [seen.method for seen in server.seen] == ["DELETE", "DELETE"]


def test_run_gives_text_and_bytes(gateway, server):
    sbx = box(gateway, server)
    server.add(ran(stdout="é\n".encode() + b"\xff", stderr=b"warning"))
    result = sbx.run(["cmd", "x"], cwd="/tmp", env={"A": "1"}, timeout_sec=5, stdin="in")
    assert result.stdout == "é\n�" and result.stdout_bytes == "é\n".encode() + b"\xff"
    assert result.stderr == "warning" and result.ok
    assert server.seen[0].json() == {
        "argv": ["cmd", "x"], "cwd": "/tmp", "env": {"A": "1"}, "timeout_sec": 5,
        "encoding": "base64", "stdin": base64.b64encode(b"in").decode(),
        "stdin_encoding": "base64"}


def test_run_raises_for_a_bad_exit_and_exec_does_not(gateway, server):
    sbx = box(gateway, server)
    server.add(ran(3, stderr=b"broken"), ran(3))
    with pytest.raises(sdk.CommandError, match="exit code 3: broken") as caught:
        sbx.run(["false"])
    assert caught.value.result.exit_code == 3
    assert sbx.exec("exit 3").exit_code == 3
    assert server.seen[-1].json()["command"] == "exit 3"


def test_a_time_out_is_a_command_error(gateway, server):
    sbx = box(gateway, server)
    server.add(ran(None, timed_out=True))
    with pytest.raises(sdk.CommandError, match="timed out"):
        sbx.run(["sleep", "9"], timeout_sec=1)


@pytest.mark.parametrize("answer", [Answer(drop=True), Answer.error(503, "unavailable"),
                                    Answer.error(429, "overloaded")])
def test_run_is_never_repeated(gateway, server, answer):
    sbx = box(gateway, server)
    server.add(answer)
    with pytest.raises(sdk.GatewayError):
        sbx.run(["true"])
    assert len(server.seen) == 1


def test_a_sandbox_that_ends_during_a_run_raises(gateway, server):
    sbx = box(gateway, server)
    server.add(Answer.json({"exit_code": None,
                            "error": {"code": "agent_failed", "message": "gone"}}))
    with pytest.raises(sdk.InternalError) as caught:
        sbx.exec("true")
    assert caught.value.code == "agent_failed"


@pytest.mark.parametrize(("status", "code", "kind"), [
    (401, "unauthenticated", sdk.Unauthenticated), (403, "image_not_allowed", sdk.Forbidden),
    (404, "not_found", sdk.NotFound), (404, "file_not_found", sdk.NotFound),
    (409, "not_ready", sdk.NotReady), (409, "is_a_directory", sdk.Conflict),
    (422, "not_supported", sdk.NotSupported), (422, "cwd_invalid", sdk.InvalidRequest),
    (400, "malformed", sdk.InvalidRequest), (500, "internal", sdk.InternalError),
    (502, "agent_failed", sdk.InternalError), (507, "disk_full", sdk.StorageFull),
    (418, "something_new", sdk.InvalidRequest)])
def test_errors_have_types(gateway, server, status, code, kind):
    server.add(Answer.error(status, code, "why", state="queued"))
    with pytest.raises(sdk.GatewayError) as caught:
        gateway.get("x")
    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.status, caught.value.request_id) == (code, status,
                                                                                "r-1")
    assert caught.value.details["state"] == "queued"


def test_a_foreign_error_page_is_still_an_error(gateway, server):
    server.add(Answer(502, b"<html>bad gateway</html>"))
    with pytest.raises(sdk.InternalError, match="502"):
        gateway.get("x")


def test_reads_are_repeated_after_lost_connections_and_retry_after(gateway, server, no_pauses):
    server.add(Answer(drop=True),
               Answer(503, b"", {"Retry-After": "7"}), Answer.json(READY))
    assert gateway.get("sbx-1").id == "sbx-1"
    assert no_pauses[1] == 7 and len(no_pauses) == 2


def test_a_long_retry_after_is_not_slept(gateway, server, no_pauses):
    server.add(Answer.error(429, "rate_limited"))
    server.script[0].headers["Retry-After"] = "3600"
    with pytest.raises(sdk.Overloaded):
        gateway.get("x")
    assert no_pauses == []


def test_attempts_end(gateway, server):
    server.respond = lambda _: Answer(drop=True)
    with pytest.raises(sdk.ConnectionFailed):
        gateway.get("x")
    assert len(server.seen) == 4


def test_list_reads_all_pages_with_filters(gateway, server):
    server.add(Answer.json({"items": [READY], "next_cursor": "c 1"}),
               Answer.json({"items": [{**READY, "id": "sbx-2"}], "next_cursor": None}))
    rows = gateway.list(state="ready", labels={"a": "b=c"}, all=True)
    assert [row.id for row in rows] == ["sbx-1", "sbx-2"]
    assert server.seen[0].target == "/sandboxes?state=ready&label=a%3Db%3Dc&all=true&limit=1000"
    assert server.seen[1].target.endswith("&cursor=c%201&limit=1000")


def test_connections_are_reused(gateway, server):
    server.respond = lambda _: Answer.json(READY)
    for _ in range(5):
        gateway.get("sbx-1")
    assert server.connections == 1


@pytest.mark.parametrize("kind", ["bytes", "path", "file"])
def test_upload_takes_bytes_paths_and_files(gateway, server, tmp_path, kind):
    sbx = box(gateway, server)
    data = bytes(range(256)) * 10_000
    path = tmp_path / "source"
    path.write_bytes(data)
    source = {"bytes": data, "path": path, "file": io.BytesIO(data)}[kind]
    server.add(Answer.json({"path": "/a b", "size": len(data), "sha256": "x"}))
    assert sbx.fs.upload(source, "/a b", mode=0o755)["size"] == len(data)
    asked = server.seen[0]
    assert asked.body == data
    assert asked.target == "/sandboxes/sbx-1/files?path=%2Fa%20b&mode=0755"
    assert ("content-length" in asked.headers) == (kind != "file")


def test_download_to_a_path_is_whole_or_not_at_all(gateway, server, tmp_path):
    sbx = box(gateway, server)
    target = tmp_path / "file"
    target.write_bytes(b"old")
    server.add(*[Answer(200, b"x" * 1000, cut=500)] * 4)
    with pytest.raises(sdk.ConnectionFailed):
        sbx.fs.download("/f", target)
    assert target.read_bytes() == b"old" and list(tmp_path.iterdir()) == [target]
    server.add(Answer(200, b"y" * 1000, cut=500), Answer(200, b"z" * 1000))
    assert sbx.fs.download("/f", target) is None
    assert target.read_bytes() == b"z" * 1000


def test_a_broken_download_into_a_file_of_the_callers_is_not_repeated(gateway, server):
    sbx = box(gateway, server)
    server.add(Answer(200, b"x" * 1000, cut=500))
    with pytest.raises(sdk.ConnectionFailed):
        sbx.fs.download("/f", io.BytesIO())


def test_text_and_listing(gateway, server):
    sbx = box(gateway, server)
    server.add(Answer.json({"size": 2}), Answer(200, "é".encode()),
               Answer.json({"items": [{"name": "a", "path": "/a", "type": "file", "size": 1,
                                       "future": True}]}))
    sbx.fs.write_text("/a", "é")
    assert server.seen[0].body == "é".encode()
    assert sbx.fs.read_text("/a") == "é"
    assert sbx.fs.list("/")[0].name == "a"


def stream(*events: dict, cut: int | None = None) -> Answer:
    text = "".join(f": x\nid: {e['id']}\nevent: {e['type']}\ndata: {json.dumps(e)}\n\n"
                   for e in events)
    return Answer(200, text.encode(), {"Content-Type": "text/event-stream"}, cut=cut)


def test_followed_events_resume_behind_the_last_one(gateway, server):
    sbx = box(gateway, server)
    first = {"id": "1", "at": "t", "type": "created"}
    last = {"id": "2", "at": "t", "type": "deleted"}
    server.add(stream(first), Answer(drop=True), stream(last))
    assert [event.type for event in sbx.events(follow=True)] == ["created", "deleted"]
    assert [seen.headers.get("last-event-id") for seen in server.seen] == [None, "1", "1"]


def test_following_an_unknown_sandbox_raises_at_once(gateway, server):
    sbx = box(gateway, server)
    server.add(Answer.error(404, "not_found"))
    with pytest.raises(sdk.NotFound):
        list(sbx.events(follow=True))


def test_event_decoder_takes_any_split():
    text = b"id: 7\r\ndata: a\r\ndata: b\r\n\r\n: comment\n\nevent: e\ndata:c\n\n"
    for cut in range(len(text)):
        decoder = sdk._EventDecoder()
        events = [*decoder.feed(text[:cut]), *decoder.feed(text[cut:])]
        assert [(e.id, e.type, e.data) for e in events] == [("7", "message", "a\nb"),
                                                            ("7", "e", "c")]


def test_image_pull_follows_to_the_end(gateway, server):
    pull = {"id": "p1", "state": "running"}
    server.add(Answer.json(pull, 202),
               stream({**pull, "type": "progress"},
                      {**pull, "state": "succeeded", "type": "progress"}))
    seen = []
    assert gateway.images.pull("debian:12", on_progress=seen.append)["state"] == "succeeded"
    assert len(seen) == 2


def test_a_failed_pull_raises_its_reason(gateway, server):
    server.add(Answer.json({"id": "p1", "state": "failed", "reason": "image_not_found"}, 202))
    with pytest.raises(sdk.GatewayError) as caught:
        gateway.images.pull("nope")
    assert caught.value.code == "image_not_found"


def test_images(gateway, server):
    row = {"name": "a/b:1", "digest": "sha256:x", "in_use": True}
    server.add(Answer.json({"items": [row], "next_cursor": None}), Answer.json(row, 201),
               Answer(204), Answer.json({"freed_bytes": 1, "removed": ["a"]}))
    assert gateway.images.list()[0].in_use
    assert gateway.images.import_tar(b"tar", "a/b:1").digest == "sha256:x"
    gateway.images.remove("a/b:1")
    assert gateway.images.gc()["freed_bytes"] == 1
    assert [seen.target for seen in server.seen[1:3]] == ["/images?name=a%2Fb%3A1",
                                                          "/images/a%2Fb%3A1"]


def test_environment_gives_url_and_token(server, monkeypatch):
    monkeypatch.setenv("SANDBOX_GATEWAY_URL", server.url + "/")
    monkeypatch.setenv("SANDBOX_GATEWAY_TOKEN", "from-env\n")
    server.add(Answer.json(READY))
    with sdk.Gateway() as gateway:
        gateway.get("sbx-1")
        assert "from-env" not in repr(gateway) + repr(vars(gateway)["_connection"])
    assert server.seen[0].headers["authorization"] == "Bearer from-env"


@pytest.mark.parametrize("token", ["two words", "line\nend", "\x00", "schlüssel"])
def test_a_token_that_is_no_word_is_refused_and_not_shown(token):
    with pytest.raises(sdk.InvalidRequest) as refused:
        sdk.Gateway("http://127.0.0.1:1", token)
    assert token not in str(refused.value) and refused.value.details == {"field": "token"}


def test_a_bad_url_is_refused():
    with pytest.raises(sdk.InvalidRequest):
        sdk.Gateway("ftp://host", "t")


def test_nobody_listening_is_a_connection_error(server):
    server.close()
    with pytest.raises(sdk.ConnectionFailed):
        sdk.Gateway(server.url, "t").get("x")


# The asynchronous flavour carries out the same plans; these test the carrying.

def test_async_does_the_same(server):
    async def main():
        async with sdk.AsyncGateway(server.url, "t") as gateway:
            server.add(Answer.json(STARTING, 201), Answer.json(READY), ran(stdout=b"hi"),
                       Answer(drop=True), Answer(200, b"data"), Answer.json({"size": 3}),
                       stream({"id": "1", "at": "t", "type": "deleted"}), Answer(204))
            async with await create(gateway) as sbx:
                assert (await sbx.run(["x"])).stdout == "hi"
                assert await sbx.fs.download("/f") == b"data"
                await sbx.fs.upload(io.BytesIO(b"abc"), "/f")
                assert [e.type async for e in sbx.events(follow=True)] == ["deleted"]

    asyncio.run(main())
    assert server.seen[5].body == b"abc"
    assert server.seen[-1].method == "DELETE"


def test_async_cancelling_a_run_closes_its_connection(server):
    async def main():
        running = threading.Event()
        async with sdk.AsyncGateway(server.url, "t") as gateway:
            server.add(Answer.json(READY, 201), Answer(hold=running))
            sbx = await create(gateway)
            task = asyncio.create_task(sbx.run(["sleep", "60"]))
            await asyncio.to_thread(running.wait, 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(server.closed_by_client.wait, 10)

    asyncio.run(main())


def test_an_interrupted_program_that_has_uploaded_ends(server):
    """Also when the interrupt takes the event loop's last callbacks away, as a KeyboardInterrupt
    beside the main task does: no thread of ours keeps the program."""
    server.add(Answer.json(READY, 201), Answer.json({"size": 3}))
    program = """if True:
        import asyncio, io, sys
        import sandbox_gateway

        async def interrupt():
            raise KeyboardInterrupt

        async def main():
            gateway = sandbox_gateway.AsyncGateway(sys.argv[1], "t")
            box = await gateway.create("debian", cpus=1, memory_mb=64)
            await box.fs.upload(io.BytesIO(b"abc"), "/f")
            async with asyncio.TaskGroup() as group:
                group.create_task(interrupt())

        asyncio.run(main())
        """
    done = subprocess.run([sys.executable, "-B", "-c", program, server.url], capture_output=True,
                          text=True, timeout=60, check=False,
                          env={**os.environ, "PYTHONPATH": str(Path(sdk.__file__).parent)})
    assert done.returncode == -signal.SIGINT and "KeyboardInterrupt" in done.stderr, done
    assert server.seen[1].body == b"abc"


def test_async_cancelling_a_create_leaves_no_sandbox(server):
    async def main():
        waiting = threading.Event()
        async with sdk.AsyncGateway(server.url, "t") as gateway:
            server.add(Answer(hold=waiting), Answer.json(STARTING, 200), Answer(202))
            task = asyncio.create_task(create(gateway))
            await asyncio.to_thread(waiting.wait, 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    keys = [seen.headers.get("idempotency-key") for seen in server.seen]
    assert keys[0] == keys[1]
    assert (server.seen[2].method, server.seen[2].target) == ("DELETE", "/sandboxes/sbx-1")
