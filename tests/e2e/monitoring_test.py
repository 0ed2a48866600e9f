"""The dashboard and the alerts ask for what a gateway has: every metric in them is one that it
shows, with the labels they use."""

import json
import re

import httpx
import pytest

from deployment import ROOT

FOLDER = ROOT / "monitoring"
NAME = re.compile(r"\b(?:sandbox_gateway|process)_[a-z_]+\b")
SELECTOR = re.compile(r"\b((?:sandbox_gateway|process)_[a-z_]+)\{([^}]*)\}")
GROUPING = re.compile(r"\bby \(([^)]*)\)")
OF_PROMETHEUS = {"job", "instance"}


@pytest.fixture(scope="module")
def shown(api, shared_box, deployed) -> dict[str, set[str]]:
    """Names of metrics and their labels, after something of everything happened."""
    api.run(shared_box, "true")
    assert api.get("/sandboxes").status_code == 200
    failed = api.post("/sandboxes?wait=60", {"image": "127.0.0.1:9/none", "cpus": 1,
                                             "memory_mb": 64}).json()
    api.remove(failed["id"])
    assert api.http.put("/teams/monitored", json={"quota": {"cpus": 2}}).status_code in (200, 201)
    text = httpx.get(f"http://127.0.0.1:{deployed.settings.metrics_port}/metrics").text
    assert api.delete("/teams/monitored").status_code == 204
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, labels = re.match(r"([a-z_]+)(?:\{(.*)\})? \S+$", line).groups()
            found.setdefault(name, set()).update(re.findall(r'([a-z]+)="', labels or ""))
    return found


def queries() -> list:
    dashboard = json.loads((FOLDER / "grafana-dashboard.json").read_text())
    found = [(panel["title"], target["expr"]) for panel in dashboard["panels"]
             for target in panel.get("targets", [])]
    assert len(found) > 20
    alerts = (FOLDER / "alerts.yml").read_text()
    exprs = re.findall(r"- alert: (\w+)\n\s+expr: (\|\n(?:\s{10,}.*\n)+|.*\n)", alerts)
    assert len(exprs) == alerts.count("- alert:")
    return [pytest.param(expr, id=f"{title}-{number}")
            for number, (title, expr) in enumerate(found + exprs)]


@pytest.mark.parametrize("query", queries())
def test_a_query_asks_for_what_is_there(shown, query):
    names = NAME.findall(query)
    assert names or "up{" in query
    labels = set().union(*(shown[name] for name in names if name in shown)) | OF_PROMETHEUS
    for name in names:
        assert name in shown, f"no gateway shows {name}"
    for name, selector in SELECTOR.findall(query):
        for label in re.findall(r"([a-z]+)\s*[=!]", selector):
            assert label in shown[name] | OF_PROMETHEUS, (name, label)
    for group in GROUPING.findall(query):
        for label in (part.strip() for part in group.split(",")):
            assert label in labels, (query, label)


def test_no_label_grows_with_sandboxes_or_callers(api, shared_box, deployed):
    text = httpx.get(f"http://127.0.0.1:{deployed.settings.metrics_port}/metrics").text
    assert shared_box not in text and "admin" not in text
    for line in text.splitlines():
        assert line.startswith("#") or re.fullmatch(
            r'[a-z_]+(?:\{(?:[a-z]+="[^"]*",?)*\})? [-+.e0-9]+', line), line


def test_every_family_has_its_type_and_help_once(deployed):
    text = httpx.get(f"http://127.0.0.1:{deployed.settings.metrics_port}/metrics").text
    types = re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE)
    helps = re.findall(r"^# HELP (\S+) .+", text, re.MULTILINE)
    assert types == helps and len(types) == len(set(types))
