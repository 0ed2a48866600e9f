"""Whole jobs of the published `harbor`: every folder of tasks/ as one task."""

import hashlib
import json
import shutil
import signal
import subprocess
import time

import pytest

import builder
from conftest import ENVIRONMENT, TASKS
from deployment import eventually
from world import running as running_world

PATIENCE_SEC = 120
WORLD_PORT = 18097  # as the tasks say it
BUILDS = builder.kept_folder().exists()
NEEDS_BUILDS = {one.name for one in TASKS.iterdir()
                if (one / "environment" / "Dockerfile").exists()}
# Of each task: the oracle's reward, and the exception's type.
EXPECTED = {
    "agent-timeout": (1, "AgentTimeoutError"),
    "allowlist": (1, None),
    "background": (1, None),
    "broken-dockerfile": (None, "SandboxBuildFailedError"),
    "compose-sidecar": (1, None),
    "dockerfile": (1, None),
    "environment-multi": (1, None),
    "environment-single": (1, None),
    "failing": (0, None),
    "healthcheck": (1, None),
    "image-plain": (1, None),
    "image-user": (1, None),
    "large-files": (1, None),
    "multi-step": (1, None),
    "network-phases": (1, None),
    "no-network": (1, None),
    "no-such-user": (0, None),
    "separate-verifier": (1, None),
    "small-shell": (1, None),
    "unhealthy": (None, "HealthcheckError"),
    "unsupported": (None, "ServiceOperationsUnsupportedError"),
    "user": (1, None),
    "workdir": (1, None),
}


def without_builds() -> list[str]:
    """Options that leave out what has to be built, where nothing can be."""
    return [] if BUILDS else [word for name in NEEDS_BUILDS for word in ("-x", name)]


@pytest.fixture(scope="module")
def world():
    """What the tasks with an allow-list connect to, or not."""
    peers = [f"198.51.100.{last}" for last in (162, 163, 164)]
    with running_world("sgtest-harbor", "tst-harbor", "198.51.100.161", peers, WORLD_PORT):
        yield


@pytest.fixture(scope="module")
def oracle(harbor, world):
    return harbor.run(TASKS, "-a", "oracle", "-n", 4, *without_builds())


def outcome(trial: dict) -> tuple:
    rewards = (trial.get("verifier_result") or {}).get("rewards") or {}
    return rewards.get("reward"), (trial.get("exception_info") or {}).get("exception_type")


def test_every_task_is_expected_to_end_somehow():
    assert set(EXPECTED) == {one.name for one in TASKS.iterdir()}


@pytest.mark.parametrize("task", EXPECTED)
def test_a_task_ends_as_it_should(oracle, task):
    if not BUILDS and task in NEEDS_BUILDS:
        pytest.skip("no image builder here (./dev setup makes it)")
    assert oracle.done.returncode == 0, oracle.done.stdout + oracle.done.stderr
    trial = oracle.trial(task)
    folder = oracle.folder_of(task)
    assert outcome(trial) == EXPECTED[task], (
        trial["exception_info"], [file.read_text() for file in folder.rglob("test-stdout.txt")])


def test_nothing_is_left(oracle, left):
    left()


def test_what_a_trial_brings_home(oracle):
    """5, 18, 32: the output of solution and tests, and artifacts as they were."""
    plain = oracle.folder_of("failing")
    assert (plain / "agent" / "exit-code.txt").read_text().strip() == "3"
    assert (plain / "verifier" / "reward.txt").read_text() == "0\n"
    large = oracle.folder_of("large-files")
    assert (large / "agent" / "oracle.txt").stat().st_size == 3_000_000
    brought = large / "artifacts" / "srv" / "large"
    assert (brought / "zeros").stat().st_size == 100_000_000
    assert hashlib.sha256((brought / "noise").read_bytes()).hexdigest() == (
        brought / "sum").read_text().strip()
    assert (brought / "deep" / "7" / "empty").is_dir() and (brought / "deep/1/300").is_file()
    assert [step["verifier_result"]["rewards"] for step in oracle.trial("multi-step")[
        "step_results"]] == [{"reward": 1}, {"reward": 1}]


