"""GET /sandboxes/{id}/metrics: what a sandbox uses, now and over time."""

import pytest

from deployment import error_of, eventually

MIB = 1024 * 1024


def metrics(api, box) -> dict:
    answer = api.get(f"/sandboxes/{box}/metrics")
    assert answer.status_code == 200, answer.text
    return answer.json()


def now(api, box) -> dict:
    return metrics(api, box)["now"]


def test_limits_are_those_of_the_create(api):
    box = api.create(cpus=0.5, memory_mb=128, storage_mb=64)["id"]
    told = metrics(api, box)
    assert told["limits"]["cpu_percent"] == 50
    assert told["limits"]["memory_bytes"] == 128 * MIB
    assert told["limits"]["storage_bytes"] == 64 * MIB
    assert told["limits"]["pids"] > 0 and told["interval_sec"] == 10
    api.remove(box)


def test_use_is_counted(api, box):
    idle = now(api, box)
    assert idle["pids"] >= 1 and idle["memory_bytes"] > 0
    api.shell(box, "sleep 1000 </dev/null >/dev/null 2>&1 &")
    eventually(lambda: now(api, box)["pids"] > idle["pids"])
    api.shell(box, "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
    assert now(api, box)["cpu_usec"] > idle["cpu_usec"] + 100_000
    api.shell(box, "head -c 50000000 /dev/urandom > /var/tmp/big; sync")
    eventually(lambda: now(api, box)["storage_bytes"] > idle["storage_bytes"] + 45_000_000)
    assert api.shell(box, "cat /proc/net/dev")["exit_code"] == 0
    assert now(api, box)["network_tx_bytes"] >= 0 and now(api, box)["network_rx_bytes"] >= 0


def test_a_series_grows(api, box):
    first = eventually(lambda: metrics(api, box)["series"], 30)
    assert first[0]["cpu_percent"] is None
    later = eventually(lambda: len(row := metrics(api, box)["series"]) > 1 and row, 30)
    assert later[0] == first[0]
    assert later[1]["cpu_percent"] >= 0 and later[1]["at"] > later[0]["at"]


def test_it_does_not_renew_the_lease(api, box):
    before = api.get(f"/sandboxes/{box}/activity").json()["lease_expires_at"]
    metrics(api, box)
    assert api.get(f"/sandboxes/{box}/activity").json()["lease_expires_at"] == before


@pytest.mark.parametrize("path, expected", [
    ("/sandboxes/sbx-absent/metrics", (404, "not_found"))])
def test_refusals(api, shared_box, path, expected):
    assert error_of(api.get(path)) == expected
    assert error_of(api.get(f"/sandboxes/{shared_box}/metrics?x=1")) == (422, "unknown_field")
