"""Limits: memory, processes, disk and cpu of one sandbox, and that its neighbours do not notice."""

import os
import subprocess

import pytest

from deployment import error_of, eventually


def test_memory_limit_kills_inside_only(api):
    """Checklist 42: the command dies, the agent lives, and the answer says why."""
    made = api.create(memory_mb=64)["id"]
    result = api.shell(made, "head -c 200000000 /dev/zero | tail")
    assert result["oom_killed"] and result["exit_code"] == 137, result
    assert api.output(made, "echo still here") == "still here"
    api.remove(made)


def test_memory_limit_holds_for_shm(api):
    made = api.create(memory_mb=64)["id"]
    result = api.shell(made, "head -c 200000000 /dev/zero >/dev/shm/x")
    assert result["exit_code"] != 0
    assert api.state(made) in ("ready", "failed")
    api.remove(made)


def test_pids_limit_and_delete_during_a_fork_bomb(api):
    """Checklist 41"""
    made = api.create(cpus=0.5)["id"]
    api.post(f"/sandboxes/{made}/run", {"command": "b() { b | b & }; b", "timeout_sec": 3})
    assert subprocess.run(["true"], check=False).returncode == 0
    api.remove(made)
    assert api.state(made) == "absent"


def test_storage_limit_is_disk_full(api):
    """Checklist 43: the limit is hard, and the rest goes on working."""
    made = api.create(storage_mb=64)["id"]
    result = api.shell(made, "head -c 100000000 /dev/zero >/root/x; echo $?; stat -c %s /root/x")
    assert result["stdout"].splitlines()[0] != "0"
    assert int(result["stdout"].splitlines()[1]) <= 64 * 2**20
    assert "No space left" in result["stderr"] or "quota exceeded" in result["stderr"]
    full = api.upload(made, "/root/y", os.urandom(80 * 2**20))
    assert error_of(full) == (507, "disk_full")
    assert api.download(made, "/etc/passwd").status_code == 200
    assert api.shell(made, "ls /root/y")["exit_code"] != 0
    api.output(made, "rm /root/x")
    api.remove(made)


def test_failed_upload_keeps_the_old_file(api):
    made = api.create(storage_mb=32)["id"]
    assert api.upload(made, "/root/kept", b"old").status_code in (200, 201)
    assert error_of(api.upload(made, "/root/kept", os.urandom(60 * 2**20))) == (507, "disk_full")
    assert api.download(made, "/root/kept").content == b"old"
    api.remove(made)


def test_cpu_limit(api):
    """A quarter of a cpu for a busy loop: cpu time used is far below the wall time."""
    made = api.create(cpus=0.25)["id"]
    out = api.output(made, "s=$(date +%s%N); while [ $(($(date +%s%N)-s)) -lt 2000000000 ]; do :;"
                           " done; awk '{print ($14+$15+$16+$17)/100}' /proc/$$/stat")
    assert float(out) < 1.2
    api.remove(made)


def test_open_files_are_limited(api, shared_box):
    assert int(api.output(shared_box, "ulimit -n")) <= 65_536


def test_ten_thousand_orphans_leave_no_zombie(api, shared_box):
    """Checklist 51"""
    api.output(shared_box, "for i in $(seq 2000); do (true &) ; done")
    eventually(lambda: "Z" not in api.output(shared_box, "ps -eo stat --no-headers"))


@pytest.mark.parametrize("fields", [{"memory_mb": 16}, {"cpus": 0.01}, {"storage_mb": 16}])
def test_smallest_sandbox_works(api, fields):
    made = api.create(**fields)["id"]
    assert api.run(made, "true")["exit_code"] == 0
    api.remove(made)


def test_hundred_at_once(api):
    import concurrent.futures

    def life(_) -> int:
        made = api.create(cpus=0.1, memory_mb=32)["id"]
        code = api.run(made, "true")["exit_code"]
        api.remove(made)
        return code
    with concurrent.futures.ThreadPoolExecutor(50) as threads:
        assert list(threads.map(life, range(100))) == [0] * 100
