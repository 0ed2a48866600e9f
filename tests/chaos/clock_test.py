"""The gateway's clock jumps by a day, forwards and back, under it and while it is down: nothing
that is used ends, everything abandoned does, by the time that passes."""

import threading

import pytest

from deployment import eventually
from faults import BODY, LONG, assert_no_leak, assert_quota_used, restart_gateway

LIBRARY = "/usr/$LIB/faketime/libfaketimeMT.so.1"  # Debian's; the loader knows $LIB
DAY = 86_400
STEPS = [DAY, -DAY] if LONG else [DAY]
LEASE_SECONDS = 3
PATIENCE = 30  # far from a day


class Clock:
    """The wall clock as the gateway sees it, from the next call on."""

    def __init__(self, deployed):
        self.file = deployed.state / "clock"
        self.step(0)

    def step(self, seconds: int) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.chmod(0o644)
        new.rename(self.file)

    def variables(self) -> dict[str, str]:
        return {"LD_PRELOAD": LIBRARY, "FAKETIME_TIMESTAMP_FILE": str(self.file),
                "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


@pytest.fixture
def clock(api, deployed, baseline):
    made = Clock(deployed)
    restart_gateway(deployed, made.variables())
    yield made
    for row in api.get("/sandboxes?limit=1000").json()["items"]:
        api.remove(row["id"])
    restart_gateway(deployed)
    made.file.unlink()


def create(api, **fields) -> str:
    return api.create(**{**BODY, **fields})["id"]


def reason_of(api, box: str) -> str:
    row = api.get(f"/sandboxes/{box}?all=true").json()
    return row["reason"] if row["state"] == "deleted" else ""


@pytest.mark.parametrize("step", STEPS)
def test_a_step_under_a_running_gateway(api, deployed, baseline, clock, step):
    used, idle = create(api, lease_sec=LEASE_SECONDS), create(api, lease_sec=1800)
    abandoned = create(api, lease_sec=LEASE_SECONDS)
    short_lived = create(api, lease_sec=1800, max_lifetime_sec=2 * LEASE_SECONDS)
    over = threading.Event()
    ends = []

    def use() -> None:
        """A command that goes on for longer than its lease."""
        while not over.is_set():
            ends.append(api.post(f"/sandboxes/{used}/run", {"argv": ["sleep", "2"]}))
    thread = threading.Thread(target=use)
    thread.start()
    try:
        before = api.get(f"/sandboxes/{idle}").json()["lease_expires_at"]
        clock.step(step)
        eventually(lambda: api.get(f"/sandboxes/{idle}").json()["lease_expires_at"] != before,
                   what="the gateway saw the step")
        assert api.run(idle, "true")["exit_code"] == 0
        for box, reason in ((abandoned, "lease_expired"), (short_lived, "max_lifetime")):
            assert eventually(lambda box=box: reason_of(api, box), PATIENCE) == reason
        assert api.state(used) == api.state(idle) == "ready"
    finally:
        over.set()
        thread.join()
    assert {end.status_code for end in ends} == {200}, [end.text for end in ends]
    eventually(lambda: api.state(used) == "absent", PATIENCE)  # nobody uses it any more
    assert reason_of(api, used) == "lease_expired"
    api.remove(idle)
    assert_quota_used(api, 0)
    assert_no_leak(deployed, baseline)


@pytest.mark.parametrize("step", STEPS)
def test_a_step_while_the_gateway_is_down(api, deployed, baseline, clock, step):
    """A day that passed and a clock that was set look the same; a clock that was set back must not
    keep for a day what was abandoned."""
    boxes = (create(api, lease_sec=LEASE_SECONDS),
             create(api, lease_sec=1800, max_lifetime_sec=2 * LEASE_SECONDS))
    deployed.gateway.kill()
    clock.step(step)
    deployed.start_gateway()
    for box in boxes:
        reason = eventually(lambda box=box: reason_of(api, box), PATIENCE)
        assert reason in ("lease_expired", "max_lifetime"), reason
    assert_quota_used(api, 0)
    assert_no_leak(deployed, baseline)
