"""Compose files: one sandbox of several containers, and everything that can be wrong with one."""

import signal

import pytest

from compose_services import (IMAGE, containers, image, log, post, services,  # noqa: F401
                              up)
from deployment import error_of, eventually


def test_services_find_each_other_and_each_is_reached(api, up):
    serve = "mkdir /w; echo {0} > /w/index.html; exec httpd -f -p {1} -h /w"
    row = up({"services": services(
        web={"command": ["sh", "-c", serve.format("web", 8080)], "hostname": "front",
             "ports": ["127.0.0.1:9000:8080"]},
        api={"command": ["sh", "-c", serve.format("api", 8081)], "expose": [8081],
             "networks": {"default": {"aliases": ["backend"]}}},
        main={"extra_hosts": ["other:10.9.8.7"], "environment": {"WHO": "main"}})})
    box = row["id"]
    assert [one["name"] for one in row["containers"]] == ["main", "web", "api"]
    assert row["image"] == IMAGE
    for name, page in (("web:8080", "web"), ("front:8080", "web"), ("api:8081", "api"),
                       ("backend:8081", "api"), ("localhost:8081", "api")):
        eventually(lambda name=name, page=page: api.shell(
            box, f"wget -qO- http://{name}/")["stdout"].strip() == page)
    assert "10.9.8.7\tother" in api.output(box, "cat /etc/hosts")
    assert api.output(box, "hostname", container="web") == "front"
    assert api.output(box, "hostname", container="api") == "api"
    assert api.output(box, "echo $WHO") == "main"
    assert api.output(box, "echo [$WHO]", container="api") == "[]"
    # Files, sessions and their logs are the container's own.
    assert api.upload(box, "/tmp/here", b"in api", container="api").status_code == 200
    assert api.download(box, "/tmp/here", container="api").content == b"in api"
    assert api.download(box, "/tmp/here").status_code == 404
    started = api.post(f"/sandboxes/{box}/sessions", {"argv": ["hostname"], "container": "api"})
    assert started.status_code == 201, started.text
    path = f"/sandboxes/{box}/sessions/{started.json()['id']}"
    assert api.get(path + "?wait=20&container=api").json()["exit_code"] == 0
    assert api.get(path + "/logs").text == "api\n", "its id says where it is"
    assert api.get(path + "?container=main").status_code == 404
    assert error_of(api.post(f"/sandboxes/{box}/run", {"argv": ["true"], "container": "no"})) == (
        422, "invalid_field")
    states = containers(api, box)
    assert {one["state"] for one in states.values()} == {"running"}
    assert all(one["ready"] and one["health"] == "none" for one in states.values())


def test_what_depends_on_a_service_starts_when_that_is_healthy(api, up):
    row = up({"services": services(
        db={"command": "sh -c 'sleep 1; touch /ok; sleep 1000'",
            "healthcheck": {"test": ["CMD-SHELL", "test -f /ok"], "interval": "200ms",
                            "retries": 2, "start_period": "30s"}},
        seed={"command": ["sh", "-c", "echo seeded > /v/seed"], "volumes": ["v:/v"],
              "depends_on": {"db": {"condition": "service_healthy"}}},
        main={"command": ["sh", "-c", "cat /v/seed; exec sleep 1000"], "volumes": ["v:/v:ro"],
              "depends_on": {"seed": {"condition": "service_completed_successfully"}}}),
        "volumes": {"v": None}})
    states = containers(api, row["id"])
    assert states["db"]["health"] == "healthy"
    assert (states["seed"]["state"], states["seed"]["exit_code"]) == ("exited", 0)
    eventually(lambda: log(api, row["id"], "main") == "seeded\n")
    assert api.shell(row["id"], "touch /v/x")["exit_code"] != 0, "it is mounted read-only"


@pytest.mark.parametrize("db, reason, words", [
    ({"command": "sleep 1000", "healthcheck": {
        "test": "echo not yet; false", "interval": "100ms", "retries": 2}},
     "start_failed", ("'db' is unhealthy", "not yet")),
    ({"command": "sleep 1000", "healthcheck": {
        "test": ["CMD", "sleep", "5"], "interval": "100ms", "timeout": "100ms", "retries": 1}},
     "start_failed", ("'db' is unhealthy", "longer")),
    ({"command": ["sh", "-c", "echo the reason; exit 3"],
      "healthcheck": {"test": "false", "interval": "1m", "start_period": "5m"}},
     "entrypoint_exited", ("'db' ended with code 3", "the reason")),
    ({"command": ["/no/such/program"]}, "entrypoint_exited", ("'db' ended with code 127",)),
    ({"image": "127.0.0.1:1/no/such:image"}, None, ("127.0.0.1:1",))])
