"""How an editor comes in by SSH: the start-up sequence of VS Code's Remote-SSH replayed with
OpenSSH's client. A script is piped into a remote shell of a connection with -T and -D; it looks at
the machine, takes a lock, unpacks a server that came over the connection, leaves it running on a
port that the kernel chose, and tells that between markers. The editor then reaches the server by
the connection's SOCKS port, and finds the same server again after it was cut off."""

import contextlib
import gzip
import re
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

import pytest

import deployment
import instance
import ssh_client
from deployment import eventually
from ssh_client import api_fixture, box_fixture, ssh_fixture  # noqa: F401
from tar_files import archive, member

FOLDER = "/opt/editor-server"
# Answers each line with the server's process id and that line, on a port that it finds free.
SERVER = r"""#!/bin/sh
cd `dirname $0`
PORT=$((20000 + $$ % 20000))
echo "Server bound to 127.0.0.1"
echo "Extension host agent listening on $PORT"
exec ./busybox nc -ll -p $PORT -e ./answer.sh
"""
ANSWER = """#!/bin/sh
while read -r line; do echo "$PPID $line"; done
"""
# One run of the script: what it tells stands between its markers.
SCRIPT = r"""
echo "MARK: running"
export VSCODE_AGENT_FOLDER=@FOLDER@
PLATFORM=`uname -s`; ARCH=`uname -m`
echo "MARK##PLATFORM##$PLATFORM##$ARCH##"
command -v tar >/dev/null || { echo "MARK##26##"; exit 0; }
mkdir -p $VSCODE_AGENT_FOLDER/bin || exit 0
umask 077
LOCK=/tmp/editor-remote-lock.`id -un`
if ( set -o noclobber 2>/dev/null; echo $$ > $LOCK ) 2>/dev/null; then
  echo "MARK##LOCKED##"
else
  echo "MARK##BUSY##`cat $LOCK`##"; exit 0
fi
trap 'rm -f $LOCK' EXIT
SERVER=$VSCODE_AGENT_FOLDER/bin/server.sh
if [ ! -x $SERVER ]; then
  echo "MARK##NEEDS_SERVER##"
  while [ ! -e $VSCODE_AGENT_FOLDER/sent.done ]; do sleep 0.1; done
  cd $VSCODE_AGENT_FOLDER/bin && tar -xzf ../sent.tar.gz --strip-components 1 || exit 0
  rm -f $VSCODE_AGENT_FOLDER/sent.*
fi
PIDFILE=$VSCODE_AGENT_FOLDER/server.pid; LOG=$VSCODE_AGENT_FOLDER/server.log
if [ -f $PIDFILE ] && kill -0 `cat $PIDFILE` 2>/dev/null; then
  echo "MARK##FOUND##"
else
  : > $LOG
  nohup $SERVER > $LOG 2>&1 < /dev/null &
  echo $! > $PIDFILE
fi
for i in `seq 1 300`; do
  LISTENING=`sed -n 's/.*listening on \([0-9]*\)$/\1/p' $LOG`
  [ -n "$LISTENING" ] && break
  sleep 0.1
done
rm -f $LOCK; trap - EXIT
echo "MARK: start"
echo "listeningOn==$LISTENING=="
echo "osReleaseId==`. /etc/os-release; echo $ID`=="
echo "arch==$ARCH=="
echo "SSH_AUTH_SOCK==$SSH_AUTH_SOCK=="
echo "MARK: end"
""".replace("@FOLDER@", FOLDER)


@pytest.fixture(scope="module", name="deployed")
def deployed_fixture():
    one = ssh_client.make_instance("she", "10.222.0.0/16", 3_400_000)
    with ssh_client.running(one):
        yield one


class Window:
    """One window of the editor: `ssh -T -D PORT host SHELL`, whose shell stays until it goes."""

    def __init__(self, ssh, shell: str = "sh"):
        self.ssh = ssh
        self.socks_port = instance.free_port()
        self.process = subprocess.Popen(
            ssh.argv(*shell.split(), options=["-T", "-D", str(self.socks_port), "-o",
                                              "ExitOnForwardFailure=yes"]),
            env=ssh_client.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        self.said: list[str] = []
        self.changed = threading.Condition()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self) -> None:
        for line in self.process.stdout:
            with self.changed:
                self.said.append(line.decode().rstrip("\n"))
                self.changed.notify_all()

    def send(self, script: str) -> None:
        self.process.stdin.write(script.encode())
        self.process.stdin.flush()

    def wait_for(self, text: str) -> str:
        """The first line that has it."""
        deadline = time.monotonic() + 60
        with self.changed:
            while True:
                found = next((line for line in self.said if text in line), None)
                if found is not None:
                    return found
                assert self.changed.wait(deadline - time.monotonic()), self.said

    def result(self) -> dict[str, str]:
        self.wait_for("MARK: end")
        return dict(re.findall(r"^(\w+)==(.*)==$", "\n".join(self.said), re.MULTILINE))

    def connect(self, port: int) -> socket.socket | None:
        """To the server, by the connection's SOCKS port; None where it does not listen."""
        link = socket.create_connection(("127.0.0.1", self.socks_port), timeout=60)
        link.sendall(b"\5\1\0")
        assert link.recv(2) == b"\5\0"
        host = b"127.0.0.1"
        link.sendall(b"\5\1\0\3" + bytes([len(host)]) + host + struct.pack("!H", port))
        if link.recv(10)[:2] == b"\5\0":
            return link
        link.close()
        return None

    def server_of(self, port: int) -> int:
        """Its process id, over a connection that goes both ways. It listens in a moment."""
        with eventually(lambda: self.connect(port)) as link:
            link.sendall(b"hello\n")
            pid, _, said = link.makefile().readline().partition(" ")
            assert said == "hello\n"
            return int(pid)

    def cut(self) -> None:
        """As a machine that sleeps, or a window that is closed."""
        self.process.kill()
        self.process.wait()

    def leave(self) -> int:
        self.process.stdin.close()
        return self.process.wait(timeout=30)


