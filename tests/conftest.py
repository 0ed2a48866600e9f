"""Fixtures of all suites: one node and gateway of the release build for the whole run."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import deployment  # noqa: E402
import sandbox_gateway  # noqa: E402
from deployment import Api, demo_image, eventually, instance  # noqa: E402

PREFIX = "sge"
LONGEST_ID = 100  # of one parameter

# A shell's background job ignores it, and so would the clients that tests interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_make_parametrize_id(val, argname):
    """Long values are named by their length."""
    if isinstance(val, (bytes, str)) and len(val) > LONGEST_ID:
        return f"{argname}-of-{len(val)}"
    return None


@pytest.fixture(scope="session", autouse=True)
def removed():
    """What instances leave is gone at the end."""
    yield
    deployment.finish_removals()


@pytest.fixture(scope="session")
def deployed():
    one = deployment.make_instance(PREFIX, "10.202.0.0/16", 300_000_000)
    one.mirror_port = deployment.instance.free_port()
    # As variables, which stay where a test restarts the gateway with options of its own.
    one.settings.gateway_variables |= {
        # A builder that its tests can fill, and builds that end while one waits.
        "SANDBOX_GATEWAY_BUILD_STORAGE_MB": "1024", "SANDBOX_GATEWAY_BUILD_MEMORY_MB": "1024",
        "SANDBOX_GATEWAY_BUILD_TIMEOUT": "30",
        # A registry that there is nowhere but at the operator's mirror.
        "SANDBOX_GATEWAY_REGISTRY_MIRRORS":
            f"mirrored.example.com=http://127.0.0.1:{one.mirror_port}"}
    with deployment.running(one):
        yield one
        for name in ("sandbox-node", "sandbox-gateway"):
            assert "Sanitizer" not in one.log_tail(name, 10_000)


@pytest.fixture(scope="session")
def api(deployed) -> Api:
    return Api(deployed)


@pytest.fixture
def box(api):
    """A sandbox of the test's own."""
    made = api.create()["id"]
    yield made
    api.remove(made)


@pytest.fixture(scope="module")
def shared_box(api):
    """One sandbox for tests that leave it as it was."""
    made = api.create()["id"]
    yield made
    api.remove(made)


@pytest.fixture(scope="module")
def gateway(deployed):
    """The Python client's."""
    with sandbox_gateway.Gateway(deployed.url, deployed.token) as made:
        yield made


@pytest.fixture(scope="module")
def sandbox(gateway):
    """As `shared_box`, by the Python client."""
    with gateway.create(deployment.IMAGE, cpus=1, memory_mb=256) as made:
        yield made


@pytest.fixture
def sandbox_cli(deployed, tmp_path):
    """Runs the command line program: sandbox_cli("list") gives a CompletedProcess."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path),
                   "SANDBOX_GATEWAY_URL": deployed.url, "SANDBOX_GATEWAY_TOKEN": deployed.token}

    def run(*argv: str, stdin: bytes = b"", env: dict | None = None):
        return subprocess.run([deployed.bin / "sandbox", *argv], input=stdin, capture_output=True,
                              timeout=120, check=False, env={**environment, **(env or {})})

    run.environment = environment
    run.program = str(deployed.bin / "sandbox")
    return run


@pytest.fixture(scope="session")
def probe(tmp_path_factory) -> bytes:
    """tests/e2e/probe.c as a static program: runs in any image."""
    target = tmp_path_factory.mktemp("probe") / "probe"
    subprocess.run(["clang-19", "-O1", "-static", "-Wall", "-Werror", "-o", target,
                    Path(__file__).parent / "e2e" / "probe.c"], check=True)
    return target.read_bytes()


class Registry:
    """Debian's docker-registry on loopback, with images pushed by skopeo."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.port = instance.free_port()
        self.host = f"127.0.0.1:{self.port}"
        config = folder / "config.yml"
        config.write_text(json.dumps({  # JSON is YAML
            "version": 0.1, "log": {"level": "error"},
            "storage": {"filesystem": {"rootdirectory": str(folder / "data")},
                        "cache": {"blobdescriptor": ""}, "delete": {"enabled": True}},
            "http": {"addr": self.host}}))
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(["docker-registry", "serve", config], stdout=log,
                                            stderr=log)
        eventually(self.answers, what="docker-registry")

    def answers(self) -> bool:
        assert self.process.poll() is None, (self.folder / "log").read_text()
        try:
            return deployment.httpx.get(f"http://{self.host}/v2/").status_code == 200
        except deployment.httpx.TransportError:
            return False

    def push(self, name: str, layers: list[bytes], config: dict, platform: str = "") -> str:
        """Pushes an image made of these layer tars; its manifest digest."""
        layout = self.folder / f"layout-{name.replace('/', '-').replace(':', '-')}"
        digest = demo_image.write_oci_layout(layout, layers, config, platform)
        subprocess.run(["skopeo", "copy", "-q", "--insecure-policy", "--dest-tls-verify=false",
                        f"oci:{layout}:latest", f"docker://{self.host}/{name}"], check=True)
        shutil.rmtree(layout)
        return digest

    def blob(self, digest: str) -> Path:
        algorithm, value = digest.split(":")
        return (self.folder / "data/docker/registry/v2/blobs" / algorithm / value[:2] / value /
                "data")

    def manifest(self, digest: str) -> dict:
        return json.loads(self.blob(digest).read_bytes())

    def corrupt_layer(self, digest: str) -> None:
        """Another whole gzip of the same length class in the place of the first layer."""
        path = self.blob(self.manifest(digest)["layers"][0]["digest"])
        path.write_bytes(gzip.compress(b"not the layer" * 100)[: path.stat().st_size])

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=10)


@pytest.fixture(scope="session")
def registry(api, tmp_path_factory):
    made = Registry(tmp_path_factory.mktemp("registry"))
    row = api.http.put(f"/teams/default/registries/{made.host}", json={"plain_http": True})
    assert row.status_code in (200, 201, 204), row.text
    yield made
    made.close()


@pytest.fixture(scope="session")
def demo_layer() -> bytes:
    """The demo root file system as one layer."""
    return deployment.demo_tar().read_bytes()
