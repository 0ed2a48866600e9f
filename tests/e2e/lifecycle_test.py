"""Leases, lifetimes, and that a restart of gateway or node loses nothing."""

import datetime
import os
import signal

from deployment import IMAGE, agent_pid, error_of, eventually


# Renewals are written together; a killed gateway may lose those of the last moments.
RENEWAL_LOSS_SECONDS = 3


def seconds(text: str) -> float:
    return datetime.datetime.fromisoformat(text).timestamp()


def archived(api, sandbox: str) -> dict:
    rows = api.get("/sandboxes", params={"all": "true", "limit": 1000}).json()["items"]
    return next(row for row in rows if row["id"] == sandbox)


def test_lease_expires_and_says_so(api):
    made = api.create(lease_sec=2)["id"]
    for _ in range(3):  # reading does not renew it
        api.get(f"/sandboxes/{made}")
        api.get(f"/sandboxes/{made}/activity")
    eventually(lambda: api.state(made) == "absent")
    row = archived(api, made)
    assert (row["state"], row["reason"]) == ("deleted", "lease_expired")


def test_requests_renew_the_lease(api):
    made = api.create(lease_sec=3)["id"]
    first = api.get(f"/sandboxes/{made}").json()["lease_expires_at"]
    for _ in range(5):
        assert api.run(made, "sleep", "1")["exit_code"] == 0
    assert api.get(f"/sandboxes/{made}").json()["lease_expires_at"] > first
    api.remove(made)


def test_long_command_is_activity(api):
    made = api.create(lease_sec=4)["id"]
    assert api.run(made, "sleep", "6")["exit_code"] == 0
    assert api.state(made) == "ready"
    api.remove(made)


def test_maximum_lifetime_ends_a_running_command(api):
    made = api.create(max_lifetime_sec=3)["id"]
    api.post(f"/sandboxes/{made}/run", {"argv": ["sleep", "6000"]})  # longer than we wait
    eventually(lambda: api.state(made) == "absent")
    assert archived(api, made)["reason"] == "max_lifetime"


def test_patch_changes_labels_and_lease(api, box):
    answer = api.http.patch(f"/sandboxes/{box}", json={"labels": {"a": "b"}, "lease_sec": 60})
    assert answer.status_code == 200 and answer.json()["labels"] == {"a": "b"}
    assert error_of(api.http.patch(f"/sandboxes/{box}", json={"cpus": 2}))[0] == 422


def test_events_can_be_followed(api, deployed):
    made = api.create()["id"]
    with api.client(deployed.token) as client:
        with client.stream("GET", f"/sandboxes/{made}/events?follow=true") as stream:
            lines = stream.iter_lines()
            seen = [next(lines) for _ in range(3)]
            assert any("created" in line for line in seen)
            api.remove(made)
            assert any("deleted" in line for line in lines)


def test_activity(api, box):
    row = api.get(f"/sandboxes/{box}/activity").json()
    assert set(row) == {"last_activity_at", "lease_expires_at", "running_commands", "sessions"}
    assert row["running_commands"] == 0


def test_killed_agent_is_a_failed_sandbox(api):
    made = api.create()["id"]
    os.kill(agent_pid(api, made), signal.SIGKILL)
    row = eventually(lambda: (r := api.get(f"/sandboxes/{made}").json())["state"] == "failed" and r)
    assert row["reason"] == "agent_lost"
    answer = api.post(f"/sandboxes/{made}/run", {"argv": ["true"]})
    assert error_of(answer) == (409, "not_ready")
    assert answer.json()["error"]["details"]["state"] == "failed"
    api.remove(made)
    assert api.state(made) == "absent"


def test_restart_of_both_keeps_sandboxes_and_leases(api, deployed):
    kept = api.create(labels={"kept": "yes"})["id"]
    short = api.create(lease_sec=3)["id"]
    api.output(kept, "echo data >/root/data; sleep 7777 >/dev/null 2>&1 &")
    lease = api.get(f"/sandboxes/{kept}").json()["lease_expires_at"]
    for process in (deployed.gateway, deployed.node):
        process.kill()
    deployed.start()
    row = api.get(f"/sandboxes/{kept}").json()
    assert (row["state"], row["labels"]) == ("ready", {"kept": "yes"})
    assert abs(seconds(row["lease_expires_at"]) - seconds(lease)) <= RENEWAL_LOSS_SECONDS
    assert api.output(kept, "cat /root/data; pgrep -f '[s]leep 7777' >/dev/null && echo alive") == (
        "data\nalive")
    eventually(lambda: api.state(short) == "absent")
    assert archived(api, short)["reason"] == "lease_expired"
    api.remove(kept)
    api.remove(api.create(IMAGE)["id"])


def test_gateway_without_its_node(api, deployed):
    """The gateway stays up, says what is wrong, and works again when the node is back."""
    made = api.create()["id"]
    deployed.node.kill()
    try:
        eventually(lambda: api.get("/readyz").status_code == 503)
        assert api.get("/healthz").status_code == 200
        assert api.get(f"/sandboxes/{made}").status_code == 200
        assert api.output(made, "echo works") == "works"
    finally:
        deployed.start_node()
    eventually(lambda: api.get("/readyz").status_code == 200)
    api.remove(made)
    assert api.state(made) == "absent"


def test_metrics_are_on_their_own_listener(api, deployed):
    with api.client("") as client:
        text = client.get(f"http://127.0.0.1:{deployed.settings.metrics_port}/metrics").text
    assert "# TYPE" in text and "sandbox" in text
