"""A gateway on PostgreSQL: the same service, what a lost server does to it, and `migrate`."""

import concurrent.futures
import re
import signal
import subprocess
import threading

import httpx
import pytest

import deployment
from deployment import error_of, eventually


server, deployed, api = deployment.postgresql_fixtures("sgp", "10.206.0.0/16", 2_100_000_000)


@pytest.fixture
def gateway(deployed, tmp_path):
    """Runs the program itself: gateway("migrate", "status", "--store", URL)."""
    def run(*argv: str, seconds: float = 60) -> subprocess.CompletedProcess:
        return subprocess.run([deployed.bin / "sandbox-gateway", *argv, "--state", tmp_path],
                              capture_output=True, text=True, timeout=seconds, check=False,
                              env={"PATH": "/usr/bin:/bin"})
    return run


def event_types(api, sandbox: str) -> list[str]:
    return [row["type"] for row in api.get(f"/sandboxes/{sandbox}/events").json()["items"]]


def ready_status(api) -> int:
    return api.get("/readyz").status_code


def test_records_are_in_the_server_and_survive_a_restart(api, deployed, server):
    made = api.create(labels={"job": "a"}, env={"SECRET": "hunter2"})["id"]
    stored = f"SELECT state FROM sandboxes WHERE id = '{made}'"
    eventually(lambda: server.query(stored, "gateway") == "ready")
    deployed.gateway.kill()
    deployed.start_gateway()
    assert api.output(made, "echo $SECRET") == "hunter2"
    listed = api.get("/sandboxes", params={"label": "job=a"}).json()["items"]
    assert [row["id"] for row in listed] == [made]
    api.remove(made)
    eventually(lambda: server.query(stored, "gateway") == "deleted")


def test_a_restart_of_the_server_between_two_calls_is_not_noticed(api, server):
    made = api.create()["id"]
    for end in (server.stop, server.kill):
        end()
        server.start()
        assert api.get(f"/sandboxes/{made}/events").status_code == 200
    api.remove(made)
    assert api.state(made) == "absent"


def test_a_restart_of_the_server_during_calls_fails_none_of_them(api, server):
    body = {"image": deployment.IMAGE, "cpus": 0.1, "memory_mb": 32}
    ended = threading.Event()
    answers: list[httpx.Response] = []

    def ask(what) -> None:
        with api.client(api.instance.token) as client:
            while not ended.is_set():
                answers.append(what(client))

    def live(client) -> httpx.Response:
        made = client.post("/sandboxes?wait=60", json=body)
        answers.append(made)
        return client.delete(f"/sandboxes/{made.json().get('id')}")

    def look(client) -> httpx.Response:
        return client.get("/sandboxes")

    with concurrent.futures.ThreadPoolExecutor() as threads:
        asking = [threads.submit(ask, what) for what in (look, look, look, live, live)]
        try:
            for end in (server.stop, server.kill):
                count = len(answers)
                eventually(lambda count=count: len(answers) > count + 20)
                end()
                server.start()
                eventually(lambda: ready_status(api) == 200)
        finally:
            ended.set()
        for one in asking:
            one.result()
    refused = [answer.text for answer in answers if answer.status_code >= 400]
    assert not refused, refused[:3]


def test_without_the_server_what_needs_it_is_503_and_the_rest_goes_on(api, server):
    made = api.create()["id"]
    server.kill()
    try:
        # What a balancer asks is told at once, also while others wait for a short outage to end.
        eventually(lambda: ready_status(api) == 503)
        assert api.get("/readyz").elapsed.total_seconds() < 1
        refused = api.post("/sandboxes", {"image": deployment.IMAGE, "cpus": 1, "memory_mb": 64})
        assert error_of(refused) == (503, "unavailable")
        assert int(refused.headers["retry-after"]) > 0
        assert "127.0.0.1" not in refused.text and "postgres" not in refused.text
        assert error_of(api.get("/sandboxes")) == (503, "unavailable")
        assert ready_status(api) == 503
        assert api.get("/healthz").status_code == 200
        assert api.run(made, "echo", "on")["stdout"] == "on\n"
        assert error_of(api.delete(f"/sandboxes/{made}"))[0] == 503
    finally:
        server.start()
    eventually(lambda: ready_status(api) == 200)
    api.create(labels={"after": "outage"})
    # The refused removal goes on, and its record is there once the store is.
    eventually(lambda: api.state(made) == "absent")
    eventually(lambda: event_types_of_archived(api, made)[-1:] == ["deleted"])
    rows = api.get("/sandboxes", params={"all": "true", "limit": 1000}).json()["items"]
    assert {row["id"]: row["state"] for row in rows}[made] == "deleted"


