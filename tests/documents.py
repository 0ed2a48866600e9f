"""The Python samples of a document, run as they stand there."""

import ast
import asyncio
import inspect
import re
from pathlib import Path

import pytest

import deployment

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def samples(name: str) -> list:
    """The samples of docs/NAME, each with its line as pytest's id."""
    text = (deployment.ROOT / "docs" / name).read_text()
    found = [pytest.param(match.group(1), id=f"line {text.count(chr(10), 0, match.start()) + 1}")
             for match in BLOCK.finditer(text)]
    assert found, name
    return found


def run_sample(sample: str, one, image: str, folder: Path, monkeypatch) -> None:
    """With the gateway of the tests in the environment, and its image for the sample's."""
    monkeypatch.setenv("SANDBOX_GATEWAY_URL", one.url)
    monkeypatch.setenv("SANDBOX_GATEWAY_TOKEN", one.token)
    monkeypatch.chdir(folder)
    text = re.sub(r'"(debian:12|python:3\.13)"', repr(image), sample)
    code = compile(text, "sample", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    outcome = eval(code, {"__name__": "sample"})
    if inspect.iscoroutine(outcome):
        asyncio.run(outcome)