def test_a_service_that_does_not_come_up_fails_the_sandbox(api, up, db, reason, words):
    wants = {"depends_on": {"db": {"condition": "service_healthy"}}} if "healthcheck" in db else {
        "depends_on": ["db"], "healthcheck": {"test": "false", "start_period": "5m"}}
    row = up({"services": services(db=db, main=wants)}, state="failed")
    assert reason in (None, row["reason"]), row
    assert all(word in row["message"] for word in words), row
    eventually(lambda: row["id"] not in [
        one["id"] for one in api.instance.ask_node({"op": "list"})["sandboxes"]],
        what="nothing of it is left at the node")


def test_volumes_begin_with_what_the_image_has(api, up):
    row = up({"services": services(
        main={"volumes": ["v:/data", "/own"], "tmpfs": ["/run:size=1m"], "user": "user"},
        other={"volumes": [{"type": "volume", "source": "v", "target": "/deep/er/data"},
                           {"type": "tmpfs", "target": "/scratch", "tmpfs": {"size": "1m"}}]}),
        "volumes": {"v": {}}})
    box = row["id"]
    assert api.output(box, "cat /data/page; stat -c '%U %a' /data /data/page").split("\n") == [
        "from the image", "user 750", "user 640"]
    api.output(box, "echo changed > /data/page; echo more > /data/new")
    assert api.output(box, "cat /deep/er/data/page /deep/er/data/new", container="other") == (
        "changed\nmore")
    assert api.output(box, "touch /own/x && grep ' /run tmpfs' /proc/mounts", user="root")
    full = api.shell(box, "dd if=/dev/zero of=/scratch/x bs=64k count=64", container="other")
    assert full["exit_code"] != 0 and "space" in full["stderr"], full


def test_a_service_is_run_again_as_its_policy_says(api, up):
    count = "echo run >> /v/count; exit 1"
    row = up({"services": services(
        twice={"command": ["sh", "-c", "sleep 1;" + count], "restart": "on-failure:2",
               "volumes": ["v:/v"]},
        ended={"command": ["true"], "restart": "on-failure"},
        main={"volumes": ["v:/v"], "restart": "always"}), "volumes": {"v": None}}, state="ready")
    box = row["id"]
    eventually(lambda: containers(api, box)["twice"]["state"] == "exited")
    twice = containers(api, box)["twice"]
    assert (twice["exit_code"], twice["restarts"]) == (1, 2)
    assert api.output(box, "cat /v/count").split() == ["run"] * 3
    assert containers(api, box)["ended"]["restarts"] == 0
    killed = api.post(f"/sandboxes/{box}/sessions/main/kill", {"signal": "KILL"})
    assert killed.status_code == 204, killed.text
    eventually(lambda: containers(api, box)["main"]["restarts"] == 1 and
               containers(api, box)["main"]["state"] == "running")
    assert api.state(box) == "ready"


def test_one_service_is_stopped_and_the_others_go_on(api, up):
    box = up({"services": services(main={"restart": "always"}, side=None)})["id"]
    stopped = api.post(f"/sandboxes/{box}/containers/main/stop")
    assert stopped.status_code == 200, stopped.text
    eventually(lambda: containers(api, box)["main"]["state"] == "exited")
    assert containers(api, box)["side"]["state"] == "running"
    assert api.output(box, "echo here", container="side") == "here"
    assert api.output(box, "echo there") == "there", "its container stays"
    assert error_of(api.post(f"/sandboxes/{box}/containers/no/stop")) == (404, "not_found")


def test_a_start_goes_on_where_gateway_and_node_were_killed(api, up):
    answer = post(api, {"services": services(
        db={"command": ["sh", "-c", "echo began; sleep 4; touch /ok; exec sleep 1000"],
            "healthcheck": {"test": "test -f /ok", "interval": "200ms", "start_period": "1m"}},
        main={"depends_on": {"db": {"condition": "service_healthy"}}})}, wait=0)
    box = answer.json()["id"]
    try:
        eventually(lambda: containers(api, box)["db"]["state"] == "running")
        for process in (api.instance.gateway, api.instance.node):
            process.signal(signal.SIGKILL)
            process.wait_gone(20)
        api.instance.start()
        row = api.get(f"/sandboxes/{box}?wait=60").json()
        assert row["state"] == "ready", row
        assert log(api, box, "db") == "began\n", "nothing was started twice"
    finally:
        api.remove(box)


