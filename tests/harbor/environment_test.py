"""The environment by itself: each fault that the environments of others had and that could be
ours, as a test (the numbers are those of the list that the project keeps)."""

import asyncio
import contextlib
import os
import uuid
from pathlib import Path

import pytest
from harbor.environments.base import (
    ExecResult, SandboxBuildFailedError, ServiceOperationsUnsupportedError)
from harbor.models.task.config import EnvironmentConfig, NetworkMode, NetworkPolicy
from harbor.models.trial.paths import TrialPaths

import builder
import sandbox_gateway_harbor as ours
from deployment import IMAGE, eventually
from sandbox_gateway import GatewayError

needs_builds = pytest.mark.skipif(not builder.kept_folder().exists(),
                                  reason="no image builder here (./dev setup makes it)")
LOGS = [{"type": "bind", "source": "/none", "target": f"/logs/{name}"}
        for name in ("verifier", "agent", "artifacts")]


@pytest.fixture(autouse=True)
def gateway_environment(deployed, monkeypatch):
    monkeypatch.setenv("SANDBOX_GATEWAY_URL", deployed.url)
    monkeypatch.setenv("SANDBOX_GATEWAY_TOKEN", deployed.token)


@pytest.fixture
def make(tmp_path):
    """make(docker_image=..., options={...}, files={...}): an environment that is not started."""
    def call(*, options=None, files=None, mounts=None, network_policy=None, phases=None,
             **config) -> ours.SandboxGatewayEnvironment:
        folder = tmp_path / f"environment-{uuid.uuid4().hex[:6]}"
        folder.mkdir()
        for name, text in (files or {}).items():
            (folder / name).write_text(text)
        config = {"cpus": 0.5, "memory_mb": 128, **config}
        made = ours.SandboxGatewayEnvironment(
            environment_dir=folder, environment_name="a-task", session_id="a-task__Ab1__env",
            trial_paths=TrialPaths(trial_dir=tmp_path / "trial"),
            task_env_config=EnvironmentConfig(**config), mounts=mounts, auto_mounts=LOGS,
            network_policy=network_policy, phase_network_policies=phases, **(options or {}))
        made.context_id = uuid.uuid4()
        return made
    return call


@contextlib.asynccontextmanager
async def started(environment):
    await environment.start(force_build=False)
    try:
        yield environment
    finally:
        await environment.stop(delete=True)


def in_one(make, check, **options):
    """Runs the check in a started environment of the demo image."""
    async def run():
        async with started(make(**{"docker_image": IMAGE, **options})) as environment:
            await check(environment)
    asyncio.run(run())


async def output(environment, command: str, **options) -> str:
    done = await environment.exec(command, **options)
    assert done.return_code == 0, done
    return done.stdout.strip()


def test_what_a_command_is(make):
    """1, 9, 19, 30, 33, 36, 49, 53, 56: output of any size, exit codes, users, long commands."""
    async def check(one):
        done = await one.exec("printf out; printf err >&2; exit 7")
        assert done == ExecResult(stdout="out", stderr="err", return_code=7)
        for limit in (None, 30):
            done = await one.exec("head -c 300000 /dev/zero | tr '\\0' x; exit 3",
                                  timeout_sec=limit)
            assert (len(done.stdout), done.return_code) == (300000, 3)
        assert await output(one, "id -u; echo $HOME", user="user") == "1000\n/home/user"
        assert await output(one, "id -u; echo $HOME", user=1000) == "1000\n/home/user"
        assert await output(one, "id -u", user="root") == "0"
        with one.with_default_user("user"):
            assert await output(one, "id -u") == "1000"
        assert await output(one, "pwd", cwd="/usr") == "/usr"
        assert await output(one, "shopt -q login_shell || echo no") == "no"
        long = "x" * 100_000
        assert len(await output(one, f"echo {long}")) == len(long)
        for refused in ({"user": "nobody-here"}, {"cwd": "/none"}):
            done = await one.exec("true", **refused)
            assert done.return_code == 126 and done.stderr
        assert await one.is_dir("/usr") and not await one.is_file("/usr")
    in_one(make, check)


def test_environment_of_a_command(make):
    """14, 47: values pass byte by byte."""
    value = "it's \"x\" $HOME ${NO} $$ `id` \\ \n\ttab"

    async def check(one):
        assert await output(one, 'printf %s "$V"', env={"V": value}) == value
        assert await output(one, 'printf %s "$TASK"') == value
        assert await output(one, 'printf %s "$TASK"', env={"TASK": "call"}) == "call"
        with one.scoped_exec_env({"TASK": "scope"}):
            assert await output(one, 'printf %s "$TASK"', env={"TASK": "call"}) == "scope"
    in_one(make, check, env={"TASK": value})


