"""The command line program as a person uses it."""

import json
import os
import signal
import stat
import subprocess

import pytest

from deployment import IMAGE, eventually


def test_whole_life(api, sandbox_cli, tmp_path):
    created = sandbox_cli("create", IMAGE, "--memory", "128m")
    assert created.returncode == 0, created.stderr
    sandbox = created.stdout.decode().strip()
    assert sandbox in sandbox_cli("list").stdout.decode()
    shown = json.loads(sandbox_cli("get", sandbox, "-o", "json").stdout)
    assert (shown["id"], shown["memory_mb"]) == (sandbox, 128)
    ran = sandbox_cli("exec", sandbox, "--", "sh", "-c", "cat; echo e >&2; exit 9", stdin=b"in")
    assert (ran.returncode, ran.stdout, ran.stderr) == (9, b"in", b"e\n")
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(os.urandom(100_000))
    assert sandbox_cli("cp", str(source), f"{sandbox}:/root/a").returncode == 0
    assert sandbox_cli("cp", f"{sandbox}:/root/a", str(target)).returncode == 0
    assert target.read_bytes() == source.read_bytes()
    assert b"ready" in sandbox_cli("events", sandbox).stdout
    removed = sandbox_cli("rm", sandbox)
    assert removed.returncode == 0, removed.stderr
    assert api.state(sandbox) == "absent"
    assert sandbox_cli("get", sandbox).returncode == 125


def test_run_creates_and_deletes(api, sandbox_cli):
    before = len(api.get("/sandboxes").json()["items"])
    done = sandbox_cli("run", IMAGE, "--", "sh", "-c", "echo hi; exit 4")
    assert (done.returncode, done.stdout) == (4, b"hi\n"), done.stderr
    assert len(api.get("/sandboxes").json()["items"]) == before


def test_own_exit_codes(sandbox_cli):
    assert sandbox_cli("exec", "sb-none", "--", "true").returncode == 125
    assert sandbox_cli("no-such-command").returncode == 125


def test_wrong_token_and_no_gateway(sandbox_cli):
    wrong = sandbox_cli("list", env={"SANDBOX_GATEWAY_TOKEN": "wrong-canary"})
    assert wrong.returncode == 125 and b"wrong-canary" not in wrong.stderr
    assert sandbox_cli("list", env={"SANDBOX_GATEWAY_URL": "http://127.0.0.1:1"}).returncode == 125


def test_login_writes_a_private_file(deployed, sandbox_cli, tmp_path):
    empty = {"SANDBOX_GATEWAY_URL": "", "SANDBOX_GATEWAY_TOKEN": "",
             "XDG_CONFIG_HOME": str(tmp_path)}
    done = sandbox_cli("login", deployed.url, stdin=deployed.token.encode() + b"\n", env=empty)
    assert done.returncode == 0, done.stderr
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files and all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files)
    assert sandbox_cli("list", env=empty).returncode == 0


@pytest.mark.parametrize("closed, code", [("<&-", 0), (">&-", 125), ("2>&-", 0),
                                          ("<&- 2>&-", 0), ("<&- >&- 2>&-", 125)])
def test_closed_standard_streams_are_nobody_elses(sandbox_cli, shared_box, closed, code):
    """A socket or a signal's descriptor in their place was written into, or waited for."""
    for words in ("list", f"exec {shared_box} -- sh -c 'cat; echo out'",
                  f"sessions list {shared_box}", f"cp {shared_box}:/etc/hostname -"):
        done = subprocess.run(["sh", "-c", f"exec {sandbox_cli.program} {words} {closed}"],
                              env=sandbox_cli.environment, stdout=subprocess.PIPE, timeout=60,
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        assert done.returncode == code, (words, done)
    lost = subprocess.run(["sh", "-c", f"exec {sandbox_cli.program} exec {shared_box} -- "
                           "sh -c 'echo error >&2' 2>&-"], env=sandbox_cli.environment,
                          stdin=subprocess.DEVNULL, timeout=60, check=False)
    assert lost.returncode == 125


def test_images_and_version(sandbox_cli):
    assert IMAGE in sandbox_cli("image", "list").stdout.decode()
    assert sandbox_cli("version").returncode == 0
    assert b"sandbox" in sandbox_cli("completion", "bash").stdout


def test_interrupted_run_deletes_its_sandbox(api, sandbox_cli):
    process = subprocess.Popen(
        [sandbox_cli.program, "run", "--label", "test=interrupted", IMAGE, "--", "sleep", "6667"],
        env=sandbox_cli.environment, stdin=subprocess.DEVNULL)

    def mine() -> list[str]:
        rows = api.get("/sandboxes?label=test%3Dinterrupted").json()["items"]
        return [row["id"] for row in rows if row["state"] == "ready"]

    eventually(lambda: mine() and api.shell(mine()[0], "pgrep -f '[s]leep 6667'")["exit_code"] == 0)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert mine() == []


def test_pipes_and_followed_events(sandbox_cli):
    sandbox = sandbox_cli("create", IMAGE).stdout.decode().strip()
    assert sandbox_cli("cp", "-", f"{sandbox}:/root/piped", stdin=b"\0piped").returncode == 0
    assert sandbox_cli("cp", f"{sandbox}:/root/piped", "-").stdout == b"\0piped"
    folder = sandbox_cli("cp", f"{sandbox}:/root", "/dev/null")
    assert folder.returncode == 125 and b"is_a_directory" in folder.stderr
    following = subprocess.Popen([sandbox_cli.program, "events", "-f", "-o", "json", sandbox],
                                 env=sandbox_cli.environment, stdout=subprocess.PIPE)
    assert json.loads(following.stdout.readline())["type"] == "created"
    assert sandbox_cli("rm", sandbox).stdout.decode() == sandbox + "\n"
    lines = following.communicate(timeout=60)[0].splitlines()
    assert json.loads(lines[-1])["type"] == "deleted" and following.returncode == 0
