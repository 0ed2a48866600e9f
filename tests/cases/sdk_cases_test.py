"""Cases SD: the Python client (SD-01, of its Deep Agents backend, is in tests/clients/)."""

import asyncio
import io
import subprocess
import sys
import threading
import warnings

import pytest

import sandbox_gateway as sdk
from deployment import IMAGE, ROOT, eventually


def test_sd_03_text_has_one_replacement_and_bytes_are_exact(sandbox):
    result = sandbox.exec("printf '\\377'")
    assert (result.stdout, result.stdout_bytes) == ("\ufffd", b"\xff")


def test_sd_03_a_str_is_a_shell_command_and_a_list_is_argv(sandbox):
    text = "a b $HOME 'q' \"d\" `id`"
    assert sandbox.exec(["printf", "%s|", "a b", text]).stdout == f"a b|{text}|"
    assert sandbox.exec("printf '%s|' 'a b' $HOME").stdout == "a b|/root|"


def test_sd_03_the_error_holds_code_and_output_and_prints_the_last_lines(sandbox):
    with pytest.raises(sdk.CommandError) as caught:
        sandbox.run("head -c 40000000 /dev/zero | tr '\\0' x; seq 1 9999 >&2; exit 2")
    result = caught.value.result
    assert result.exit_code == 2 and result.truncated
    assert len(result.stdout_bytes) + len(result.stderr_bytes) == 32 << 20
    assert str(caught.value).endswith("9998\n9999") and len(str(caught.value)) < 1000


def test_sd_03_a_time_out_does_not_pass(sandbox):
    for options in ({}, {"on_stdout": lambda _: None}):
        with pytest.raises(sdk.CommandError, match="timed out: late words"):
            sandbox.run("trap 'exit 0' TERM; echo late words >&2; sleep 60", timeout_sec=1,
                        **options)


def test_sd_03_from_threads_and_from_asyncio(deployed, sandbox):
    said = []
    threads = [threading.Thread(target=lambda i=i: said.append(sandbox.exec(["echo", i]).stdout))
               for i in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, said)) == list(range(32))

    async def many() -> list[str]:
        async with sdk.AsyncGateway(deployed.url, deployed.token) as gateway:
            same = await gateway.get(sandbox.id)
            return [r.stdout for r in await asyncio.gather(*(same.exec(["echo", i])
                                                             for i in range(32)))]

    assert asyncio.run(many()) == [f"{i}\n" for i in range(32)]


def test_sd_03_uploads_of_every_kind(sandbox, tmp_path):
    data = bytes(range(256)) * 9000
    (tmp_path / "file").write_bytes(data)
    kinds = {"bytes": data, "path": tmp_path / "file", "name": str(tmp_path / "file"),
             "file": io.BytesIO(data), "pieces": (data[at : at + 999]
                                                  for at in range(0, len(data), 999))}
    for kind, source in kinds.items():
        assert sandbox.fs.upload(source, f"/up/{kind}")["size"] == len(data)
        assert sandbox.fs.download(f"/up/{kind}") == data
    for empty in (b"", io.BytesIO(), iter(())):
        sandbox.fs.upload(empty, "/up/empty")
        assert sandbox.fs.download("/up/empty") == b""


def test_sd_03_a_session_lives_without_its_object(sandbox):
    def start() -> str:
        return sandbox.sessions.start("sleep 1; echo alive", name="dropped").id

    id = start()
    assert "".join(sandbox.sessions.get(id).logs(follow=True)) == "alive\n"
    assert sandbox.sessions.get("dropped").wait(10) == 0


def test_sd_03_errors_have_types(deployed, gateway):
    with pytest.raises(sdk.ConnectionFailed):
        sdk.Gateway("http://127.0.0.1:1", "t").get("sbx-x")
    with pytest.raises(sdk.Unauthenticated):
        sdk.Gateway(deployed.url, "wrong").get("sbx-x")
    gone = gateway.create(IMAGE, cpus=1, memory_mb=64)
    gone.delete()
    for call in (gone.refresh, lambda: gone.exec("true"), lambda: gone.fs.read_text("/etc/passwd"),
                 lambda: gone.sessions.start("true"), lambda: list(gone.sessions.list())):
        with pytest.raises(sdk.NotFound):
            call()
    closed = sdk.Gateway(deployed.url, deployed.token)
    closed.close()
    with pytest.raises(RuntimeError, match="closed"):
        closed.list()


def test_sd_03_a_dead_proxy_does_not_matter_for_this_machine(deployed, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with sdk.Gateway(deployed.url, deployed.token) as gateway:
        assert isinstance(gateway.list(), list)


def test_sd_03_nothing_is_left_open(deployed):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sdk.Gateway(deployed.url, deployed.token).list()

        async def main() -> None:
            async with sdk.AsyncGateway(deployed.url, deployed.token) as gateway:
                await gateway.list()

        asyncio.run(main())


@pytest.mark.parametrize("how", ["interrupt", "exception"])
def test_sd_03_the_sandbox_goes_with_its_block(deployed, gateway, how):
    program = (f"import sys; sys.path.insert(0, {str(ROOT / 'clients/python')!r})\n"
               "import sandbox_gateway\n"
               f"with sandbox_gateway.Gateway().create({IMAGE!r}, cpus=1, memory_mb=64) as sbx:\n"
               "    print(sbx.id, flush=True)\n"
               f"    {'sbx.run(["sleep", "600"])' if how == 'interrupt' else '1 / 0'}\n")
    client = subprocess.Popen(
        [sys.executable, "-B", "-c", program], stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL, env={"SANDBOX_GATEWAY_URL": deployed.url,
                                        "SANDBOX_GATEWAY_TOKEN": deployed.token})
    id = client.stdout.readline().strip()
    if how == "interrupt":
        eventually(lambda: gateway.get(id).activity()["running_commands"] == 1)
        client.send_signal(2)
    assert client.wait(60) != 0
    with pytest.raises(sdk.NotFound):
        gateway.get(id)
