import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import sandbox_gateway  # noqa: E402
from scripted_server import Answer, ScriptedServer  # noqa: E402


@pytest.fixture
def server():
    one = ScriptedServer()
    yield one
    one.close()


@pytest.fixture
def gateway(server):
    with sandbox_gateway.Gateway(server.url, "token-1") as made:
        yield made


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    """Pauses between attempts are counted, not slept."""
    slept: list[float] = []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr(sandbox_gateway.time, "sleep", slept.append)
    monkeypatch.setattr(sandbox_gateway.anyio, "sleep", sleep)
    return slept


READY = {"id": "sbx-1", "state": "ready", "image": "debian", "labels": {"a": "b"}}


@pytest.fixture
def box(gateway, server):
    """A sandbox, with what asked for it forgotten."""
    server.add(Answer.json(READY, 201))
    made = gateway.create("debian", cpus=1, memory_mb=64)
    server.seen.clear()
    return made
