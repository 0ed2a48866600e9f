"""Files and ports over SSH: scp of both protocols, sftp, rsync, git, -L, -D, -R, -W."""

import contextlib
import hashlib
import http.client
import os
import socket
import subprocess
import threading
from pathlib import Path

import pytest

import deployment
import instance
import ssh_client
from deployment import eventually
from ssh_client import api_fixture, box_fixture, ssh_fixture  # noqa: F401


@pytest.fixture(scope="module", name="deployed")
def deployed_fixture():
    one = ssh_client.make_instance("shf", "10.221.0.0/16", 3_300_000)
    with ssh_client.running(one):
        yield one


def call(*argv, **options) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in argv], capture_output=True, timeout=120,
                          check=False, env=ssh_client.environment(), **options)


def make_tree(folder: Path) -> Path:
    tree = folder / "tree"
    (tree / "sub folder").mkdir(parents=True)
    (tree / "sub folder" / "it's").write_bytes(os.urandom(70_000))
    (tree / "run").write_text("#!/bin/sh\necho ran\n")
    (tree / "run").chmod(0o755)
    (tree / "empty").write_bytes(b"")
    (tree / "große").write_bytes(b"x")
    return tree


def contents(folder: Path) -> dict:
    return {str(path.relative_to(folder)): (path.stat().st_mode & 0o777, path.read_bytes())
            for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("protocol", [[], ["-O"]], ids=["sftp", "old"])
def test_scp_both_ways(api, box, ssh, tmp_path, protocol):
    tree, back = make_tree(tmp_path), tmp_path / "back"
    options, host = ssh.copy_target()
    api.shell(box, "rm -rf /root/copied")
    up = call("scp", *protocol, "-q", "-r", "-p", *options, tree, f"{host}:/root/copied")
    assert up.returncode == 0, up.stderr
    assert api.output(box, "/root/copied/run") == "ran"
    down = call("scp", *protocol, "-q", "-r", "-p", *options, f"{host}:/root/copied", back)
    assert down.returncode == 0, down.stderr
    assert contents(back) == contents(tree)
    missing = call("scp", *protocol, "-q", *options, f"{host}:/nosuch", tmp_path / "x")
    assert missing.returncode == 1 and b"No such file" in missing.stderr


def test_patterns_and_quoted_names_of_the_old_protocol(api, box, ssh, tmp_path):
    api.output(box, "mkdir -p '/root/p q'; for i in 1 2 3; do echo $i > '/root/p q/f'$i; done")
    options, host = ssh.copy_target()
    down = call("scp", "-O", "-q", *options, f"{host}:'/root/p q'/f*", tmp_path)
    assert down.returncode == 0, down.stderr
    assert sorted(path.name for path in tmp_path.glob("f?")) == ["f1", "f2", "f3"]
    (tmp_path / "up").write_text("up")
    up = call("scp", "-O", "-q", *options, tmp_path / "up", f"{host}:'/root/p q/'")
    assert up.returncode == 0, up.stderr
    assert api.output(box, "cat '/root/p q/up'; rm -r '/root/p q'") == "up"


def test_scp_of_a_large_file(api, box, ssh, tmp_path):
    large = tmp_path / "large"
    large.write_bytes(os.urandom(1 << 20) * 64)
    digest = hashlib.sha256(large.read_bytes()).hexdigest()
    options, host = ssh.copy_target()
    assert call("scp", "-q", *options, large, f"{host}:/root/large").returncode == 0
    assert api.output(box, "sha256sum < /root/large").split()[0] == digest
    assert call("scp", "-q", *options, f"{host}:/root/large", tmp_path / "back").returncode == 0
    assert hashlib.sha256((tmp_path / "back").read_bytes()).hexdigest() == digest
    api.output(box, "rm /root/large")


def test_sftp_in_a_batch(api, box, ssh, tmp_path):
    (tmp_path / "file").write_text("from here\n")
    options, host = ssh.copy_target()
    batch = "\n".join(["mkdir /root/sftp", f"put {tmp_path}/file '/root/sftp/a b'",
                       "rename '/root/sftp/a b' /root/sftp/c", "symlink c /root/sftp/link",
                       "chmod 640 /root/sftp/c", "ls -l /root/sftp", "df /root/sftp",
                       f"get /root/sftp/link {tmp_path}/back", "rm /root/sftp/*",
                       "rmdir /root/sftp"])
    done = call("sftp", "-q", "-b", "-", *options, host, input=batch.encode())
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "back").read_text() == "from here\n"
    assert b"-rw-r-----" in done.stdout
    assert call("sftp", "-q", "-b", "-", *options, host, input=b"ls /nosuch\n").returncode == 1


def test_sftp_with_new_keys_in_mid_transfer(ssh, tmp_path):
    data = tmp_path / "data"
    data.write_bytes(os.urandom(6 << 20))
    options, host = ssh.copy_target()
    done = call("sftp", "-q", "-b", "-", "-o", "RekeyLimit=500K", *options, host,
                input=f"put {data} /tmp/rekey\nget /tmp/rekey {tmp_path}/back\n".encode())
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "back").read_bytes() == data.read_bytes()