def test_an_agent_that_does_nothing_earns_nothing(harbor, left):
    names = [word for name in ("image-plain", "user", "multi-step") for word in ("-i", name)]
    job = harbor.run(TASKS, "-a", "nop", *names)
    assert job.done.returncode == 0, job.done.stderr
    assert sorted(outcome(trial) for trial in job.trials) == [(0, None)] * 3
    left()


def many(harbor, gateway, left, count: int):
    """So many trials of one task at once: all come to their end, and nothing is left."""
    job = harbor.run(TASKS / "workdir", "-a", "oracle", "-k", count, "-n", count)
    assert job.done.returncode == 0, job.done.stderr
    assert [outcome(trial) for trial in job.trials] == [(1, None)] * count
    left()


def test_many_trials_at_once(harbor, gateway, left):
    many(harbor, gateway, left, 16)


@pytest.mark.slow
def test_very_many_trials_at_once(harbor, gateway, left):
    many(harbor, gateway, left, 64)


@pytest.fixture
def running(harbor, gateway, tmp_path):
    """A Harbor with one trial whose agent is at work until there is a file /go; its sandbox; and
    its job's folder."""
    task = tmp_path / "endless"
    shutil.copytree(TASKS / "failing", task)
    (task / "solution" / "solve.sh").write_text(
        "#!/bin/bash\ntouch /begun\nuntil test -e /go; do sleep 0.1; done\necho right > /answer\n")
    name, argv = harbor.job_options(task, "-a", "oracle", "--ek", "lease_sec=10")
    process = subprocess.Popen(harbor.command(*argv), cwd=harbor.home, env=harbor.environment,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def at_work():
        for box in gateway.list(labels={"harbor.managed": "true"}, state="ready"):
            if box.exec(["test", "-e", "/begun"]).ok:
                return box
        return None
    yield process, eventually(at_work, PATIENCE_SEC), harbor.home / "jobs" / name
    process.kill()
    process.wait()


def test_a_killed_harbor_leaves_nothing(running, gateway, left):
    """10, 27: the sandbox ends with its lease."""
    process, box, _ = running
    process.send_signal(signal.SIGKILL)
    process.wait()
    left()
    events = [event.reason for event in box.events()]
    assert "lease_expired" in events, events


@pytest.mark.parametrize("signals", [[signal.SIGINT], [signal.SIGINT] * 2, [signal.SIGTERM]])
def test_an_interrupted_harbor_ends_and_cleans_up(running, gateway, left, signals):
    """16: also when it is interrupted twice, or told to end. The second interrupt comes as late as
    a person's, and not while Python still deals with the first: asyncio can lose a task then."""
    process, _, _ = running
    for one in signals:
        process.send_signal(one)
        time.sleep(0.2)
    process.wait(PATIENCE_SEC)
    left()


def test_a_gateway_that_is_killed_loses_no_trial(running, deployed, gateway, left):
    process, box, folder = running
    deployed.gateway.signal(signal.SIGKILL)
    assert deployed.gateway.wait_gone(10)
    deployed.start()
    box.run(["touch", "/go"])
    assert process.wait(PATIENCE_SEC) == 0
    [trial] = [json.loads(file.read_text()) for file in folder.glob("*/result.json")]
    assert outcome(trial) == (1, None), trial["exception_info"]
    left()


def test_options_are_checked_before_anything_runs(harbor, left):
    job = harbor.run(TASKS / "failing", "-a", "nop", "--ek", "colour=red", "--ek",
                     "auto_mounting=true")
    assert job.done.returncode == 1 and job.trials == []
    told = job.done.stdout + job.done.stderr
    assert "colour" in told and "auto_mounting" in told, job.done
    done = harbor.call("environment", "schema", ENVIRONMENT, "--json")
    assert "lease_sec" in done.stdout, done
    left()
