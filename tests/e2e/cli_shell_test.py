"""`sandbox shell`: a shell there on a terminal here."""

import signal
import time

import pytest
from deployment import eventually
from terminal import Terminal


@pytest.fixture
def shell(sandbox_cli):
    """A shell on a terminal, ready for the first command."""
    opened = []

    def begin(sandbox: str, *options: str, columns: int = 80, rows: int = 24) -> Terminal:
        terminal = Terminal([sandbox_cli.program, "shell", sandbox, *options],
                            sandbox_cli.environment, columns, rows)
        opened.append(terminal)
        ask(terminal, "echo")
        return terminal

    yield begin
    for terminal in opened:
        terminal.__exit__()


def ask(terminal: Terminal, command: str) -> bytes:
    """What a command shows. The marks are put together there: the echo does not look like them."""
    ask.count += 1
    mark = f"{ask.count}-{ask.count * 7}"
    typed = f"echo be''gin-{mark}; {command}; echo en''d-{mark}\r"
    terminal.type(typed.encode())
    terminal.read_until(f"begin-{mark}\r\n".encode())
    return terminal.read_until(f"end-{mark}\r\n".encode()).rsplit(b"end-", 1)[0]


ask.count = 0


def test_size_resize_and_exit_code(shell, box):
    terminal = shell(box, columns=137, rows=41)
    assert ask(terminal, "stty size") == b"41 137\r\n"
    terminal.resize(60, 20)
    assert ask(terminal, "sleep 0.3; stty size") == b"20 60\r\n"
    terminal.type(b"exit 7\r")
    assert terminal.wait() == 7
    assert terminal.is_restored()


def test_keys_are_passed_on_and_the_shell_lives(api, shell, box):
    terminal = shell(box)
    terminal.type(b"sleep 6673\r")
    eventually(lambda: api.shell(box, "pgrep -f '[s]leep 6673'")["exit_code"] == 0)
    terminal.type(b"\x03")
    terminal.type(b"echo co''de=$?\r")
    terminal.read_until(b"code=130\r\n")
    terminal.type(b"cat\r")
    eventually(lambda: api.shell(box, "pgrep -x cat")["exit_code"] == 0)
    terminal.type(b"typed\r")
    terminal.read_until(b"typed\r\ntyped\r\n")
    terminal.type(b"\x04")
    assert ask(terminal, "echo alive") == b"alive\r\n"
    assert ask(terminal, "tty").startswith(b"/dev/pts/")


def test_the_escape_leaves_and_the_shell_is_found_again(shell, box):
    terminal = shell(box)
    ask(terminal, "kept=here-still")
    terminal.type(b"\r~.")
    assert terminal.wait() == 0
    assert terminal.is_restored()
    again = shell(box)
    assert ask(again, "echo $kept") == b"here-still\r\n"
    other = shell(box, "--session", "other")
    assert ask(other, "echo [$kept]") == b"[]\r\n"


def test_a_tilde_within_a_line_is_a_tilde(shell, box):
    terminal = shell(box)
    terminal.type(b"echo x~.; echo done-$((6 * 7))\r")
    assert b"x~." in terminal.read_until(b"done-42\r\n")
    terminal.type(b"~~\x15")  # a tilde, and away with the line
    assert ask(terminal, "echo alive") == b"alive\r\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_signals_restore_the_terminal(shell, box, number):
    terminal = shell(box)
    assert terminal.is_raw()
    terminal.process.send_signal(number)
    assert terminal.wait() == 128 + number
    assert terminal.is_restored()


def test_a_restarted_gateway_is_the_same_shell(deployed, shell, box):
    terminal = shell(box)
    ask(terminal, "kept=over-restarts")
    deployed.gateway.kill()
    # Keys in flight at the break may be lost, so these come well after it.
    time.sleep(1)
    terminal.type(b"echo typed-$((40 + 2))\r")  # while there is no gateway
    deployed.start()
    assert terminal.read_until(b"typed-42\r\n").count(b"typed-42") == 1
    assert ask(terminal, "echo $kept") == b"over-restarts\r\n"


def test_one_can_leave_while_the_gateway_is_away(deployed, shell, box):
    terminal = shell(box)
    deployed.gateway.kill()
    try:
        terminal.type(b"\r~.")
        assert terminal.wait() == 0
        assert terminal.is_restored()
    finally:
        deployed.start()


def test_a_deleted_sandbox_ends_it_with_an_error(api, shell, box):
    terminal = shell(box)
    api.remove(box)
    assert terminal.wait() == 125
    assert terminal.is_restored()
    assert b"sandbox: error: " in terminal.seen