def event_types_of_archived(api, sandbox: str) -> list[str]:
    answer = api.get(f"/sandboxes/{sandbox}/events")
    return [row["type"] for row in answer.json()["items"]] if answer.status_code == 200 else []


def test_a_server_that_stands_still_holds_up_no_command(api, server):
    made = api.create()["id"]
    server.freeze()
    try:
        for _ in range(3):
            assert api.run(made, "true")["exit_code"] == 0
        assert api.get("/healthz").status_code == 200
    finally:
        server.thaw()
    eventually(lambda: ready_status(api) == 200)
    api.remove(made)


def test_a_create_whose_commit_got_no_answer_is_found_again_by_its_key(api, server):
    """A commit that waits for a standby that never comes is an answer that does not come."""
    body = {"image": deployment.IMAGE, "cpus": 0.1, "memory_mb": 32}
    key = {"Idempotency-Key": "no-answer"}
    server.query("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    server.query("SELECT pg_reload_conf()")

    def lost() -> bool:
        told = error_of_unknown(api.post("/sandboxes", body, headers=key))
        # Where a write of the gateway's own waited first, the store counts as away for a moment:
        # the create is refused then, before anything of it is done.
        assert told in ((503, "unavailable", "unknown"), (503, "unavailable", ""))
        return told[2] == "unknown"

    try:
        eventually(lost)
    finally:
        server.query("ALTER SYSTEM RESET synchronous_standby_names")
        server.query("SELECT pg_reload_conf()")
    eventually(lambda: ready_status(api) == 200)
    again = eventually(lambda: (a := api.post("/sandboxes?wait=60", body, headers=key)) and
                       a.status_code != 503 and a)
    assert again.status_code == 200 and again.json()["state"] == "ready", again.text
    stored = server.query("SELECT COUNT(*) FROM sandboxes WHERE idempotency_key = 'no-answer'",
                          "gateway")
    assert stored == "1"
    api.remove(again.json()["id"])


def error_of_unknown(answer) -> tuple[int, str, str]:
    error = answer.json()["error"]
    return answer.status_code, error["code"], error["details"].get("outcome", "")


def test_migrate_says_what_it_does_and_does_it_once(gateway, server):
    url = server.create_database("fresh")
    missing = gateway("migrate", "status", "--store", url)
    assert missing.returncode == 1 and "missing  1 initial" in missing.stdout, missing
    planned = gateway("migrate", "--store", url, "--dry-run")
    assert planned.returncode == 0 and "CREATE TABLE sandboxes" in planned.stdout
    tables = "SELECT COUNT(*) FROM pg_tables WHERE schemaname = 'public'"
    assert server.query(tables, "fresh") == "0"
    done = gateway("migrate", "--store", url)
    assert done.returncode == 0 and "applied 1 initial" in done.stdout, done
    again = gateway("migrate", "--store", url)
    assert again.returncode == 0 and "applied" not in again.stdout
    assert gateway("migrate", "status", "--store", url).returncode == 0


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_store_of_a_newer_version_is_refused(gateway, server, tmp_path, kind):
    url = str(tmp_path / "x.db") if kind == "sqlite" else server.create_database("newer")
    assert gateway("migrate", "--store", url).returncode == 0
    newer = "INSERT INTO schema_version (version) VALUES (1000)"
    if kind == "sqlite":
        subprocess.run(["/usr/bin/python3", "-c", "import sqlite3, sys; "
                        "c = sqlite3.connect(sys.argv[1]); c.execute(sys.argv[2]); c.commit()",
                        url, newer], check=True)
    else:
        server.query(newer, "newer")
    for argv in (["migrate"], ["migrate", "status"], ["migrate", "--dry-run"], []):
        refused = gateway(*argv, "--store", url)
        assert refused.returncode == 1
        assert "newer program" in refused.stderr, refused


def test_bad_urls_are_refused_and_passwords_never_shown(gateway, server):
    for url in ("mysql://me:hunter2@host/db", "postgresql://me:%hunter2@h/db", "sqlite://x"):
        refused = gateway("--store", url)
        assert refused.returncode == 2
        assert "hunter2" not in refused.stderr + refused.stdout
    url = server.url("fresh").replace("postgres@", "nobody:hunter2@")
    for argv in (["migrate"], ["config", "show"]):
        done = gateway(*argv, "--store", url)
        assert "hunter2" not in done.stderr + done.stdout, done
        assert re.search(r"nobody", done.stderr + done.stdout)


def test_the_gateway_waits_for_its_store_and_says_so(deployed, api, server):
    deployed.gateway.kill()
    server.stop()
    deployed.spawn_gateway()
    eventually(lambda: "waiting for the store" in deployed.log_tail("sandbox-gateway", 3))
    assert deployed.gateway.pid() is not None
    server.start()
    deployed.start_gateway()
    assert api.get("/sandboxes").status_code == 200


def test_a_gateway_that_is_stopped_without_its_store_ends_and_mends_it_later(api, deployed, server):
    made = api.create()["id"]
    stored = f"SELECT state FROM sandboxes WHERE id = '{made}'"
    eventually(lambda: server.query(stored, "gateway") == "ready")
    server.kill()
    try:
        assert error_of(api.delete(f"/sandboxes/{made}"))[0] == 503
        eventually(lambda: made not in str(deployed.ask_node({"op": "list"})["sandboxes"]))
        deployed.gateway.signal(signal.SIGTERM)
        assert deployed.gateway.wait_gone(deployment.WAIT_SECONDS)
    finally:
        server.start()
    deployed.start_gateway()
    # The store still had it as ready: what is not at the node any more cannot be.
    eventually(lambda: api.state(made) in ("failed", "absent"))
    api.remove(made)
    assert api.state(made) == "absent"


def test_a_full_disk_of_the_store_is_told_and_passes(api, deployed, server):
    """Tables on a small file system of their own: the server's log is elsewhere, as is usual."""
    small = server.folder / "small"
    small.mkdir()
    owner = f"uid={server.user.get('user', 0)},gid={server.user.get('group', 0)}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=24m,mode=0700,{owner}", "none", small],
                   check=True)
    try:
        deployed.gateway.kill()
        server.query(f"CREATE TABLESPACE small LOCATION '{small}'")
        server.query("ALTER DATABASE gateway SET TABLESPACE small")
        deployed.start_gateway()
        filler = "CREATE TABLE filler AS SELECT repeat('x', 2000) FROM generate_series(1, 1000)"
        server.query(filler, "gateway")
        grow = "INSERT INTO filler SELECT * FROM filler"
        with pytest.raises(deployment.instance.InstanceError, match="No space left"):
            for _ in range(20):
                server.query(grow, "gateway")
        with pytest.raises(deployment.instance.InstanceError, match="No space left"):
            while True:
                server.query("INSERT INTO filler SELECT * FROM filler LIMIT 3", "gateway")
        body = {"image": deployment.IMAGE, "cpus": 0.1, "memory_mb": 32, "env": {"A": "x" * 60_000}}
        answers = []
        eventually(lambda: answers.append(api.post("/sandboxes", body)) or
                   answers[-1].status_code != 201)
        assert error_of(answers[-1]) == (507, "disk_full"), answers[-1].text
        subprocess.run(["mount", "-o", "remount,size=64m", small], check=True)
        made = eventually(lambda: (a := api.post("/sandboxes?wait=60", body)).status_code == 201 and
                          a.json())
        assert made["state"] == "ready"
        for answer in [*answers[:-1], made]:
            api.remove(answer["id"] if isinstance(answer, dict) else answer.json()["id"])
    finally:
        deployed.gateway.kill()
        server.stop()
        subprocess.run(["umount", "--lazy", small], check=True)
