"""kill -9 of gateway and node at every named step, and at random moments.

After each: what was acknowledged is there and works, what was deleted is gone, and mounts,
cgroups, interfaces, storage areas and processes are those of the sandboxes that exist.
"""

import concurrent.futures
import os
import random
import subprocess

import httpx
import pytest

import deployment
from deployment import IMAGE, eventually, instance

PROGRAMS = {"node": "sandbox-node", "gateway": "sandbox-gateway"}
ROUNDS = 60 if os.environ.get("SANDBOX_LONG") else 12
SEED = int(os.environ.get("SANDBOX_CHAOS_SEED", "1"))
BODY = {"image": IMAGE, "cpus": 0.1, "memory_mb": 32}


def fault_points(role: str) -> list[str]:
    build = os.environ.get("SANDBOX_BUILD", "")
    program = os.path.join(build, PROGRAMS[role])
    done = subprocess.run([program, "--list-fault-points"], capture_output=True, text=True,
                          check=False)
    return done.stdout.split()


def all_points() -> list[str]:
    """Those of both programs. A program without any is a build without them: one failing test."""
    points = {role: fault_points(role) or [f"{role}.none-in-this-build"] for role in PROGRAMS}
    return points["node"] + points["gateway"]


def attempt(call):
    """A call whose gateway may die under it."""
    try:
        return call()
    except (httpx.TransportError, httpx.TimeoutException):
        return None


def restart(deployed) -> None:
    deployed.settings.fault_point = ""
    deployed.start_node()
    deployed.start_gateway()


def arm(deployed, point: str) -> None:
    """Starts the process of the fault point anew, now armed."""
    process = process_of(deployed, point)
    deployed.settings.fault_point = point
    process.kill()
    if process is deployed.node:
        deployed.spawn_node()
    else:
        deployed.start_gateway()  # no point lies in its start; requests must find it listening


def process_of(deployed, point: str):
    return deployed.node if point.startswith("node.") else deployed.gateway


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


def assert_no_leak(deployed, before: dict) -> None:
    def counts() -> dict:
        return {name: len(rows) for name, rows in instance.kernel_objects(deployed).items()}
    eventually(lambda: counts() == before, what=f"wanted {before}, have {counts()}")


@pytest.fixture(scope="module")
def baseline(api, deployed) -> dict:
    """Counts without any sandbox, once the pool of shells is full."""
    import time
    previous = None
    while True:
        now = {name: len(rows) for name, rows in instance.kernel_objects(deployed).items()}
        if now == previous:
            return now
        previous = now
        time.sleep(1)


@pytest.mark.parametrize("point", all_points())
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

    import time
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
