"""The default image as its recipe makes it, through the published client: slow, and needs apt."""

import os
import subprocess

import gatana_client
import pytest
from gatana_langchain import GatanaSandbox

from deployment import ROOT

pytestmark = pytest.mark.slow
RECIPE = ROOT / "images" / "agent" / "build.py"
CACHE = ROOT / "build" / "default-image"  # kept: the next run finds the archive


@pytest.fixture(scope="module")
def default_image(deployed, gateway):
    """`sandbox image build-default --small`, under the gateway's own default name."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(deployed.state),
                   "SANDBOX_GATEWAY_URL": deployed.url, "SANDBOX_GATEWAY_TOKEN": deployed.token}
    for _ in range(2):  # the second time its archive is there
        built = subprocess.run(
            [deployed.bin / "sandbox", "image", "build-default", "--small", "--cache", CACHE,
             "--recipe", RECIPE],
            capture_output=True, text=True, timeout=1800, check=False, env=environment)
        assert built.returncode == 0, built.stderr
        assert built.stdout == "agent\n"
    assert "is of this recipe already" in built.stderr
    yield gateway.images.get("agent")


def test_it_is_what_the_documents_say(deployed, default_image):
    assert default_image.config["user"] == "ubuntu"
    assert default_image.config["workdir"] == "/home/ubuntu"
    with gatana_client.AuthenticatedClient(base_url=f"{deployed.url}/api/v1",
                                           token=deployed.token) as client:
        with GatanaSandbox(client=client) as sandbox:
            def output(command: str) -> str:
                done = sandbox.execute(command)
                assert done.exit_code == 0, done.output
                return done.output.strip()

            assert output("id -u; id -un; pwd; echo $HOME $LANG") == (
                "1000\nubuntu\n/home/ubuntu\n/home/ubuntu C.UTF-8")
            assert output("sudo -n id -u") == "0"
            assert output("touch a && stat -c %U a") == "ubuntu"
            for program in ("bash", "git", "curl", "python3", "python", "rg", "jq", "sandbox"):
                assert output(f"command -v {program}")
            assert output("python -c 'import ssl, sqlite3; print(1)'") == "1"
            assert output("sandbox --version").startswith("sandbox ")
            assert "curl" in output("curl --version")
            assert output("git init -q x && cd x && git status --short && echo ok") == "ok"