def test_time_outs(make):
    async def check(one):
        done = await one.exec("echo before; sleep 100", timeout_sec=3)
        assert (done.return_code, done.stdout) == (124, "before\n")
        assert "3 seconds" in done.stderr
        assert await output(one, "pgrep -x sleep || echo gone") == "gone"
    in_one(make, check)


@pytest.mark.parametrize("limit", [None, 50])
def test_a_cancelled_command_ends_with_all_its_processes(make, limit):
    """22, 44, 51: and the same sandbox takes commands and transfers at once."""
    async def check(one):
        command = "setsid sleep 1000 & sleep 1000 & touch /begun; wait"
        running = asyncio.create_task(one.exec(command, timeout_sec=limit))
        while not await one.is_file("/begun"):
            await asyncio.sleep(0.05)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await output(one, "for i in {1..100}; do pgrep -x sleep || exit 0; sleep 0.1; done; exit 1")
    in_one(make, check)


def test_what_a_command_leaves_running_goes_on(make):
    """11, 51: and holds up nobody, though it holds the output open."""
    async def check(one):
        for name, limit in (("a", None), ("b", 30)):
            beat = f"while sleep 0.1; do date +%N > /{name}; done"
            assert (await one.exec(f"({beat}) & echo started", timeout_sec=limit)
                    ).stdout == "started\n"
        for name in "ab":
            await output(one, f"until test -s /{name}; do sleep 0.1; done; x=$(< /{name}); "
                              f"until test $x != $(< /{name}); do sleep 0.1; done", timeout_sec=20)
    in_one(make, check)


def test_output_is_told_as_it_comes(make):
    async def check(one):
        told = []

        async def callback(text, stream):
            told.append((stream, text))

        with one.scoped_output_callback(callback):
            done = await one.exec("echo one; sleep 0.3; echo two >&2; exit 4")
        assert told == [("stdout", "one\n"), ("stderr", "two\n")]
        assert (done.stdout, done.stderr, done.return_code) == ("one\n", "two\n", 4)
    in_one(make, check)


