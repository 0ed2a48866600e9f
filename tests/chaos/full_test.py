"""What is full: the disk of the gateway's store, the pool of the sandboxes' disks, the range of
host ids, the subnet. Each is a clear error, nothing acknowledged is lost, and room that comes back
is used."""

import concurrent.futures
import contextlib
import errno
import os
import subprocess

import pytest

import deployment
import faults
from deployment import error_of, eventually
from faults import BODY, LONG, assert_audit_is_whole, assert_no_leak, assert_quota_used

STORE_MIB = 12
POOL_MB = 256
IDS_PER_SANDBOX = 65_536
HIGHEST_ID = 0xFFFF_0000
PLACES_OF_IDS = 4
ADDRESSES = 6  # of a /29
MIB = 2**20


@pytest.fixture(scope="module")
def deployed():
    """With the gateway's records on a small file system of their own, and a small pool."""
    one = deployment.make_instance("sgf", "10.209.0.0/16", 2_300_000_000, shells=1)
    one.settings.storage_pool_mb = POOL_MB
    one.prepare()
    owner = f"uid={deployment.instance.GATEWAY_UID},gid={deployment.instance.GATEWAY_UID}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=0700,{owner}", "none",
                    one.state / "gateway"], check=True)
    with deployment.running(one):  # the image came through the same folder
        subprocess.run(["mount", "-o", f"remount,size={STORE_MIB}m", one.state / "gateway"],
                       check=True)
        yield one


@pytest.fixture(scope="module")
def api(deployed):
    return deployment.Api(deployed)


@pytest.fixture(scope="module")
def baseline(api, deployed):
    return faults.settled_holdings(deployed)


@contextlib.contextmanager
def full(folder):
    """Nothing more fits into the file system of `folder` meanwhile."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (MIB, 4096, 1):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError as error:
                assert error.errno == errno.ENOSPC, error
    try:
        yield
    finally:
        filler.unlink(missing_ok=True)


def test_a_full_disk_of_the_store(api, deployed, baseline):
    body = {**BODY, "memory_mb": 16, "env": {"A": "x" * 60_000}}
    kept = [api.create(**BODY)["id"] for _ in range(2)]
    with full(deployed.state / "gateway"):
        answers = []
        eventually(lambda: answers.append(api.post("/sandboxes?wait=60", body)) or
                   answers[-1].status_code != 201)
        assert error_of(answers[-1]) == (507, "disk_full"), answers[-1].text
        acknowledged = [*kept, *(answer.json()["id"] for answer in answers[:-1])]
        # What needs no record goes on.
        assert api.run(kept[0], "echo", "on")["stdout"] == "on\n"
        assert api.upload(kept[0], "/root/x", b"x").status_code == 200
        assert api.get("/sandboxes").status_code == 200
        assert api.get("/healthz").status_code == 200
        gone = api.delete(f"/sandboxes/{kept[1]}?wait=10")
        assert gone.status_code == 204 or error_of(gone) == (507, "disk_full"), gone.text
        eventually(lambda: kept[1] not in str(deployed.ask_node({"op": "list"})["sandboxes"]))
        deployed.gateway.kill()
        deployed.start_gateway()  # what only reads goes on, and is as it was told
        present = {row["id"] for row in api.get("/sandboxes?limit=1000").json()["items"]}
        assert set(acknowledged) - {kept[1]} <= present
        for sandbox in set(acknowledged) - {kept[1]}:
            assert api.run(sandbox, "true")["exit_code"] == 0
        refused = api.post("/sandboxes?wait=60", body)
        assert error_of(refused) == (507, "disk_full"), refused.text
        assert api.get("/healthz").status_code == 200
    # Room that comes back is used without a restart.
    created = eventually(lambda: (answer := api.post("/sandboxes?wait=60", body))
                         .status_code == 201 and answer)
    acknowledged.append(created.json()["id"])
    # Asked to go, it went, though the store could not be told then.
    eventually(lambda: api.state(kept[1]) in ("absent", "failed"))
    api.remove(kept[1])
    for sandbox in set(acknowledged) - {kept[1]}:
        assert api.run(sandbox, "true")["exit_code"] == 0
    made = api.create(**body)["id"]
    for sandbox in {*acknowledged, made}:
        api.remove(sandbox)
    assert_quota_used(api, 0)
    assert_no_leak(deployed, baseline)
    assert_audit_is_whole(deployed)


@pytest.mark.skipif(not LONG, reason="long: only with --all")
def test_a_full_pool_of_disks(api, deployed, baseline):
    """The limits of all together may be more than there is."""
    first, second = (api.create(**BODY, storage_mb=POOL_MB - 50)["id"] for _ in range(2))
    fill = "head -c 200000000 /dev/zero >/root/fill"
    filled = [api.shell(box, fill) for box in (first, second)]
    assert filled[1]["exit_code"] != 0 and "No space left" in filled[1]["stderr"], filled
    refused = api.upload(second, "/root/y", os.urandom(32 * MIB))
    assert error_of(refused) == (507, "disk_full")
    late = api.post("/sandboxes?wait=60", BODY).json()
    assert late["state"] == "ready" or late["message"], late
    deployed.node.kill()  # which adopts them with as little room
    deployed.start_node()
    for box in (first, second):
        assert api.run(box, "true")["exit_code"] == 0
    api.remove(first)
    api.remove(late["id"])
    eventually(lambda: api.upload(second, "/root/y", os.urandom(32 * MIB)).status_code == 200)
    again = api.create(**BODY)["id"]
    api.remove(again)
    api.remove(second)
    assert_quota_used(api, 0)
    assert_no_leak(deployed, baseline)


@pytest.fixture
def room_for(deployed, request):
    """A node whose ids or addresses suffice for so many sandboxes."""
    old = deployed.settings.id_base, deployed.settings.subnet
    if request.param == "ids":
        deployed.settings.id_base = HIGHEST_ID - (PLACES_OF_IDS + 1) * IDS_PER_SANDBOX
    else:
        deployed.settings.subnet = deployed.settings.subnet.replace("/16", "/29")
    deployed.node.kill()
    deployed.start_node()
    yield PLACES_OF_IDS if request.param == "ids" else ADDRESSES
    deployed.settings.id_base, deployed.settings.subnet = old
    deployed.node.kill()
    deployed.start_node()


@pytest.mark.parametrize("room_for", ["ids", "addresses"], indirect=True)
def test_no_room_for_another_sandbox(api, deployed, baseline, room_for):
    """Round after round, as what comes back is used again."""
    before = faults.settled_holdings(deployed)
    for _ in range(3 if LONG else 2):
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            rows = list(threads.map(lambda _: api.post("/sandboxes?wait=60", BODY).json(),
                                    range(room_for + 2)))
        ready = [row["id"] for row in rows if row["state"] == "ready"]
        failed = [row for row in rows if row["state"] == "failed"]
        assert (len(ready), len(failed)) == (room_for, 2), rows
        for row in failed:
            assert row["reason"] == "start_failed" and "room for" in row["message"], row
        for sandbox in ready:
            assert api.run(sandbox, "true")["exit_code"] == 0
        assert_quota_used(api, room_for)
        api.remove(ready[0])
        assert api.create(**BODY)["state"] == "ready"
        for row in api.get("/sandboxes?limit=1000").json()["items"]:
            api.remove(row["id"])
    assert_quota_used(api, 0)
    assert_no_leak(deployed, before)
