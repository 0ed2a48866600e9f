"""The Deep Agents backend against LangChain's own suite for sandboxes, and what that leaves out."""

import asyncio
import shlex

import pytest

import sandbox_gateway
from sandbox_gateway_langchain import SandboxGatewayBackend, SandboxGatewayProvider
from sandbox_suite import SandboxSuite, marked


class TestSandboxGatewayBackend(SandboxSuite):
    @pytest.fixture(scope="class")
    def sandbox(self, gateway, agent_image):
        with gateway.create(agent_image, cpus=2, memory_mb=1024) as made:
            yield SandboxGatewayBackend(sandbox=made)


@pytest.fixture(scope="module")
def backend(gateway, agent_image):
    with gateway.create(agent_image, cpus=2, memory_mb=512) as made:
        yield SandboxGatewayBackend(sandbox=made)


def test_the_seven_are_all_that_is_marked():
    assert len(marked(TestSandboxGatewayBackend)) == 7


def test_streams_are_merged_in_order_and_the_exit_code_is_told(backend):
    done = backend.execute("echo a; echo b >&2; echo c\ncat <<'X'\nd $HOME\nX\nexit 3")
    assert (done.output, done.exit_code, done.truncated) == ("a\nb\nc\nd $HOME\n", 3, False)
    assert backend.execute("printf 'a\\0b'").output == "a\0b"
    assert backend.execute("nonsuch").exit_code == 127
    assert "yntax" in backend.execute("true; (").output  # what the shell itself says, too


def test_a_command_that_takes_too_long_ends(backend):
    done = backend.execute("echo before; sleep 600 & sleep 600", timeout=1)
    assert done.exit_code == 124
    assert done.output == "before\nCommand timed out after 1 seconds"
    assert "600" not in backend.execute("ps ax").output


def test_a_command_of_any_size(backend):
    text = "ä" * 150_000
    assert backend.execute(f"cat <<'X' | wc -m\n{text}\nX").output.strip() in ("150001", "300001")


def test_each_file_has_its_own_error(backend):
    backend.execute("mkdir -p /t/folder; echo 1 > /t/file; mkfifo /t/pipe")
    up = backend.upload_files([("/t/new/a", b"1"), ("relative", b"2"), ("/t/folder", b"3"),
                               ("/t/file/x", b"4"), ("/proc/version", b"5")])
    assert [row.error for row in up[:4]] == [None, "invalid_path", "is_directory", "invalid_path"]
    assert up[4].error
    down = backend.download_files(["/t/new/a", "/t/none", "/t/folder", "relative", "/t/pipe"])
    assert [(row.content, row.error) for row in down] == [
        (b"1", None), (None, "file_not_found"), (None, "is_directory"), (None, "invalid_path"),
        (None, "invalid_path")]


@pytest.mark.parametrize("name", ["it's \"x\" $(touch pwn) .txt", "`touch pwn`;\n#", "-rf"])
def test_odd_names_are_only_names(backend, name):
    path = f"/odd/{name}"
    content = "x\r\n emoji 🙂 'q' \"d\" \\ $x\nlast line"
    assert backend.write(path, content).error is None
    assert backend.execute(f"cat {shlex.quote(path)}").output == content
    assert backend.edit(path, "'q' \"d\" \\", "[.*]").occurrences == 1
    assert backend.edit(path, "absent", "x").error
    assert "[.*]" in backend.read(path).file_data["content"]
    assert path in [entry["path"] for entry in backend.ls("/odd").entries]
    assert backend.grep("[.*]", "/odd").matches
    assert backend.delete(path).error is None
    assert backend.execute("ls pwn").exit_code != 0


def test_a_huge_file_is_not_read_into_memory(backend):
    backend.execute("truncate -s 2G /tmp/huge.bin")
    assert backend.read("/tmp/huge.bin").error
    page = backend.read("/tmp/huge.bin", offset=10**9)
    assert page.error or len(page.file_data["content"]) < 1 << 20


async def test_async_calls_do_not_hold_the_loop(backend):
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    many = await asyncio.gather(*(backend.aexecute(f"sleep 1; echo {i}") for i in range(20)))
    ticking.cancel()
    assert [done.output for done in many] == [f"{i}\n" for i in range(20)]
    assert ticks > 10


def test_one_backend_serves_several_loops(backend):
    for turn in range(3):
        done = asyncio.run(backend.aexecute(f"echo {turn}"))
        assert done.output == f"{turn}\n"


async def test_cancelling_ends_the_command(backend):
    task = asyncio.create_task(backend.aexecute("exec sleep 7171"))
    while "7171" not in (await backend.aexecute("ps ax")).output:
        await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while "7171" in (await backend.aexecute("ps ax")).output:
        await asyncio.sleep(0.05)


def test_a_sandbox_that_is_gone_raises(gateway, agent_image):
    sandbox = gateway.create(agent_image, cpus=1, memory_mb=128)
    gone = SandboxGatewayBackend(sandbox=sandbox)
    sandbox.delete()
    for call in (lambda: gone.execute("true"), lambda: gone.upload_files([("/a", b"")]),
                 lambda: gone.download_files(["/etc/passwd"])):
        with pytest.raises(sandbox_gateway.NotFound):
            call()


def test_the_provider_makes_finds_and_deletes(gateway, agent_image, gateway_environment):
    provider = SandboxGatewayProvider()
    made = provider.get_or_create(image=agent_image, memory_mb=256)
    assert made.execute("echo hi").output == "hi\n"
    assert provider.get_or_create(sandbox_id=made.id).id == made.id
    provider.delete(sandbox_id=made.id)
    provider.delete(sandbox_id=made.id)
    with pytest.raises(LookupError):
        provider.get_or_create(sandbox_id=made.id)
