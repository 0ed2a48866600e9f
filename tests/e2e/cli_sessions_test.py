"""`sandbox sessions`: commands that run in the background."""

import hashlib
import json
import signal
import subprocess

import pytest
from deployment import eventually
from terminal import Terminal


@pytest.fixture
def started(sandbox_cli, box):
    """Starts a session and gives its id."""
    def begin(*argv: str, options: tuple[str, ...] = ()) -> str:
        done = sandbox_cli("sessions", "start", box, *options, "--", *argv)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().strip()
    return begin


def shown(sandbox_cli, box: str, session: str, *options: str) -> dict:
    done = sandbox_cli("sessions", "get", box, session, "-o", "json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_session_from_start_to_end(sandbox_cli, started, box):
    session = started("sh", "-c", "echo out; echo err >&2; read x; echo got $x; exit 5",
                      options=("--name", "mine"))
    assert shown(sandbox_cli, box, "mine")["id"] == session
    listed = sandbox_cli("sessions", "list", box).stdout.decode()
    assert session in listed and "mine" in listed and "running" in listed
    eventually(lambda: sandbox_cli("sessions", "logs", box, session).stderr == b"err\n")
    assert sandbox_cli("sessions", "logs", box, session).stdout == b"out\n"
    assert sandbox_cli("sessions", "write", box, "mine", "a line").returncode == 0
    state = shown(sandbox_cli, box, session, "--wait", "30s")
    assert (state["state"], state["exit_code"]) == ("exited", 5)
    logs = sandbox_cli("sessions", "logs", box, session, "-f")
    assert (logs.stdout, logs.stderr) == (b"out\ngot a line\n", b"err\n")
    only = sandbox_cli("sessions", "logs", box, session, "--stream", "stdout", "--offset", "8")
    assert (only.stdout, only.stderr) == (b"got a line\n", b"")
    late = sandbox_cli("sessions", "write", box, session, "too late")
    assert late.returncode == 125 and b"session_exited" in late.stderr
    assert sandbox_cli("sessions", "rm", box, session).stdout.decode() == session + "\n"
    assert sandbox_cli("sessions", "list", "-q", box).stdout == b""
    assert sandbox_cli("sessions", "get", box, session).returncode == 125


def test_input_from_a_pipe_and_its_end(sandbox_cli, started, box):
    session = started("sh", "-c", "sha256sum; echo end")
    data = b"some bytes\0" * 100_000
    assert sandbox_cli("sessions", "write", box, session, stdin=data).returncode == 0
    assert sandbox_cli("sessions", "write", box, session, "--eof", "last").returncode == 0
    followed = sandbox_cli("sessions", "logs", "-f", box, session)
    assert followed.stdout.split()[0].decode() == hashlib.sha256(data + b"last\n").hexdigest()
    assert followed.stdout.endswith(b"end\n")


def test_kill_ends_the_whole_tree(api, sandbox_cli, started, box):
    session = started("sh", "-c", "setsid sleep 6671 & sleep 6671")
    eventually(lambda: api.shell(box, "pgrep -xc sleep")["stdout"].strip() == "2")
    assert sandbox_cli("sessions", "kill", box, session).returncode == 0
    state = shown(sandbox_cli, box, session, "--wait", "30s")
    assert (state["exit_code"], state["signal"]) == (143, "TERM")
    eventually(lambda: api.shell(box, "pgrep -f '[s]leep 6671'")["exit_code"] == 1)
    wrong = sandbox_cli("sessions", "kill", box, session, "-s", "NOTHING")
    assert wrong.returncode == 125


def test_followers_see_each_byte_once_over_a_restart(deployed, sandbox_cli, started, box):
    session = started("sh", "-c", "i=0; while [ $i -lt 60 ]; do echo $i; i=$((i+1)); "
                                  "sleep 0.05; done")
    following = subprocess.Popen([sandbox_cli.program, "sessions", "logs", "-f", box, session],
                                 env=sandbox_cli.environment, stdout=subprocess.PIPE, bufsize=0)
    assert following.stdout.readline() == b"0\n"
    deployed.gateway.kill()
    deployed.start()
    out, _ = following.communicate(timeout=60)
    assert out == "".join(f"{n}\n" for n in range(1, 60)).encode()
    assert following.returncode == 0


def test_attach_to_pipes(sandbox_cli, started, box):
    session = started("sh", "-c", "echo before; while read x; do echo got $x; done; exit 8")
    eventually(lambda: sandbox_cli("sessions", "logs", box, session).stdout)
    attached = subprocess.Popen([sandbox_cli.program, "sessions", "attach", box, session],
                                env=sandbox_cli.environment, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, bufsize=0)
    attached.stdin.write(b"one\n")
    attached.stdin.flush()
    assert attached.stdout.readline() == b"got one\n"
    attached.send_signal(signal.SIGINT)
    assert attached.wait(timeout=30) == 130
    assert shown(sandbox_cli, box, session)["state"] == "running"
    again = subprocess.Popen([sandbox_cli.program, "sessions", "attach", box, session],
                             env=sandbox_cli.environment, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE)
    eventually(lambda: sandbox_cli("sessions", "write", box, session, "two", "--eof"))
    out, _ = again.communicate(timeout=30)
    assert (again.returncode, out.splitlines()[-1:]) in ((8, [b"got two"]), (8, []))


def test_attach_to_a_terminal(sandbox_cli, started, box):
    session = started("sh", options=("-t", "--name", "screen"))
    assert sandbox_cli("sessions", "resize", box, session, "100", "30").returncode == 0
    tty = shown(sandbox_cli, box, session)["tty"]
    assert (tty["cols"], tty["rows"]) == (100, 30)
    argv = [sandbox_cli.program, "sessions", "attach", box, "screen"]
    with Terminal(argv, sandbox_cli.environment, columns=90, rows=25) as terminal:
        terminal.type(b"stty size; echo mark-$((40 + 2))\r")
        assert b"25 90" in terminal.read_until(b"mark-42")
        terminal.type(b"\r~.")
        assert terminal.wait() == 0
        assert terminal.is_restored()
    assert shown(sandbox_cli, box, session)["state"] == "running"
    with Terminal(argv, sandbox_cli.environment) as terminal:
        terminal.read_until(b"mark-42")  # the past is shown
        terminal.type(b"exit 6\r")
        assert terminal.wait() == 6


def test_refusals_are_one_line(sandbox_cli, box):
    for argv in (("get", box, "none"), ("logs", box, "none"), ("attach", box, "none"),
                 ("kill", box, "none"), ("rm", box, "none"), ("write", box, "none", "x"),
                 ("start", box, "--name", "bad name", "--", "true"),
                 ("start", "sb-none", "--", "true")):
        done = sandbox_cli("sessions", *argv)
        assert done.returncode == 125, argv
        assert done.stderr.startswith(b"sandbox: error: ") and done.stderr.count(b"\n") == 1, argv
