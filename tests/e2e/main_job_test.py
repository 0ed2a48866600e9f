"""The main job: a sandbox from an image, commands in it, files moved, and the sandbox gone."""

import base64
import concurrent.futures
import hashlib
import os
import re

import pytest

import kernel_objects
from deployment import IMAGE, agent_pid, error_of, eventually

SANDBOX_FIELDS = {
    "id", "state", "reason", "message", "image", "image_digest", "cpus", "memory_mb", "storage_mb",
    "labels", "team", "owner", "isolation", "network", "public_key", "containers", "queue",
    "borrowed", "node", "created_at", "admitted_at", "ready_at", "lease_expires_at",
    "max_lifetime_at", "last_activity_at", "timings"}


def test_create_answers_the_documented_fields(api):
    made = api.create(labels={"purpose": "test"}, storage_mb=512)
    try:
        assert SANDBOX_FIELDS <= set(made)
        assert made["labels"] == {"purpose": "test"}
        assert (made["cpus"], made["memory_mb"], made["storage_mb"]) == (1, 256, 512)
        assert made["team"] == "default" and made["isolation"] == "container"
        assert "env" not in made
        assert api.get(f"/sandboxes/{made['id']}").json()["state"] == "ready"
        listed = api.get("/sandboxes", params={"label": "purpose=test"}).json()
        assert [row["id"] for row in listed["items"]] == [made["id"]]
        assert listed["next_cursor"] is None
    finally:
        api.remove(made["id"])


def test_create_has_a_location_and_a_request_id(api):
    answer = api.post("/sandboxes", {"image": IMAGE, "cpus": 0.5, "memory_mb": 64})
    assert answer.status_code == 201
    assert answer.headers["location"].endswith(f"/sandboxes/{answer.json()['id']}")
    assert answer.headers["x-request-id"]
    waited = api.get(f"/sandboxes/{answer.json()['id']}?wait=60").json()
    assert waited["state"] == "ready"
    api.remove(answer.json()["id"])


