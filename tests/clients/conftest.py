"""What the clients of others need: an image with Python, and the gateway as their environment names
it. Run with the packages of tests/requirements-clients.txt (`./dev test clients`)."""

import pytest

import deployment
import sandbox_gateway
from deployment import demo_image

# Python, a shell, what makes users, and both of the programs that search.
AGENT = demo_image.Recipe(
    "debian-agent",
    (*demo_image.PACKAGES, "python3", "python-is-python3", "adduser", "passwd", "perl-base",
     "login", "util-linux", "libpam-modules", "libpam-runtime", "ripgrep"),
    frozenset(demo_image.LEFT_OUT - {"perl-base"}))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """The suites' coroutine tests carry no marks of their own."""
    config.option.asyncio_mode = "auto"
    config.addinivalue_line("markers", "slow: only in ./dev test --all")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.function.__module__.endswith(".self_check"):  # Inspect's own wait for seconds
            item.add_marker("slow")


@pytest.fixture(scope="session")
def agent_image(gateway):
    tar = demo_image.make_tar(deployment.ROOT / "build" / "demo-image", AGENT)
    return gateway.images.import_tar(tar, AGENT.name).name


@pytest.fixture(scope="session")
def gateway(deployed):
    with sandbox_gateway.Gateway(deployed.url, deployed.token) as made:
        yield made


@pytest.fixture
def gateway_environment(deployed, monkeypatch):
    """What a client takes from its environment."""
    monkeypatch.setenv("SANDBOX_GATEWAY_URL", deployed.url)
    monkeypatch.setenv("SANDBOX_GATEWAY_TOKEN", deployed.token)
