"""Prometheus' own tool takes the alerts and the example of a configuration (Debian's package
`prometheus`), and a scrape of a gateway."""

import os
import shutil
import subprocess

import httpx
import pytest

from deployment import ROOT

FOLDER = ROOT / "monitoring"
PROMTOOL = os.environ.get("PROMTOOL") or shutil.which("promtool")
pytestmark = pytest.mark.skipif(not PROMTOOL, reason="no promtool: install prometheus")


def promtool(*arguments, stdin: bytes = b"") -> None:
    done = subprocess.run([PROMTOOL, *arguments], input=stdin, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts():
    promtool("check", "rules", FOLDER / "alerts.yml")


def test_configuration():
    promtool("check", "config", FOLDER / "prometheus.yml")


def test_what_a_gateway_shows(deployed):
    text = httpx.get(f"http://127.0.0.1:{deployed.settings.metrics_port}/metrics").content
    promtool("check", "metrics", stdin=text)
