"""SSH: the stock OpenSSH client against the front."""

import base64
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

import paramiko
import pytest

import deployment
import ssh_client
from deployment import error_of, eventually
from ssh_client import api_fixture, box_fixture, ssh_fixture  # noqa: F401
from terminal import Terminal


@pytest.fixture(scope="module", name="deployed")
def deployed_fixture():
    one = ssh_client.make_instance("shs", "10.219.0.0/16", 3_100_000, keep_alive=1, login_time=3)
    with ssh_client.running(one):
        yield one


def audit_rows(api, box: str, event: str) -> list[dict]:
    rows = api.get(f"/sandboxes/{box}/audit-logs").json()["items"]
    return [row for row in rows if row["event"] == event]


def other_token(token: str, **claims) -> str:
    """The same with other claims, as somebody without the key would make it."""
    head, body, signature = token.split(".")
    told = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    text = json.dumps({**told, **claims}).encode()
    return f"{head}.{base64.urlsafe_b64encode(text).decode().rstrip('=')}.{signature}"


# --- commands ------------------------------------------------------------------------------------

def test_a_command_with_input_output_and_status(ssh):
    done = ssh.run("cat; echo error >&2; exit 7", stdin=b"\0\xff\r\n" + b"x" * 100_000)
    assert (done.returncode, done.stdout) == (7, b"\0\xff\r\n" + b"x" * 100_000)
    assert done.stderr == b"error\n"


def test_many_bytes_both_ways(ssh):
    data = os.urandom(32 * 1024 * 1024)
    done = ssh.run("cat", stdin=data)
    assert done.returncode == 0
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(data).digest()
    early = ssh.run("head -c 10 >/dev/null; exit 4", stdin=data)
    assert early.returncode == 4


@pytest.mark.parametrize("command, code", [
    ("exit 0", 0), ("exit 255", 255), ("nosuch-program", 127), ("kill -9 $$", 255),
    ("kill -TERM $$", 255), ("echo a; exec >&- 2>&-; sleep 0.3; exit 3", 3)])
def test_how_a_command_ends(ssh, command, code):
    assert ssh.run(command).returncode == code


def test_no_input_is_its_end(ssh):
    done = ssh.run("wc -c; [ -t 0 ] && echo tty || echo notty")
    assert done.stdout.split() == [b"0", b"notty"]
    # No banner, no profile: a command's output is its own.
    assert ssh.run("true").stdout == b""


def test_variables_that_may_be_set_and_others(ssh):
    done = subprocess.run(
        [*ssh.argv("env", options=["-o", "SendEnv=LC_PAPER LD_PRELOAD COLORTERM"])],
        env={**ssh_client.environment(), "LC_PAPER": "é", "LD_PRELOAD": "/x", "COLORTERM": "24bit"},
        capture_output=True, timeout=60, check=False)
    told = done.stdout.decode()
    assert "LC_PAPER=é\n" in told and "COLORTERM=24bit\n" in told and "LD_PRELOAD" not in told


def test_a_slow_reader_holds_the_command_up(api, box, ssh):
    process = ssh.start("seq 1 100000000; echo done >/tmp/seq-done", stdout=subprocess.PIPE)
    process.stdout.read(1000)
    time.sleep(1)
    assert api.output(box, "test -e /tmp/seq-done && echo yes || echo no") == "no"
    process.kill()
    process.wait()
    eventually(lambda: api.output(box, "pgrep -c '^seq$' || true") == "0", what="seq ended")


@pytest.mark.parametrize("command, code, told", [
    ("yes", 141, ""),  # the shell's word for SIGPIPE
    ("trap '' PIPE; yes; echo $? >/tmp/told; exit 5", 5, "1"),
    ("yes; echo $? >/tmp/told; exit 6", 6, "141"),
    ("yes & wait $!; cat >/tmp/told; exit 7", 7, "input"),
])
def test_a_command_whose_reader_is_gone_is_told_so(api, box, ssh, command, code, told):
    """What it says on its standard error then is not looked at: the client may drop it."""
    api.output(box, "rm -f /tmp/told")
    process = ssh.start(command)
    assert process.stdout.read(2) == b"y\n"
    process.stdout.close()
    process.stdin.write(b"input")
    process.stdin.close()
    assert process.wait(60) == code
    assert api.output(box, "cat /tmp/told 2>&- || true") == told