def test_idempotency_key_gives_the_same_sandbox(api):
    body = {"image": IMAGE, "cpus": 0.5, "memory_mb": 64}
    key = {"Idempotency-Key": "e2e-main-job"}
    first = api.post("/sandboxes?wait=60", body, headers=key)
    again = api.post("/sandboxes?wait=60", body, headers=key)
    other = api.post("/sandboxes", {**body, "memory_mb": 65}, headers=key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    assert error_of(other) == (409, "idempotency_conflict")
    api.remove(first.json()["id"])
    gone = api.post("/sandboxes?wait=1", body, headers=key)
    assert (gone.status_code, gone.json()["state"]) == (200, "deleted")


def test_deleted_sandbox_is_absent_and_its_events_stay(api):
    made = api.create()["id"]
    api.remove(made)
    assert error_of(api.get(f"/sandboxes/{made}")) == (404, "not_found")
    assert error_of(api.delete(f"/sandboxes/{made}")) == (404, "not_found")
    archived = api.get("/sandboxes", params={"all": "true", "limit": 1000}).json()["items"]
    row = next(row for row in archived if row["id"] == made)
    assert (row["state"], row["reason"]) == ("deleted", "deleted_by_user")
    types = [e["type"] for e in api.get(f"/sandboxes/{made}/events").json()["items"]]
    assert types[0] == "created" and types[-1] == "deleted"
    assert types.index("starting") < types.index("ready") < types.index("deleting")


def test_run_gives_exit_code_and_both_streams(api, shared_box):
    result = api.shell(shared_box, "echo out; echo err >&2; exit 7")
    assert (result["exit_code"], result["stdout"], result["stderr"]) == (7, "out\n", "err\n")
    assert result["signal"] is None and not result["timed_out"] and not result["oom_killed"]
    assert not result["truncated"] and result["duration_ms"] >= 0


@pytest.mark.parametrize("argv, code", [
    (["true"], 0), (["sh", "-c", "exit 255"], 255), (["no-such-program"], 127),
    (["/etc/passwd"], 126), (["sh", "-c", "kill -9 $$"], 137), (["sh", "-c", "kill -15 $$"], 143)])
def test_exit_codes(api, shared_box, argv, code):
    result = api.run(shared_box, *argv)
    assert result["exit_code"] == code
    assert (result["signal"] is not None) == (code > 128 and code != 255)


def test_run_takes_env_cwd_user_and_stdin(api, shared_box):
    out = api.output(shared_box, "echo $A; pwd; id -un; cat", env={"A": "b c"}, cwd="/tmp",
                     user="user", stdin="from stdin")
    assert out.splitlines() == ["b c", "/tmp", "user", "from stdin"]


def test_bytes_survive_both_ways(api, shared_box):
    data = bytes(range(256)) * 17
    result = api.run(shared_box, "cat", stdin=base64.b64encode(data).decode(),
                     stdin_encoding="base64", encoding="base64")
    assert base64.b64decode(result["stdout"]) == data
    text = api.run(shared_box, "printf", "a\\0\\303\\244\\377b")["stdout"]
    assert text == "a\0ä\ufffdb"


def test_large_output_is_whole(api, shared_box):
    result = api.shell(shared_box, "head -c 20000000 /dev/zero | tr '\\0' x; echo end >&2")
    assert len(result["stdout"]) == 20_000_000 and result["stderr"] == "end\n"
    assert not result["truncated"]


def test_output_past_32_mib_is_cut_in_the_middle(api, shared_box):
    result = api.shell(shared_box, "echo first; head -c 40000000 /dev/zero | tr '\\0' x; echo last")
    assert result["truncated"] and result["stdout_dropped_bytes"] > 0
    assert result["stdout"].startswith("first\n") and result["stdout"].endswith("last\n")
    kept = len(result["stdout"].encode())
    assert kept <= 32 * 2**20 and kept + result["stdout_dropped_bytes"] >= 40_000_011


def test_timeout_kills_the_whole_tree(api, shared_box):
    result = api.shell(shared_box, "setsid sleep 4321 & (trap '' TERM; sleep 4322) & sleep 4323",
                       timeout_sec=0.3)
    assert result["timed_out"] and result["exit_code"] == 124
    assert api.shell(shared_box, "pgrep -f 'sleep 432[123]'")["exit_code"] == 1


def test_client_that_goes_away_cancels_its_command(api, deployed, shared_box):
    with api.client(deployed.token) as client:
        with pytest.raises(Exception):
            client.post(f"/sandboxes/{shared_box}/run", json={"argv": ["sleep", "4444"]},
                        timeout=0.5)
    eventually(lambda: api.shell(shared_box, "pgrep -f '[s]leep 4444'")["exit_code"] == 1)


def test_background_child_does_not_hold_the_answer(api, shared_box):
    result = api.shell(shared_box, "sleep 5555 & echo done")  # and not after 5555 s
    assert result["stdout"] == "done\n"
    assert api.shell(shared_box, "pkill -f 'sleep 555[5]'")["exit_code"] == 0


def test_sixteen_runs_at_once(api, shared_box):
    def one(number: int) -> str:
        return api.output(shared_box, f"echo {number}; sleep 0.2")
    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        assert list(threads.map(one, range(16))) == [str(n) for n in range(16)]


def test_file_round_trip(api, shared_box):
    data = os.urandom(3_000_001)
    put = api.upload(shared_box, "/root/deep/er/file", data)
    assert put.status_code in (200, 201)
    assert put.json()["size"] == len(data)
    assert put.json()["sha256"] == hashlib.sha256(data).hexdigest()
    got = api.download(shared_box, "/root/deep/er/file")
    assert got.content == data
    assert got.headers["x-file-mode"].endswith("644")
    part = api.http.get(f"/sandboxes/{shared_box}/files", params={"path": "/root/deep/er/file"},
                        headers={"Range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, data[10:20])
    head = api.http.head(f"/sandboxes/{shared_box}/files", params={"path": "/root/deep/er/file"})
    assert head.headers["content-length"] == str(len(data)) and head.headers["etag"]


def test_chunked_upload_with_mode_and_owner(api, shared_box):
    def pieces():
        for _ in range(100):
            yield b"x" * 10_000
    put = api.http.put(f"/sandboxes/{shared_box}/files", content=pieces(),
                       params={"path": "/tmp/script", "mode": "750", "owner": "user"})
    assert put.status_code in (200, 201), put.text
    assert api.output(shared_box, "stat -c '%s %a %U' /tmp/script") == "1000000 750 user"


def test_overwriting_keeps_mode_and_owner(api, shared_box):
    api.output(shared_box, "echo old >/tmp/kept; chmod 640 /tmp/kept; chown user:user /tmp/kept")
    assert api.upload(shared_box, "/tmp/kept", b"new").status_code in (200, 201)
    assert api.output(shared_box, "cat /tmp/kept; stat -c ' %a %U' /tmp/kept") == "new 640 user"


def test_file_errors(api, shared_box):
    api.output(shared_box, "mkfifo /tmp/fifo 2>/dev/null; true")
    rows = [("/no/such", 404, "file_not_found"), ("/tmp", 409, "is_a_directory"),
            ("/etc/passwd/x", 409, "not_a_directory"), ("/tmp/fifo", 409, "not_a_file"),
            ("/tmp/a\0b", 422, "path_invalid"), ("", 422, None)]
    for path, status, code in rows:
        found = error_of(api.download(shared_box, path))
        assert found[0] == status and code in (found[1], None), (path, found)
    denied = api.upload(shared_box, "/etc/shadow2", b"x", user="user")
    assert error_of(denied) == (403, "permission_denied")


def test_listing_a_folder(api, shared_box):
    api.output(shared_box, "mkdir -p /tmp/l/sub; echo abc >/tmp/l/f; ln -sf f /tmp/l/link")
    rows = api.download(shared_box, "/tmp/l", list=1).json()["items"]
    assert {(r["name"], r["type"]) for r in rows} == {("f", "file"), ("sub", "directory"),
                                                      ("link", "symlink")}
    assert next(r for r in rows if r["name"] == "link")["link_target"] == "f"


def test_nothing_is_left_behind(api, deployed):
    def counts() -> dict:
        found = kernel_objects.held_by(deployed)
        return {name: len(rows) for name, rows in found.items()}
    before = eventually(lambda: settled(counts))
    made = [api.create()["id"] for _ in range(5)]
    for sandbox in made:
        api.shell(sandbox, "sleep 1000 & setsid sleep 1000 & mkdir -p /a/b; ln -s /etc /a/etc")
    for sandbox in made:
        api.remove(sandbox)
    eventually(lambda: counts() == before, what=f"{before} now {counts()}")
    folders = os.listdir(deployed.state / "run" / "sandboxes")
    assert not set(folders) & set(made)


def settled(counts):
    """The counts once the pool of ready shells is full: two equal looks a moment apart."""
    import time
    first = counts()
    time.sleep(1)
    return first if counts() == first else None


def test_idle_sandbox_is_small(api, deployed, box):
    """The agent's resident memory a few seconds after its last command; what the kernel holds
    beside it is measured by bench/."""
    api.run(box, "true")
    status = f"/proc/{agent_pid(api, box)}/status"

    def resident_kib() -> int:
        return int(re.search(r"VmRSS:\s+(\d+)", open(status).read()).group(1))
    eventually(lambda: resident_kib() < 1024, what=f"{resident_kib()} KiB are resident")
    assert (deployed.bin / "sandbox-agent").stat().st_size < 2 * 2**20
