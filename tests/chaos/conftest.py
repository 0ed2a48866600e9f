"""One node and gateway of a build with fault points for the whole run; a module that turns its
instance upside down has one of its own."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import deployment  # noqa: E402
import faults  # noqa: E402


@pytest.fixture(scope="session")
def deployed():
    with deployment.running(deployment.make_instance("sgc", "10.203.0.0/16", 600_000_000,
                                                     shells=2)) as one:
        yield one


@pytest.fixture(scope="session")
def api(deployed):
    return deployment.Api(deployed)


@pytest.fixture(scope="module")
def baseline(api, deployed) -> dict:
    """Counts without any sandbox, once the pool of shells is full."""
    return faults.settled_holdings(deployed)