def test_several_sessions_of_one_connection(ssh, tmp_path):
    master = ["-o", f"ControlPath={tmp_path}/m", "-o", "ControlMaster=auto", "-o",
              "ControlPersist=20"]
    assert ssh.run("exit 3", options=master).returncode == 3
    codes = [None] * 16

    def one(number: int) -> None:
        codes[number] = ssh.run(f"echo {number}; exit {number}", options=master)
    threads = [threading.Thread(target=one, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, done in enumerate(codes):
        assert (done.returncode, done.stdout) == (number, b"%d\n" % number)
    ssh.run(options=[*master, "-O", "exit"])


def test_new_keys_in_mid_transfer(ssh):
    data = os.urandom(8 * 1024 * 1024)
    options = ["-o", "RekeyLimit=500K"]
    done = ssh.run("cat", stdin=data, options=options, seconds=120)
    assert done.returncode == 0 and done.stdout == data


def test_keep_alives_are_answered(ssh):
    options = ["-o", "ServerAliveInterval=1", "-o", "ServerAliveCountMax=1"]
    assert ssh.run("sleep 4; echo ok", options=options).stdout == b"ok\n"


# --- terminals -----------------------------------------------------------------------------------

@contextlib.contextmanager
def shell(ssh, *words: str, columns: int = 137, rows: int = 41):
    argv = ssh.argv(*words, options=["-tt"])
    with Terminal(argv, ssh_client.environment(), columns, rows) as terminal:
        yield terminal


def test_a_shell_with_its_size_signals_and_status(ssh):
    with shell(ssh) as terminal:
        terminal.type(b"PS1=; stty -echo; stty size; echo $TERM; tty; echo ready-$((1+1))\n")
        told = terminal.read_until(b"ready-2")
        assert b"41 137" in told and b"xterm" in told and b"/dev/pts/" in told
        terminal.resize(100, 30)
        terminal.type(b"sleep 0.2; stty size; echo ready-3\n")
        assert b"30 100" in terminal.read_until(b"ready-3")
        terminal.type(b"sleep 100\n")
        time.sleep(0.3)
        terminal.type(b"\x03")
        terminal.type(b"echo rc=$?\n")
        terminal.read_until(b"rc=130")
        terminal.type("echo grüße-€\n".encode())
        terminal.read_until("grüße-€".encode())
        terminal.type(b"exit 7\n")
        assert terminal.process.wait(timeout=20) == 7


def test_a_command_on_a_terminal_sees_its_size_at_once(ssh):
    with shell(ssh, "stty size; exit 5", columns=99, rows=33) as terminal:
        terminal.read_until(b"33 99")
        assert terminal.process.wait(timeout=20) == 5


def left(api, box: str, seconds: list[int]) -> set[int]:
    out = api.output(box, "pgrep -af '^sleep 100[0-9]' || true")
    return {number for number in seconds if f"sleep {number}" in out}


def test_a_client_that_is_gone_hangs_its_terminal_up(api, box, ssh):
    with shell(ssh) as terminal:
        terminal.type(b"PS1=; stty -echo\nsleep 1001 &\nnohup sleep 1002 >/dev/null 2>&1 &\n"
                      b"setsid sleep 1003 &\nsleep 1000\n")
        eventually(lambda: left(api, box, [1000, 1001, 1002, 1003]) == {1000, 1001, 1002, 1003})
        terminal.process.kill()
        terminal.process.wait()
        eventually(lambda: left(api, box, [1000, 1001, 1002, 1003]) == {1002, 1003},
                   seconds=10, what="the front job is gone")
    api.shell(box, "pkill -f '^sleep 100[23]'")


def test_a_command_without_a_terminal_ends_with_its_client(api, box, ssh):
    process = ssh.start("trap '' HUP; sleep 1004; echo never")
    eventually(lambda: left(api, box, [1004]))
    process.kill()
    process.wait()
    eventually(lambda: not left(api, box, [1004]), seconds=10)


def test_a_client_that_is_gone_while_its_input_waits(api, box, ssh):
    """Nobody reads what it sent, so its end comes behind bytes that do not move."""
    with open("/dev/zero", "rb") as zeros:
        process = ssh.start("sleep 1005", stdin=zeros)
        eventually(lambda: left(api, box, [1005]))
        time.sleep(1)
        process.kill()
        process.wait()
    eventually(lambda: not left(api, box, [1005]), seconds=15)


def test_an_agent_is_not_forwarded_and_a_shell_says_so(ssh, tmp_path):
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", tmp_path / "agent"],
                             stdout=subprocess.DEVNULL)
    try:
        eventually((tmp_path / "agent").exists)
        variables = {**ssh_client.environment(), "SSH_AUTH_SOCK": str(tmp_path / "agent")}
        for words in (["-tt"], ["-T"]):
            done = subprocess.run(
                ssh.argv("echo agent=$SSH_AUTH_SOCK.", options=["-A", *words]), env=variables,
                capture_output=True, timeout=60, check=False)
            assert b"agent=." in done.stdout
            said = b"agent forwarding (-A) is not offered" in done.stdout + done.stderr
            assert said == (words == ["-tt"])
    finally:
        agent.kill()
        agent.wait()


def test_a_vanished_client_is_noticed(api, box, ssh, deployed):
    """Its process stands still: nothing is answered, and no connection is closed."""
    with shell(ssh) as terminal:
        terminal.type(b"sleep 1000\n")
        eventually(lambda: left(api, box, [1000]))
        terminal.process.send_signal(signal.SIGSTOP)
        try:
            eventually(lambda: not left(api, box, [1000]), seconds=30)
        finally:
            terminal.process.send_signal(signal.SIGCONT)
    assert deployed.settings.ssh_options["keep-alive"] == "1"


# --- tokens --------------------------------------------------------------------------------------

def test_what_a_token_is(api, box, ssh):
    told = ssh.session()
    assert set(told) == {"token", "expiresIn", "host", "port", "hostKey"}
    assert told["expiresIn"] == 300 and not told["token"].startswith("-")
    assert told["hostKey"].startswith("ssh-ed25519 ")
    again = api.post(f"/api/v1/sandboxes/{box}/ssh-session").json()
    assert again["hostKey"] == told["hostKey"]
    for _ in range(2):  # as often as wanted
        assert ssh.run("true", token=told["token"]).returncode == 0


def test_bad_tokens_are_refused_with_a_reason(ssh, deployed):
    token = ssh.session()["token"]
    head, body, signature = token.split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').decode().rstrip("=")
    flipped = signature[:-2] + ("A" if signature[-2] != "A" else "B") + signature[-1]
    bad = [f"{head}.{body}.{flipped}", f"{none}.{body}.", f"{none}.{body}.{signature}",
           other_token(token, exp=2**40), other_token(token, sub="another"), token[:-1],
           token[: len(token) // 2], "root", "_x", ".x", "%h", "x" * 8000, "a.b.c"]
    for done in ssh.run_each(bad[:6]):
        assert done.returncode == 255
        assert b"the token is not valid" in done.stderr, done.stderr
    log = deployed.log_path("sandbox-ssh").read_text()
    log += deployed.log_path("sandbox-gateway").read_text()
    assert token not in log and body not in log and signature not in log


def test_six_keys_and_other_methods_get_in(ssh, tmp_path):
    """A client offers its keys only where "none" was refused."""
    keys = []
    for number in range(6):
        path = tmp_path / f"key{number}"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
        keys += ["-i", str(path)]
    assert ssh.run("true", options=keys).returncode == 0
    told = ssh.session()
    for secret in ({"password": "anything"}, {"pkey": paramiko.Ed25519Key.from_private_key_file(
            str(tmp_path / "key0"))}):
        with ssh_client.paramiko_client(ssh, told, **secret) as client:
            _, out, _ = client.exec_command("echo in")
            assert out.read() == b"in\n"


def test_a_token_ends_with_what_it_stands_for(api, tmp_path):
    box = api.create()["id"]
    ssh = ssh_client.Ssh(api, box, tmp_path)
    token = ssh.session()["token"]
    process = ssh.start("echo begun; sleep 600")
    assert process.stdout.readline() == b"begun\n"
    api.remove(box)
    assert process.wait(timeout=30) == 255
    assert b"ended" in process.stderr.read()
    told = subprocess.run(
        ["ssh", *ssh.options, "-p", str(api.instance.settings.ssh_port), "-l", token, "127.0.0.1",
         "true"], capture_output=True, timeout=60, check=False, env=ssh_client.environment())
    assert told.returncode == 255 and b"does not exist" in told.stderr


def test_a_revoked_api_token_ends_its_connections(api, box, tmp_path):
    made = api.post("/tokens", {"name": "ssh", "scopes": ["member"]}).json()
    member = deployment.Api(api.instance)
    member.http = member.client(made["secret"])
    ssh = ssh_client.Ssh(member, box, tmp_path)
    told = ssh.session()
    process = ssh.start("echo begun; sleep 600")
    assert process.stdout.readline() == b"begun\n"
    assert api.delete(f"/tokens/{made['id']}").status_code in (200, 204)
    assert process.wait(timeout=20) == 255
    late = subprocess.run(
        ["ssh", *ssh.options, "-p", str(told["port"]), "-l", told["token"], told["host"], "true"],
        capture_output=True, timeout=60, check=False, env=ssh_client.environment())
    assert late.returncode == 255 and b"may not use the sandbox" in late.stderr


# --- limits --------------------------------------------------------------------------------------

def test_who_does_not_sign_in_is_let_go(deployed):
    with socket.create_connection(("127.0.0.1", deployed.settings.ssh_port), 20) as connection:
        connection.settimeout(20)
        connection.sendall(b"SSH-2.0-nobody\r\n")
        began = time.monotonic()
        while connection.recv(65536):
            pass
        assert time.monotonic() - began > 1
    with socket.create_connection(("127.0.0.1", deployed.settings.ssh_port), 20) as connection:
        connection.settimeout(20)
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n" + b"x" * 10_000)
        with contextlib.suppress(ConnectionResetError):
            while connection.recv(65536):
                pass


def test_a_crowd_that_says_nothing_stands_in_nobodys_way(ssh, deployed):
    crowd = [socket.create_connection(("127.0.0.1", deployed.settings.ssh_port), 20)
             for _ in range(300)]
    try:
        assert ssh.run("echo in").stdout == b"in\n"
        assert len(children(deployed)) < 100
    finally:
        for one in crowd:
            one.close()


def children(deployed) -> list[int]:
    pid = deployed.ssh.pid()
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(one) for one in text.split()]


def test_the_front_is_confined_and_its_processes_more_so(ssh, deployed):
    process = ssh.start("echo begun; sleep 600")
    assert process.stdout.readline() == b"begun\n"
    served = children(deployed)
    assert served
    for pid in (deployed.ssh.pid(), *served):
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert int(fields["CapEff"], 16) == 0 and fields["Seccomp"] == "2"
        assert fields["NoNewPrivs"] == "1"
        assert set(fields["Uid"].split()) == {"64101"}
        assert os.listdir(f"/proc/{pid}/root") == ["gateway"]
        assert os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
    process.kill()
    process.wait()
    eventually(lambda: not set(children(deployed)) & set(served), what="its process has ended")


def test_nothing_is_left_in_the_gateway(api, ssh, deployed):
    def open_files() -> int:
        return len(os.listdir(f"/proc/{deployed.gateway.pid()}/fd"))
    ssh.run("true")
    time.sleep(1)
    before = open_files()
    for _ in range(5):
        ssh.run("true")
        process = ssh.start("sleep 600")
        time.sleep(0.3)
        process.kill()
        process.wait()
    eventually(lambda: open_files() <= before, what="descriptors are given back")
    figures = eventually(lambda: [line for line in metrics(deployed)
                                  if line == "sandbox_gateway_ssh_connections 0"])
    assert figures
    assert any(line.startswith('sandbox_gateway_ssh_logins_total{result="accepted"}')
               for line in metrics(deployed))


def metrics(deployed) -> list[str]:
    url = f"http://127.0.0.1:{deployed.settings.metrics_port}/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode().splitlines()


def end_of_command(api, box: str, word: str) -> dict:
    """What the audit log tells of the end of the command that has that word."""
    def ended():
        rows = [row["details"] for row in audit_rows(api, box, "ssh.command")
                if word in json.dumps(row["details"])]
        return next((row for row in rows if "duration_ms" in row), None)
    return eventually(ended)


def test_the_audit_log_tells_how_commands_end(api, box, ssh):
    assert ssh.run("sleep 0.3; echo audited-command; exit 4").returncode == 4
    told = end_of_command(api, box, "audited-command")
    assert told["exit_code"] == 4 and told["duration_ms"] >= 300, told
    # Its end stands behind more bytes than the gateway looks at.
    assert len(ssh.run(": audited-flood; head -c 50000000 /dev/zero; exit 5").stdout) == 50_000_000
    assert end_of_command(api, box, "audited-flood")["exit_code"] == 5
    assert ssh.run(": audited-death; kill -KILL $$").returncode == 255
    assert end_of_command(api, box, "audited-death")["exit_code"] == 128 + 9
    # What a command writes is never taken for its end.
    lie = (""": audited-lie; printf '\\201\\057{"type":"exit","exit_code":0,"signal":null}'; """
           "exit 6")
    assert ssh.run(lie).returncode == 6
    assert end_of_command(api, box, "audited-lie")["exit_code"] == 6
    process = ssh.start(": audited-client; echo begun; sleep 600")
    assert process.stdout.readline() == b"begun\n"
    process.kill()
    process.wait()
    assert "exit_code" not in end_of_command(api, box, "audited-client")


def test_the_audit_log_tells_how_a_shell_ends(api, box, ssh):
    before = len([row for row in audit_rows(api, box, "ssh.command") if "shell" in row["details"]])
    assert ssh.run(stdin=b"exit 9\n", options=["-tt"]).returncode == 9
    def ended():
        rows = [row["details"] for row in audit_rows(api, box, "ssh.command")
                if "shell" in row["details"]]
        return len(rows) > before and rows[0].get("exit_code") == 9
    eventually(ended)


def test_the_audit_log_has_the_clients_address(api, box, ssh):
    assert ssh.run("true").returncode == 0
    connects = audit_rows(api, box, "ssh.connect")
    assert any(row.get("remote") == "127.0.0.1" or "127.0.0.1" in json.dumps(row)
               for row in connects), connects[:2]


# --- the command line ----------------------------------------------------------------------------

@pytest.fixture(name="cli")
def cli_fixture(api, deployed, tmp_path):
    own = str(deployed.bin / "sandbox")
    variables = {**ssh_client.environment(), "HOME": str(tmp_path),
                 "SANDBOX_GATEWAY_URL": deployed.url, "SANDBOX_GATEWAY_TOKEN": deployed.token}

    def run(*words: str, program: str = own, **options) -> subprocess.CompletedProcess:
        return subprocess.run([program, *words], env=variables, capture_output=True, timeout=60,
                              check=False, **options)
    run.variables = variables
    return run


def test_sandbox_ssh(cli, box):
    done = cli("ssh", box, "--", "cat; exit 6", input=b"by the API")
    assert (done.returncode, done.stdout) == (6, b"by the API"), done.stderr
    assert cli("ssh", "nosuch", "--", "true").returncode == 255


def test_a_plain_ssh_finds_the_entry(cli, box, tmp_path):
    entry = cli("ssh-config", box, "--name", "my-sandbox")
    assert entry.returncode == 0, entry.stderr
    config = tmp_path / "config"
    config.write_bytes(entry.stdout)
    argv = ["ssh", "-F", str(config), "-o", "BatchMode=yes", "my-sandbox"]
    done = subprocess.run([*argv, "id -u; cat"], input=b"x" * 3_000_000, capture_output=True,
                          env=cli.variables, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"0\n" + b"x" * 3_000_000
    text = entry.stdout.decode()
    assert "ProxyCommand" in text and "KnownHostsCommand" in text
    assert cli.variables["SANDBOX_GATEWAY_TOKEN"] not in text


def test_an_entry_is_one_host_and_finds_a_program_anywhere(cli, box, deployed, tmp_path):
    for name in ("*", "a b", "x\n  User root", "-x", "a,b", 'a"b', "!a", "%h", "#a"):
        refused = cli("ssh-config", box, f"--name={name}")
        assert (refused.returncode, refused.stdout) == (125, b""), name
    folder = tmp_path / "it's a %h \"b"
    folder.mkdir()
    program = shutil.copy(deployed.bin / "sandbox", folder)
    config = tmp_path / "config"
    config.write_bytes(cli("ssh-config", box, "--name", "für-uns.1", program=program).stdout)
    argv = ["ssh", "-F", str(config), "-o", "BatchMode=yes", "für-uns.1", "echo here"]
    done = subprocess.run(argv, capture_output=True, env=cli.variables, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, b"here\n"), done.stderr
    done = cli("ssh", box, "--", "echo here", program=program)
    assert (done.returncode, done.stdout) == (0, b"here\n"), done.stderr


def test_a_container_of_several(api, cli, tmp_path):
    services = {name: {"image": deployment.IMAGE, "hostname": name, "command": ["sleep", "1000"]}
                for name in ("main", "db")}
    made = api.post("/sandboxes?wait=60", {"cpus": 1, "memory_mb": 256, "compose": {
        "files": [json.dumps({"services": services})]}}).json()
    assert made["state"] == "ready", made
    box = made["id"]
    try:
        main, into = (ssh_client.Ssh(api, box, tmp_path, name) for name in (None, "db"))
        assert main.run("hostname").stdout == b"main\n"
        assert into.run("hostname; echo in-db > /tmp/here").stdout == b"db\n"
        with shell(into) as terminal:
            terminal.type(b"PS1=; stty -echo; echo at-$(hostname)\n")
            terminal.read_until(b"at-db")
        options, host = into.copy_target()
        copied = subprocess.run(["scp", "-q", *options, f"{host}:/tmp/here", tmp_path / "got"],
                                env=ssh_client.environment(), timeout=60, check=False)
        assert copied.returncode == 0 and (tmp_path / "got").read_text() == "in-db\n"
        assert main.run("test -e /tmp/here").returncode == 1
        assert cli("ssh", box, "--container", "db", "--", "hostname").stdout == b"db\n"
        entry = cli("ssh-config", box, "--name", "db", "--container", "db")
        (tmp_path / "config").write_bytes(entry.stdout)
        done = subprocess.run(["ssh", "-F", tmp_path / "config", "-o", "BatchMode=yes", "db",
                               "hostname"], env=cli.variables, capture_output=True, timeout=60,
                              check=False)
        assert done.stdout == b"db\n", done.stderr
        assert error_of(api.post(f"/sandboxes/{box}/ssh-session?container=no")) == (
            422, "invalid_field")
        assert cli("ssh", box, "--container", "no", "--", "true").returncode == 255
    finally:
        api.remove(box)


def test_without_a_front_it_says_so(api, box, deployed):
    deployed.ssh.stop()
    try:
        eventually(lambda: error_of(api.post(f"/sandboxes/{box}/ssh-session")) ==
                   (503, "ssh_unavailable"))
    finally:
        deployed.start_ssh()
    assert api.post(f"/sandboxes/{box}/ssh-session").status_code == 200


def test_the_host_key_stays_and_a_gateway_that_restarts_is_found_again(ssh, deployed):
    before = ssh.session()["hostKey"]
    deployed.gateway.stop()
    deployed.start_gateway()
    eventually(deployed.ssh_ready)
    assert ssh.session()["hostKey"] == before
    assert ssh.run("echo in").stdout == b"in\n"
    assert re.fullmatch(r"ssh-ed25519 [A-Za-z0-9+/=]+", before)


def test_another_host_key_is_served_by_a_front_that_goes_on(ssh, deployed):
    """The key of secrets was lost, and with it the host key."""
    before, front = ssh.session()["hostKey"], deployed.ssh.pid()
    deployed.gateway.stop()
    (deployed.state / "gateway" / "secret.key").unlink()
    subprocess.run([deployed.bin / "sandbox-gateway", "migrate", "forget-key", "--config", "",
                    "--state", deployed.state], check=True, timeout=60)
    deployed.start_gateway()
    eventually(deployed.ssh_ready)
    assert ssh.session()["hostKey"] != before
    done = ssh.run("echo in")
    assert done.stdout == b"in\n", done.stderr
    assert deployed.ssh.pid() == front
