"""Leases and quotas: faults that other systems had (areas LI, QU); SANDBOX_LONG=1 for the full
loads."""

import concurrent.futures
import contextlib
import datetime
import os
import random
import sqlite3
import threading
import time

import httpx

from deployment import IMAGE, eventually

LONG = os.environ.get("SANDBOX_LONG") == "1"
TINY = {"image": IMAGE, "cpus": 0.1, "memory_mb": 32, "storage_mb": 16}


def node_ids(api) -> set[str]:
    return {row["id"] for row in api.instance.ask_node({"op": "list"})["sandboxes"]}


def create(api, **fields) -> dict:
    answer = api.post("/sandboxes?wait=60", {**TINY, **fields})
    assert answer.status_code == 201 and answer.json()["state"] == "ready", answer.text
    return answer.json()


def test_renewing_at_the_moment_of_the_end(api):
    """LI-03: either it answers and lives one more lease, or it is gone; none stays"""
    lease, count = 2, 200 if LONG else 40
    chance = random.Random(3)
    before = node_ids(api)

    def live(_: int) -> str:
        made = create(api, lease_sec=lease)
        ready = time.monotonic()
        time.sleep(max(0.0, lease + chance.uniform(-0.02, 0.02) - (time.monotonic() - ready)))
        answer = api.post(f"/sandboxes/{made['id']}/run", {"argv": ["true"]})
        # not_ready: its deletion has begun; agent_failed never.
        assert answer.status_code in (200, 404, 409), answer.text
        if answer.status_code == 200:
            now = api.get(f"/sandboxes/{made['id']}")
            assert now.status_code in (200, 404)
            if now.status_code == 200 and now.json()["state"] == "ready":
                assert now.json()["lease_expires_at"] > made["lease_expires_at"]
        return made["id"]

    with concurrent.futures.ThreadPoolExecutor(20) as threads:
        made = list(threads.map(live, range(count)))
    api.instance.gateway.kill()
    api.instance.start_gateway()
    eventually(lambda: not node_ids(api) - before, what="all leases are over")
    eventually(lambda: all(api.state(sandbox) == "absent" for sandbox in made))


def stored_lease_ms(api, sandbox: str) -> int:
    """Renewals are written together every two seconds."""
    file = next((api.instance.state / "gateway").glob("*.db"))
    with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=10)) as rows:
        return rows.execute("SELECT lease_expires_ms FROM sandboxes WHERE id = ?",
                            (sandbox,)).fetchone()[0]


def test_a_renewed_lease_survives_a_restart(api):
    """LI-03: with its new end"""
    made = create(api, lease_sec=30)
    time.sleep(1)
    api.run(made["id"], "true")
    renewed = api.get(f"/sandboxes/{made['id']}").json()["lease_expires_at"]
    assert renewed > made["lease_expires_at"]
    end = datetime.datetime.fromisoformat(renewed.replace("Z", "+00:00"))
    eventually(lambda: stored_lease_ms(api, made["id"]) == round(end.timestamp() * 1000))
    api.instance.gateway.kill()
    api.instance.start_gateway()
    assert api.get(f"/sandboxes/{made['id']}").json()["lease_expires_at"] == renewed
    api.remove(made["id"])


def busy_for(api, sandbox: str, seconds: int, how: str) -> None:
    path = f"/sandboxes/{sandbox}"
    if how == "run":
        assert api.run(sandbox, "sleep", str(seconds))["exit_code"] == 0
    elif how == "exec":
        line = f'{{"argv":["sleep","{seconds}"]}}\n'.encode()
        answer = api.http.post(f"{path}/exec", content=line)
        assert answer.status_code == 200 and answer.headers["x-return-code"] == "0"
    elif how == "followed session":
        made = api.post(f"{path}/sessions", {"argv": ["sleep", str(seconds)]}).json()
        answer = api.get(f"{path}/sessions/{made['id']}/logs?follow=true")
        assert answer.status_code == 200
    else:
        def slowly():
            for _ in range(seconds * 2):
                yield b"x" * 1000
                time.sleep(0.5)
        answer = api.http.put(f"{path}/files?path=/tmp/slow", content=slowly())
        assert answer.status_code in (200, 201), answer.text


def test_what_runs_is_not_idle(api):
    """LI-04: a, b, c (followed), e live on, and end a lease after their end"""
    lease = 5 if LONG else 2

    def live(how: str) -> None:
        made = create(api, lease_sec=lease)["id"]
        began = datetime.datetime.now(datetime.timezone.utc)
        busy_for(api, made, lease * 3, how)  # which fails where the sandbox goes meanwhile
        eventually(lambda: api.state(made) == "absent")
        ends = [row["at"] for row in api.get(f"/sandboxes/{made}/events").json()["items"]
                if row["type"] == "deleting"]
        end = datetime.datetime.fromisoformat(ends[0].replace("Z", "+00:00"))
        assert end - began >= datetime.timedelta(seconds=lease * 4), how

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        list(threads.map(live, ["run", "exec", "followed session", "slow upload"]))


def test_looking_is_not_activity(api):
    """LI-04: f and a session that nobody follows"""
    lease = 5 if LONG else 2
    watched, silent = create(api, lease_sec=lease)["id"], create(api, lease_sec=lease)["id"]
    assert api.post(f"/sandboxes/{silent}/sessions", {"argv": ["sleep", "60"]}).status_code == 201

    def looked_at() -> bool:
        for path in ("", "/activity", "/events", "/audit-logs", "/metrics"):
            api.get(f"/sandboxes/{watched}{path}")
        api.get("/sandboxes")
        return api.state(watched) == "absent"

    eventually(looked_at)
    eventually(lambda: api.state(silent) == "absent")


def restart_gateway(api, **options: str) -> None:
    api.instance.settings.gateway_options = options
    api.instance.gateway.kill()
    api.instance.start_gateway()


def test_limits_hold_under_creates_at_the_same_time(api):
    """QU-01: never more than the limit, the rest in order, none lost"""
    limit, count, rounds = 5, 50, 20 if LONG else 1
    before = node_ids(api)
    restart_gateway(api, **{"total-sandboxes": str(limit)})
    most, done = 0, threading.Event()

    def sample() -> None:
        nonlocal most
        while not done.wait(0.05):
            most = max(most, len(node_ids(api) - before))

    def one_life(_: int) -> dict:
        with httpx.Client(base_url=api.instance.url, timeout=120, headers=api.http.headers) as own:
            made = own.post("/sandboxes", json=TINY)
            assert made.status_code == 201, made.text
            sandbox = made.json()["id"]
            row = own.get(f"/sandboxes/{sandbox}?wait=120").json()
            assert row["state"] == "ready", row
            assert own.delete(f"/sandboxes/{sandbox}?wait=60").status_code == 204
            return row

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        for _ in range(rounds):
            with concurrent.futures.ThreadPoolExecutor(count) as threads:
                rows = list(threads.map(one_life, range(count)))
            rows.sort(key=lambda row: (row["admitted_at"], row["created_at"]))
            created = [row["created_at"] for row in rows]
            assert created == sorted(created)
    finally:
        done.set()
        sampler.join()
        restart_gateway(api)
    assert 0 < most <= limit
    assert node_ids(api) == before
