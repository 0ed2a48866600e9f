"""Byte streams into a sandbox: ports, sockets and listeners, and SFTP and scp by OpenSSH's own
clients, in an image that has nothing at all too."""

import asyncio
import concurrent.futures
import hashlib
import os
import signal
import socket
import subprocess

import pytest

import byte_streams
import sandbox_gateway
from byte_streams import Refused
from deployment import eventually
from tar_files import archive, folder, member

PORT = 7000


def stream(api, box, target, body=None):
    return byte_streams.open_stream(api.instance.url, api.instance.token,
                                    f"/sandboxes/{box}/streams/{target}", body)


def refusal(api, box, target, body=None) -> Refused:
    with pytest.raises(Refused) as caught:
        stream(api, box, target, body).close()
    return caught.value


def read_all(link) -> bytes:
    data = b""
    while piece := link.recv(1 << 20):
        data += piece
    return data


@pytest.fixture(scope="module")
def bare(api):
    """A sandbox of an image with two users and their folders, and no program."""
    image = archive(
        folder("root", 0o700), folder("tmp", 0o1777), folder("home/node", uid=1000, gid=1000),
        folder("etc"), folder("proc"), folder("dev"),
        member("etc/passwd", b"root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n"),
        member("etc/group", b"root:x:0:\nnode:x:1000:\n"))
    answer = api.http.post("/images?name=nothing-in-it", content=image)
    assert answer.status_code in (200, 201), answer.text
    made = api.create("nothing-in-it")["id"]
    yield made
    api.remove(made)
    api.delete("/images/nothing-in-it")


def serve_digests(api, box) -> None:
    """On PORT: who says something and closes its side gets the digest of that."""
    with open("/bin/busybox", "rb") as program:  # static
        written = api.http.put(f"/sandboxes/{box}/files?path=/tmp/busybox&mode=0755",
                               content=program.read())
    assert written.status_code in (200, 201), written.text
    api.post(f"/sandboxes/{box}/sessions", {"argv": [
        "/tmp/busybox", "nc", "-ll", "-p", str(PORT), "-e", "/usr/bin/sha256sum"]})
    connect = f": > /dev/tcp/127.0.0.1/{PORT}"
    eventually(lambda: api.run(box, "bash", "-c", connect)["exit_code"] == 0, what="the service")


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def digest_by(link: socket.socket, data: bytes) -> str:
    """What the service says of it."""
    with link:
        link.sendall(data)
        link.shutdown(socket.SHUT_WR)
        return read_all(link).decode().split()[0]


def test_a_port_forwarded_by_the_python_client(api, box):
    serve_digests(api, box)
    data = os.urandom(3_000_000)
    right = hashlib.sha256(data).hexdigest()
    with sandbox_gateway.Gateway(api.instance.url, api.instance.token) as gateway:
        sandbox = gateway.get(box)
        gone = sandbox_gateway.Sandbox(gateway, {**sandbox.data, "id": "sbx-none"})
        with pytest.raises(sandbox_gateway.NotFound), gone.forward(PORT):
            pass
        with sandbox.forward(PORT) as forward, sandbox.forward(1) as closed:
            assert forward.address == f"127.0.0.1:{forward.port}" and forward.error is None
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                digests = pool.map(lambda _: digest_by(connect(forward.port), data), range(16))
                assert set(digests) == {right}
            with connect(closed.port) as link:
                assert read_all(link) == b""
            assert eventually(lambda: closed.error).details["reason"] == "refused"
            held = connect(forward.port)
            held.sendall(b"x")
        # With the block its connections end, and nobody listens any more.
        with held:
            assert read_all(held) == b""
        with pytest.raises(ConnectionRefusedError):
            connect(forward.port)

    async def main():
        async with sandbox_gateway.AsyncGateway(api.instance.url, api.instance.token) as gateway:
            async with (await gateway.get(box)).forward(PORT, host="127.0.0.1") as forward:
                return await asyncio.to_thread(lambda: digest_by(connect(forward.port), data))

    assert asyncio.run(main()) == right


def test_bytes_and_half_closes_pass_to_a_port_by_any_of_its_names(api, box):
    serve_digests(api, box)
    data = os.urandom(3_000_000)
    wanted = hashlib.sha256(data).hexdigest()
    assert digest_by(stream(api, box, f"tcp?port={PORT}"), data) == wanted
    api.output(box, "echo 127.0.0.1 service.internal >> /etc/hosts")
    by_name = f"tcp?port={PORT}&host=service.internal"
    assert digest_by(stream(api, box, by_name), data) == wanted
    rows = api.get(f"/sandboxes/{box}/audit-logs?event=stream.tcp").json()["items"]
    assert rows[0]["details"]["port"] == str(PORT)
    assert rows[0]["details"]["host"] == "service.internal"


