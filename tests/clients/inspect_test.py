"""The Inspect environment against inspect_ai's own checks, and a whole evaluation."""

import pytest
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import solver
from inspect_ai.util import OutputLimitExceededError, SandboxEnvironmentSpec, sandbox
from inspect_ai.util._sandbox import self_check
from inspect_ai.util._sandbox.environment import SandboxUnavailableError
from inspect_ai.util._sandbox.self_check import *  # noqa: F403 (its tests become ours)

import sandbox_gateway_inspect as ours

CHECKS = 44


@pytest.fixture(scope="session")
def config(agent_image):
    """The default user is not root, so that refusals can be seen."""
    return ours.SandboxGatewayConfig(image=agent_image, cpus=2, memory_mb=1024, user="1000:1000",
                                     workdir="/home/user")


@pytest.fixture
async def sandbox_env(config, gateway_environment):
    made = await ours.SandboxGatewayEnvironment.create(config, "self check")
    yield made
    await made.delete()


def test_no_check_is_missing():
    assert len([name for name in vars(self_check) if name.startswith("test_")]) == CHECKS


async def test_root_is_really_root(sandbox_env):
    assert (await sandbox_env.exec(["id", "-u"])).stdout == "1000\n"
    assert (await sandbox_env.exec(["id", "-u"], user="root")).stdout == "0\n"
    made = await sandbox_env.exec(["sh", "-c", "useradd x && su x -c id"], user="root")
    assert "(x)" in made.stdout, made


async def test_too_much_output_raises(sandbox_env):
    with pytest.raises(OutputLimitExceededError):
        await sandbox_env.exec(["head", "-c", "11000000", "/dev/zero"])


async def test_a_missing_folder_is_a_failed_command(sandbox_env):
    done = await sandbox_env.exec(["pwd"], cwd="/none")
    assert not done.success and "/none" in done.stderr


async def test_a_sandbox_that_is_gone_is_unavailable(config, gateway_environment):
    made = await ours.SandboxGatewayEnvironment.create(config, "gone")
    assert made.connection is not None
    assert (await made.connection()).command.startswith("sandbox shell ")
    await made._sandbox.delete()
    with pytest.raises(SandboxUnavailableError):
        await made.exec(["true"])
    await made.delete()


async def test_left_behind_sandboxes_are_cleaned_up(gateway, config, gateway_environment):
    left = await ours.SandboxGatewayEnvironment.create(config, "left behind")
    other = gateway.create(config.image, cpus=1, memory_mb=128)
    await ours.SandboxGatewayEnvironment.cli_cleanup(None)
    await left._gateway.close()
    assert other.id in [row.id for row in gateway.list()]
    assert left._sandbox.id not in [row.id for row in gateway.list()]
    other.delete()


@solver
def shell(command: str):
    """Does in the sample's sandbox what an agent would."""
    async def solve(state, generate):
        state.output.completion = (await sandbox().exec(["sh", "-c", command])).stdout
        return state

    return solve


@pytest.mark.parametrize("by", ["object", "file"])
def test_an_evaluation_runs_in_sandboxes(gateway, config, gateway_environment, tmp_path, by):
    file = tmp_path / "sandbox-gateway.yaml"
    file.write_text(config.model_dump_json(exclude_none=True))  # JSON is YAML
    spec = SandboxEnvironmentSpec("sandbox-gateway", config if by == "object" else str(file))
    task = Task(dataset=[Sample(input="what does it say?", target="hello",
                                files={"note": "hello there\n"})],
                solver=shell("cat note; id -u; echo made > made; ls"), scorer=includes(),
                sandbox=spec)
    [log] = eval(task, model="mockllm/model", log_dir=str(tmp_path), display="none")
    assert log.status == "success", log.error
    assert log.samples[0].output.completion == "hello there\n1000\nmade\nnote\n"
    assert log.results.scores[0].metrics["accuracy"].value == 1
    assert gateway.list(labels={"inspect-task": task.name}) == []
