"""The default image's Dockerfile, built on a Debian of a loopback registry (SANDBOX_LONG=1: it
fetches its packages by the machine's own apt sources and takes minutes)."""

import os
import subprocess
import sys

import pytest

import deployment
from deployment import ROOT
from image_builds import needs_builder, tar_of

sys.path.insert(0, str(ROOT / "images" / "agent"))
import build as recipe  # noqa: E402

pytestmark = [needs_builder, pytest.mark.skipif(os.environ.get("SANDBOX_LONG") != "1",
                                                reason="SANDBOX_LONG=1")]
BUILD_SECONDS = 1_800


@pytest.fixture(scope="module")
def deployed():
    """With a builder that is large enough."""
    one = deployment.make_instance("sga", "10.207.0.0/16", 3_300_000_000, shells=2)
    one.settings.storage_pool_mb = 8192
    one.settings.gateway_options = {"build-storage-mb": "4096",
                                    "build-timeout": str(BUILD_SECONDS)}
    with deployment.running(one):
        yield one


@pytest.fixture(scope="module")
def api(deployed):
    return deployment.Api(deployed)


@pytest.fixture(scope="module")
def registry(api, tmp_path_factory):
    from conftest import Registry
    one = Registry(tmp_path_factory.mktemp("registry"))
    api.http.put(f"/teams/default/registries/{one.host}",
                 json={"plain_http": True}).raise_for_status()
    yield one
    one.close()


def debian(folder) -> bytes:
    """A root file system that apt works in."""
    target = folder / "debian.tar"
    subprocess.run(["mmdebstrap", "--quiet", "--mode=root", "--variant=apt", "--format=tar",
                    '--aptopt=Acquire::Check-Valid-Until "false"',
                    '--aptopt=Acquire::Check-Date "false"', recipe.suite_of_this_machine(),
                    target, *recipe.apt_sources()], check=True)
    return target.read_bytes()


def test_the_default_images_dockerfile_builds_and_its_programs_run(api, deployed, registry,
                                                                   tmp_path):
    registry.push("test/debian:12", [debian(tmp_path)], {"Env": ["PATH=/usr/sbin:/usr/bin"]})
    context = tar_of({"Dockerfile": (ROOT / "images/agent/Dockerfile").read_bytes(),
                      "sandbox": (deployed.bin / "sandbox").read_bytes()})
    row = api.http.post("/builds", params={"arg": f"BASE={registry.host}/test/debian:12"},
                        content=context, headers={"Content-Type": "application/x-tar"}).json()
    while row["state"] in ("queued", "running"):
        row = api.get(f"/builds/{row['id']}?wait=60").json()
    log = api.get(f"/builds/{row['id']}/logs").text
    assert row["state"] == "succeeded", (row, log[-4000:])
    made = api.create(row["image"], memory_mb=512)["id"]
    assert api.output(made, "id -un; pwd; sudo id -u").split() == ["ubuntu", "/home/ubuntu", "0"]
    for program in ("sandbox version --help", "python --version", "node --version", "git --version",
                    "rg --version", "jq --version", "gcc --version", "pip --version"):
        assert api.output(made, program), program
    api.remove(made)
