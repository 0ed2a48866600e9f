"""What the Harbor tests share: a gateway as Harbor's environment names it, and whole jobs of the
published program. Run with the packages of tests/requirements-harbor.txt (`./dev test harbor`)."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import deployment
import sandbox_gateway

TASKS = Path(__file__).parent / "tasks"
ENVIRONMENT = "sandbox_gateway_harbor:SandboxGatewayEnvironment"
JOB_TIMEOUT_SEC = 600


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: only in ./dev test --all")


@pytest.fixture(scope="session")
def gateway(deployed):
    with sandbox_gateway.Gateway(deployed.url, deployed.token) as made:
        yield made


@dataclasses.dataclass
class Job:
    """A job that has ended: how the command did, and each trial's result by its task's name."""

    done: subprocess.CompletedProcess
    folder: Path
    trials: list[dict]

    def trial(self, task: str) -> dict:
        [found] = [one for one in self.trials if Path(one["task_id"]["path"]).name == task]
        return found

    def folder_of(self, task: str) -> Path:
        return self.folder / self.trial(task)["trial_name"]


class Harbor:
    """The program, with nothing of this machine's user and nobody to report to."""

    def __init__(self, url: str, token: str, home: Path):
        self.home = home
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": str(home), "HARBOR_TELEMETRY": "off",
            "PYTHONPATH": str(deployment.ROOT / "clients" / "python"),
            "PYTHONDONTWRITEBYTECODE": "1", "SANDBOX_GATEWAY_URL": url,
            "SANDBOX_GATEWAY_TOKEN": token}
        self._jobs = 0

    def command(self, *argv) -> list[str]:
        return [str(Path(sys.executable).parent / "harbor"), *map(str, argv)]

    def call(self, *argv, **environment) -> subprocess.CompletedProcess:
        return subprocess.run(self.command(*argv), capture_output=True, text=True, check=False,
                              cwd=self.home, env={**self.environment, **environment},
                              timeout=JOB_TIMEOUT_SEC)

    def job_options(self, path: Path, *options) -> tuple[str, list]:
        self._jobs += 1
        name = f"job-{self._jobs}"
        return name, ["run", "-p", path, "-e", ENVIRONMENT, "-o", self.home / "jobs", "--job-name",
                      name, "-y", "-q", *options]

    def run(self, path: Path, *options, **environment) -> Job:
        name, argv = self.job_options(path, *options)
        done = self.call(*argv, **environment)
        folder = self.home / "jobs" / name
        results = [json.loads(file.read_text()) for file in sorted(folder.glob("*/result.json"))]
        return Job(done, folder, results)


@pytest.fixture(scope="session")
def harbor(deployed, tmp_path_factory):
    return Harbor(deployed.url, deployed.token, tmp_path_factory.mktemp("harbor"))


@pytest.fixture
def left(gateway):
    """Checks that nothing of Harbor's is left."""
    def check():
        deployment.eventually(
            lambda: not gateway.list(labels={"harbor.managed": "true"}), what="sandboxes are left")
    return check
