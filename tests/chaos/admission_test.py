"""kill -9 of the gateway while it admits what is queued, and while it takes back what was borrowed:
nobody is lost, admitted twice, or kept out by quota that nobody holds."""

import concurrent.futures

import pytest

from deployment import eventually
from faults import (BODY, arm, assert_no_leak, assert_quota_used, attempt, fault_points, restart,
                    restart_gateway)


@pytest.fixture
def one_at_most(deployed):
    restart_gateway(deployed, total_sandboxes="1")
    yield
    restart_gateway(deployed)


def at_the_point(deployed, point: str, call) -> None:
    """Makes the call and starts the gateway anew when it has died of the point."""
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        work = thread.submit(lambda: attempt(call))
        try:
            eventually(lambda: deployed.gateway.pid() is None, 60, f"{point} was not reached")
        finally:
            deployed.gateway.kill()
            restart(deployed)
        work.result()


@pytest.mark.parametrize("point", fault_points("gateway", "admit."))
def test_kill_while_admitting(api, deployed, baseline, one_at_most, point):
    arm(deployed, point)  # with nobody waiting, or its start would be the end
    first = api.post("/sandboxes?wait=60", BODY).json()["id"]
    waiting = [api.post("/sandboxes", BODY).json()["id"] for _ in range(2)]
    at_the_point(deployed, point, lambda: api.delete(f"/sandboxes/{first}?wait=20"))
    api.remove(first)  # where it was killed before that
    eventually(lambda: api.state(waiting[0]) == "ready")
    assert api.state(waiting[1]) == "queued"
    assert_quota_used(api, 1)
    for sandbox in waiting:
        eventually(lambda sandbox=sandbox: api.state(sandbox) == "ready")
        assert api.run(sandbox, "true")["exit_code"] == 0
        api.remove(sandbox)
    assert_quota_used(api, 0)
    assert_no_leak(deployed, baseline)


@pytest.fixture
def owner(api):
    """A team that takes back what team default has borrowed of it: a client with its token. Each
    may have one sandbox of its own."""
    answer = api.post("/teams", {"name": "owner", "reclaim": True, "quota": {"sandboxes": 1}})
    assert answer.status_code == 201, answer.text
    answer = api.http.patch("/teams/default", json={"quota": {"sandboxes": 1}})
    assert answer.status_code == 200, answer.text
    token = api.post("/tokens", {"name": "owner", "team": "owner", "scopes": ["member"]}).json()
    with api.client(token["secret"]) as client:
        yield client
    assert api.delete(f"/tokens/{token['id']}").status_code == 204
    assert api.delete("/teams/owner").status_code == 204
    assert api.http.patch("/teams/default",
                          json={"quota": {"sandboxes": None}}).status_code == 200


@pytest.mark.parametrize("point", fault_points("gateway", "reclaim."))
def test_kill_while_reclaiming(api, deployed, baseline, owner, point):
    own, borrowed = (api.post("/sandboxes?wait=60", BODY).json()["id"] for _ in range(2))
    assert api.run(own, "true")["exit_code"] == 0  # the longest unused one goes
    arm(deployed, point)
    key = {"Idempotency-Key": point}
    at_the_point(deployed, point,
                 lambda: owner.post("/sandboxes?wait=20", json=BODY, headers=key))
    made = owner.post("/sandboxes?wait=60", json=BODY, headers=key)
    assert made.status_code in (200, 201) and made.json()["state"] == "ready", made.text
    row = api.get(f"/sandboxes/{borrowed}").json()
    assert (row["state"], row["reason"]) == ("failed", "preempted"), row
    assert api.run(own, "true")["exit_code"] == 0
    assert api.get("/quotas").json()["total"]["used"]["sandboxes"] == 2
    types = [event["type"] for event in api.get(f"/sandboxes/{borrowed}/events").json()["items"]]
    assert types.count("failed") == 1, types
    for client, sandbox in ((owner, made.json()["id"]), (api.http, own), (api.http, borrowed)):
        answer = client.delete(f"/sandboxes/{sandbox}?wait=60")
        assert answer.status_code in (202, 204), answer.text
    assert_quota_used(api, 0)
    assert_no_leak(deployed, baseline)
