"""kill -9 of one of two gateways at every named step of a create and a delete: the other finishes
what was begun, while the dead one stays dead."""

import concurrent.futures
import os

import pytest

import deployment
import replicas
from deployment import eventually
from faults import (BODY, arm, assert_no_leak, assert_quota_used, attempt, fault_points,
                    settled_holdings)

POINTS = [*fault_points("gateway", "create."), *fault_points("gateway", "delete.")]
TAKEN_OVER_SECONDS = 60  # docs/operate.md says less, of a machine with nothing else to do


@pytest.fixture(scope="module")
def group():
    one = replicas.Group("sgr", 2)
    yield one
    one.purge()


@pytest.fixture(scope="module")
def before(group) -> dict:
    return settled_holdings(group.gateways[0])


@pytest.mark.parametrize("point", POINTS)
def test_the_other_finishes_what_was_begun(group, before, point):
    first, second = group.apis
    keeper = first.post("/sandboxes?wait=60", BODY).json()["id"]
    dying = group.gateways[0]
    arm(dying, point)
    key = {"Idempotency-Key": f"{point}-{os.getpid()}"}
    told: dict[str, str] = {}

    def one_life() -> None:
        made = attempt(lambda: first.post("/sandboxes?wait=20", BODY, headers=key, timeout=30))
        if made is not None and made.status_code == 201:
            told["id"] = made.json()["id"]
            ended = attempt(lambda: first.delete(f"/sandboxes/{told['id']}?wait=20", timeout=30))
            if ended is not None and ended.status_code in (202, 204):
                told["deleted"] = told["id"]

    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        work = thread.submit(one_life)
        try:
            assert dying.gateway.wait_gone(60), f"{point} was not reached"
        finally:
            dying.gateway.kill()
        work.result()
    try:
        assert second.run(keeper, "true")["exit_code"] == 0
        # The same key at the other is the same sandbox, and its life goes on there.
        answer = second.post("/sandboxes?wait=60", BODY, headers=key)
        assert answer.status_code in (200, 201), answer.text
        sandbox = answer.json()["id"]
        assert told.get("id", sandbox) == sandbox

        def state() -> str:
            found = second.get(f"/sandboxes/{sandbox}?all=true&wait=10")
            return found.json()["state"] if found.status_code == 200 else "deleted"

        settled = eventually(lambda: (now := state()) in ("ready", "deleted") and now,
                             TAKEN_OVER_SECONDS)
        assert "deleted" not in told or settled == "deleted", told
        expected = {keeper} | ({sandbox} if settled == "ready" else set())
        for one in expected:
            assert second.run(one, "true")["exit_code"] == 0
        eventually(lambda: group.node_ids() == expected, TAKEN_OVER_SECONDS)
        assert_quota_used(second, len(expected))
        for one in expected:
            second.remove(one)
        assert_quota_used(second, 0)
        events = second.get(f"/sandboxes/{sandbox}/events?limit=1000").json()["items"]
        kinds = [row["type"] for row in events]
        assert max(kinds.count(kind) for kind in ("created", "ready", "deleted")) <= 1, kinds
    finally:
        dying.settings.fault_point = ""
        dying.start_gateway()
    eventually(lambda: len(group.others(second)) == 2)
    assert_no_leak(dying, before)


def test_the_dead_one_knows_all_of_it_again(group):
    rows = [[row["id"] for row in api.get("/sandboxes?all=true&limit=1000").json()["items"]]
            for api in group.apis]
    assert rows[0] == rows[1] and len(rows[0]) >= len(POINTS)
    assert deployment.IMAGE in {row["name"] for row in group.apis[0].get("/images").json()["items"]}
