"""Compose: cases CO-01, CO-03, CO-04 and CO-07."""

import pytest

from compose_services import (IMAGE, containers, image, log, post, services,  # noqa: F401
                              up)
from deployment import error_of, eventually

HEALTHY = {"depends_on": {"db": {"condition": "service_healthy"}}}


def refused(answer) -> str:
    assert error_of(answer) == (422, "compose_invalid"), answer.text
    return answer.json()["error"]["details"]["field"]


@pytest.mark.parametrize("test", [["CMD-SHELL", "test -f /ok"], "test -f /ok",
                                  ["CMD", "test", "-f", "/ok"]])
def test_a_dependency_counts_as_soon_as_it_is_healthy(api, up, test):
    """CO-01: failures within start_period are none, and its end is not waited for."""
    row = up({"services": services(
        db={"command": ["sh", "-c", "date +%s > /began; sleep 2; touch /ok; exec sleep 1000"],
            "healthcheck": {"test": test, "interval": "1s", "retries": 1, "start_period": "300s"}},
        main={"command": ["sh", "-c", "date +%s; exec sleep 1000"], **HEALTHY})})
    box = row["id"]
    began = int(api.output(box, "cat /began", container="db"))
    started = int(eventually(lambda: log(api, box, "main")))
    assert started - began >= 2, "not before it is healthy"


def test_failures_outside_the_start_period_count(api, up):
    """CO-01"""
    db = {"command": ["sh", "-c", "sleep 60; touch /ok; exec sleep 1000"],
          "healthcheck": {"test": "echo checked; test -f /ok", "interval": "1s", "retries": 2}}
    row = up({"services": services(db=db, main=HEALTHY)}, state="failed")
    assert row["reason"] == "start_failed"
    assert "'db' is unhealthy" in row["message"] and "checked" in row["message"], row


def test_a_check_that_hangs_is_a_failure(api, up):
    """CO-01"""
    db = {"healthcheck": {"test": ["CMD", "sleep", "50"], "interval": "1s", "timeout": "1s",
                          "retries": 1}}
    row = up({"services": services(db=db, main=HEALTHY)}, state="failed")
    assert "'db' is unhealthy" in row["message"], row


def test_what_never_comes_is_refused_at_create(api, up):
    """CO-01"""
    none = services(db={"healthcheck": {"test": ["NONE"]}}, main=HEALTHY)
    assert refused(post(api, {"services": none})) == "services.main.depends_on.db"
    ring = services(a={"depends_on": ["b"]}, b={"depends_on": ["c"]}, c={"depends_on": ["a"]})
    answer = post(api, {"services": ring})
    assert refused(answer).endswith(".depends_on")
    assert all(f"{name} -> " in answer.json()["error"]["message"] for name in "abc")
    started = services(db=None, main={"depends_on": {"db": {"condition": "service_started"}}})
    assert up({"services": started})["state"] == "ready"


def test_variables_in_a_file(api, up):
    """CO-03"""
    row = up(f"""
services:
  main:
    image: {IMAGE}
    environment:
      A: "$$HOME"
      B: "${{NOPE:-def}}"
      C: "${{EMPTY:-e1}}/${{EMPTY-e2}}"
      D: "${{SET:+yes}}"
    command: sh -c 'echo $$A $$(id -u); exec sleep 1000'
""", compose={"dotenv": "EMPTY=\nSET=1\n"})
    box = row["id"]
    assert api.output(box, "echo \"$A|$B|$C|$D\"") == "$HOME|def|e1/|yes"
    eventually(lambda: log(api, box, "main") == "$HOME 0\n")
    for value, words in (("x$", "E"), ("${MUST:?need it}", "need it")):
        answer = post(api, {"services": services(main={"environment": {"E": value}})})
        assert refused(answer) == "services.main.environment.E"
        assert words in answer.json()["error"]["message"]


def test_env_files(api, up):
    """CO-03"""
    first = ("\ufeffP1=abc$def\r\nP2=\"abc$def\"\r\nP3='abc$def'\r\nP4=a b # note\r\n"
             "P5=\"l1\\nl2\"\r\nexport P6=1\r\nP7\r\n# c\r\n P8 = x \r\nLATER=1\r\nOVER=1\r\n")
    row = up({"services": services(main={
        "env_file": ["one.env", "two.env", {"path": "no.env", "required": False}],
        "environment": {"OVER": "environment"}})},
        compose={"env_files": {"one.env": first, "two.env": "LATER=2\n"}, "env": {"P7": "given"}})
    shown = api.output(row["id"], "for n in 1 2 3 4 5 6 7 8; do eval \"echo \\\"[\\$P$n]\\\"\"; "
                                  "done; echo $LATER $OVER")
    assert shown.split("\n") == ["[abc]", "[abc]", "[abc$def]", "[a b]", "[l1", "l2]", "[1]",
                                 "[given]", "[x]", "2 environment"]


