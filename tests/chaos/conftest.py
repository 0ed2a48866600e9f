"""A node and gateway of a build with fault points, started anew by each test module."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import deployment  # noqa: E402


@pytest.fixture(scope="module")
def deployed():
    one = deployment.make_instance("sgc", "10.203.0.0/16", 600_000_000, shells=2)
    try:
        one.start()
        deployment.import_demo_image(one)
        yield one
    finally:
        one.purge()


@pytest.fixture(scope="module")
def api(deployed):
    return deployment.Api(deployed)