@contextlib.contextmanager
def window(ssh, shell: str = "sh"):
    one = Window(ssh, shell)
    try:
        yield one
    finally:
        if one.process.poll() is None:
            one.cut()
        one.process.stdout.close()
        one.process.stderr.close()


def send_server(ssh) -> None:
    """By a second connection beside the first one: no master is there to share."""
    sent = archive(*(member(f"server/{name}", data, mode=0o755) for name, data in (
        ("server.sh", SERVER.encode()), ("answer.sh", ANSWER.encode()),
        ("busybox", Path("/bin/busybox").read_bytes()))))  # static
    done = ssh.run(f"cat > {FOLDER}/sent.tar.gz && touch {FOLDER}/sent.done",
                   stdin=gzip.compress(sent))
    assert done.returncode == 0, done.stderr


def install_server(one: Window) -> tuple[int, int]:
    """The first window has it sent: the port and the process id of what runs then."""
    one.send(SCRIPT)
    one.wait_for("##NEEDS_SERVER##")
    send_server(one.ssh)
    port = int(one.result()["listeningOn"])
    return port, one.server_of(port)


@pytest.fixture(name="fresh")
def fresh_fixture(api, box):
    def clean() -> None:
        api.shell(box, f"kill -9 $(cat {FOLDER}/server.pid); rm -rf {FOLDER} /tmp/editor-remote*")
    clean()
    yield
    clean()


@pytest.mark.parametrize("shell", ["sh", "bash", "bash --login -c bash"])
def test_the_server_is_installed_started_and_reached(api, box, ssh, fresh, shell):
    with window(ssh, shell) as one:
        one.send(SCRIPT)
        one.wait_for("MARK: running")
        assert one.wait_for("##PLATFORM##") == "MARK##PLATFORM##Linux##x86_64##"
        one.wait_for("##NEEDS_SERVER##")
        # Somebody else who comes meanwhile is told to wait.
        with window(ssh) as other:
            other.send(SCRIPT)
            other.wait_for("##BUSY##")
            other.leave()
        send_server(ssh)
        told = one.result()
        assert told["osReleaseId"] == "debian" and told["SSH_AUTH_SOCK"] == ""
        port = int(told["listeningOn"])
        pid = one.server_of(port)
        # Many connections at once, as an editor has; the shell is still there for more.
        links = [one.connect(port) for _ in range(20)]
        for number, link in enumerate(links):
            link.sendall(b"%d\n" % number)
        for number, link in enumerate(links):
            assert link.makefile().readline() == f"{pid} {number}\n"
            link.close()
        one.send("echo more-$((1+1))\n")
        one.wait_for("more-2")
        assert api.output(box, f"test -e {FOLDER}/sent.tar.gz || echo gone") == "gone"
        assert one.leave() == 0
    # The end of the shell is not the server's.
    assert api.shell(box, f"kill -0 {pid}")["exit_code"] == 0


def test_a_window_that_was_cut_off_finds_its_server_again(api, box, ssh, fresh):
    with window(ssh) as one:
        port, pid = install_server(one)
        one.send("sleep 7766\n")  # what it is at when it is cut off
        eventually(lambda: api.shell(box, "pgrep -fx 'sleep 7766'")["exit_code"] == 0)
        one.cut()
    eventually(lambda: api.shell(box, "pgrep -fx 'sleep 7766'")["exit_code"] == 1, seconds=20,
               what="what used the connection is gone")
    for shell in ("sh", "bash"):
        with window(ssh, shell) as again:
            again.send(SCRIPT)
            told = again.result()
            assert any("##FOUND##" in line for line in again.said), again.said
            assert int(told["listeningOn"]) == port
            assert again.server_of(port) == pid
            again.cut()


def test_a_server_is_reached_by_a_second_connection(ssh, fresh):
    """-L of a connection of its own, without a command and without a master."""
    with window(ssh) as one:
        port, pid = install_server(one)
    local = instance.free_port()
    forward = ssh.start(options=["-N", "-T", "-L", f"{local}:127.0.0.1:{port}"])
    try:
        def answer() -> str | None:
            with contextlib.suppress(OSError), \
                    socket.create_connection(("127.0.0.1", local), timeout=20) as link:
                link.sendall(b"by -L\n")
                return link.makefile().readline()
        assert eventually(answer) == f"{pid} by -L\n"
    finally:
        forward.kill()
        forward.communicate()


def test_sockets_are_not_forwarded_and_that_is_said(ssh, tmp_path):
    local = tmp_path / "socket"
    forward = ssh.start("echo up; cat", options=["-T", "-L", f"{local}:/run/some.socket"])
    assert forward.stdout.readline() == b"up\n"
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(str(local))
        assert link.recv(1) == b""
    _, said = forward.communicate(timeout=30)
    assert b"open failed" in said, said
    remote = ssh.run("echo never", options=["-o", "ExitOnForwardFailure=yes", "-R",
                                            f"/tmp/there.socket:{local}"])
    assert remote.returncode == 255 and b"forwarding failed" in remote.stderr, remote.stderr
    # The connection bears it.
    assert ssh.run("echo fine", options=["-R", f"/tmp/there.socket:{local}"]).stdout == b"fine\n"
