"""`sandbox exec` and `run`: a command there as if it ran here."""

import hashlib
import os
import signal
import subprocess
import time

import pytest
from deployment import IMAGE, eventually
from terminal import Terminal


@pytest.fixture
def start(sandbox_cli):
    """Popen of the CLI with pipes; killed at the end if a test forgot it."""
    running = []

    def begin(*argv: str, stdin=subprocess.PIPE) -> subprocess.Popen:
        process = subprocess.Popen([sandbox_cli.program, *argv], env=sandbox_cli.environment,
                                   stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   bufsize=0)  # what readline() leaves is for communicate()
        running.append(process)
        return process

    yield begin
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


def sessions_of(api, sandbox: str) -> list[dict]:
    return api.get(f"/sandboxes/{sandbox}/sessions").json()["items"]


def runs(api, sandbox: str, pattern: str) -> bool:
    return api.shell(sandbox, f"pgrep -f '{pattern}'")["exit_code"] == 0


def test_output_comes_as_it_is_written_and_input_as_it_is_typed(start, shared_box):
    process = start("exec", shared_box, "--", "sh", "-c",
                    "echo one; read x; echo got $x; read y; echo err $y >&2; cat; exit 9")
    assert process.stdout.readline() == b"one\n"
    process.stdin.write(b"first\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"got first\n"
    process.stdin.write(b"second\n")
    process.stdin.flush()
    assert process.stderr.readline() == b"err second\n"
    out, err = process.communicate(b"rest", timeout=60)
    assert (out, err, process.returncode) == (b"rest", b"", 9)


def test_what_a_command_leaves_running_lives_on(sandbox_cli, api, shared_box):
    done = sandbox_cli("exec", shared_box, "--", "sh", "-c", "setsid sleep 7711 & sleep 7712 &")
    assert done.returncode == 0, done.stderr
    assert sessions_of(api, shared_box) == []
    assert api.shell(shared_box, "pgrep -fc '[s]leep 771[12]'")["stdout"] == "2\n"
    api.shell(shared_box, "pkill -f '[s]leep 771[12]'")


def test_bytes_pass_whole_both_ways(sandbox_cli, shared_box):
    data = os.urandom(5_000_000) + bytes(range(256))
    done = sandbox_cli("exec", shared_box, "--", "cat", stdin=data)
    assert done.returncode == 0, done.stderr
    assert done.stdout == data
    err = sandbox_cli("exec", shared_box, "--", "sh", "-c", "cat >&2", stdin=data[:100_000])
    assert (err.stdout, err.stderr) == (b"", data[:100_000])


def test_large_output_is_whole_with_a_slow_reader(start, shared_box):
    process = start("exec", shared_box, "--", "seq", "1", "3000000", stdin=subprocess.DEVNULL)
    digest = hashlib.md5()
    count = 0
    while piece := os.read(process.stdout.fileno(), 3000):
        digest.update(piece)
        count += len(piece)
    assert process.wait(timeout=60) == 0
    wanted = hashlib.md5("".join(f"{n}\n" for n in range(1, 3_000_001)).encode())
    assert (count, digest.hexdigest()) == (22_888_896, wanted.hexdigest())


def test_a_reader_that_stands_still_holds_the_command_up(start, shared_box):
    """Longer than a session waits for who says nothing, and more than its log holds."""
    process = start("exec", shared_box, "--", "seq", "1", "6000000", stdin=subprocess.DEVNULL)
    assert process.stdout.read(2) == b"1\n"
    time.sleep(13)
    rest = process.stdout.read()
    while piece := process.stdout.read(1 << 20):
        rest += piece
    assert process.wait(timeout=60) == 0, process.stderr.read()
    assert rest == "".join(f"{n}\n" for n in range(2, 6_000_001)).encode()


def test_a_command_that_does_not_read_its_input_holds_nobody_up(sandbox_cli, shared_box):
    data = os.urandom(20_000_000)
    summed = sandbox_cli("exec", shared_box, "--", "sha256sum", stdin=data)
    assert summed.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()
    early = sandbox_cli("exec", shared_box, "--", "sh", "-c", "head -c 10 >/dev/null; exit 4",
                        stdin=data)
    assert (early.returncode, early.stderr) == (4, b"")
    never = sandbox_cli("exec", shared_box, "--", "sh", "-c", "sleep 1; exit 5", stdin=data)
    assert (never.returncode, never.stderr) == (5, b"")


def test_output_and_input_larger_than_anything_between_holds(sandbox_cli, shared_box):
    """Neither waits for the other, so nothing is lost."""
    size = 64 << 20
    done = sandbox_cli("exec", shared_box, "--", "sh", "-c",
                       f"head -c {size} /dev/zero; cat | wc -c >&2", stdin=bytes(size))
    assert (done.returncode, done.stderr, len(done.stdout)) == (0, f"{size}\n".encode(), size)


def test_no_input_is_an_end_of_input(sandbox_cli, start, shared_box):
    script = "cat; echo rc=$?; read x; echo rc=$?; [ -t 0 ] || echo no terminal"
    for argv, stdin in ((("exec", shared_box), b""), (("exec", "-n", shared_box), b"unread")):
        done = sandbox_cli(*argv, "--", "sh", "-c", script, stdin=stdin)
        assert done.stdout == b"rc=0\nrc=1\nno terminal\n", done.stderr
    closed = start("exec", shared_box, "--", "cat", stdin=subprocess.DEVNULL)
    assert closed.wait(timeout=60) == 0


@pytest.mark.parametrize(("script", "code"), [
    ("exit 0", 0), ("exit 255", 255), ("exit 300", 44), ("kill -9 $$", 137), ("kill -TERM $$", 143),
    ("no-such-program-here", 127)])
def test_exit_codes_are_the_commands(sandbox_cli, shared_box, script, code):
    assert sandbox_cli("exec", shared_box, "--", "sh", "-c", script).returncode == code


def test_our_own_exit_codes(sandbox_cli, shared_box):
    assert sandbox_cli("exec", shared_box, "--", "no-such-program").returncode == 127
    assert sandbox_cli("exec", shared_box, "--", "/etc/passwd").returncode == 126
    late = sandbox_cli("exec", shared_box, "--timeout", "1s", "--", "sleep", "60")
    assert late.returncode == 124 and b"timed out" in late.stderr
    for argv in (("--cwd", "/none"), ("--user", "nobody-knows")):
        refused = sandbox_cli("exec", *argv, shared_box, "--", "true")
        assert refused.returncode == 125 and refused.stderr.startswith(b"sandbox: error: ")


def test_place_of_a_command(sandbox_cli, shared_box):
    done = sandbox_cli("exec", shared_box, "--cwd", "/tmp", "--user", "1234:5678", "-e", "A=x y",
                       "-e", "B", "--", "sh", "-c", "pwd; id -u; id -g; echo \"$A$B\"",
                       env={"B": "\n z"})
    assert done.stdout == b"/tmp\n1234\n5678\nx y\n z\n", done.stderr


def test_nothing_is_left_behind(api, sandbox_cli, box):
    for script in ("exit 3", "sleep 600 & exit 0"):
        sandbox_cli("exec", box, "--", "sh", "-c", script)
    sandbox_cli("exec", box, "--timeout", "1", "--", "sleep", "9")
    assert sessions_of(api, box) == []


def test_ctrl_c_cancels_and_shows_the_last_words(api, start, shared_box):
    process = start("exec", shared_box, "--", "sh", "-c",
                    "trap 'echo bye; exit 1' TERM; echo ready; sleep 6668 & wait")
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, b"bye\n"), err
    eventually(lambda: not runs(api, shared_box, "[s]leep 6668"))
    assert sessions_of(api, shared_box) == []