def test_services_of_one_network(api, up):
    """CO-04"""
    serve = "mkdir /w; echo {0} > /w/index.html; exec httpd -f -p {1} -h /w"
    clash = services(web={"command": ["sh", "-c", serve.format("web", 80)], "expose": [80]},
                     api={"command": ["sh", "-c", serve.format("api", 80)],
                          "ports": ["127.0.0.1:9000:80"]}, main=None)
    answer = post(api, {"services": clash})
    assert refused(answer) == "services.api.ports"
    assert "web and api both listen on 80" in answer.json()["error"]["message"]
    box = up({"services": services(
        web={"command": ["sh", "-c", serve.format("web", 8080)], "ports": ["127.0.0.1:9000:8080"]},
        api={"command": ["sh", "-c", serve.format("api", 8081)], "expose": [8081]},
        main={"hostname": "me", "extra_hosts": ["other:10.1.2.3"]})})["id"]
    for name in ("web:8080", "api:8081", "localhost:8080", "me:8081"):
        page = "web" if name.endswith("8080") else "api"
        eventually(lambda name=name, page=page: api.shell(
            box, f"wget -qO- http://{name}/")["stdout"] == page + "\n", what=name)
    assert refused(post(api, {"services": services(main={"network_mode": "none"})})) == (
        "services.main.network_mode")
    apart = {"services": services(main={"networks": ["front"]}, db={"networks": ["back"]}),
             "networks": {"front": None, "back": None}}
    assert refused(post(api, apart)) == "services.main.networks"


def test_which_service_is_main_and_what_it_is(api, up):
    """CO-07"""
    row = up("""
x-common: &common {image: %s, command: "sh -c 'echo a; sleep 1'", restart: "no"}
services:
  first: {<<: *common, command: sleep 1000}
  main:
    <<: *common
    init: true
    working_dir: /data
    entrypoint: ""
    user: "1000:1000"
    environment: [X=1, Y]
    deploy: {resources: {limits: {memory: 64M}}}
  debug: {image: nowhere, profiles: [debug]}
""" % IMAGE)
    box = row["id"]
    assert [one["name"] for one in row["containers"]] == ["main", "first"]
    assert api.output(box, "pwd; id -u; id -g; echo [$X$Y]").split("\n") == [
        "/data", "1000", "1000", "[1]"]
    # Its command ends: its container stays and takes commands (docs/compose.md).
    eventually(lambda: containers(api, box)["main"]["state"] == "exited")
    assert log(api, box, "main") == "a\n"
    assert api.output(box, "echo still") == "still" and api.state(box) == "ready"
    named = up({"services": services(a={"hostname": "is-a"}, b={"hostname": "is-b"})},
               compose={"main": "b"})
    assert api.output(named["id"], "hostname") == "is-b"
    first = up({"services": services(a={"hostname": "is-a"}, b=None)})
    assert api.output(first["id"], "hostname") == "is-a", "none is called main: the first"


@pytest.mark.parametrize("keys, field", [
    ({"privileged": True}, "privileged"), ({"cap_add": ["SYS_ADMIN"]}, "cap_add"),
    ({"devices": ["/dev/kmsg"]}, "devices")])
def test_what_would_be_more_than_a_sandbox_is_refused(api, keys, field):
    """CO-07"""
    assert refused(post(api, {"services": services(main=keys)})) == f"services.main.{field}"


def test_limits_of_services_add_up_against_the_teams(api):
    """CO-07"""
    huge = {"cpus": 1, "mem_limit": "900g"}
    answer = post(api, {"services": services(main=huge, other=huge)}, cpus=None, memory_mb=None)
    assert error_of(answer) == (422, "quota_never")


def test_an_empty_command_is_no_word(api, up):
    """CO-07"""
    box = up({"services": services(main={"command": ""}, other=None)})["id"]
    assert containers(api, box)["main"]["state"] == "running", "it waits for what it is asked"
    assert api.get(f"/sandboxes/{box}/logs").status_code == 404, "nothing was run"
    assert api.output(box, "echo ready") == "ready"
