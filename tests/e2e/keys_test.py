"""Keys of sandboxes, and the keys of what the store keeps sealed: rotated, retired, and from a
command, while the gateway runs; the command that rotates killed wherever it is."""

import base64
import contextlib
import os
import subprocess
import threading
import time

import httpx
import pytest

import deployment
from deployment import IMAGE, Api, eventually, instance

QUEUED = 150
TINY = {"image": IMAGE, "cpus": 0.1, "memory_mb": 32, "storage_mb": 16}


@pytest.fixture(scope="module")
def deployed():
    one = deployment.make_instance("sgk", "10.222.0.0/16", 3_900_000_000, shells=2)
    one.settings.gateway_options |= {"total-sandboxes": "2"}
    with deployment.running(one):
        yield one


@pytest.fixture(scope="module")
def api(deployed) -> Api:
    return Api(deployed)


def argv_of(one: instance.Instance, *words: str) -> list[str]:
    argv = [str(one.bin / "sandbox-gateway"), *words, "--config", "", "--state", str(one.state)]
    if one.settings.store:
        argv += ["--store", one.settings.store]
    return argv + [f"--{name}={value}" for name, value in one.settings.gateway_options.items()]


@pytest.fixture
def keys(deployed):
    """keys("rotate") runs the command as an administrator does, beside the gateway."""
    def run(*words: str) -> subprocess.CompletedProcess:
        return subprocess.run(argv_of(deployed, "keys", *words), capture_output=True, text=True,
                              timeout=120, check=False, env={"PATH": "/usr/bin:/bin"})
    return run


def right(done: subprocess.CompletedProcess) -> str:
    assert done.returncode == 0, done
    return done.stdout


def rows_of(keys) -> dict[str, list[str]]:
    """What `keys list` says of keys, by their ids."""
    lines = [line.split() for line in right(keys("list")).splitlines()]
    return {line[0]: line[1:] for line in lines if line[1] != "has"}


def sealing_key(keys) -> str:
    return next(key for key, row in rows_of(keys).items() if row[0] == "seals")


def access_token(api, sandbox: str) -> str:
    """What the sandbox itself would show at the gateway."""
    token = api.post(f"/sandboxes/{sandbox}/identity-token", {}).json()
    given = httpx.post(f"{api.instance.url}/oauth/token", data={
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "subject_token": token["token"]})
    assert given.status_code == 200, given.text
    return given.json()["access_token"]


def status_with(api, token: str) -> int:
    with api.client(token) as client:
        return client.get("/me").status_code


def audited(api, event: str, error: str | None = None) -> dict:
    """The details of the newest such row; its caller is the user of the host."""
    rows = api.get("/audit-logs", params={"scope": "all", "event": event}).json()["items"]
    assert (rows[0]["caller"], rows[0]["error"]) == ("host:root", error), rows[0]
    return rows[0]["details"]


def key_file(deployed):
    return deployed.state / "gateway" / "secret.key"


@contextlib.contextmanager
def used_all_the_time(api, sandbox: str):
    """Runs commands in it meanwhile; none of them may fail."""
    ended = threading.Event()
    failures: list[str] = []
    count = 0

    def use() -> None:
        nonlocal count
        with api.client(api.instance.token) as client:
            while not ended.is_set():
                try:
                    answer = client.post(f"/sandboxes/{sandbox}/run", json={"argv": ["true"]})
                    if answer.status_code != 200:
                        failures.append(answer.text)
                    count += 1
                except httpx.TransportError as error:
                    failures.append(str(error))

    thread = threading.Thread(target=use)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert not failures and count > 0, failures[:3]


def test_each_sandbox_has_a_key_of_its_own(api, deployed):
    one, two = api.create()["id"], api.create()["id"]
    try:
        public = [api.get(f"/sandboxes/{box}").json()["public_key"] for box in (one, two)]
        assert all(len(base64.b64decode(key, validate=True)) == 32 for key in public)
        assert public[0] != public[1]
        listed = api.get("/sandboxes").json()["items"]
        assert {row["id"]: row["public_key"] for row in listed} == dict(zip((one, two), public))
        deployed.gateway.kill()
        deployed.start_gateway()
        assert api.get(f"/sandboxes/{one}").json()["public_key"] == public[0]
    finally:
        api.remove(one)
        api.remove(two)