def test_a_second_ctrl_c_leaves_at_once(api, start, shared_box):
    process = start("exec", shared_box, "--", "sh", "-c",
                    "trap '' TERM; echo ready; while :; do sleep 6669; done")
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    eventually(lambda: not runs(api, shared_box, "[s]leep 6669") or process.poll() is None)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    eventually(lambda: not runs(api, shared_box, "[s]leep 6669"))


def test_a_reader_that_leaves_ends_the_command(api, start, shared_box):
    process = start("exec", "-n", shared_box, "--", "sh", "-c", "echo one; exec yes 6670")
    assert process.stdout.readline() == b"one\n"
    process.stdout.close()
    process.wait(timeout=30)
    eventually(lambda: not runs(api, shared_box, "[y]es 6670"))


def test_a_restarted_gateway_costs_no_byte_of_either_stream(deployed, start, shared_box):
    process = start("exec", shared_box, "--", "sh", "-c",
                    "while read x; do echo $x; echo $x >&2; done; exit 6")
    lines = [f"line {n}\n".encode() for n in range(3000)]
    for line in lines[:1000]:
        process.stdin.write(line)
    process.stdin.flush()
    assert process.stdout.readline() == lines[0]
    deployed.gateway.kill()
    for line in lines[1000:2000]:
        process.stdin.write(line)
    process.stdin.flush()
    deployed.start()
    out, err = process.communicate(b"".join(lines[2000:]), timeout=120)
    assert process.returncode == 6, err[-500:]
    assert out == b"".join(lines[1:])
    assert err == b"".join(lines)


def test_run_streams_and_deletes(api, sandbox_cli, start):
    process = start("run", "--label", "test=streamed", IMAGE, "--", "sh", "-c",
                    "echo up; cat; exit 4")
    assert process.stdout.readline() == b"up\n"
    out, err = process.communicate(b"typed", timeout=60)
    assert (out, process.returncode) == (b"typed", 4), err
    assert api.get("/sandboxes?label=test%3Dstreamed").json()["items"] == []


def test_a_terminal_for_one_command(sandbox_cli, shared_box):
    argv = [sandbox_cli.program, "exec", "-t", shared_box, "--", "sh", "-c",
            "stty size; echo $TERM; tty; trap 'echo caught; exit 3' INT; echo go; sleep 60 & wait"]
    with Terminal(argv, sandbox_cli.environment, columns=137, rows=41) as terminal:
        screen = terminal.read_until(b"go")
        assert b"41 137" in screen and b"xterm" in screen and b"/dev/pts/" in screen
        assert terminal.is_raw()
        terminal.type(b"\x03")
        assert terminal.wait() == 3
        assert b"caught" in terminal.seen
        assert terminal.is_restored()


def test_t_without_a_terminal_here(sandbox_cli, shared_box):
    done = sandbox_cli("exec", "-t", shared_box, "--", "sh", "-c", "[ -t 1 ] && stty size; cat",
                       stdin=b"a line\n")
    assert done.returncode == 0, done.stderr
    assert b"24 80\r\n" in done.stdout and b"a line" in done.stdout


def test_typed_input_needs_i(sandbox_cli, shared_box):
    argv = [sandbox_cli.program, "exec", "-i", shared_box, "--", "sh", "-c", "read x; echo got-$x"]
    with Terminal(argv, sandbox_cli.environment) as terminal:
        terminal.type(b"typed\n")
        terminal.read_until(b"got-typed")
        assert terminal.wait() == 0
    argv.remove("-i")
    with Terminal(argv, sandbox_cli.environment) as terminal:
        terminal.read_until(b"got-")
        assert terminal.wait() == 0