def tree(folder: Path) -> dict:
    """Names with kind and mode, and what is in files and links."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = os.readlink(path)
        else:
            found[name] = (oct(path.stat().st_mode), path.read_bytes() if path.is_file() else None)
    return found


def test_folders_arrive_as_they_were(make, tmp_path):
    """8, 17, 32: contents into the folder, modes, links, empty folders; one request each way."""
    source = tmp_path / "source"
    (source / "empty").mkdir(parents=True)
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o755)
    (source / "name with 'quotes' ä").write_bytes(b"\0\xff")
    (source / "dangling").symlink_to("no/such")
    for number in range(300):
        (source / "empty" / ".." / f"f{number}").write_text(str(number))

    async def check(one):
        requests = []

        async def count(request):
            requests.append(request.url.path)

        one._gateway._client.event_hooks["request"].append(count)
        await one.upload_dir(source_dir=source, target_dir="/a/new/folder")
        await one.download_dir(source_dir="/a/new/folder", target_dir=tmp_path / "back")
        assert len(requests) == 2
        assert tree(tmp_path / "back") == tree(source)
        await output(one, "mkdir -m 700 /kept; chown user /kept; touch /kept/old; mkfifo /kept/p")
        await one.upload_dir(source_dir=source, target_dir="/kept")
        assert await output(one, "stat -c '%a %U' /kept; stat -c %U /kept/f1; ls /kept/old"
                            ) == "700 user\nroot\n/kept/old"
        await one.download_dir(source_dir="/kept", target_dir=tmp_path / "kept")  # not the pipe
        assert "p" not in tree(tmp_path / "kept") and "old" in tree(tmp_path / "kept")
        await one.download_dir_with_exclusions(source_dir="/kept", target_dir=tmp_path / "some",
                                               exclude=["f*"])
        assert "run.sh" in tree(tmp_path / "some") and "f1" not in tree(tmp_path / "some")
    in_one(make, check)


def test_single_files(make, tmp_path):
    (tmp_path / "tool").write_bytes(os.urandom(6_000_000))
    (tmp_path / "tool").chmod(0o750)

    async def check(one):
        await one.upload_file(source_path=tmp_path / "tool", target_path="/x/y/tool")
        await one.upload_file(source_path=tmp_path / "tool", target_path="/usr")
        assert await output(one, "stat -c %a /x/y/tool /usr/tool") == "750\n750"
        await one.download_file(source_path="/usr/tool", target_path=tmp_path / "new" / "tool")
        assert (tmp_path / "new" / "tool").read_bytes() == (tmp_path / "tool").read_bytes()
        await output(one, "chmod 600 /x/y/tool")
        with one.with_default_user("user"):  # 43: transfers do not go by the agent's rights
            await one.download_file(source_path="/x/y/tool", target_path=tmp_path / "again")
        with pytest.raises(Exception, match="none"):
            await one.download_file(source_path="/none", target_path=tmp_path / "none")
        assert not (tmp_path / "none").exists()
    in_one(make, check)


def test_what_a_sandbox_is_made_with(make, gateway):
    """21, 40, 58: limits, labels of any form; the folders of Harbor."""
    async def check(one):
        [row] = gateway.list(labels={"harbor.session_id": "a-task__Ab1__env"})
        assert (row.data["cpus"], row.data["memory_mb"], row.data["storage_mb"]) == (0.334, 100, 64)
        assert row.labels["harbor.trial_id"] == str(one.context_id)
        assert await output(one, "stat -c %a /logs/*") == "777\n777\n777"
    in_one(make, check, cpus=1 / 3, memory_mb=100, storage_mb=64)


def test_defaults_where_the_task_says_nothing(make, gateway):
    async def check(one):
        row = gateway.get(one._sandbox.id)
        assert (row.data["cpus"], row.data["memory_mb"]) == (0.25, 90)
    in_one(make, check, cpus=None, memory_mb=None,
           options={"default_cpus": 0.25, "default_memory_mb": 90})


def test_network_is_switched_while_it_runs(make, gateway):
    async def check(one):
        assert gateway.get(one._sandbox.id).data["network"]["mode"] == "none"
        await one.set_network_policy(NetworkPolicy(network_mode=NetworkMode.PUBLIC))
        assert gateway.get(one._sandbox.id).data["network"]["mode"] == "open"
    in_one(make, check, network_policy=NetworkPolicy(network_mode=NetworkMode.NO_NETWORK))


def test_a_kept_sandbox_stays(make, gateway):
    """4"""
    async def run():
        one = make(docker_image=IMAGE)
        await one.start(force_build=False)
        name = one._sandbox.id
        await one.stop(delete=False)
        await one.stop(delete=True)  # nothing more to stop
        return name
    kept = gateway.get(asyncio.run(run()))
    assert kept.state == "ready"
    kept.delete()


def test_attaching_is_the_command_line_programs_shell(make, deployed, tmp_path, monkeypatch):
    """The program itself is asked for something else here, since there is no terminal."""
    program = tmp_path / "bin" / "sandbox"

    async def check(one):
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        with pytest.raises(NotImplementedError, match="sandbox"):
            await one.attach()
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\nexec {deployed.bin}/sandbox exec $2 -- touch /$1\n")
        program.chmod(0o755)
        monkeypatch.delenv("SANDBOX_GATEWAY_URL")
        await one.attach()
        assert await one.is_file("/shell")
    in_one(make, check)


def test_a_sandbox_that_somebody_deleted(make, gateway):
    """20, 42, 55: what follows says so, and stopping is no error."""
    async def check(one):
        await asyncio.to_thread(gateway.get(one._sandbox.id).delete)
        for call in (one.exec("true"), one.exec("true", timeout_sec=5),
                     one.download_file("/etc/passwd", "/dev/null")):
            with pytest.raises(ours.RuntimeRequestError, match="is gone since .*deleted_by_user"):
                await call
    in_one(make, check)


def test_a_command_that_takes_all_memory(make):
    async def check(one):
        done = await one.exec("x=$(head -c 400000000 /dev/zero | tr '\\0' x)", timeout_sec=60)
        assert done.return_code == 137 and "memory" in done.stderr, done
        assert await output(one, "echo still here") == "still here"
    in_one(make, check, memory_mb=64)


def refusal(make, **options) -> str:
    """What start() says; the constructor says nothing."""
    one = make(**options)
    with pytest.raises(ServiceOperationsUnsupportedError) as error:
        asyncio.run(one.start(force_build=False))
    asyncio.run(one.stop(delete=True))
    return str(error.value)


def test_what_cannot_be_is_refused_in_start(make, left, monkeypatch):
    monkeypatch.delenv("HARBOR_NOT_SET", raising=False)
    image = {"docker_image": IMAGE}
    assert "GPU" in refusal(make, **image, gpus=1)
    assert "TPU" in refusal(make, **image, tpu={"type": "v6e", "topology": "2x4"})
    assert "indows" in refusal(make, **image, os="windows")
    assert "docker_image" in refusal(make)
    assert "HARBOR_NOT_SET" in refusal(make, **image, env={"A": "${HARBOR_NOT_SET}"})
    assert "mounted" in refusal(make, **image, mounts=[
        {"type": "bind", "source": "/tmp", "target": "/data"}])
    assert "IPv6" in refusal(make, **image, network_policy=NetworkPolicy(
        network_mode=NetworkMode.ALLOWLIST, allowed_hosts=["2001:db8::1"]))
    assert "CPU" in refusal(make, **image, cpus=None, options={"cpu_enforcement_policy": "limit"})
    assert "memory" in refusal(make, **image, memory_mb=1 << 40)
    left()


def test_an_image_that_is_not_there(make, left, registry):
    one = make(docker_image=f"{registry.host}/no/such:1")
    with pytest.raises(SandboxBuildFailedError, match="image_"):
        asyncio.run(one.start(force_build=False))
    left()


def test_a_wrong_token(make, monkeypatch):
    monkeypatch.setenv("SANDBOX_GATEWAY_TOKEN", "wrong")
    with pytest.raises(ours.AuthenticationError):
        asyncio.run(make(docker_image=IMAGE).start(force_build=False))
    with pytest.raises(SystemExit, match="SANDBOX_GATEWAY_TOKEN"):
        ours.SandboxGatewayEnvironment.preflight({})
    monkeypatch.setenv("SANDBOX_GATEWAY_URL", "http://127.0.0.1:9")
    with pytest.raises(SystemExit, match="127.0.0.1:9"):
        ours.SandboxGatewayEnvironment.preflight(kwargs={})


@pytest.mark.parametrize("after", [0, 0.01, 0.03, 0.1])
def test_a_start_that_is_cancelled_leaves_nothing(make, left, after):
    """27, 39, 44"""
    async def run():
        one = make(docker_image=IMAGE)
        starting = asyncio.create_task(one.start(force_build=False))
        await asyncio.sleep(after)
        if starting.cancel():
            with pytest.raises(asyncio.CancelledError):
                await starting
        else:  # it was faster
            await one.stop(delete=True)
    asyncio.run(run())
    left()


@needs_builds
def test_a_build_is_shared_and_known_by_its_content(make, gateway):
    """3, 15, 52"""
    dockerfile = {"Dockerfile": f"FROM {IMAGE}\nCOPY note /note\nRUN sleep 1\n"}

    async def note(one):
        async with started(one):
            return one._sandbox.image, await output(one, "cat /note")

    async def run():
        same = [make(files={**dockerfile, "note": "first"}) for _ in range(4)]
        other = make(files={**dockerfile, "note": "second"})
        return await asyncio.gather(*map(note, [*same, other]))
    before = len(gateway.builds.list())
    *same, other = asyncio.run(run())
    assert len(set(same)) == 1 and same[0][1] == "first"
    assert other[1] == "second"
    assert len(gateway.builds.list()) == before + 2


@needs_builds
def test_a_failed_build_says_why_at_its_end(make, left):
    """23, 50"""
    one = make(files={"Dockerfile": f"FROM {IMAGE}\nRUN for i in $(seq 5000); do echo line $i; "
                                    "done; echo the cause >&2; exit 7\n"})
    with pytest.raises(SandboxBuildFailedError, match="(?s)line 2.*the cause"):
        asyncio.run(one.start(force_build=False))
    left()


@needs_builds
def test_an_entrypoint_that_ends_leaves_the_sandbox(make):
    """25, 47, 48: it sees the task's environment, in the image's folder, as the image's user."""
    files = {"Dockerfile": f"FROM {IMAGE}\nWORKDIR /srv/w\nRUN chown user .\nUSER user\n"
                           'ENTRYPOINT ["bash", "-c", "echo $TASK $(id -un) $* > seen; exit 3"]\n'}

    async def check(one):
        await output(one, "until test -s seen; do sleep 0.05; done", timeout_sec=20)
        assert await output(one, "cat seen; pwd") == "it user -c sleep infinity\n/srv/w"
    in_one(make, check, docker_image=None, files=files, env={"TASK": "it"})


