"""Quotas, the queue and draining over the public API."""

import pytest

from deployment import IMAGE, error_of, eventually

BODY = {"image": IMAGE, "cpus": 0.1, "memory_mb": 32, "storage_mb": 16}


def restart_gateway(api, **options: str) -> None:
    api.instance.settings.gateway_options = options
    api.instance.gateway.kill()
    api.instance.start_gateway()


@pytest.fixture
def two_at_most(api):
    restart_gateway(api, **{"total-sandboxes": "2"})
    yield
    restart_gateway(api)
    for row in api.get("/sandboxes?limit=1000").json()["items"]:
        api.remove(row["id"])


def create(api, **fields) -> str:
    answer = api.post("/sandboxes", {**BODY, **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def row_of(api, sandbox: str) -> dict:
    answer = api.get(f"/sandboxes/{sandbox}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def becomes(api, sandbox: str, state: str) -> None:
    eventually(lambda: api.state(sandbox) == state, what=f"{sandbox} is {state}")


def test_the_queue_tells_its_places_and_moves_on(api, two_at_most, sandbox_cli):
    made = [create(api) for _ in range(5)]
    for sandbox in made[:2]:
        becomes(api, sandbox, "ready")
    for position, sandbox in enumerate(made[2:], 1):
        row = row_of(api, sandbox)
        assert row["state"] == "queued" and row["queue"]["position"] == position, row
        assert row["queue"]["reason"], row
        assert row["admitted_at"] is None, row
    assert error_of(api.post(f"/sandboxes/{made[2]}/run", {"argv": ["true"]})) == \
        (409, "not_ready")
    # Deleting one that waits moves up those behind it.
    api.remove(made[3])
    assert row_of(api, made[4])["queue"]["position"] == 2
    quotas = api.get("/quotas").json()
    assert quotas["total"]["limit"]["sandboxes"] == 2
    assert quotas["total"]["used"]["sandboxes"] == 2
    team = next(item for item in quotas["items"] if item["team"] == "default")
    assert team["queued"] == 2 and team["used"]["sandboxes"] == 2, team
    shown = sandbox_cli("-o", "table", "quota")
    assert shown.returncode == 0 and b"default" in shown.stdout, shown
    # Waiting goes on over a restart; then the first is admitted and works.
    api.instance.gateway.kill()
    api.instance.start_gateway()
    assert row_of(api, made[2])["queue"]["position"] == 1
    api.remove(made[0])
    becomes(api, made[2], "ready")
    assert api.run(made[2], "echo", "hello")["stdout"] == "hello\n"
    assert row_of(api, made[2])["timings"]["queued_ms"] > 0
    types = [event["type"] for event in api.get(f"/sandboxes/{made[2]}/events").json()["items"]]
    assert types[:3] == ["created", "queued", "admitted"], types
    assert api.state(made[4]) == "queued"


def test_waiting_for_ready_goes_through_the_queue(api, two_at_most):
    first, second = create(api), create(api)
    third = create(api)
    answer = api.get(f"/sandboxes/{third}?wait=1")
    assert answer.json()["state"] == "queued"
    api.remove(first)
    assert api.get(f"/sandboxes/{third}?wait=30").json()["state"] == "ready"
    api.remove(second)


def test_raising_the_total_admits_all_that_fit(api, two_at_most):
    made = [create(api) for _ in range(4)]
    restart_gateway(api, **{"total-sandboxes": "3"})
    becomes(api, made[2], "ready")
    assert api.state(made[3]) == "queued"
    # Lowered below what is used it ends nothing and admits nothing.
    restart_gateway(api, **{"total-sandboxes": "1"})
    api.remove(made[0])
    assert [api.state(sandbox) for sandbox in made[1:]] == ["ready", "ready", "queued"]
    restart_gateway(api)
    becomes(api, made[3], "ready")


def test_what_could_never_be_admitted_is_refused(api, two_at_most):
    restart_gateway(api, **{"total-memory-mb": "64", "total-cpus": "0.5"})
    answer = api.post("/sandboxes", {**BODY, "memory_mb": 65})
    assert error_of(answer) == (422, "quota_never")
    assert answer.json()["error"]["details"]["field"] == "memory_mb"
    assert error_of(api.post("/sandboxes", {**BODY, "cpus": 0.6})) == (422, "quota_never")


def test_a_drained_team_ends_its_sandboxes_and_makes_none(api, two_at_most):
    made = [create(api) for _ in range(3)]
    becomes(api, made[0], "ready")
    answer = api.post("/teams/default/drain")
    assert answer.status_code == 200 and answer.json()["ending"] == 3, answer.text
    try:
        for sandbox in made:
            becomes(api, sandbox, "absent")
            row = api.get(f"/sandboxes/{sandbox}?all=true").json()
            assert row["state"] == "deleted" and row["reason"] == "team_drained", row
        assert error_of(api.post("/sandboxes", BODY)) == (503, "draining")
        restart_gateway(api)
        assert error_of(api.post("/sandboxes", BODY)) == (503, "draining")
    finally:
        assert api.delete("/teams/default/drain").status_code == 200
    api.remove(create(api))
    assert error_of(api.post("/teams/nobody/drain")) == (404, "not_found")
