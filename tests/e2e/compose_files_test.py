"""Compose files: what they take from each other, from this machine, and from their images."""

import json
import secrets

import pytest

import sandbox_gateway
from compose_services import IMAGE, containers, image, log, post, services, up  # noqa: F401
from deployment import error_of, eventually
from image_builds import clean, needs_builder  # noqa: F401


def test_services_extend_others_and_later_files_take_away(api, up):
    base = json.dumps({"services": {"base": {"environment": {"FROM": "base", "KEPT": "1"},
                                             "extends": {"service": "root", "file": "root.yaml"}}}})
    root = json.dumps({"services": {"root": {"image": IMAGE, "command": ["sleep", "1000"]}}})
    files = ["services: {main: {extends: {service: base, file: lib/base.yaml}, "
             "environment: [A=1]}}"]
    texts = {}
    for path in ("lib/base.yaml", "lib/root.yaml"):
        needs = api.post("/compose/check", {"files": files, "env_files": texts}).json()
        assert [file["path"] for file in needs["env_files"]] == [path]
        missing = post(api, *files, compose={"env_files": texts})
        assert error_of(missing) == (422, "compose_invalid") and path in missing.text
        texts[path] = base if path.endswith("base.yaml") else root
    row = up(*files, "services: {main: {environment: {FROM: !reset null, A: '2'}}}",
             compose={"env_files": texts})
    assert api.output(row["id"], "echo $KEPT $A [$FROM]") == "1 2 []"


def test_configs_and_secrets_are_files_when_the_command_starts(api, up):
    value = secrets.token_hex(16)
    row = up({"services": services(
        main={"command": ["sh", "-c", "cat /run/secrets/token /etc/app.conf; exec sleep 1000"],
              "secrets": ["token", {"source": "token", "target": "/home/key", "uid": "1000",
                                    "mode": "0400"}],
              "configs": [{"source": "app", "target": "/etc/app.conf"}]},
        other={"configs": ["app"]}),
        "secrets": {"token": {"environment": "TOKEN"}},
        "configs": {"app": {"file": "conf/app"}}},
        compose={"env": {"TOKEN": value + "\n"}, "env_files": {"conf/app": "level=1\n"}})
    box = row["id"]
    eventually(lambda: log(api, box, "main") == f"{value}\nlevel=1\n")
    assert api.output(box, "stat -c '%a %u' /run/secrets/token /home/key").split("\n") == [
        "444 0", "400 1000"]
    assert api.output(box, "cat /app", container="other") == "level=1"
    assert api.shell(box, "cat /run/secrets/token", container="other")["exit_code"] != 0
    assert value not in api.get(f"/sandboxes/{box}").text
    for name in (api.instance.state / "gateway").glob("*.db*"):
        assert value.encode() not in name.read_bytes(), name
    record = api.instance.state / "run" / "sandboxes" / box / "record.json"
    assert value not in record.read_text()
    lacking = post(api, {"services": services(main={"secrets": ["s"]}),
                         "secrets": {"s": {"environment": "NONE"}}})
    assert error_of(lacking) == (422, "compose_invalid")
    assert lacking.json()["error"]["details"]["field"] == "secrets.s.environment"
    outside = up({"services": services(main={"configs": [{"source": "c", "target": "/proc/x/y"}]}),
                  "configs": {"c": {"content": "x"}}}, state="failed")
    assert (outside["reason"], "main" in outside["message"]) == ("start_failed", True), outside


@needs_builder
def test_a_service_has_its_images_healthcheck(api, up):
    def built(check: str, retries: int = 2) -> str:
        text = f"FROM {IMAGE}\nHEALTHCHECK --interval=200ms --retries={retries} CMD {check}\n"
        answer = api.http.post("/builds", params={"wait": 120}, content=text, timeout=180,
                               headers={"Content-Type": "text/plain"})
        assert answer.json()["state"] == "succeeded", answer.text
        return answer.json()["image"]

    waits = {"depends_on": {"db": {"condition": "service_healthy"}}}
    checked = built("test -f /ok")
    patient = built("test -f /ok", retries=100)  # a machine may be slow
    db = {"image": patient, "command": ["sh", "-c", "touch /ok; exec sleep 1000"]}
    box = up({"services": services(db=db, main=waits)})["id"]
    assert containers(api, box)["db"]["health"] == "healthy"
    assert containers(api, box)["main"]["health"] == "none"
    bad = up({"services": services(db={"image": checked}, main=waits)}, state="failed")
    assert bad["reason"] == "start_failed" and "'db' is unhealthy" in bad["message"], bad
    off = {"image": checked, "healthcheck": {"disable": True}}
    box = up({"services": services(db=off, main={"depends_on": ["db"]})})["id"]
    assert containers(api, box)["db"]["health"] == "none"
    assert error_of(post(api, {"services": services(db=off, main=waits)})) == (
        422, "compose_invalid")
    none = up({"services": services(db=None, main=waits)}, state="failed")
    assert none["reason"] == "start_failed" and "healthcheck" in none["message"], none


