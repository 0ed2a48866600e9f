"""kill -9 of gateway and node at every named step, and at random moments.

After each: what was acknowledged is there and works, what was deleted is gone, and mounts,
cgroups, interfaces, storage areas and processes are those of the sandboxes that exist.
"""

import concurrent.futures
import os
import random
import time

import pytest

import deployment
from deployment import eventually
from faults import (BODY, LONG, arm, assert_audit_is_whole, assert_no_leak, assert_quota_used,
                    attempt, fault_points, process_of, restart)

ROUNDS = 60 if LONG else 12
SEED = int(os.environ.get("SANDBOX_CHAOS_SEED", "1"))
# The other points lie in what a create and a delete alone do not reach.
POINTS = [*fault_points("node"), *fault_points("gateway", "create."),
          *fault_points("gateway", "delete.")]


def assert_consistent(api, deployed, expected: set[str]) -> None:
    """The gateway lists exactly `expected` as ready, each works, and the node holds no others."""
    def listed() -> dict:
        return {row["id"]: row["state"] for row in api.get("/sandboxes?limit=1000").json()["items"]}
    rows = eventually(lambda: (r := listed()) is not None and
                      not set(r.values()) & {"starting", "deleting", "queued"} and (r or [r]))
    rows = rows if isinstance(rows, dict) else {}
    missing = {sandbox for sandbox in expected if rows.get(sandbox) != "ready"}
    assert not missing, (missing, rows)
    for sandbox in expected:
        assert api.run(sandbox, "true")["exit_code"] == 0
    for sandbox in set(rows) - expected:  # made, but the answer was lost
        api.remove(sandbox)
    held = {row["id"] for row in deployed.ask_node({"op": "list"})["sandboxes"]}
    assert held == expected


@pytest.mark.parametrize("point", POINTS)
def test_kill_at_fault_point(api, deployed, baseline, point):
    keeper = api.post("/sandboxes?wait=60", BODY).json()["id"]
    expected = {keeper}
    arm(deployed, point)
    process = process_of(deployed, point)
    key = {"Idempotency-Key": f"chaos-{point}-{os.getpid()}"}

    def one_life():
        answer = attempt(lambda: api.post("/sandboxes?wait=20", BODY, headers=key, timeout=30))
        if answer is not None and answer.status_code == 201 and answer.json()["state"] == "ready":
            attempt(lambda: api.delete(f"/sandboxes/{answer.json()['id']}?wait=20", timeout=30))

    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        work = thread.submit(one_life)
        try:  # places are made ahead and removed in the background: work may end first
            eventually(lambda: process.pid() is None, 60, f"{point} was not reached")
        finally:
            process.kill()
            restart(deployed)
        work.result()
    # The same key again is the same sandbox, never a second one.
    answer = api.post("/sandboxes?wait=60", BODY, headers=key)
    assert answer.status_code in (200, 201), answer.text
    row = answer.json()
    if row["state"] == "ready":
        expected.add(row["id"])
    else:
        assert row["state"] in ("deleted", "failed"), row
    if row["state"] == "failed":
        api.remove(row["id"])
    assert_consistent(api, deployed, expected)
    assert_quota_used(api, len(expected))
    for sandbox in expected:
        api.remove(sandbox)
    assert_no_leak(deployed, baseline)


def test_kill_at_random_moments(api, deployed, baseline):
    """Four clients live their lives while both programs are killed again and again."""
    chance = random.Random(SEED)
    acknowledged: set[str] = set()
    deleted: set[str] = set()

    def life(number: int) -> None:
        answer = attempt(lambda: api.post("/sandboxes?wait=30", BODY, timeout=60))
        if answer is None or answer.status_code != 201:
            return
        sandbox = answer.json()["id"]
        if answer.json()["state"] == "ready":
            acknowledged.add(sandbox)
        attempt(lambda: api.post(f"/sandboxes/{sandbox}/run", {"argv": ["true"]}))
        if number % 2 == 0:
            deleted.add(sandbox)
            attempt(lambda: api.delete(f"/sandboxes/{sandbox}?wait=30", timeout=60))

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        work = [threads.submit(life, number) for number in range(ROUNDS * 4)]
        for _ in range(ROUNDS):
            time.sleep(chance.uniform(0.0, 0.3))  # the moment is the point of the test
            process = chance.choice([deployed.node, deployed.gateway])
            process.kill()
            restart(deployed)
        for row in work:
            row.result()
    survivors = acknowledged - deleted
    rows = {row["id"]: row for row in api.get("/sandboxes?limit=1000").json()["items"]}
    lost = {sandbox for sandbox in survivors if rows.get(sandbox, {}).get("state") != "ready"}
    assert not lost, [rows.get(sandbox) for sandbox in lost]
    for sandbox in survivors:
        assert api.run(sandbox, "true")["exit_code"] == 0
    for sandbox in rows:
        api.remove(sandbox)
    eventually(lambda: not api.get("/sandboxes").json()["items"])
    assert_no_leak(deployed, baseline)
    assert deployment.IMAGE in {row["name"] for row in api.get("/images").json()["items"]}
    assert_quota_used(api, 0)
    assert_audit_is_whole(deployed)