def test_an_exit_that_did_not_come_is_no_success():
    """56"""
    with pytest.raises(ours.RuntimeRequestError):
        ours._exec_result("", "", {"exit_code": None, "timed_out": False, "oom_killed": False},
                          None)


def test_a_lease_is_renewed_while_it_is_used(make, gateway):
    """10, 45, 55: an agent that thinks for longer than the lease keeps its sandbox."""
    async def check(one):
        before = gateway.get(one._sandbox.id).data["lease_expires_at"]

        def renewed():
            return gateway.get(one._sandbox.id).data["lease_expires_at"] > before
        await asyncio.to_thread(eventually, renewed)
    in_one(make, check, options={"lease_sec": 20})


SERVICES = f"""
services:
  main:
    volumes: ["shared:/shared"]
    environment: {{WORD: "$HARBOR_WORD ${{NOT_SET:-default}}"}}
  keeper:
    image: {IMAGE}
    command: ["sh", "-c", "mkdir /srv; echo kept > /srv/kept; exec sleep infinity"]
    mem_limit: 64m
    env_file: keeper.env
    volumes: ["shared:/shared"]
volumes: {{shared: }}
"""


def test_no_more_of_this_machines_variables_than_the_files_name(make, monkeypatch):
    monkeypatch.setenv("HARBOR_WORD", "word")
    monkeypatch.setenv("HARBOR_SECRET", "secret")
    one = make(docker_image=IMAGE, files={"docker-compose.yaml": SERVICES}, env={"TASK": "$5"})
    files = one._compose_files(False)
    assert len(files) == 2
    assert one._variables(files, False) == {"HARBOR_WORD": "word", "PREBUILT_IMAGE_NAME": IMAGE}


