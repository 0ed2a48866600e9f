"""The audit log: every action has its row, no secret is in one, and it outlives what it tells."""

import concurrent.futures
import contextlib
import hashlib
import json
import subprocess
import threading

import httpx

from deployment import Api, error_of, eventually


def rows(api: Api, sandbox: str, **query) -> list[dict]:
    answer = api.get(f"/sandboxes/{sandbox}/audit-logs", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


def events(api: Api, sandbox: str) -> list[str]:
    return [row["event"] for row in reversed(rows(api, sandbox))]


def test_each_action_has_its_row_in_order(api):
    box = api.create(env={"KEY": "hush-create"})["id"]
    api.run(box, "sh", "-c", "exit 4", env={"K": "hush-env"}, stdin="hush-stdin")
    api.upload(box, "/tmp/ä file", b"hush-body")
    api.download(box, "/tmp/ä file")
    api.http.patch(f"/sandboxes/{box}", json={"labels": {"a": "b"}})
    assert api.download(box, "/none").status_code == 404
    api.remove(box)
    found = rows(api, box)
    assert "hush" not in str(found)
    found.reverse()
    assert [row["event"] for row in found] == [
        "sandbox.create", "command.run", "file.write", "file.read", "sandbox.patch", "file.read",
        "sandbox.delete"]
    ids = [row["id"] for row in found]
    assert ids == sorted(ids)
    assert {(row["caller"], row["remote"], row["sandbox"]) for row in found} == {
        ("admin", "127.0.0.1", box)}
    details = [row["details"] for row in found]
    assert details[1]["argv"] == ["sh", "-c", "exit 4"] and details[1]["exit_code"] == 4
    assert details[2]["path"] == "/tmp/ä+file" and details[2]["bytes"] == 9
    assert details[5]["status"] == 404
    assert all(row["duration_ms"] >= 0 for row in details[1:])


def test_a_command_that_is_cancelled_or_too_slow_says_so(api, box):
    api.run(box, "sleep", "600", timeout_sec=0.2)
    late = rows(api, box, event="command.run")[0]["details"]
    assert late["timed_out"] is True and late["exit_code"] == 124


def test_pages_and_filters(api, box):
    for i in range(7):
        api.run(box, "echo", str(i))
    seen, cursor = [], None
    while True:
        page = api.get(f"/sandboxes/{box}/audit-logs",
                       params={"limit": 3, "event": "command.run",
                               **({"cursor": cursor} if cursor else {})}).json()
        seen += [row["details"]["argv"][1] for row in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == ["6", "5", "4", "3", "2", "1", "0"]
    middle = rows(api, box)[3]["at"]
    before, after = rows(api, box, to=middle), rows(api, box, **{"from": middle})
    assert len(before) + len(after) == 8 and after[-1]["at"] >= middle
    assert error_of(api.get("/sandboxes/sbx-none/audit-logs")) == (404, "not_found")


def test_nobody_is_written_down_as_nobody(api, deployed):
    api.client("no-such-token").get("/sandboxes")
    # A caller without a team is in no team's log; what is left is that the gateway goes on.
    assert api.get("/me").status_code == 200


def test_a_flood_of_commands_is_whole(api, box):
    def run(i: int) -> None:
        client = api.client(deployed_token)
        answer = client.post(f"/sandboxes/{box}/run", json={"argv": ["echo", str(i)]})
        assert answer.status_code == 200, answer.text

    deployed_token = api.instance.token
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(run, range(300)))
    found = rows(api, box, event="command.run", limit=1000)
    assert sorted(int(row["details"]["argv"][1]) for row in found) == list(range(300))


def test_a_stopped_gateway_has_written_all_and_a_killed_one_nearly_all(api, box):
    api.run(box, "echo", "before the stop")
    api.instance.gateway.stop()
    api.instance.start()
    assert rows(api, box)[0]["details"]["argv"][1] == "before the stop"
    other = api.create()["id"]
    api.instance.gateway.kill()
    api.instance.start()
    # A create's row is as safe as the sandbox.
    assert "sandbox.create" in events(api, other)
    api.remove(other)
    eventually(lambda: api.state(box) == "ready")


def test_the_gateways_own_deletions_are_there(api):
    box = api.create(lease_sec=1)["id"]
    eventually(lambda: api.state(box) == "absent")
    assert "sandbox.expire" in events(api, box)


def team_rows(api: Api, **query) -> list[dict]:
    found, cursor = [], None
    while True:
        page = api.get("/audit-logs", params={**query, **({"cursor": cursor} if cursor else {})})
        assert page.status_code == 200, page.text
        found += page.json()["items"]
        cursor = page.json()["next_cursor"]
        if cursor is None:
            return found


def test_who_with_what_result_and_how_long(api, box):
    api.run(box, "sleep", "0.1")
    assert api.download(box, "/none").status_code == 404
    started = api.post(f"/sandboxes/{box}/sessions", {"argv": ["true"]}).json()
    ran, read, session = (rows(api, box, event=event)[0]
                          for event in ("command.run", "file.read", "session.start"))
    assert ran["team"] == "default" and ran["token"].startswith("tok-")
    assert ran["status"] == 200 and ran["error"] is None and ran["duration_ms"] >= 100
    assert (read["status"], read["error"]) == (404, "file_not_found")
    assert session["details"]["session"] == started["id"]


def test_the_teams_log_is_filtered_and_paged(api, box):
    for i in range(5):
        api.run(box, "echo", f"needle-{box}-{i}")
    assert api.delete("/sandboxes/sbx-none").status_code == 404
    ours = team_rows(api, sandbox=box, event="command.run", limit=2)
    assert [row["details"]["argv"][1][-1] for row in ours] == ["4", "3", "2", "1", "0"]
    assert team_rows(api, text=f"NEEDLE-{box}") == ours
    assert team_rows(api, sandbox=box, result="error") == []
    assert team_rows(api, result="not_found", limit=1000)[0]["event"] == "sandbox.delete"
    assert team_rows(api, sandbox=box, until=ours[-1]["at"]) == rows(
        api, box, to=ours[-1]["at"])
    assert team_rows(api, scope="all", sandbox=box) == team_rows(api, sandbox=box)
    assert error_of(api.get("/audit-logs?result=fine")) == (422, "invalid_field")


def test_the_export_is_verified_with_nothing_of_ours(api, box):
    api.run(box, "echo", 'a quote " and ,"hash":" in it')
    head = api.get("/audit-logs/head").json()
    with api.http.stream("GET", "/audit-logs?scope=all&format=jsonl") as answer:
        lines = list(answer.iter_lines())
    before = None
    for line in lines:
        body, _, end = line.rpartition(',"hash":"')
        digest = hashlib.sha256(body.encode()).hexdigest()
        assert end == digest + '"}'
        assert before is None or body.endswith(f'"prev":"{before}"')
        before = digest
    row = json.loads(lines[-1])
    assert (row["id"], row["hash"]) == (head["id"], head["hash"])
    ours = [json.loads(line) for line in lines if f'"sandbox":"{box}"' in line]
    assert [row["id"] for row in reversed(ours)] == [row["id"] for row in rows(api, box)]


def test_the_command_line_finds_a_broken_row(api, box, deployed, sandbox_cli, tmp_path):
    api.run(box, "true")
    noted = sandbox_cli("audit", "head").stdout.decode().strip()
    whole = sandbox_cli("audit", "verify", "--noted", noted)
    assert whole.returncode == 0, whole.stderr
    file = tmp_path / "audit.jsonl"
    assert sandbox_cli("audit", "export", str(file), "--all-teams").returncode == 0
    assert sandbox_cli("audit", "verify", str(file), "--noted", noted).returncode == 0
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-1]))
    cut = sandbox_cli("audit", "verify", str(file), "--noted", noted)
    assert cut.returncode == 1 and b"missing" in cut.stderr
    file.write_text("".join([*lines[:1], *lines[2:]]))
    gap = sandbox_cli("audit", "verify", str(file))
    assert gap.returncode == 1 and b"missing" in gap.stderr
    options = [f"--store={deployed.settings.store}"] if deployed.settings.store else []
    store = subprocess.run([deployed.bin / "sandbox-gateway", "audit", "verify", "--noted", noted,
                            "--state", deployed.state, *options], capture_output=True, check=False)
    assert store.returncode == 0 and b"whole" in store.stdout, store.stderr
    listed = sandbox_cli("audit", box, "--event", "command.run", "-o", "json")
    assert json.loads(listed.stdout)[0]["sandbox"] == box


