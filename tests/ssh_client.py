"""OpenSSH's client against an instance's SSH front. A module that has an instance of its own as
`deployed` imports the fixtures for its API, one sandbox and the client."""

import concurrent.futures
import contextlib
import os
import subprocess
from pathlib import Path

import paramiko
import pytest

import deployment
import instance

OPTIONS = ["-F", "none", "-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes",
           "-o", "ConnectTimeout=20"]


def make_instance(name: str, subnet: str, id_base: int, **ssh_options) -> instance.Instance:
    one = deployment.make_instance(name, subnet, id_base, shells=4)
    one.settings.ssh_port = instance.free_port()
    one.settings.ssh_options = {key.replace("_", "-"): str(value)
                                for key, value in ssh_options.items()}
    return one


@contextlib.contextmanager
def running(one: instance.Instance):
    """As `deployment.running`; no process of the front's may have crashed."""
    with deployment.running(one):
        yield one
        log = one.log_path("sandbox-ssh").read_text()
        assert "crashed" not in log, [line for line in log.splitlines() if "crashed" in line]


class Ssh:
    """The clients' command lines for one sandbox."""

    def __init__(self, api, box: str, folder: Path, container: str | None = None):
        self.api, self.box, self.folder, self.container = api, box, folder, container
        self.known_hosts = folder / "known_hosts"

    def session(self) -> dict:
        query = f"?container={self.container}" if self.container else ""
        answer = self.api.post(f"/sandboxes/{self.box}/ssh-session{query}")
        assert answer.status_code == 200, answer.text
        told = answer.json()
        self.known_hosts.write_text(f"[{told['host']}]:{told['port']} {told['hostKey']}\n")
        return told

    @property
    def options(self) -> list[str]:
        return [*OPTIONS, "-o", f"UserKnownHostsFile={self.known_hosts}"]

    def argv(self, *words: str, token: str | None = None, options=()) -> list[str]:
        told = self.session()
        return ["ssh", *self.options, *options, "-p", str(told["port"]), "-l",
                token or told["token"], told["host"], *words]

    def run(self, *words: str, stdin: bytes | None = b"", seconds: float = 60, token=None,
            options=(), **more) -> subprocess.CompletedProcess:
        return subprocess.run(self.argv(*words, token=token, options=options), input=stdin,
                              capture_output=True, timeout=seconds, check=False,
                              env=environment(), **more)

    def run_each(self, tokens: list[str]) -> list[subprocess.CompletedProcess]:
        """With each of these tokens, at the same time: who is refused hears of it after a pause."""
        def run(argv: list[str]) -> subprocess.CompletedProcess:
            return subprocess.run(argv, input=b"", capture_output=True, timeout=60, check=False,
                                  env=environment())

        each = [self.argv("id", token=token) for token in tokens]
        with concurrent.futures.ThreadPoolExecutor(len(each)) as threads:
            return list(threads.map(run, each))

    def start(self, *words: str, options=(), **more) -> subprocess.Popen:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(self.argv(*words, options=options), env=environment(),
                                **{**pipes, **more})

    def copy_target(self) -> tuple[list[str], str]:
        """Options and "user@host" as scp and sftp take them."""
        told = self.session()
        return ([*self.options, "-P", str(told["port"]), "-o", f"User={told['token']}"],
                told["host"])


@contextlib.contextmanager
def paramiko_client(ssh: Ssh, told: dict, **secret):
    """Signed in with what `session()` told."""
    client = paramiko.SSHClient()
    client.load_host_keys(str(ssh.known_hosts))
    client.connect(told["host"], told["port"], told["token"], timeout=20, look_for_keys=False,
                   allow_agent=False, **secret)
    try:
        yield client
    finally:
        client.close()


def environment() -> dict:
    kept = {name: os.environ[name] for name in ("PATH",) if name in os.environ}
    return {**kept, "HOME": "/nonexistent", "LANG": "C.UTF-8", "TERM": "xterm"}


def bring_program(api, box: str, program: str) -> None:
    """The host's own, with its libraries: the image is the same Debian."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    files = [line.split("=> ")[1].split()[0] for line in listed.splitlines() if "=> /" in line]
    for path in [program, *files]:
        if api.shell(box, f"test -e {path}")["exit_code"] != 0:
            answer = api.upload(box, path, Path(path).read_bytes(), mode="755")
            assert answer.status_code in (200, 201), answer.text


@pytest.fixture(scope="module", name="api")
def api_fixture(deployed):
    return deployment.Api(deployed)


@pytest.fixture(scope="module", name="box")
def box_fixture(api):
    made = api.create(cpus=2, memory_mb=512)
    yield made["id"]
    api.remove(made["id"])


@pytest.fixture(name="ssh")
def ssh_fixture(api, box, tmp_path):
    return Ssh(api, box, tmp_path)
