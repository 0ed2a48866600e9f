"""The single-file Python client against a real gateway."""

import asyncio

import pytest

from deployment import IMAGE

sandbox_gateway = pytest.importorskip("sandbox_gateway", reason="clients/python is not there")


@pytest.fixture
def gateway(deployed):
    with sandbox_gateway.Gateway(url=deployed.url, token=deployed.token) as made:
        yield made


def test_context_manager_deletes(api, gateway):
    with gateway.create(IMAGE, cpus=1, memory_mb=128, labels={"sdk": "yes"}) as sandbox:
        assert sandbox.run(["echo", "hello"]).stdout == "hello\n"
        assert api.state(sandbox.id) == "ready"
    assert api.state(sandbox.id) in ("deleting", "absent")


def test_run_raises_and_exec_does_not(gateway):
    with gateway.create(IMAGE, cpus=1, memory_mb=128) as sandbox:
        with pytest.raises(sandbox_gateway.CommandError):
            sandbox.run(["sh", "-c", "exit 3"])
        assert sandbox.exec("exit 3").exit_code == 3


def test_files(gateway, tmp_path):
    with gateway.create(IMAGE, cpus=1, memory_mb=128) as sandbox:
        sandbox.fs.upload(b"\0\1bytes", "/root/a")
        assert sandbox.fs.download("/root/a") == b"\0\1bytes"
        sandbox.fs.write_text("/root/b", "text ä")
        assert sandbox.fs.read_text("/root/b") == "text ä"


def test_async_client(deployed):
    async def life() -> str:
        async with sandbox_gateway.AsyncGateway(url=deployed.url, token=deployed.token) as gateway:
            async with await gateway.create(IMAGE, cpus=1, memory_mb=128) as sandbox:
                return (await sandbox.run(["echo", "async"])).stdout
    assert asyncio.run(life()) == "async\n"