def test_the_command_line_forwards_ports(api, box, sandbox_cli):
    serve_digests(api, box)
    with subprocess.Popen([sandbox_cli.program, "forward", box, f":{PORT}", ":1"],
                          env=sandbox_cli.environment, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as forward:
        ports = [int(forward.stdout.readline().split(":")[1]) for _ in range(2)]
        data = os.urandom(3_000_000)
        links = [connect(ports[0]) for _ in range(5)]  # all at once
        assert {digest_by(link, data) for link in links} == {hashlib.sha256(data).hexdigest()}
        with connect(ports[1]) as link:
            assert read_all(link) == b""
        assert "refused" in forward.stderr.readline()
        forward.send_signal(signal.SIGINT)
        assert forward.wait(timeout=30) == 0
    assert sandbox_cli("forward", "none", "80").returncode == 125
    assert sandbox_cli("forward", box, "nonsense").returncode == 125


def test_what_cannot_be_reached_is_told(api, shared_box):
    refused = refusal(api, shared_box, "tcp?port=1")
    assert (refused.status, refused.error["details"]["reason"]) == (409, "refused")
    unknown = refusal(api, shared_box, "tcp?port=1&host=not_a..name")
    assert (unknown.status, unknown.error["details"]["reason"]) == (409, "name_not_found")
    missing = refusal(api, shared_box, "unix?path=/none")
    assert (missing.status, missing.error["details"]["reason"]) == (409, "not_found")
    assert refusal(api, shared_box, "tcp").status == 422
    assert refusal(api, shared_box, "tcp?port=80&x=1").status == 422
    assert refusal(api, shared_box, "accept?listener=l9&connection=1").status == 404
    assert refusal(api, "none", "tcp?port=80").status == 404
    plain = api.get(f"/sandboxes/{shared_box}/streams/tcp?port=80")
    assert plain.status_code == 400, plain.text


def test_a_listener_hands_its_connections_over_and_goes_with_its_stream(api, box):
    with stream(api, box, "listen?port=0") as control, control.makefile("r") as lines:
        first = byte_streams.json.loads(lines.readline())
        listening = f"grep -ci ':{first['port']:04x} 00000000:0000 0a ' /proc/net/tcp"
        assert api.shell(box, listening)["stdout"].strip() == "1"
        call = f"exec 3<>/dev/tcp/127.0.0.1/{first['port']}; printf inside >&3; head -c 7 <&3"
        session = api.post(f"/sandboxes/{box}/sessions", {"argv": ["bash", "-c", call]}).json()
        came = byte_streams.json.loads(lines.readline())
        with stream(api, box, f"accept?listener={first['listener']}"
                              f"&connection={came['connection']}") as link:
            assert link.recv(100) == b"inside"
            link.sendall(b"outside")
            assert read_all(link) == b"", "it had what it wanted and ended"
        logs = f"/sandboxes/{box}/sessions/{session['id']}/logs"
        assert eventually(lambda: api.get(logs).text) == "outside"
    eventually(lambda: api.shell(box, listening)["stdout"].strip() == "0", what="no listener")


def test_an_open_stream_keeps_the_lease_and_dies_with_the_sandbox(api):
    box = api.create()["id"]
    with stream(api, box, "helper", {"helper": "sftp"}) as link:
        assert api.get(f"/sandboxes/{box}/activity").json()["running_commands"] == 1
        api.remove(box)
        assert read_all(link) == b""


def sftp(folder, api, box, script: str, check=True, **body) -> subprocess.CompletedProcess:
    program = byte_streams.program(folder, api, f"/sandboxes/{box}/streams/helper",
                                   {"helper": "sftp", **body})
    environment = {**os.environ, "SANDBOX_GATEWAY_TOKEN": api.instance.token}
    done = subprocess.run(["sftp", "-b", "-", "-D", program], input=script, text=True,
                          capture_output=True, timeout=120, check=False, cwd=folder,
                          env=environment)
    assert not check or done.returncode == 0, done.stderr
    return done


def test_openssh_sftp_in_an_image_without_any_program(api, bare, tmp_path):
    data = os.urandom(5_000_000)
    (tmp_path / "up").write_bytes(data)
    (tmp_path / "it's one").write_text("odd")
    (tmp_path / "tree/a/b").mkdir(parents=True)
    (tmp_path / "tree/a/b/f").write_text("deep")
    shown = sftp(tmp_path, api, bare, """
cd /tmp
put up one
put "it's one"
put -r tree
chmod 640 one
ln -s one link
ln one hard
rename one two
get two down
get "it's one" odd
get -r tree back
mkdir d
rmdir d
rm hard
df .
ls -la
""").stdout
    assert (tmp_path / "down").read_bytes() == data
    assert (tmp_path / "odd").read_text() == "odd"
    assert (tmp_path / "back/a/b/f").read_text() == "deep"
    assert "-rw-r-----" in shown and " link" in shown and "hard" not in shown.split("ls -la")[1]
    (tmp_path / "down").write_bytes(data[:1_000_000])
    sftp(tmp_path, api, bare, "reget /tmp/two down\nrm /tmp/two\nrm /tmp/link\n")
    assert (tmp_path / "down").read_bytes() == data


def test_sftp_has_the_rights_of_its_user(api, bare, tmp_path):
    (tmp_path / "f").write_text("x")
    denied = sftp(tmp_path, api, bare, "put f /root/f\n", check=False, user="node")
    assert denied.returncode != 0 and "ermission denied" in denied.stderr
    sftp(tmp_path, api, bare, "put f here\nls -l here\n", user="node", cwd="/home/node")
    listing = api.get(f"/sandboxes/{bare}/files?path=/home/node&list=1").json()["items"]
    assert [(row["name"], row["uid"]) for row in listing] == [("here", 1000)]
    refused = refusal(api, bare, "helper", {"helper": "sftp", "user": "nobody"})
    assert refused.error["code"] == "user_unknown"
    refused = refusal(api, bare, "helper", {"helper": "sftp", "cwd": "/none"})
    assert refused.error["code"] == "cwd_invalid"


def test_ten_thousand_names(api, box, tmp_path):
    api.output(box, "mkdir /many && cd /many && seq -f n%05.0f 10000 | xargs touch")
    listed = sftp(tmp_path, api, box, "ls -1 /many\n").stdout.splitlines()
    assert len([line for line in listed if line.startswith("/many/n")]) == 10_000


def scp(folder, api, box, *words: str, **body) -> subprocess.CompletedProcess:
    program = byte_streams.program(folder, api, f"/sandboxes/{box}/streams/helper",
                                   {"helper": "scp", **body})
    environment = {**os.environ, "SANDBOX_GATEWAY_TOKEN": api.instance.token}
    return subprocess.run(["scp", "-O", "-S", program, *words], capture_output=True, text=True,
                          timeout=120, check=False, cwd=folder, env=environment)


def test_the_old_scp_protocol_both_ways(api, bare, tmp_path):
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "big").write_bytes(os.urandom(3_000_000))
    (tree / "sub" / "small").write_text("small")
    (tree / "sub" / "small").chmod(0o600)
    up = scp(tmp_path, api, bare, "-r", "-p", "tree", "host:/tmp/copy")
    assert up.returncode == 0, up.stderr
    down = scp(tmp_path, api, bare, "-r", "-p", "host:/tmp/copy", "back")
    assert down.returncode == 0, down.stderr
    assert (tmp_path / "back/big").read_bytes() == (tree / "big").read_bytes()
    assert (tmp_path / "back/sub/small").stat().st_mode & 0o777 == 0o600
    some = scp(tmp_path, api, bare, "host:/tmp/copy/b*", "globbed")
    assert some.returncode == 0, some.stderr
    assert hashlib.sha256((tmp_path / "globbed").read_bytes()).digest() == hashlib.sha256(
        (tree / "big").read_bytes()).digest()
    missing = scp(tmp_path, api, bare, "host:/tmp/none", "x")
    assert missing.returncode != 0 and "No such file" in missing.stderr
    denied = scp(tmp_path, api, bare, "tree/big", "host:/root/x", user="node")
    assert denied.returncode != 0 and "ermission denied" in denied.stderr


