"""The single-file Python client against a real gateway."""

import asyncio

import pytest

import sandbox_gateway
from deployment import IMAGE, eventually


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


def test_errors_have_types(gateway):
    with pytest.raises(sandbox_gateway.NotFound):
        gateway.get("sbx-none")
    with pytest.raises(sandbox_gateway.InvalidRequest) as caught:
        gateway.create(IMAGE, cpus=-1, memory_mb=128)
    assert caught.value.details["field"] == "cpus" and caught.value.request_id
    with gateway.create(IMAGE, cpus=1, memory_mb=128) as sandbox:
        with pytest.raises(sandbox_gateway.NotFound) as missing:
            sandbox.fs.read_text("/root/none")
        assert missing.value.code == "file_not_found"
        with pytest.raises(sandbox_gateway.InvalidRequest):
            sandbox.exec("true", cwd="/none")


def test_a_sandbox_that_fails_raises_and_is_not_left_behind(gateway):
    with pytest.raises(sandbox_gateway.SandboxFailed) as caught:
        gateway.create("127.0.0.1:1/none:1", cpus=1, memory_mb=128)
    assert caught.value.code.startswith("image_")
    failed = caught.value.data["id"]
    eventually(lambda: failed not in [row.id for row in gateway.list()])


def test_events_are_followed_to_the_end(gateway):
    sandbox = gateway.create(IMAGE, cpus=1, memory_mb=128)
    assert [event.type for event in sandbox.events()][-1] == "ready"
    following = sandbox.events(follow=True)
    assert next(following).type == "created"
    sandbox.delete()
    assert [event.type for event in following][-1] == "deleted"


def test_files_go_by_path_and_list(gateway, tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(bytes(range(256)) * 20_000)
    with gateway.create(IMAGE, cpus=1, memory_mb=128) as sandbox:
        answer = sandbox.fs.upload(source, "/root/deep/er/file", mode=0o750)
        assert answer["size"] == source.stat().st_size
        sandbox.fs.download("/root/deep/er/file", target)
        assert target.read_bytes() == source.read_bytes()
        [entry] = sandbox.fs.list("/root/deep/er")
        assert (entry.name, entry.mode) == ("file", "0750")


def test_images_are_listed(gateway):
    assert IMAGE in [image.name for image in gateway.images.list()]
    assert gateway.images.get(IMAGE).digest.startswith("sha256:")


def test_cancelling_a_run_ends_its_command(api, deployed):
    async def life() -> None:
        async with sandbox_gateway.AsyncGateway(url=deployed.url, token=deployed.token) as gateway:
            async with await gateway.create(IMAGE, cpus=1, memory_mb=128) as sandbox:
                look = "pgrep -f '[s]leep 5151'"
                task = asyncio.create_task(sandbox.run(["sleep", "5151"]))
                while not (await sandbox.exec(look)).ok:
                    assert not task.done()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                while (await sandbox.exec(look)).ok:
                    pass
    asyncio.run(asyncio.wait_for(life(), 60))
