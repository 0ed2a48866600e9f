"""SSH: faults that other systems had (area SH, and PT over SSH), with OpenSSH's client.

Each test names its case. With SANDBOX_LONG=1 the rounds are as many as the case asks.
"""

import base64
import hashlib
import json
import os
import subprocess
import threading
import time

import pytest

import deployment
import ssh_client
from deployment import eventually
from ssh_client import api_fixture, box_fixture, ssh_fixture  # noqa: F401
from terminal import Terminal

LONG = os.environ.get("SANDBOX_LONG") == "1"
PRIVATE = ["sleep 1000", "sleep 1001", "sleep 1002", "sleep 1003", "sleep 1004"]


@pytest.fixture(scope="module", name="deployed")
def deployed_fixture():
    one = ssh_client.make_instance("sht", "10.220.0.0/16", 3_200_000, keep_alive=1)
    with ssh_client.running(one):
        yield one


def test_tokens_of_any_length_and_form(api, box, ssh, deployed):
    """SH-01"""
    told = ssh.session()
    head, body, signature = told["token"].split(".")
    assert not told["token"].startswith("-") and len(told["token"]) > 300
    text = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))

    def made(**claims) -> str:
        changed = json.dumps({**text, **claims}).encode()
        return f"{head}.{base64.urlsafe_b64encode(changed).decode().rstrip('=')}.{signature}"
    none = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').decode().rstrip("=")
    bad = ["x" * 300, "x" * 900, "x" * 2000, "x" * 8000, "x" * 20_000, "_x", ".x", "%h%p",
           made(exp=1), made(sub="sbx-another"), made(iat=text["iat"] + 1),
           f"{none}.{body}.", told["token"] + "x", told["token"][:-1]]
    for some in (bad[:5], bad[5:10], bad[10:]):
        for token, done in zip(some, ssh.run_each(some)):
            assert done.returncode == 255 and b"not valid" in done.stderr, (token[:40], done)
        # Used many times; and a good one makes up for bad ones, which would have to wait.
        assert ssh.run("id -u", token=told["token"]).stdout == b"0\n"
    log = b"".join(deployed.log_path(name).read_bytes()
                   for name in ("sandbox-ssh", "sandbox-gateway"))
    assert body.encode() not in log and signature.encode() not in log


