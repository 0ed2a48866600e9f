"""What the environment reads of compose files itself: builds, limits, variables."""

import json

import pytest
import yaml
from harbor.environments.base import ServiceOperationsUnsupportedError

import sandbox_gateway_harbor as ours


@pytest.fixture
def project():
    return ours._Project({"SET": "value", "EMPTY": "", "SECRET": "not named", "TAG": "1"})


@pytest.mark.parametrize("text, result", [
    ("a $SET ${SET} $$SET", "a value value $SET"), ("${NO}", ""), ("$", "$"),
    ("${NO:-x}${EMPTY:-x}${EMPTY-x}${SET:-x}", "xxvalue"), ("${NO-${SET}y}", "valuey"),
    ("${SET:+on}${EMPTY:+on}${EMPTY+on}${NO+on}", "onon"), ("${SET:?why}", "value")])
def test_variables(project, text, result):
    assert project._text(text) == result


def test_a_variable_that_has_to_be_set(project):
    with pytest.raises(ServiceOperationsUnsupportedError, match="NO: say it"):
        project._text("${NO:?say it}")


def test_builds_of_merged_files(project, tmp_path):
    project.add_ours(tmp_path, {"build": {"context": "."}, "environment": {"A": "$5 ${SET}"}})
    project.add(tmp_path, """
services:
  api:
    build: {context: ./api, target: "${NO:-final}", args: [A=1, SET, MISSING]}
  main:
    build: {args: {B: "${TAG}"}}
  off:
    build: elsewhere
    profiles: [debug]
""")
    project.add(tmp_path / "extra", "services: {api: {build: {dockerfile: Other, args: {A: 2}}}}")
    none = {"dockerfile": None, "target": None}
    assert list(project.builds()) == [
        ("main", {**none, "context": tmp_path / ".", "args": {"B": "1"}}),
        ("api", {"context": tmp_path / "api", "dockerfile": "Other", "target": "final",
                 "args": {"A": "2", "SET": "value"}})]
    asked = project.request({"main": "build-1", "api": "build-2"})
    assert asked["env"] == {"SET": "value", "TAG": "1"}  # no more of this machine's variables
    environment = yaml.safe_load(asked["files"][0])["services"]["main"]["environment"]
    assert environment == {"A": "$$5 $${SET}"} and json.loads(asked["files"][0])
    assert asked["main"] == "main" and len(asked["files"]) == 3


def test_limits_of_sidecars(project, tmp_path):
    project.add(tmp_path, """
services:
  main: {mem_limit: 8g, cpus: 8}
  a: {mem_limit: 1.5g, cpus: "0.25"}
  b: {deploy: {resources: {limits: {cpus: "1", memory: 100M}}}}
  c: {image: x}
  d: {image: x, profiles: [other]}
""")
    options = ours.SandboxGatewayOptions(sidecar_cpus=0.5, sidecar_memory_mb=64)
    assert project.sidecars(options) == (1.75, 1536 + 100 + 64)


@pytest.mark.parametrize("text, words", [
    ("services: [", "docker-compose.yaml"), ("services: {a: 1}", "docker-compose.yaml"),
    ("[1]", "docker-compose.yaml"), ("services: {a: {build: 'https://host/x.git'}}", "a.build"),
    ("services: {a: {build: {dockerfile_inline: FROM x}}}", "a.build"),
    ("services: {a: {mem_limit: much}}", "much")])
def test_what_cannot_be_read_is_refused(project, tmp_path, text, words):
    with pytest.raises(ServiceOperationsUnsupportedError, match=words):
        project.add(tmp_path, text)
        list(project.builds())
        project.sidecars(ours.SandboxGatewayOptions())