def test_limits_are_the_containers_own_and_add_up(api, up):
    limited = services(main={"cpus": 0.5, "mem_limit": "64m", "pids_limit": 20},
                       side={"deploy": {"resources": {"limits": {"cpus": "0.25",
                                                                 "memory": "32M"}}}})
    row = up({"services": limited}, cpus=None, memory_mb=None)
    assert (row["cpus"], row["memory_mb"]) == (0.75, 96)
    eaten = api.shell(row["id"], "dd if=/dev/zero of=/dev/shm/x bs=1M count=48", container="side")
    assert eaten["exit_code"] != 0, "32 MiB are the limit of that container"
    assert api.output(row["id"], "dd if=/dev/zero of=/dev/shm/x bs=1M count=40 2>&1 && echo fine")
    refused = post(api, {"services": services(main=None)}, cpus=None)
    assert error_of(refused) == (422, "missing_field")
    huge = post(api, {"services": services(main={"mem_limit": "500g", "cpus": 1})}, memory_mb=None,
                cpus=None)
    assert error_of(huge) == (422, "quota_never")


def test_variables_env_files_and_overriding_files(api, up):
    row = up("""
services:
  main:
    image: ${IMAGE:?which}
    env_file: [one.env, {path: none.env, required: false}]
    environment: {A: "$$HOME", B: "${NOPE:-def}", C: "${EMPTY:-e1}/${EMPTY-e2}", OVER: base}
    command: ["sh", "-c", "echo $$A $$P1 $$OVER; exec sleep 1000"]
""", "services: {main: {environment: [OVER=again]}}", env={"EXTRA": "given"}, compose={
        "env": {"IMAGE": IMAGE, "EMPTY": ""}, "env_files": {"one.env": "P1='a$b'\nB=lost\n"}})
    box = row["id"]
    eventually(lambda: log(api, box, "main") == "$HOME a$b again\n")
    assert api.output(box, "echo $B $C $EXTRA") == "def e1/ given"


REFUSED = [
    ({"a": {"depends_on": ["b"]}, "b": {"depends_on": ["a"]}}, "services.a.depends_on"),
    ({"a": {"no_such_key": 1}}, "services.a.no_such_key"),
    ({"a": {"privileged": True}}, "services.a.privileged"),
    ({"a": {"ports": ["80:80"]}, "b": {"expose": ["80"]}}, "services.b.ports"),
    ({"a": {"environment": {"F": "${MUST:?need it}"}}}, "services.a.environment.F"),
    ({"a": {"environment": {"E": "x$"}}}, "services.a.environment.E"),
    ({"a": {"volumes": ["./here:/there"]}}, "services.a.volumes.0"),
    ({"a": {"env_file": "missing.env"}}, "services.a.env_file"),
    ({"a": {"build": "."}}, "services.a.build"),
    ({"a": {"depends_on": {"b": {"condition": "service_healthy"}}},
      "b": {"healthcheck": {"test": ["NONE"]}}}, "services.a.depends_on.b")]


@pytest.mark.parametrize("named, field", REFUSED, ids=[field for _, field in REFUSED])
def test_what_is_wrong_is_refused_by_its_key(api, named, field):
    answer = post(api, {"services": services(**named)})
    assert error_of(answer) == (422, "compose_invalid"), answer.text
    assert answer.json()["error"]["details"]["field"] == field


def test_other_refusals(api):
    bomb = "a0: &a0 [" + "x," * 10 + "]\n" + "".join(
        f"a{i}: &a{i} [" + f"*a{i - 1}," * 10 + "]\n" for i in range(1, 9))
    for text in (bomb, "services: [", "- x", "services: {}", "a: 1\na: 2", "services: {m: 1}"):
        assert error_of(post(api, text)) == (422, "compose_invalid"), text
    fine = {"services": services(main=None)}
    conflict = post(api, {"services": services(main={"healthcheck": {"test": "x"}})},
                    {"services": {"main": {"healthcheck": ["x"]}}})
    assert error_of(conflict) == (422, "compose_invalid")
    assert error_of(post(api, fine, image=IMAGE)) == (422, "invalid_field")
    assert error_of(post(api, fine, run_entrypoint=True)) == (422, "invalid_field")
    assert error_of(post(api, fine, compose={"surprise": 1})) == (422, "unknown_field")
    assert error_of(post(api, fine, compose={"builds": {"main": "build-none"}})) == (
        422, "invalid_field")


def test_what_has_to_be_given_with_a_file_is_told(api):
    answer = api.post("/compose/check", {"files": ["""
services:
  main: {build: {context: app, target: t, args: {V: "${V:-1}"}}, env_file: [a.env]}
  db: {image: d}
"""]})
    assert answer.status_code == 200, answer.text
    needs = answer.json()
    assert needs["services"] == ["main", "db"]
    assert needs["builds"] == [{"service": "main", "context": "app", "dockerfile": "",
                                "target": "t", "args": {"V": "1"}}]
    assert needs["env_files"] == [{"path": "a.env", "required": True}]
    wrong = api.post("/compose/check", {"files": ["services: {main: {image: i, devices: [x]}}"]})
    assert error_of(wrong) == (422, "compose_invalid")