@pytest.fixture
def project(tmp_path):
    """A project with everything that is read on the machine of who creates the sandbox."""
    folder = tmp_path / "project"
    (folder / "app").mkdir(parents=True)
    (folder / "lib").mkdir()
    (folder / "token").write_text("of-a-file")
    (folder / "conf").write_text("of-a-config")
    (folder / "one.env").write_text("FROM_FILE=$IN_DOTENV\n")
    (folder / ".env").write_text("IN_DOTENV=dotenv\n")
    (folder / "app" / "in").write_text("context\n")
    (folder / "app" / "D2").write_text(
        f"FROM {IMAGE} AS t\nARG V\nCOPY in /in\nRUN --mount=type=secret,id=token "
        "--mount=type=secret,id=v,env=OTHER test $(cat /run/secrets/token) = of-a-file && "
        "echo $V $OTHER > /v\nFROM scratch\n")
    (folder / "lib" / "base.yaml").write_text(
        "services: {base: {command: [sleep, '1000'], env_file: lib.env}}\n")
    (folder / "lib" / "lib.env").write_text("FROM_LIB=1\n")
    (folder / "docker-compose.yaml").write_text(f"""
services:
  main:
    extends: {{service: base, file: lib/base.yaml}}
    build:
      context: app
      dockerfile: D2
      target: t
      args: {{V: "${{V:-1}}"}}
      secrets: [token, {{source: other, target: v}}]
    env_file: one.env
    configs: [conf]
    secrets: [other]
  side:
    build:
      context: app
      dockerfile_inline: |
        FROM {IMAGE}
        COPY . /context
    command: sleep 1000
secrets:
  token: {{file: token}}
  other: {{environment: THE_OTHER}}
configs:
  conf: {{file: ./conf}}
""")
    return folder


def check(api, box: str) -> None:
    assert api.output(box, "cat /in /v").split("\n") == ["context", "2 of-a-variable"]
    assert api.output(box, "echo $FROM_FILE $FROM_LIB") == "dotenv 1"
    assert api.output(box, "cat /conf /run/secrets/other") == "of-a-configof-a-variable"
    listed = api.output(box, "ls -A /context", container="side").split()
    assert sorted(listed) == ["D2", "in"], "the Dockerfile's text is no file of the context"


@needs_builder
def test_the_command_line_gives_all_that_a_project_needs(api, project, sandbox_cli):
    done = sandbox_cli("create", "--cpus", "1", "--memory", "256", "--compose",
                       str(project / "docker-compose.yaml"),
                       env={"V": "2", "THE_OTHER": "of-a-variable"})
    assert done.returncode == 0, done.stderr
    box = done.stdout.decode().strip()
    try:
        check(api, box)
    finally:
        api.remove(box)


@needs_builder
def test_the_python_client_gives_all_that_a_project_needs(api, deployed, project, monkeypatch):
    monkeypatch.setenv("V", "2")
    monkeypatch.setenv("THE_OTHER", "of-a-variable")
    with sandbox_gateway.Gateway(deployed.url, deployed.token) as gateway:
        with gateway.create(compose=project / "docker-compose.yaml", cpus=1,
                            memory_mb=256) as box:
            check(api, box.id)


@pytest.mark.parametrize("keys, field", [
    ({"extends": {"service": "none"}}, "services.main.extends"),
    ({"extends": "main"}, "services.main.extends"),
    ({"secrets": ["none"]}, "services.main.secrets.0"),
    ({"build": {"dockerfile": "a", "dockerfile_inline": "b"}},
     "services.main.build.dockerfile_inline"),
    ({"build": {"ssh": ["default"]}}, "services.main.build.ssh"),
    ({"devices": ["/dev/kmsg"]}, "services.main.devices"),
    ({"cap_add": ["SYS_ADMIN"]}, "services.main.cap_add"),
    ({"gpus": "all"}, "services.main.gpus"),
    ({"security_opt": ["x"]}, "services.main.security_opt"),
    ({"develop": {}}, "services.main.develop"),
    ({"network_mode": "none"}, "services.main.network_mode")])
def test_what_there_is_not_is_refused_by_its_key(api, keys, field):
    answer = post(api, {"services": services(main=keys)})
    assert error_of(answer) == (422, "compose_invalid"), answer.text
    assert answer.json()["error"]["details"]["field"] == field
