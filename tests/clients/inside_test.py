"""The published client within a sandbox, without any set-up: what the shipped template puts there
is all that it has. (Ours wants a newer Python than the image's: tests/e2e/identity_test.py.)"""

import importlib.metadata
import io
import tarfile

import pytest

import deployment
import sandbox_gateway
from conftest import AGENT
from deployment import demo_image

PACKAGES = ("gatana-client", "attrs", "httpx", "httpcore", "h11", "anyio", "sniffio", "idna",
            "certifi", "python-dateutil", "six", "typing-extensions")
SITE = "/opt/site"


@pytest.fixture(scope="module")
def deployed():
    one = deployment.make_instance("sgn", "10.219.0.0/16", 900_000_000, shells=1)
    one.settings.gateway_options |= {"credentials": "sandbox,gatana"}
    with deployment.running(one):
        yield one


def packages_tar() -> bytes:
    """The pure Python packages as they lie in this run's environment."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in PACKAGES:
            try:
                files = importlib.metadata.files(name)
            except importlib.metadata.PackageNotFoundError:
                continue  # not all versions need all of them
            for file in files or ():
                if not file.parts[0].startswith("..") and "__pycache__" not in file.parts:
                    tar.add(file.locate(), f"{file}", recursive=False)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def box(deployed):
    with sandbox_gateway.Gateway(deployed.url, deployed.token) as gateway:
        tar = demo_image.make_tar(deployment.ROOT / "build" / "demo-image", AGENT)
        image = gateway.images.import_tar(tar, AGENT.name).name
        with gateway.create(image, cpus=1, memory_mb=512, storage_mb=512) as made:
            answer = deployment.Api(deployed).http.put(
                f"/sandboxes/{made.id}/files", params={"path": SITE, "tar": "1"},
                content=packages_tar())
            assert answer.status_code == 200, answer.text
            yield made


def python(box, script: str) -> str:
    return box.run(["python3", "-c", script], env={"PYTHONPATH": SITE}).stdout.strip()


def test_the_published_client_finds_its_gateway(box):
    said = python(box, """if True:
        from gatana_client import GatanaClient
        from gatana_client.api.sandboxes import exec_sandbox, get_sandbox, list_sandboxes
        from gatana_client.models import *
        with GatanaClient() as client:
            rows = list_sandboxes.sync(client=client, all_="false").sandboxes
            print([row.id for row in rows])
            print(get_sandbox.sync(rows[0].id, client=client).user.email)
        import os
        print(bool(os.environ["GATANA_API_KEY"]))
    """)
    rows, owner, has_key = said.split("\n")
    assert rows == f"['{box.id}']" and owner and has_key == "True"