def test_services_of_a_compose_file(make, gateway, tmp_path, monkeypatch):
    """20, 35, 40, 47: each by its name; stopping one leaves the others."""
    monkeypatch.setenv("HARBOR_WORD", "word")

    async def check(one):
        row = gateway.get(one._sandbox.id).data
        assert (row["cpus"], row["memory_mb"]) == (0.75, 192)
        assert await output(one, 'echo "$WORD|$TASK"') == "word default|$5 $HOME"
        waited = await one.service_exec("until test -s /srv/kept; do sleep 0.1; done",
                                        service="keeper", timeout_sec=30)
        assert waited.return_code == 0, waited
        with one.with_default_user("user"):
            done = await one.service_exec("id -u; pwd; echo $FROM_FILE; cat /srv/kept",
                                          service="keeper", env={"A": "1"}, timeout_sec=30)
        assert done.stdout == "0\n/\nfile\nkept\n", done
        assert not await one.is_dir("/srv/kept") and await one.service_is_dir(
            "/shared", service="keeper")
        await one.service_download_file("/srv/kept", tmp_path / "kept", service="keeper")
        await one.service_download_dir("/srv", tmp_path / "srv", service="keeper")
        await one.service_download_dir_with_exclusions(
            source_dir="/srv", target_dir=tmp_path / "some", exclude=["x"], service="keeper")
        for path in ("kept", "srv/kept", "some/kept"):
            assert (tmp_path / path).read_text() == "kept\n"
        await output(one, "sleep 1000 & disown")
        await one.stop_service("main")
        assert (await one.service_exec("cat /srv/kept", service="keeper")).stdout == "kept\n"
        with pytest.raises(GatewayError):
            await one.service_exec("true", service="nobody")
    in_one(make, check, env={"TASK": "$5 $HOME"},
           files={"docker-compose.yaml": SERVICES, "keeper.env": "FROM_FILE=file\n"},
           options={"sidecar_cpus": 0.25})


@pytest.mark.parametrize("text, words", [
    ("services: [", "compose"), ("services: {a: {image: x, privileged: true}}", "a.privileged"),
    ("services: {a: {image: x, depends_on: [b]}, b: {image: x, depends_on: [a]}}", "depends_on"),
    ("services: {main: {volumes: ['/tmp:/data']}}", "main.volumes"),
    ("services: {a: {build: ../../..}}", "task's folder"),
    ("services: {a: {image: x, env_file: /etc/passwd}}", "task's folder"),
    ("services: {a: {build: none}}", "no folder")])
def test_a_compose_file_that_cannot_be_is_refused(make, left, text, words):
    assert words in refusal(make, docker_image=IMAGE, files={"docker-compose.yaml": text})
    left()


def test_services_of_a_task_without_a_compose_file(make):
    async def check(one):
        assert (await one.service_exec("echo main", service="main")).stdout == "main\n"
        with pytest.raises(ServiceOperationsUnsupportedError):
            await one.service_exec("true", service="keeper")
    in_one(make, check)
