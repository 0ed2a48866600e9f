"""Out of memory: a sandbox down to its first process, and the slice that all sandboxes share."""

import concurrent.futures
from pathlib import Path

import pytest

from deployment import eventually
from faults import BODY, assert_no_leak, assert_quota_used

MIB = 2**20
ROOM = 48 * MIB  # of the slice, above what its sandboxes hold at rest
# Holds all of it in one process: one fits into the room, three do not.
HOG = "head -c 40000000 /dev/zero | tail >/dev/null"


def test_a_sandbox_whose_memory_nobody_gives_back(api, deployed, baseline):
    """What a file in memory takes no killed process frees: in the end the agent has to go."""
    neighbour = api.create(**BODY)["id"]
    box = api.create(**BODY)["id"]

    def is_over() -> bool:
        api.post(f"/sandboxes/{box}/run", {
            "command": "for i in 1 2 3; do head -c 60000000 /dev/zero >>/dev/shm/x & done; wait"})
        return api.state(box) == "failed"
    for _ in range(5):
        if is_over():
            break
    row = api.get(f"/sandboxes/{box}").json()
    assert row["state"] == "ready" or row["reason"] == "out_of_memory", row
    assert api.run(neighbour, "true")["exit_code"] == 0
    api.remove(box)
    api.remove(neighbour)
    assert_quota_used(api, 0)
    assert_no_leak(deployed, baseline)


def slice_of(deployed) -> tuple[Path, Path]:
    """What limits the instance's own slice, and what tells its use: of cgroup v1 or v2."""
    prefix = deployed.settings.name_prefix
    root = Path("/sys/fs/cgroup")
    for folder, limit, usage in ((root / "memory" / prefix, "memory.limit_in_bytes",
                                  "memory.usage_in_bytes"),
                                 (root / prefix, "memory.max", "memory.current")):
        if (folder / limit).exists():
            return folder / limit, folder / usage
    pytest.fail("this host limits no memory")


@pytest.fixture
def little_room(deployed):
    limit, usage = slice_of(deployed)
    unlimited = "-1" if limit.name == "memory.limit_in_bytes" else "max"

    def take() -> None:
        limit.write_text(str(int(usage.read_text()) + ROOM))
    yield take
    limit.write_text(unlimited)


def test_the_slice_of_all_sandboxes_is_out_of_memory(api, deployed, baseline, little_room):
    daemons = [deployed.node.pid(), deployed.gateway.pid()]
    boxes = [api.create(cpus=1, memory_mb=256)["id"] for _ in range(3)]
    little_room()

    def hog(box: str) -> str:
        answer = api.post(f"/sandboxes/{box}/run", {"command": HOG})
        if answer.status_code != 200:
            return "lost"
        result = answer.json()
        return "killed" if result.get("oom_killed") else "done"
    with concurrent.futures.ThreadPoolExecutor(len(boxes)) as threads:
        ends = list(threads.map(hog, boxes))
    assert set(ends) != {"done"}, ends
    assert [deployed.node.pid(), deployed.gateway.pid()] == daemons

    def is_settled(box: str) -> bool:
        row = api.get(f"/sandboxes/{box}").json()
        return row["state"] == "ready" or (row["state"], row["reason"]) == ("failed",
                                                                            "out_of_memory")
    for box, end in zip(boxes, ends):
        eventually(lambda box=box: is_settled(box), what=f"{box} after {end}")
        if api.state(box) == "ready":
            assert api.run(box, "echo", "on")["stdout"] == "on\n"
    # The slice is as full as ever, and a sandbox that wants little is made.
    late = api.create(**BODY)["id"]
    assert api.run(late, "true")["exit_code"] == 0
    for box in (*boxes, late):
        api.remove(box)
    assert_quota_used(api, 0)
    assert_no_leak(deployed, baseline)