def test_exit_status_and_signal_on_each_channel(ssh, tmp_path):
    """SH-02"""
    wanted = {"exit 0": 0, "exit 7": 7, "kill -9 $$": 255, "kill -TERM $$": 255, "nosuch": 127,
              "echo a; exec >&-; sleep 1; exit 3": 3}
    for command, code in wanted.items():
        assert ssh.run(command).returncode == code, command
    master = ["-o", f"ControlPath={tmp_path}/m", "-o", "ControlMaster=auto",
              "-o", "ControlPersist=30"]
    for number in range(16):
        assert ssh.run(f"exit {number}", options=master).returncode == number
    codes = {}

    def one(number: int) -> None:
        codes[number] = ssh.run(f"sleep 0.2; exit {number}", options=master).returncode
    threads = [threading.Thread(target=one, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == {number: number for number in range(16)}
    ssh.run(options=[*master, "-O", "exit"])


def test_a_sandbox_that_dies_is_never_status_0(api, tmp_path):
    """SH-02"""
    box = api.create()["id"]
    process = ssh_client.Ssh(api, box, tmp_path).start("echo begun; sleep 100")
    assert process.stdout.readline() == b"begun\n"
    os.kill(deployment.agent_pid(api, box), 9)
    assert process.wait(timeout=30) == 255
    api.remove(box)


def test_keep_alives_get_a_reply(ssh):
    """SH-05"""
    options = ["-o", "ServerAliveInterval=1", "-o", "ServerAliveCountMax=2"]
    seconds = 20 if LONG else 6
    assert ssh.run(f"sleep {seconds}; echo ok", options=options).stdout == b"ok\n"


def test_new_keys_in_mid_transfer(ssh):
    """SH-08"""
    data = os.urandom((200 if LONG else 24) * 1024 * 1024)
    digest = hashlib.sha256(data).hexdigest().encode()
    options = ["-o", "RekeyLimit=1M"]
    up = ssh.run("cat >/tmp/rekeyed; sha256sum </tmp/rekeyed", stdin=data, options=options,
                 seconds=300)
    assert up.stdout.split()[0] == digest, up.stderr
    down = ssh.run("cat /tmp/rekeyed; rm /tmp/rekeyed", options=options, seconds=300)
    assert hashlib.sha256(down.stdout).hexdigest().encode() == digest


def test_a_shell_goes_on_with_new_keys(ssh):
    """SH-08"""
    argv = ssh.argv(options=["-tt", "-o", "RekeyLimit=default 1s"])
    with Terminal(argv, ssh_client.environment()) as terminal:
        terminal.type(b"PS1=; stty -echo\n")
        for number in range(30 if LONG else 6):
            terminal.type(b"echo n-$((%d+1))-\n" % number)
            terminal.read_until(b"n-%d-" % (number + 1))
            time.sleep(0.5)
        terminal.type(b"exit 4\n")
        assert terminal.process.wait(timeout=20) == 4


def left(api, box: str) -> set[str]:
    shown = api.output(box, "pgrep -af '^sleep 100[0-9]' || true")
    return {one for one in PRIVATE if one in shown}


@pytest.mark.parametrize("how", ["kill", "escape", "stop"])
def test_a_client_that_is_gone_leaves_no_shell(api, box, ssh, how, deployed):
    """SH-09, and SH-05's client that vanishes"""
    for _ in range(10 if LONG else 2):
        argv = ssh.argv(options=["-tt"])
        with Terminal(argv, ssh_client.environment()) as terminal:
            terminal.type(b"PS1=; stty -echo\nsleep 1001 &\nnohup sleep 1002 >/dev/null 2>&1 &\n"
                          b"setsid sleep 1003 &\nsleep 1000\n")
            eventually(lambda: left(api, box) == set(PRIVATE[:4]))
            if how == "kill":
                terminal.process.kill()
            elif how == "escape":
                terminal.type(b"\r~.")
            else:
                terminal.process.send_signal(19)  # SIGSTOP
            eventually(lambda: left(api, box) == {PRIVATE[2], PRIVATE[3]},
                       seconds=10 if how != "stop" else 30)
            terminal.process.send_signal(18)
        api.shell(box, "pkill -f '^sleep 100[23]'")
        process = ssh.start("sleep 1004")
        eventually(lambda: left(api, box) == {PRIVATE[4]})
        process.kill()
        process.wait()
        eventually(lambda: left(api, box) == set(), seconds=10)
    pid = deployed.ssh.pid()
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        eventually(lambda: not file.seek(0) and not file.read().split())


def test_the_first_program_sees_the_windows_size(ssh):
    """PT-01"""
    rounds = 50 if LONG else 6
    for _ in range(rounds):
        argv = ssh.argv("stty size; tput cols 2>/dev/null; stty size", options=["-tt"])
        with Terminal(argv, ssh_client.environment(), 137, 41) as terminal:
            shown = terminal.read_until(b"41 137") + terminal.read_until(b"41 137")
            assert b" 80" not in shown
            assert terminal.process.wait(timeout=20) == 0
    assert ssh.run("stty size", options=["-tt"]).stdout.strip() == b"24 80"


def test_job_control_works(ssh):
    """PT-02"""
    with Terminal(ssh.argv(options=["-tt"]), ssh_client.environment()) as terminal:
        terminal.type(b"PS1=; stty -echo\n")
        terminal.type(b"sleep 100\n")
        time.sleep(0.3)
        terminal.type(b"\x03")
        terminal.type(b"echo rc=$?\n")
        shown = terminal.read_until(b"rc=130")
        assert b"no job control" not in shown
        terminal.type(b"sleep 100\n")
        time.sleep(0.3)
        terminal.type(b"\x1a")
        terminal.type(b"bg; jobs; kill %1; wait; echo over-$((1+1))\n")
        shown = terminal.read_until(b"over-2")
        assert b"Stopped" in shown and b"sleep 100" in shown
        terminal.type(b"cat; echo cat=$?\n")
        time.sleep(0.3)
        terminal.type(b"\x04")
        terminal.read_until(b"cat=0")
        terminal.type(b"sh -c 'trap \"echo got\" INT; sleep 5'\n")
        time.sleep(0.3)
        terminal.type(b"\x03")
        terminal.read_until(b"got")
        terminal.type(b"tty; exit 7\n")
        terminal.read_until(b"/dev/pts/")
        assert terminal.process.wait(timeout=20) == 7


def test_git_over_ssh(api, box, ssh, tmp_path):
    """SH-03's relatives: whatever speaks over an SSH command."""
    ssh_client.bring_program(api, box, "/usr/bin/git")
    for name in ("git-upload-pack", "git-receive-pack"):
        api.output(box, f"ln -sf git /usr/bin/{name}")
    api.output(box, "git init -q --bare /root/repo.git")
    told = ssh.session()
    command = " ".join(["ssh", *ssh.options, "-p", str(told["port"]), "-l", told["token"]])
    variables = {**ssh_client.environment(), "GIT_SSH_COMMAND": command, "HOME": str(tmp_path)}

    def git(*words: str, cwd=tmp_path) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@example.com", *words],
                       cwd=cwd, env=variables, check=True, capture_output=True, timeout=60)
    git("clone", "-q", f"{told['host']}:/root/repo.git", "work")
    (tmp_path / "work" / "file").write_bytes(os.urandom(300_000))
    git("add", ".", cwd=tmp_path / "work")
    git("commit", "-qm", "one", cwd=tmp_path / "work")
    git("push", "-q", "origin", "HEAD:main", cwd=tmp_path / "work")
    assert api.output(box, "git -C /root/repo.git log --format=%s main") == "one"


def sftp(ssh, *lines: str) -> subprocess.CompletedProcess:
    options, host = ssh.copy_target()
    return subprocess.run(["sftp", "-q", "-b", "-", *options, host], capture_output=True,
                          input="\n".join(lines).encode(), timeout=120, check=False,
                          env=ssh_client.environment())


def test_files_by_sftp_in_an_image_without_any_server(api, box, ssh, tmp_path):
    """SH-03"""
    assert api.shell(box, "ls /usr/lib/openssh/sftp-server /usr/bin/scp")["exit_code"] != 0
    whole = os.urandom(5_000_000)
    (tmp_path / "whole").write_bytes(whole)
    (tmp_path / "part").write_bytes(whole[:1_000_000])
    done = sftp(ssh, "mkdir /root/many", f"put {tmp_path}/whole \"/root/many/it's a file\"",
                f"reget \"/root/many/it's a file\" {tmp_path}/part", "df /root",
                "symlink /nowhere /root/many/link", "rename /root/many/link /root/many/other")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "part").read_bytes() == whole
    api.output(box, "cd /root/many && seq -f entry-%g 10000 | xargs touch")
    listed = sftp(ssh, "ls -1 /root/many").stdout.decode()
    assert listed.count("/root/many/entry-") == 10_000
    api.output(box, "rm -rf /root/many")


def test_another_user_is_refused_what_is_not_theirs(api, tmp_path):
    """SH-03"""
    box = api.create(user="1000:1000")["id"]
    ssh = ssh_client.Ssh(api, box, tmp_path)
    (tmp_path / "file").write_text("x")
    refused = sftp(ssh, f"put {tmp_path}/file /root/file")
    assert refused.returncode == 1 and b"ermission denied" in refused.stderr
    assert sftp(ssh, f"put {tmp_path}/file /tmp/file").returncode == 0
    assert api.output(box, "stat -c %u /tmp/file") == "1000"
    api.remove(box)
