"""schemathesis over the served document: no 500, and no answer that it does not have.

Calls are made up from the document: values that fit and values that do not. Bounded by
SANDBOX_SCHEMA_EXAMPLES calls a route (and what the document names as examples)."""

import json
import os
import urllib.request
import zlib

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import checks

# Streams that go on until somebody ends them; the operator's own, which would take the others'
# image away; and what is no HTTP any more after its answer.
LEFT_OUT = r"/(attach|terminal)$"
EXAMPLES = int(os.environ.get("SANDBOX_SCHEMA_EXAMPLES", "25"))
SECONDS = 60
# Not schemathesis' own check of 5xx: 502, 503 and 507 are answers that are documented.
CHECKS = (checks.status_code_conformance, checks.content_type_conformance,
          checks.response_schema_conformance)


@pytest.fixture(scope="session")
def schema(deployed):
    with urllib.request.urlopen(f"{deployed.url}/openapi.json") as answer:
        document = json.load(answer)
    return schemathesis.openapi.from_dict(document)


@pytest.fixture(scope="session")
def sandbox(api):
    """A sandbox whose id stands in most of the calls, so that they get past 404."""
    made = api.create(lease_sec=1800)["id"]
    yield made
    api.remove(made)


loaded = schemathesis.pytest.from_fixture("schema")


@loaded.exclude(path_regex=LEFT_OUT).parametrize()
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True,
          phases=(Phase.explicit, Phase.generate),
          suppress_health_check=list(HealthCheck))
def test_every_answer_is_documented(case, deployed, api, sandbox):
    parameters = case.path_parameters or {}
    mostly = zlib.crc32(str(case.query).encode()) % 4 != 0
    if "id" in parameters and case.method != "DELETE" and mostly:
        parameters["id"] = sandbox
    query = case.query or {}
    for name in ("wait", "follow"):  # no test waits for minutes
        if name in query:
            query[name] = "0"
    case.headers["Authorization"] = f"Bearer {deployed.token}"
    answer = case.call(base_url=deployed.url, timeout=SECONDS)
    assert answer.status_code != 500, answer.text
    case.validate_response(answer, checks=CHECKS)


def test_the_gateway_is_still_there(api):
    assert api.get("/readyz").status_code == 200
