"""Fault points, and what must be true after one: what an instance holds, and what it promised."""

import os
import sqlite3
import subprocess
import time
from pathlib import Path

import httpx

import kernel_objects
from deployment import IMAGE, WAIT_SECONDS, eventually

PROGRAMS = {"node": "sandbox-node", "gateway": "sandbox-gateway", "agent": "sandbox-agent"}
BODY = {"image": IMAGE, "cpus": 0.1, "memory_mb": 32}
LONG = bool(os.environ.get("SANDBOX_LONG"))
SETTLE_SECONDS = 0.3  # between two counts that are to be equal


def fault_points(role: str, prefix: str = "") -> list[str]:
    """Those that begin with `role`.`prefix`. A program without any is a build without them: its
    tests fail, as nothing reaches the point they wait for."""
    program = Path(os.environ.get("SANDBOX_BUILD", "")) / PROGRAMS[role]
    listed = subprocess.run([program, "--list-fault-points"], capture_output=True, text=True,
                            check=False).stdout if program.exists() else ""
    found = [point for point in listed.split() if point.startswith(f"{role}.{prefix}")]
    return found or [f"{role}.{prefix}none-in-this-build"]


def attempt(call):
    """A call whose gateway may die under it."""
    try:
        return call()
    except (httpx.TransportError, httpx.TimeoutException):
        return None


def restart(deployed) -> None:
    """What died, without its fault point."""
    deployed.settings.fault_point = ""
    deployed.start_node()
    deployed.start_gateway()


def process_of(deployed, point: str):
    return deployed.node if point.startswith("node.") else deployed.gateway


def arm(deployed, point: str) -> None:
    """Starts the process of the fault point anew, now armed."""
    process = process_of(deployed, point)
    deployed.settings.fault_point = point
    process.kill()
    if process is deployed.node:
        deployed.spawn_node()
    else:
        deployed.start_gateway()  # no point lies in its start; requests must find it listening


def restart_gateway(deployed, variables: dict[str, str] | None = None, **options: str) -> None:
    """With these variables and options (`total_sandboxes`) instead of those it had."""
    deployed.settings.gateway_variables = variables or {}
    deployed.settings.gateway_options = {name.replace("_", "-"): value
                                         for name, value in options.items()}
    deployed.gateway.kill()
    deployed.start_gateway()


def holdings(deployed) -> dict:
    """How much of each kind the instance holds: in the kernel, on disk, in its store."""
    counts = {name: len(rows) for name, rows in kernel_objects.held_by(deployed).items()}
    if not deployed.settings.store:
        counts["rows"] = held_rows(deployed.state / "gateway")
    return counts


def held_rows(folder: Path) -> int:
    """Sandboxes that the store has as not gone, or as holding quota."""
    file = next(folder.glob("*.db"))
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=10) as rows:
        count = rows.execute("SELECT COUNT(*) FROM sandboxes WHERE state <> 'deleted'"
                             " OR holds_quota").fetchone()[0]
    rows.close()
    return count


def pool_is_full(deployed) -> bool:
    """And what an earlier node had in it is gone."""
    folders = os.listdir(deployed.state / "run" / "sandboxes")
    ready = sum(name.startswith(".ready-") for name in folders)
    processes = kernel_objects.processes_of_ids(deployed.settings.id_base)
    return ready == len(processes) == deployed.settings.shells


def settled_holdings(deployed) -> dict:
    """Once the pool of shells is full and nothing changes any more."""
    eventually(lambda: pool_is_full(deployed))
    previous = None
    while (now := holdings(deployed)) != previous:
        previous = now
        time.sleep(SETTLE_SECONDS)
    return now


def assert_no_leak(deployed, before: dict) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while (now := holdings(deployed)) != before:
        difference = {name: (before[name], now[name]) for name in before
                      if now[name] != before[name]}
        assert time.monotonic() < deadline, f"before and now: {difference}"
        time.sleep(SETTLE_SECONDS)


def assert_quota_used(api, sandboxes: int) -> None:
    """The store's sum is that of the sandboxes that hold quota, once it has been told all: a store
    that was full or away is told in turn."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        rows = api.get("/sandboxes?limit=1000").json()["items"]
        holding = [row for row in rows if row["state"] in ("starting", "ready", "deleting")]
        used = api.get("/quotas").json()["total"]["used"]
        if (used["sandboxes"] == len(holding) == sandboxes and
                used["memory_mb"] == sum(row["memory_mb"] for row in holding)):
            return
        assert time.monotonic() < deadline, (used, rows)
        time.sleep(SETTLE_SECONDS)


def assert_audit_is_whole(deployed) -> None:
    """The chain of hashes has no gap, however often its writer was killed."""
    done = subprocess.run([deployed.bin / "sandbox-gateway", "audit", "verify", "--config", "",
                           "--state", str(deployed.state)], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done
