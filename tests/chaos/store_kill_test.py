"""PostgreSQL killed again and again while sandboxes are made and deleted through it, and one that
is slow.

What was acknowledged is there and works, what was deleted is gone, no key made two sandboxes, and
store, gateway and node agree.
"""

import concurrent.futures
import os
import random
import time

import httpx
import pytest

import deployment
import kernel_objects
from deployment import eventually
from faults import BODY, LONG, assert_quota_used
from slow_proxy import SlowProxy

ROUNDS = 40 if LONG else 8
CLIENTS = 4
LIVES = 24
SEED = int(os.environ.get("SANDBOX_CHAOS_SEED", "1"))


server, deployed, api = deployment.postgresql_fixtures("sgk", "10.207.0.0/16", 2_200_000_000)


def patiently(call) -> httpx.Response:
    """As a client that honours Retry-After: until the answer is something else than 503."""
    deadline = time.monotonic() + deployment.WAIT_SECONDS * 2
    while True:
        answer = call()
        if answer.status_code != 503 or time.monotonic() > deadline:
            return answer
        time.sleep(0.2)


def test_kill_of_the_store_at_random_moments(api, deployed, server):
    chance = random.Random(SEED)
    kept: set[str] = set()
    keys: dict[str, str] = {}

    def life(number: int) -> None:
        key = f"store-kill-{number}"
        answer = patiently(lambda: api.post("/sandboxes", BODY, headers={"Idempotency-Key": key}))
        assert answer.status_code in (200, 201), answer.text
        sandbox = answer.json()["id"]
        keys[key] = sandbox
        if number % 2:
            gone = patiently(lambda: api.delete(f"/sandboxes/{sandbox}?wait=30"))
            assert gone.status_code in (202, 204, 404), gone.text
        else:
            kept.add(sandbox)

    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as threads:
        work = [threads.submit(life, number) for number in range(LIVES * ROUNDS // 8)]
        for _ in range(ROUNDS):
            time.sleep(chance.uniform(0.0, 0.4))  # the moment is the point of the test
            server.kill()
            server.start()
        for row in work:
            row.result()

    def settled() -> dict | None:
        answer = api.get("/sandboxes?limit=1000")
        if answer.status_code != 200:
            return None
        rows = {row["id"]: row["state"] for row in answer.json()["items"]}
        return rows if set(rows.values()) <= {"ready"} else None
    rows = eventually(settled)
    assert set(rows) == kept
    for key, sandbox in keys.items():  # the same key is still the same sandbox
        again = api.post("/sandboxes", BODY, headers={"Idempotency-Key": key})
        assert again.json()["id"] == sandbox
    for sandbox in kept:
        assert api.run(sandbox, "true")["exit_code"] == 0
        types = [row["type"] for row in api.get(f"/sandboxes/{sandbox}/events").json()["items"]]
        assert types.count("created") == 1 and types.count("ready") == 1, types
    stored = server.query("SELECT id FROM sandboxes WHERE state <> 'deleted'", "gateway")
    assert set(stored.split()) == kept
    deployed.gateway.kill()  # and what the store knows is enough
    deployed.start_gateway()
    assert {row["id"] for row in api.get("/sandboxes?limit=1000").json()["items"]} == kept
    for sandbox in kept:
        api.remove(sandbox)
    eventually(lambda: not deployed.ask_node({"op": "list"})["sandboxes"])
    held = kernel_objects.held_by(deployed)
    assert not [name for name in held["agent_folders"] if name in rows]


@pytest.fixture
def proxy(deployed, server):
    """Between the gateway and its store."""
    straight = deployed.settings.store
    with SlowProxy(server.port) as one:
        deployed.settings.store = straight.replace(f":{server.port}/", f":{one.port}/")
        deployed.gateway.kill()
        deployed.start_gateway()
        yield one
    deployed.settings.store = straight
    deployed.gateway.kill()
    deployed.start_gateway()


def test_a_slow_store_slows_only_what_needs_it(api, proxy):
    """Each answer of it takes as long as from another continent. Commands go on, while the store
    does not answer at all too."""
    kept = api.create(**BODY)["id"]
    proxy.delay = 0.1
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as threads:
        made = list(threads.map(lambda _: api.create(**BODY)["id"], range(CLIENTS * 2)))
        assert api.state(kept) == "ready"
        proxy.hold()
        assert api.get("/healthz").status_code == 200
        for _ in range(3):
            assert api.run(kept, "true")["exit_code"] == 0
        late = threads.submit(lambda: patiently(lambda: api.post("/sandboxes?wait=60", BODY)))
        time.sleep(1)  # longer than anything that is not the store's
        assert api.run(kept, "true")["exit_code"] == 0
        proxy.go_on()
        made.append(late.result().json()["id"])
        for sandbox in made:
            assert api.run(sandbox, "true")["exit_code"] == 0
        proxy.delay = 0.0
        assert_quota_used(api, len(made) + 1)
        list(threads.map(api.remove, [*made, kept]))
    eventually(lambda: not api.get("/sandboxes").json()["items"])
    assert_quota_used(api, 0)