def test_keys_change_while_the_gateway_runs(api, deployed, keys):
    first = sealing_key(keys)
    made = api.create(env={"SECRET": "ready"})["id"]
    filler = api.create()["id"]
    waiting = api.post("/sandboxes", {**TINY, "env": {"SECRET": "waited"}}).json()["id"]
    put = api.http.put("/teams/default/registries/r.example.com",
                       json={"username": "u", "password": "p"})
    assert put.status_code in (200, 201), put.text
    before = access_token(api, made)
    former = key_file(deployed).read_bytes()
    with used_all_the_time(api, made):
        told = right(keys("rotate"))
        second = sealing_key(keys)
        assert second != first and second in told
        # All of it, and nothing twice.
        rows = rows_of(keys)
        assert rows[second][2] == rows[second][4] and rows[first][2] == "0", rows
        # What was given out before goes on.
        assert status_with(api, before) == 200
        after = access_token(api, made)
        right(keys("retire"))
        rotated, retired = audited(api, "key.rotate"), audited(api, "key.retire")
        assert (rotated["key"], rotated["former"]) == (second, first), rotated
        assert (retired["key"], retired["retired"]) == (second, [first]), retired
        assert list(rows_of(keys)) == [second]
        eventually(lambda: status_with(api, before) == 401)
        assert status_with(api, after) == 200
    state = key_file(deployed).stat()
    assert (state.st_uid, state.st_mode & 0o777) == (instance.GATEWAY_UID, 0o600)
    api.remove(filler)
    eventually(lambda: api.state(waiting) == "ready")
    assert api.output(waiting, "echo $SECRET") == "waited"
    # A gateway with the former key does not start, and says why.
    present = key_file(deployed).read_bytes()
    deployed.gateway.stop()
    key_file(deployed).write_bytes(former)
    with pytest.raises(instance.InstanceError, match="is not the key that this store is used with"):
        deployed.start_gateway()
    assert key_file(deployed).read_bytes() == former
    key_file(deployed).unlink()
    with pytest.raises(instance.InstanceError, match="is missing"):
        deployed.start_gateway()
    assert not key_file(deployed).exists()
    key_file(deployed).write_bytes(present)
    os.chown(key_file(deployed), instance.GATEWAY_UID, instance.GATEWAY_UID)
    key_file(deployed).chmod(0o600)
    deployed.start_gateway()
    assert api.output(made, "echo $SECRET") == "ready"
    api.remove(made)
    api.remove(waiting)


def test_a_rotation_that_is_killed_anywhere_goes_on(api, deployed, keys):
    holders = [api.create()["id"] for _ in range(2)]
    queued = [api.post("/sandboxes", {**TINY, "env": {"N": str(number)}}).json()["id"]
              for number in range(QUEUED)]
    kills = 0
    with used_all_the_time(api, holders[0]):
        for number in range(12):
            rotating = subprocess.Popen(argv_of(deployed, "keys", "rotate"),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.02 * number)
            kills += rotating.poll() is None
            rotating.kill()
            rotating.wait()
    assert kills > 0
    # The gateway too, in the middle of one.
    rotating = subprocess.Popen(argv_of(deployed, "keys", "rotate"),
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deployed.gateway.kill()
    deployed.start_gateway()
    rotating.wait(60)
    right(keys("rotate"))
    right(keys("retire"))
    rows = rows_of(keys)
    assert len(rows) == 1, rows
    assert rows[sealing_key(keys)][2] == rows[sealing_key(keys)][4], rows
    # The last ones that wait have what they were given.
    for sandbox in queued[:-2]:
        api.remove(sandbox)
    for holder in holders:
        api.remove(holder)
    for number in (QUEUED - 2, QUEUED - 1):
        eventually(lambda number=number: api.state(queued[number]) == "ready")
        assert api.output(queued[number], "echo $N") == str(number)
        api.remove(queued[number])


def test_keys_from_a_command(api, deployed, keys):
    program = deployed.state / "keys.sh"
    first, second = os.urandom(32), os.urandom(32)

    def prints(*lines: str) -> None:
        program.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n")
        program.chmod(0o755)

    def start_anew() -> None:
        deployed.gateway.stop()
        deployed.start_gateway()

    made = api.create(env={"SECRET": "kept"})["id"]
    prints(f"echo {first.hex()}")
    deployed.settings.gateway_options["master-key-command"] = str(program)
    start_anew()
    right(keys("rotate"))
    right(keys("retire"))
    assert not key_file(deployed).exists()
    assert right(keys("list")).split()[1:3] == ["seals", "command"]
    newer = f"echo {base64.b64encode(second).decode()}"
    prints(f"echo {first.hex()}", newer)
    # The gateway hears of it at its next start.
    refused = keys("rotate")
    assert refused.returncode == 1 and "is not with all gateways" in refused.stderr, refused
    assert audited(api, "key.rotate", "not_ready")["gateways"]
    start_anew()
    right(keys("rotate"))
    deployed.gateway.stop()
    for line, said in (("exit 7", "exit code 7"), ("echo nonsense", "is not a key"),
                       (f"echo {os.urandom(32).hex()}", "not the key that this store"),
                       (f"echo {first.hex()}", "not the key that this store")):
        prints(line)
        with pytest.raises(instance.InstanceError, match=said):
            deployed.start_gateway()
        assert keys("list").returncode == 1
    assert not key_file(deployed).exists()
    prints(newer)
    deployed.start_gateway()
    assert api.output(made, "echo $SECRET") == "kept"
    api.remove(made)
    logged = deployed.log_path("sandbox-gateway").read_text()
    assert not any(key.hex() in logged or base64.b64encode(key).decode() in logged
                   for key in (first, second))
    check = argv_of(deployed, "config", "check")
    assert subprocess.run(check, capture_output=True, check=False).returncode == 0
    program.chmod(0o644)
    checked = subprocess.run(check, capture_output=True, text=True, check=False)
    assert checked.returncode == 2 and "master-key-command" in checked.stderr
    program.chmod(0o755)
