"""Teams, members and tokens as operators and their users meet them: command line, Python client,
definitions in a file, streams of a token that is revoked."""

import json
import signal
import threading

import pytest

import sandbox_gateway
from deployment import IMAGE, eventually

DEFINITION = """\
teams:
  - name: e2e-red
    quota: {cpus: 4, memory_mb: &mem 2048}
    max: {cpus: 2, memory_mb: *mem}
    members:
      - {subject: amy, role: admin}
      - {subject: bob}
  - name: e2e-blue
    image_prefixes: [demo]
"""


@pytest.fixture
def clean(api):
    """Takes away what the test made of teams and tokens."""
    yield
    for token in api.get("/tokens?scope=all").json()["items"]:
        if token["name"] != "bootstrap":
            api.delete(f"/tokens/{token['id']}")
    for row in api.get("/sandboxes?scope=all").json()["items"]:
        if row["team"].startswith("e2e-"):
            api.remove(row["id"])
    for team in api.get("/teams").json()["items"]:
        if team["name"].startswith("e2e-"):
            answer = api.delete(f"/teams/{team['name']}")
            assert answer.status_code == 204, answer.text


def test_apply_shows_asks_and_is_done_once(api, sandbox_cli, tmp_path, clean):
    file = tmp_path / "teams.yaml"
    file.write_text(DEFINITION)
    dry = sandbox_cli("apply", str(file), "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert b"+ team e2e-red" in dry.stdout and b"quota.cpus: null -> 4" in dry.stdout
    assert api.get("/teams/e2e-red").status_code == 404
    unasked = sandbox_cli("apply", str(file))
    assert unasked.returncode == 125 and b"--yes" in unasked.stderr
    assert api.get("/teams/e2e-red").status_code == 404
    done = sandbox_cli("apply", "-", "--yes", stdin=DEFINITION.encode())
    assert done.returncode == 0, done.stderr
    again = sandbox_cli("apply", str(file))
    assert (again.returncode, again.stdout) == (0, b"nothing to change\n")
    file.write_text(DEFINITION.replace("cpus: 4", "cpus: 8"))
    changed = sandbox_cli("apply", str(file), "--yes")
    assert changed.stdout == b"~ team e2e-red\n    quota.cpus: 4 -> 8\n"
    for bad, words in (("cpus: 4, color: 1", b"teams[0].quota.color"),
                       ("cpus: 4}\n    quota: {", b"line 4"), ("cpus: -1", b"quota.cpus")):
        file.write_text(DEFINITION.replace("cpus: 4", bad).replace("e2e-blue", "e2e-green"))
        refused = sandbox_cli("apply", str(file), "--yes")
        assert refused.returncode == 125 and words in refused.stderr, refused.stderr
        assert api.get("/teams/e2e-green").status_code == 404


def test_the_command_line_keeps_teams_and_tokens(api, sandbox_cli, clean):
    def run(*argv: str, **options) -> str:
        done = sandbox_cli(*argv, **options)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()

    run("team", "create", "e2e-red", "--set", "quota.cpus=1.5", "--set", "isolation=[container]")
    assert json.loads(run("team", "get", "e2e-red", "-o", "json"))["quota"]["cpus"] == 1.5
    run("team", "update", "e2e-red", "-s", "lease_sec=60", "-s", "quota.cpus=null")
    team = json.loads(run("team", "get", "e2e-red", "-o", "json"))
    assert (team["lease_sec"], team["quota"]["cpus"]) == (60, None)
    run("team", "update", "e2e-red", "-s", "quota.cpus=0")  # not the same as none
    assert json.loads(run("team", "get", "e2e-red", "-o", "json"))["quota"]["cpus"] == 0
    assert "cpus=0" in run("team", "list")
    run("team", "update", "e2e-red", "-s", "quota.cpus=null")
    assert "amy" in run("team", "members", "e2e-red", "--add", "amy", "--role", "admin")
    assert run("team", "list", "-q").split() == ["default", "e2e-red"]
    secret = run("token", "create", "ci", "--team", "e2e-red", "--scope", "member",
                 "--expires", "1h").strip()
    own = {"SANDBOX_GATEWAY_TOKEN": secret}
    assert "e2e-red" in run("me", env=own)
    assert run("team", "list", "-q", env=own).split() == ["e2e-red"]
    refused = sandbox_cli("team", "delete", "e2e-red")
    assert refused.returncode == 125 and b"in_use" in refused.stderr
    token = json.loads(run("token", "list", "--team", "e2e-red", "-o", "json"))[0]
    assert token["last_used_at"] and secret not in json.dumps(token)
    assert run("token", "revoke", token["id"]).strip() == token["id"]
    assert sandbox_cli("me", env=own).returncode == 125
    assert run("team", "members", "e2e-red", "--remove", "amy").split() == ["SUBJECT", "ROLE"]
    assert run("team", "delete", "e2e-red").strip() == "e2e-red"


def test_the_python_client_keeps_teams_and_tokens(deployed, clean):
    with sandbox_gateway.Gateway(deployed.url, deployed.token) as gw:
        assert gw.me()["platform_admin"]
        gw.teams.create("e2e-red", members=[{"subject": "amy"}])
        gw.teams.update("e2e-red", quota={"sandboxes": 3})
        assert gw.teams.get("e2e-red")["quota"]["sandboxes"] == 3
        gw.teams.add_member("e2e-red", "bob", "admin")
        assert [row["role"] for row in gw.teams.members("e2e-red")] == ["member", "admin"]
        gw.teams.remove_member("e2e-red", "bob")
        token = gw.tokens.create("ci", ["member"], team="e2e-red", subject="amy")
        assert token.secret and token.secret not in repr(token)
        with sandbox_gateway.Gateway(deployed.url, token.secret) as theirs:
            assert theirs.me()["subject"] == "amy"
            with theirs.create(IMAGE, cpus=1, memory_mb=64) as box:
                assert box.run(["true"]).ok
            with pytest.raises(sandbox_gateway.Forbidden):
                theirs.tokens.create("more", ["read"])
            gw.tokens.revoke(token.id)
            with pytest.raises(sandbox_gateway.Unauthenticated):
                theirs.me()
        applied = gw.teams.apply([{"name": "e2e-red"}], dry_run=True)
        assert applied["changes"][0]["action"] == "update" and not applied["applied"]
        gw.teams.delete("e2e-red")


def test_a_revoked_token_ends_what_it_opened(api, clean):
    api.http.put("/teams/e2e-red", json={})
    made = api.post("/tokens", {"name": "t", "team": "e2e-red", "scopes": ["member"]}).json()
    theirs = api.client(made["secret"])
    body = {"image": IMAGE, "cpus": 1, "memory_mb": 64}
    box = theirs.post("/sandboxes?wait=60", json=body).json()["id"]
    ended = threading.Event()

    def follow() -> None:
        try:
            with theirs.stream("GET", f"/sandboxes/{box}/events?follow=true") as answer:
                for _ in answer.iter_raw():
                    pass
        except Exception:  # noqa: BLE001 - how it ends is the client library's word for it
            pass
        ended.set()

    def run() -> None:
        try:
            theirs.post(f"/sandboxes/{box}/run", json={"argv": ["sleep", "1000"]})
        except Exception:  # noqa: BLE001
            pass

    threads = [threading.Thread(target=follow), threading.Thread(target=run)]
    for thread in threads:
        thread.start()
    eventually(lambda: api.get(f"/sandboxes/{box}/activity").json()["running_commands"] == 1)
    assert api.delete(f"/tokens/{made['id']}").status_code == 204
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert ended.is_set()
    eventually(lambda: api.get(f"/sandboxes/{box}/activity").json()["running_commands"] == 0,
               what="the command of a revoked token ends")


def test_teams_and_tokens_outlive_kill_9(api, clean):
    api.http.put("/teams/e2e-red", json={"lease_sec": 77, "members": [{"subject": "amy"}]})
    made = api.post("/tokens", {"name": "t", "team": "e2e-red", "subject": "amy",
                                "scopes": ["member"]}).json()
    api.instance.gateway.signal(signal.SIGKILL)
    assert api.instance.gateway.wait_gone(20)
    api.instance.start_gateway()
    assert api.get("/teams/e2e-red").json()["lease_sec"] == 77
    assert api.client(made["secret"]).get("/me").json()["team"] == "e2e-red"


def test_a_file_of_teams_is_applied_at_each_start(api, tmp_path, clean):
    one = api.instance
    file = one.state / "teams.yaml"
    file.write_text(DEFINITION)
    file.chmod(0o644)
    one.settings.gateway_options["teams-file"] = str(file)
    try:
        one.gateway.signal(signal.SIGTERM)
        assert one.gateway.wait_gone(20)
        one.start_gateway()
        assert api.get("/teams/e2e-red").json()["quota"]["memory_mb"] == 2048
        one.gateway.signal(signal.SIGTERM)
        assert one.gateway.wait_gone(20)
        file.write_text(DEFINITION.replace("name: e2e-blue", "name: e2e-red"))
        one.spawn_gateway()
        assert one.gateway.wait_gone(20), "it does not start with a team that stands twice"
        assert "teams[1].name" in one.log_tail("sandbox-gateway", 20) or (
            "defined twice" in one.log_tail("sandbox-gateway", 20))
    finally:
        del one.settings.gateway_options["teams-file"]
        file.unlink()
        one.start_gateway()
