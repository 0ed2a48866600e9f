"""`sandbox logs`, `metrics`, `activity` and `audit`: how a sandbox is doing."""

import json
import subprocess

import pytest

from deployment import eventually

SERVICE = {"Entrypoint": ["/bin/sh", "-c", "echo first; until [ -e /tmp/go ]; do sleep 0.05; done; "
                                         "echo second; exec sleep 1000"]}


@pytest.fixture(scope="module")
def serving(api, registry, demo_layer):
    """A sandbox whose entrypoint runs."""
    registry.push("test/observed:1", [demo_layer], SERVICE)
    made = api.create(f"{registry.host}/test/observed:1", run_entrypoint=True)["id"]
    yield made
    api.remove(made)


def test_logs_are_the_entrypoints_and_are_followed(api, sandbox_cli, serving):
    eventually(lambda: sandbox_cli("logs", serving).stdout == b"first\n")
    with subprocess.Popen([sandbox_cli.program, "logs", "-f", serving], stdout=subprocess.PIPE,
                          env=sandbox_cli.environment) as following:
        assert following.stdout.readline() == b"first\n"
        made = api.get(f"/sandboxes/{serving}/sessions/main").json()
        assert made["state"] == "running"
        api.output(serving, "touch /tmp/go")
        assert following.stdout.readline() == b"second\n"
        assert api.post(f"/sandboxes/{serving}/sessions/main/kill",
                        {"signal": "KILL"}).status_code == 204
        assert following.wait(30) == 0
    wrong = sandbox_cli("logs", serving, "--container", "db")
    assert wrong.returncode == 125 and b"invalid_field" in wrong.stderr


def test_metrics_are_fields_for_people_and_all_for_programs(sandbox_cli, serving):
    shown = sandbox_cli("metrics", serving)
    assert shown.returncode == 0 and b"memory" in shown.stdout.lower()
    told = json.loads(sandbox_cli("metrics", serving, "-o", "json").stdout)
    assert told["now"]["memory_bytes"] > 0 and isinstance(told["series"], list)


def test_activity_counts_what_runs(api, sandbox_cli, serving):
    started = api.post(f"/sandboxes/{serving}/sessions", {"argv": ["sleep", "1000"]})
    assert started.status_code == 201
    told = json.loads(sandbox_cli("activity", serving, "-o", "json").stdout)
    assert told["sessions"] >= 1
    shown = sandbox_cli("activity", serving).stdout.decode()
    assert "Sessions" in shown and "Lease expires" in shown


def test_audit_tells_the_actions_newest_first(api, sandbox_cli, serving):
    api.run(serving, "echo", "audited")

    def rows(*options: str) -> list[dict]:
        return json.loads(sandbox_cli("audit", serving, "-o", "json", *options).stdout)

    eventually(lambda: "command.run" in [row["event"] for row in rows()])
    told = rows()
    assert told[-1]["event"] == "sandbox.create"
    assert {row["event"] for row in rows("--event", "command.run")} == {"command.run"}
    assert len(rows("--limit", "1")) == 1
    table = sandbox_cli("audit", serving).stdout.decode()
    assert "EVENT" in table.splitlines()[0] and "audited" in table


@pytest.mark.parametrize("command", ["logs", "metrics", "activity", "audit"])
def test_a_sandbox_that_is_not_there_is_an_error(sandbox_cli, command):
    # A refused call is itself audited, under the id that it named.
    done = sandbox_cli(command, f"sbx-never-{command}")
    assert done.returncode == 125 and b"not_found" in done.stderr