def test_a_killed_gateway_loses_no_row_of_what_it_began(api, box):
    def slowly() -> None:
        with contextlib.suppress(httpx.HTTPError):
            api.client(api.instance.token).post(
                f"/sandboxes/{box}/run", json={"argv": ["sleep", "600"]})

    before = api.instance.gateway.pid()
    for i in range(20):
        api.run(box, "echo", f"acknowledged {i}")
    caller = threading.Thread(target=slowly)
    caller.start()
    eventually(lambda: api.get(f"/sandboxes/{box}/activity").json()["running_commands"] == 1)
    last = api.run(box, "echo", "acknowledged last")
    assert last["exit_code"] == 0
    api.instance.gateway.kill()
    caller.join()
    api.instance.start()
    assert api.instance.gateway.pid() != before
    found = [row["details"] for row in rows(api, box, event="command.run", limit=1000)]
    said = [row["argv"][1] for row in found]
    assert said.count("acknowledged last") == 1
    assert sum(text.startswith("acknowledged ") for text in said) == 21
    slow = next(row for row in found if row["argv"][1] == "600")
    assert slow["unfinished"] is True
    whole = api.get("/audit-logs?scope=all&format=jsonl")
    assert whole.status_code == 200


def test_activity_counts_what_was_done(api, box):
    def mine(activity: list[dict]) -> dict:
        return next(item for item in activity if item["subject"] == "admin")

    def ask(**query) -> dict:
        answer = api.get("/activity", params=query)
        assert answer.status_code == 200, answer.text
        return mine(answer.json()["items"])["total"]

    before = ask()
    api.run(box, "true")
    api.upload(box, "/tmp/x", b"12345")
    api.download(box, "/tmp/x")
    after = ask()
    assert after["commands"] == before["commands"] + 1
    assert after["bytes_in"] == before["bytes_in"] + 5
    assert after["bytes_out"] == before["bytes_out"] + 5
    assert after["sandbox_seconds"] > before["sandbox_seconds"]
    assert error_of(api.get("/activity?step=90")) == (422, "invalid_field")