def test_rsync(api, box, ssh, tmp_path):
    ssh_client.bring_program(api, box, "/usr/bin/rsync")
    tree, back = make_tree(tmp_path), tmp_path / "back"
    told = ssh.session()
    shell = " ".join(["ssh", *ssh.options, "-p", str(told["port"]), "-l", told["token"]])
    for _ in range(2):
        up = call("rsync", "-a", "--delete", "-e", shell, f"{tree}/",
                  f"{told['host']}:/root/synced")
        assert up.returncode == 0, up.stderr
        (tree / "empty").unlink(missing_ok=True)
    assert call("rsync", "-a", "-e", shell, f"{told['host']}:/root/synced/", back).returncode == 0
    assert contents(back) == contents(tree)


# --- ports ---------------------------------------------------------------------------------------

@contextlib.contextmanager
def serving(api, box: str, port: int):
    """An HTTP server inside, on its loopback."""
    ssh_client.bring_program(api, box, "/bin/busybox")
    api.output(box, "mkdir -p /srv && printf inside > /srv/index.html")
    session = api.post(f"/sandboxes/{box}/sessions", {
        "argv": ["/bin/busybox", "httpd", "-f", "-p", f"127.0.0.1:{port}", "-h", "/srv"]})
    assert session.status_code == 201, session.text
    try:
        yield
    finally:
        api.delete(f"/sandboxes/{box}/sessions/{session.json()['id']}")


def fetch(port: int, host: str = "127.0.0.1") -> bytes:
    connection = http.client.HTTPConnection(host, port, timeout=20)
    connection.request("GET", "/")
    return connection.getresponse().read()


@contextlib.contextmanager
def forwarding(ssh, *options: str):
    process = ssh.start(options=["-N", "-o", "ExitOnForwardFailure=yes", *options])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def test_a_local_port_and_one_that_is_closed(api, box, ssh):
    port, closed = instance.free_port(), instance.free_port()
    with serving(api, box, 8081), forwarding(
            ssh, "-L", f"{port}:localhost:8081", "-L", f"{closed}:127.0.0.1:1") as process:
        eventually(lambda: listens(port))
        assert fetch(port) == b"inside"
        results = []
        threads = [threading.Thread(target=lambda: results.append(fetch(port)))
                   for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [b"inside"] * 20
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            fetch(closed)
        assert fetch(port) == b"inside" and process.poll() is None


def test_a_port_inside_leads_out(api, box, ssh):
    with socket.create_server(("127.0.0.1", 0)) as server:
        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = server.accept()
                    with client:
                        client.recv(100)
                        client.sendall(b"outside")
        threading.Thread(target=serve, daemon=True).start()
        with forwarding(ssh, "-R", f"8090:127.0.0.1:{server.getsockname()[1]}"):
            read = ("exec 3<>/dev/tcp/127.0.0.1/8090 && echo x >&3 && cat <&3")
            told = eventually(lambda: api.shell(box, f"bash -c '{read}' 2>/dev/null")["stdout"])
            assert told == "outside"
    eventually(lambda: api.shell(box, "bash -c '</dev/tcp/127.0.0.1/8090' 2>/dev/null")[
        "exit_code"] != 0, what="the port is given back")


def test_a_jump_over_the_sandbox(api, box, ssh):
    """What ProxyJump does: -W."""
    with serving(api, box, 8082):
        eventually(lambda: api.shell(box, "bash -c '</dev/tcp/127.0.0.1/8082'")["exit_code"] == 0)
        done = ssh.run(options=["-W", "127.0.0.1:8082"], stdin=b"GET / HTTP/1.0\r\n\r\n")
        assert b"inside" in done.stdout
    assert ssh.run(options=["-W", "127.0.0.1:1"]).returncode == 255


def test_a_proxy_of_any_address(api, box, ssh):
    port = instance.free_port()
    with serving(api, box, 8083), forwarding(ssh, "-D", str(port)):
        eventually(lambda: listens(port))
        with socket.create_connection(("127.0.0.1", port), 20) as client:
            client.sendall(b"\x05\x01\x00")
            assert client.recv(2) == b"\x05\x00"
            client.sendall(b"\x05\x01\x00\x03\x09localhost" + (8083).to_bytes(2, "big"))
            assert client.recv(10)[1] == 0
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            told = b""
            while piece := client.recv(1000):
                told += piece
            assert told.endswith(b"inside")


def test_an_editors_first_steps(api, box, ssh, tmp_path):
    """As VS Code's Remote-SSH begins: a script on sh's input, a tar, a port of what it started."""
    options = ["-o", f"ControlPath={tmp_path}/m", "-o", "ControlMaster=auto",
               "-o", "ControlPersist=30"]
    script = b"""
set -e
echo start: running; uname -s; uname -m; echo $HOME; mkdir -p ~/.editor-server/bin
tar -C ~/.editor-server -xf - <<'END' 2>/dev/null || true
END
echo ready
"""
    done = ssh.run("-T", "sh", stdin=script, options=options)
    assert done.returncode == 0 and b"ready" in done.stdout, done.stderr
    tree = make_tree(tmp_path)
    packed = subprocess.run(["tar", "-C", tree, "-czf", "-", "."], capture_output=True,
                            check=True).stdout
    done = ssh.run("tar -C ~/.editor-server/bin -xzf - && ~/.editor-server/bin/run",
                   stdin=packed, options=options)
    assert done.stdout == b"ran\n", done.stderr
    port = instance.free_port()
    with serving(api, box, 8084):
        assert ssh.run(options=[*options, "-O", "forward", "-L",
                                f"{port}:127.0.0.1:8084"]).returncode == 0
        eventually(lambda: fetch(port) == b"inside")
    ssh.run(options=[*options, "-O", "exit"])
