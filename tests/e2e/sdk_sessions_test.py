"""The Python client's sessions and streamed commands against a real gateway."""

import asyncio
import hashlib
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

import sandbox_gateway
from deployment import IMAGE, ROOT, eventually

# Three bytes and a half of UTF-8 are never a whole number of characters.
def lines_of(count: int) -> str:
    return f"for i in $(seq 1 {count}); do printf 'zeile %s äß€🙂\\n' $i; sleep 0.01; done"


def whole_of(count: int) -> str:
    return "".join(f"zeile {i} äß€🙂\n" for i in range(1, count + 1))


LINES, WHOLE = lines_of(200), whole_of(200)


class CuttingProxy:
    """A relay on loopback that cuts every connection after some bytes of answer, or after a time
    without any."""

    def __init__(self, url: str, bytes_max: int | None = None, idle_sec: float | None = None):
        self.target = ("127.0.0.1", int(url.rpartition(":")[2]))
        self.bytes_max = bytes_max
        self.idle_sec = idle_sec
        self.cuts = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.relay, args=(client,), daemon=True).start()

    def relay(self, client: socket.socket) -> None:
        server = socket.create_connection(self.target)
        threading.Thread(target=self.upstream, args=(client, server), daemon=True).start()
        server.settimeout(self.idle_sec)
        left = self.bytes_max
        try:
            while data := server.recv(65536 if left is None else min(left, 65536)):
                client.sendall(data)
                if left is not None and (left := left - len(data)) <= 0:
                    self.cuts += 1
                    break
        except TimeoutError:
            self.cuts += 1
        except OSError:
            pass
        for one in (client, server):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            one.close()

    def upstream(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while data := client.recv(65536):
                server.sendall(data)
        except OSError:
            pass

    def close(self) -> None:
        self.listener.close()


@pytest.fixture
def proxy(deployed):
    made = []

    def make(**limits) -> CuttingProxy:
        made.append(CuttingProxy(deployed.url, **limits))
        return made[-1]

    yield make
    for one in made:
        one.close()


def through(proxy: CuttingProxy, deployed, sandbox) -> sandbox_gateway.Sandbox:
    return sandbox_gateway.Gateway(proxy.url, deployed.token).get(sandbox.id)


def test_a_session_talks_and_ends(sandbox):
    with sandbox.sessions.start("cat; echo done; exit 3", name="talk") as session:
        assert session.state == "running" and session.name == "talk"
        session.write("hällo ")
        session.write(b"w\xc3\xb6rld\n", eof=True)
        assert "".join(session.logs(follow=True)) == "hällo wörld\ndone\n"
        assert session.wait(30) == 3
        assert "".join(session.logs()) == "hällo wörld\ndone\n"
        with pytest.raises(sandbox_gateway.SessionExited):
            session.write("more")
        assert session.id in [row.id for row in sandbox.sessions.list()]
        assert sandbox.sessions.get(session.id).exit_code == 3
    with pytest.raises(sandbox_gateway.NotFound):
        session.refresh()


def test_streams_apart_and_bytes_as_they_are(sandbox):
    command = "printf '\\377\\342'; printf 'err' >&2; printf '\\202\\254'"
    with sandbox.sessions.start(command) as one:
        one.wait(30)
        assert b"".join(one.logs(bytes=True, stream="stdout")) == b"\xff\xe2\x82\xac"
        assert "".join(one.logs(stream="stderr")) == "err"
        *pieces, last = one.records(follow=True)
        assert {piece["stream"] for piece in pieces} == {"stdout", "stderr"}
        assert b"err" in [piece["data"] for piece in pieces] and "exit" in last
        assert "".join(one.logs(stream="stdout")) == "\ufffd€"
        assert len(b"".join(one.logs(bytes=True))) == 7
        assert b"".join(one.logs(bytes=True, offset=5)) == b"".join(one.logs(bytes=True))[5:]


def test_a_terminal(sandbox):
    with sandbox.sessions.start("stty size; read x; stty size", tty=(100, 30)) as session:
        logs = session.logs(follow=True)
        text = ""
        while "30 100" not in text:
            text += next(logs)
        session.resize(120, 40)
        session.write("\n")
        text += "".join(logs)
        assert "40 120" in text


def test_kill_sends_that_signal_and_delete_ends_the_tree(sandbox):
    session = sandbox.sessions.start("trap 'echo got; exit 9' USR1; echo up;"
                                     "while :; do sleep 1; done")
    logs = session.logs(follow=True)
    assert "up" in next(logs)
    session.kill("SIGUSR1")
    assert "got" in "".join(logs)
    assert session.wait(30) == 9
    session.delete()
    session = sandbox.sessions.start("setsid sleep 4141 & sleep 4142")
    eventually(lambda: sandbox.exec("pgrep -fx 'sleep 414[12]' | wc -l").stdout == "2\n")
    session.delete()
    eventually(lambda: sandbox.exec("pgrep -fx 'sleep 414[12]' | wc -l").stdout == "0\n")


def test_two_followers_see_the_same(sandbox):
    with sandbox.sessions.start(LINES) as session:
        seen = ["", ""]

        def follow(turn: int) -> None:
            seen[turn] = "".join(session.logs(follow=True))

        threads = [threading.Thread(target=follow, args=(turn,)) for turn in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == [WHOLE, WHOLE]


@pytest.mark.parametrize("stream", ["both", "stdout"])
def test_following_over_connections_that_break(deployed, sandbox, proxy, stream):
    cutting = proxy(bytes_max=1200)
    with sandbox.sessions.start(LINES) as session:
        behind = through(cutting, deployed, sandbox).sessions.get(session.id)
        assert "".join(behind.logs(follow=True, stream=stream)) == WHOLE
    assert cutting.cuts > 3


def test_a_streamed_command_over_connections_that_break(deployed, sandbox, proxy):
    cutting = proxy(bytes_max=1250)
    said = []
    result = through(cutting, deployed, sandbox).run(LINES, on_stdout=said.append)
    assert "".join(said) == result.stdout == WHOLE
    assert cutting.cuts > 3
    assert sandbox.sessions.list() == []


def test_large_input_over_connections_that_break(deployed, sandbox, proxy):
    """Each answer is so small that it takes many connections' worth of them."""
    cutting = proxy(bytes_max=1200)
    data = bytes(range(256)) * 40_000
    result = through(cutting, deployed, sandbox).run("sha256sum", stdin=data)
    assert result.stdout.split()[0] == hashlib.sha256(data).hexdigest()
    assert cutting.cuts


def test_following_over_restarts_of_the_gateway(deployed, sandbox):
    said = []

    def restart() -> None:
        for _ in range(2):
            eventually(lambda count=len(said): len(said) > count + 5)
            deployed.gateway.kill()
            deployed.start_gateway()

    with sandbox.sessions.start(lines_of(400)) as session:
        restarting = threading.Thread(target=restart)
        restarting.start()
        for chunk in session.logs(follow=True):
            said.append(chunk)
        restarting.join()
        assert "".join(said) == whole_of(400)
        assert session.wait(30) == 0


def test_a_silent_command_behind_a_proxy_that_cuts_idle_connections(deployed, sandbox, proxy):
    """Longer than the proxy bears, in each of the ways that a command can go."""
    cutting = proxy(idle_sec=18)
    behind = through(cutting, deployed, sandbox)
    silent = "sleep 21; echo over"  # a sign of life comes every 15 s
    results = {}

    def go(name: str, **options) -> None:
        results[name] = behind.exec(silent, **options).stdout

    ways = {"alone": {}, "streamed": {"on_stdout": lambda _: None},
            "input": {"stdin": iter([b"x" * 100_000])}}
    threads = [threading.Thread(target=go, args=(name,), kwargs=options)
               for name, options in ways.items()]
    with sandbox.sessions.start(silent) as session:
        for thread in threads:
            thread.start()
        assert "".join(behind.sessions.get(session.id).logs(follow=True)) == "over\n"
        for thread in threads:
            thread.join()
    assert results == dict.fromkeys(ways, "over\n")


def test_input_and_output_of_any_kind(sandbox, tmp_path):
    data = bytes(range(256)) * 30_000
    (tmp_path / "data").write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    for stdin in (data, tmp_path / "data", (tmp_path / "data").open("rb"),
                  (data[at : at + 7777] for at in range(0, len(data), 7777))):
        for limit in (None, 9):
            assert sandbox.run("sha256sum", stdin=stdin, timeout_sec=limit).stdout[:64] == digest
            if not isinstance(stdin, bytes):
                break  # read once
    assert sandbox.run("cat", stdin=data, timeout_sec=9).stdout_bytes == data
    assert sandbox.run("cat", stdin=data).stdout_bytes == data
    result = sandbox.exec("head -c 10; cat >/dev/null & exit 4", stdin=b"y" * 6_000_000)
    assert (result.stdout, result.exit_code) == ("y" * 10, 4)


def with_either_client(deployed, sandbox, command, **options) -> list[sandbox_gateway.Result]:
    """`options` are functions, called for each client anew."""
    def made() -> dict:
        return {name: make() for name, make in options.items()}

    async def main():
        async with sandbox_gateway.AsyncGateway(deployed.url, deployed.token) as gateway:
            return await (await gateway.get(sandbox.id)).exec(command, **made())

    return [sandbox.exec(command, **made()), asyncio.run(main())]


def test_output_and_input_larger_than_anything_between_holds(deployed, sandbox):
    """The log's ring, pipes and sockets: of a call that sends and reads in turn the command stands
    still, until the ring no longer waits for a reader and drops what it had not read."""
    size, seen = 64 << 20, 0

    def take(piece: str) -> None:
        nonlocal seen
        seen += len(piece)

    flood = f"head -c {size} /dev/zero"
    for result in with_either_client(
            deployed, sandbox, f"{flood}; cat | wc -c >&2; {flood}",
            stdin=lambda: (bytes(1 << 20) for _ in range(64)), on_stdout=lambda: take):
        assert result.ok and result.stderr == f"{size}\n"
    assert seen == 2 * 2 * size
    for result in with_either_client(deployed, sandbox, ["cat"], stdin=lambda: bytes(size),
                                     on_stdout=lambda: take):
        assert result.ok
    assert seen == 2 * 3 * size
    result = sandbox.exec(f"{flood}; wc -c >&2", stdin=bytes(size),
                          timeout_sec=9)  # in one request
    assert result.ok and result.stderr == f"{size}\n"
    assert sandbox.sessions.list() == []


def test_input_that_answers_to_output(deployed, sandbox):
    """Neither waits for the other: a conversation."""
    said: list[str] = []

    def answers():
        for number in range(5):
            eventually(lambda: f"ask {number}" in "".join(said))  # noqa: B023
            yield f"{number}\n".encode()

    script = "for i in 0 1 2 3 4; do echo ask $i; read x; echo got $x; done"
    for result in with_either_client(deployed, sandbox, script, stdin=answers,
                                     on_stdout=lambda: said.clear() or said.append):
        assert result.stdout == "".join(f"ask {i}\ngot {i}\n" for i in range(5))


def test_a_command_that_ignores_its_input(deployed, sandbox):
    for script, code in (("exit 3", 3), ("exec <&-; sleep 0.3; exit 4", 4),
                         ("sleep 0.3; exit 5", 5)):
        for stdin in (lambda: bytes(64 << 20), lambda: iter(lambda: bytes(1 << 20), b"")):
            for result in with_either_client(deployed, sandbox, script, stdin=stdin):
                assert (result.exit_code, result.stdout) == (code, "")
    assert sandbox.sessions.list() == []


def test_input_that_raises_ends_the_command(deployed, sandbox):
    def pieces():
        yield b"some"
        raise RuntimeError("no more")

    for script in ("cat; sleep 7171", "sleep 7171"):
        with pytest.raises(RuntimeError, match="no more"):
            sandbox.exec(script, stdin=pieces())

        async def main():
            async with sandbox_gateway.AsyncGateway(deployed.url, deployed.token) as gateway:
                await (await gateway.get(sandbox.id)).exec(script, stdin=pieces())  # noqa: B023

        with pytest.raises(RuntimeError, match="no more"):
            asyncio.run(main())
    eventually(lambda: not sandbox.exec("pgrep -fx 'sleep 7171'").ok)
    assert sandbox.sessions.list() == []


def test_a_call_that_is_cancelled_while_its_input_is_not_taken(deployed, sandbox):
    async def main():
        async with sandbox_gateway.AsyncGateway(deployed.url, deployed.token) as gateway:
            same = await gateway.get(sandbox.id)
            call = asyncio.create_task(same.exec("sleep 7272", stdin=bytes(64 << 20)))
            while not (await same.exec("pgrep -fx 'sleep 7272'")).ok:
                await asyncio.sleep(0.05)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

    asyncio.run(main())
    eventually(lambda: not sandbox.exec("pgrep -fx 'sleep 7272'").ok)
    assert sandbox.sessions.list() == []


def test_streams_of_a_command_as_they_come(sandbox):
    out, err, at = [], [], []

    def take(text: str) -> None:
        out.append(text)
        at.append(time.monotonic())

    result = sandbox.exec("echo one; sleep 1; echo two >&2; sleep 1; echo three; exit 5",
                          on_stdout=take, on_stderr=err.append)
    assert ("".join(out), "".join(err)) == ("one\nthree\n", "two\n")
    assert (result.stdout, result.stderr, result.exit_code) == ("one\nthree\n", "two\n", 5)
    assert at[-1] - at[0] > 1  # not all at the end
    late = sandbox.exec("sleep 600", timeout_sec=1, on_stdout=take)
    assert late.timed_out and late.exit_code == 124


def test_what_a_streamed_command_leaves_running_lives_on(deployed, sandbox):
    result = sandbox.exec("setsid sleep 8811 & sleep 8812 & echo out", on_stdout=print)
    assert result.stdout == "out\n" and sandbox.sessions.list() == []

    async def main():
        async with sandbox_gateway.AsyncGateway(deployed.url, deployed.token) as gateway:
            return await (await gateway.get(sandbox.id)).exec("sleep 8813 &", on_stdout=print)

    assert asyncio.run(main()).ok
    assert sandbox.exec("pgrep -fc '[s]leep 881[123]'").stdout == "3\n"
    sandbox.run("pkill -f '[s]leep 881[123]'")


def test_a_flood_streams_without_loss(sandbox):
    """More than any log's ring holds: the reader is waited for."""
    digest, seen = hashlib.sha256(), 0

    def take(piece: bytes) -> None:
        nonlocal seen
        digest.update(piece)
        seen += len(piece)

    size = 128 << 20
    result = sandbox.run(f"head -c {size} /dev/zero", on_stdout=take, text=False)
    assert seen == size and digest.digest() == hashlib.sha256(bytes(size)).digest()
    assert result.truncated and len(result.stdout_bytes) == 32 << 20
    assert result.stdout_dropped_bytes == size - (32 << 20)


def test_an_interrupted_command_is_ended(deployed, sandbox):
    program = (f"import sys; sys.path.insert(0, {str(ROOT / 'clients/python')!r})\n"
               "import sandbox_gateway\n"
               f"sbx = sandbox_gateway.Gateway().get({sandbox.id!r})\n"
               "sbx.run(['sleep', sys.argv[1]], on_stdout=print if sys.argv[2:] else None)\n")
    environment = {"SANDBOX_GATEWAY_URL": deployed.url, "SANDBOX_GATEWAY_TOKEN": deployed.token,
                   "PYTHONDONTWRITEBYTECODE": "1"}
    for number, more in (("6161", []), ("6262", ["streamed"])):
        # A runner in the background may have its children ignore the interrupt.
        client = subprocess.Popen(
            [sys.executable, "-c", program, number, *more], env=environment,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
        look = f"pgrep -f '[s]leep {number}'"
        eventually(lambda look=look: sandbox.exec(look).ok)
        client.send_signal(signal.SIGINT)
        assert client.wait(30) != 0
        eventually(lambda look=look: not sandbox.exec(look).ok)
    assert sandbox.sessions.list() == []


def test_many_at_once_from_threads_and_from_one_loop(deployed, sandbox):
    results: list[str] = []
    threads = [threading.Thread(target=lambda i=i: results.append(sandbox.exec(f"echo {i}").stdout))
               for i in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == sorted(f"{i}\n" for i in range(32))

    async def main() -> list[str]:
        async with sandbox_gateway.AsyncGateway(deployed.url, deployed.token) as gateway:
            same = await gateway.get(sandbox.id)

            async def one(i: int) -> str:
                async with await same.sessions.start("read x; echo got $x") as session:
                    await session.write(f"{i}\n")
                    return "".join([chunk async for chunk in session.logs(follow=True)])

            return await asyncio.gather(*(one(i) for i in range(16)))

    assert asyncio.run(main()) == [f"got {i}\n" for i in range(16)]


def test_what_a_sandbox_tells_about_itself(gateway):
    with gateway.create(IMAGE, cpus=1, memory_mb=128, env={"SECRET": "s3cr3t"}) as sandbox:
        with sandbox.sessions.start("sleep 100"):
            activity = sandbox.activity()
            assert activity["sessions"] == 1 and activity["lease_expires_at"]
        assert sandbox.update(labels={"a": "b"}).labels == {"a": "b"}
        sandbox.run(["echo", "audited"])
        sandbox.exec("true", env={"TOKEN": "s3cr3t"}, on_stdout=print)
        eventually(lambda: sandbox.audit_logs(event="command.run", limit=1))
        assert "audited" in str(sandbox.audit_logs(event="command.run", limit=1))
    eventually(lambda: "sandbox.delete" in str(sandbox.audit_logs()))
    assert "s3cr3t" not in str(sandbox.audit_logs())