def test_a_helper_as_a_session_and_as_exec(api, bare):
    hello = bytes([0, 0, 0, 5, 1, 0, 0, 0, 3])
    answer = api.http.post(f"/sandboxes/{bare}/exec", content=b'{"helper":"sftp"}\n' + hello)
    assert answer.status_code == 200 and answer.headers["x-return-code"] == "0", answer.text
    assert b"posix-rename@openssh.com" in answer.content
    session = api.post(f"/sandboxes/{bare}/sessions", {"helper": "scp", "argv": ["-t", "/tmp"]})
    assert session.status_code == 201, session.text
    assert session.json()["argv"] == ["scp", "-t", "/tmp"]
    path = f"/sandboxes/{bare}/sessions/{session.json()['id']}"
    api.http.post(f"{path}/stdin?eof=1", content=b"C0644 2 ../x\n")
    ended = api.get(f"{path}?wait=30").json()
    assert (ended["state"], ended["exit_code"]) == ("exited", 1)
    assert "unexpected filename" in api.get(f"{path}/logs").text
    for body in ({"helper": "x"}, {"helper": "sftp", "argv": ["x"]}, {"helper": "scp"},
                 {"helper": "sftp", "command": "x"}):
        assert api.post(f"/sandboxes/{bare}/run", body).status_code == 422
