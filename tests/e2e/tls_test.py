"""HTTPS with certificates that the test makes: the clients that people use, renewals, refusals."""

import asyncio
import hashlib
import json
import os
import shutil
import socket
import ssl
import subprocess
import threading

import pytest
from websockets.sync.client import connect

import certificates
from deployment import IMAGE, Api, eventually
from sandbox_gateway import AsyncGateway, ConnectionFailed, Gateway, InvalidRequest

LARGE = os.urandom(1 << 20) * 24


@pytest.fixture(scope="module")
def authority(deployed):
    folder = deployed.state / "tls"
    one = certificates.Authority(folder)
    folder.chmod(0o755)
    yield one
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def secure(deployed, authority):
    """The deployment with its gateway over HTTPS for as long as this module runs."""
    files = authority.folder / "gateway.pem", authority.folder / "gateway.key"
    authority.issue(*files)
    restart(deployed, {"tls-cert": str(files[0]), "tls-key": str(files[1])})
    deployed.certificate = files
    # httpx of these tests trusts the authority by the variable of OpenSSL.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(authority.ca_file))
        yield deployed
    restart(deployed, {})


def restart(one, options: dict) -> None:
    one.gateway.stop()
    one.settings.gateway_options = options
    one.start_gateway()


@pytest.fixture(scope="module")
def box(secure, authority):
    with Gateway(secure.url, secure.token, ca_file=authority.ca_file) as gateway:
        with gateway.create(IMAGE, cpus=1, memory_mb=256) as made:
            yield made


def curl(*argv) -> subprocess.CompletedProcess:
    return subprocess.run(["curl", "-sS", "--max-time", "60", *map(str, argv)],
                          capture_output=True, text=True)


def context(authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority.ca_file)


def shown_name(one) -> str:
    """The name in the certificate that a new connection is shown; "" when there is none."""
    try:
        pem = ssl.get_server_certificate(("127.0.0.1", one.settings.port), timeout=5)
    except OSError:
        return ""
    done = subprocess.run(["openssl", "x509", "-noout", "-subject", "-nameopt", "multiline"],
                          input=pem, capture_output=True, text=True, check=True)
    return done.stdout.rsplit("= ", 1)[1].strip()


# --- clients ---------------------------------------------------------------------------------

def test_curl_trusts_the_authority_and_nothing_else(secure, authority):
    done = curl("--cacert", authority.ca_file, "-w", "%{http_code} %{http_version}",
                f"{secure.url}/healthz")
    assert done.stdout.endswith("200 1.1"), done.stderr
    assert curl(f"{secure.url}/healthz").returncode == 60
    assert curl("-k", f"{secure.url}/healthz").returncode == 0


@pytest.mark.parametrize(("version", "works"), [("1.2", True), ("1.3", True)])
def test_versions_of_today(secure, authority, version, works):
    done = curl("--cacert", authority.ca_file, "--tls-max", version, f"--tlsv{version}",
                f"{secure.url}/healthz")
    assert (done.returncode == 0) == works


def test_tls_1_1_is_refused_by_the_gateway(secure):
    done = subprocess.run(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{secure.settings.port}", "-tls1_1",
         "-cipher", "ALL:@SECLEVEL=0"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode != 0
    assert "alert protocol version" in done.stderr


def test_plain_http_is_told(secure):
    done = curl("-w", "\n%{http_code}", f"http://127.0.0.1:{secure.settings.port}/healthz")
    body, status = done.stdout.rsplit("\n", 1)
    assert status == "400"
    assert json.loads(body)["error"]["code"] == "malformed"
    assert "HTTPS" in body


def test_the_metrics_stay_plain(secure):
    done = curl(f"http://127.0.0.1:{secure.settings.metrics_port}/metrics")
    assert "sandbox_gateway_" in done.stdout or "sandbox_" in done.stdout


def test_the_python_client(secure, authority, box, tmp_path):
    assert box.run(["echo", "hi"]).stdout == "hi\n"
    pieces = []
    box.run("for i in 1 2 3; do echo $i; done", on_stdout=pieces.append)
    assert "".join(pieces) == "1\n2\n3\n"
    box.fs.upload(LARGE, "/tmp/large")
    assert box.run(["sha256sum", "/tmp/large"]).stdout.split()[0] == \
        hashlib.sha256(LARGE).hexdigest()
    assert box.fs.download("/tmp/large") == LARGE
    counted = box.run(["wc", "-c"], stdin=LARGE)
    assert int(counted.stdout) == len(LARGE)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").write_text("x")
    box.fs.upload_dir(tmp_path / "folder", "/tmp/folder")
    box.fs.download_dir("/tmp/folder", tmp_path / "back")
    assert (tmp_path / "back" / "a").read_text() == "x"
    with pytest.raises(ConnectionFailed, match="(?i)certificate"):
        Gateway(secure.url, secure.token, ca_file=_system_bundle()).list()
    with pytest.raises(InvalidRequest):
        Gateway(secure.url, secure.token, ca_file="/nonexistent")
    assert Gateway(secure.url, secure.token, insecure=True).get(box.id).id == box.id


def _system_bundle() -> str:
    return "/etc/ssl/certs/ca-certificates.crt"


def test_the_asynchronous_client_and_the_variable(secure, authority, box, monkeypatch):
    async def work():
        async with AsyncGateway(secure.url, secure.token) as gateway:
            sandbox = await gateway.get(box.id)
            return (await sandbox.run(["id", "-u"])).exit_code

    monkeypatch.delenv("SSL_CERT_FILE")
    monkeypatch.setenv("SANDBOX_GATEWAY_CA_FILE", str(authority.ca_file))
    assert asyncio.run(work()) == 0


def test_the_command_line(secure, authority, box, sandbox_cli, tmp_path):
    trust = ("--ca-file", str(authority.ca_file))
    address = {"SANDBOX_GATEWAY_URL": secure.url}
    done = sandbox_cli("exec", box.id, *trust, "--", "cat", stdin=LARGE, env=address)
    assert done.stdout == LARGE, done.stderr
    by_variable = {**address, "SANDBOX_GATEWAY_CA_FILE": str(authority.ca_file)}
    started = sandbox_cli("sessions", "start", box.id, "--", "sh", "-c", "read x; echo got $x",
                          env=by_variable)
    session = started.stdout.decode().strip()
    attached = sandbox_cli("sessions", "attach", box.id, session, stdin=b"you\n", env=by_variable)
    assert b"got you" in attached.stdout, attached.stderr
    source = tmp_path / "file"
    source.write_bytes(LARGE)
    assert sandbox_cli("cp", *trust, str(source), f"{box.id}:/tmp/copied",
                       env=address).returncode == 0
    refused = sandbox_cli("list", env=address)
    assert refused.returncode == 125
    assert b"permission_denied" in refused.stderr and b"--ca-file" in refused.stderr
    assert sandbox_cli("list", "--insecure", env=address).returncode == 0
    missing = sandbox_cli("list", "--ca-file", "/nonexistent", env=address)
    assert missing.returncode == 125 and b"/nonexistent" in missing.stderr


def test_login_keeps_the_authority(secure, authority, sandbox_cli, monkeypatch):
    monkeypatch.chdir(authority.folder)
    alone = {"SANDBOX_GATEWAY_URL": "", "SANDBOX_GATEWAY_TOKEN": ""}
    done = sandbox_cli("login", secure.url, "--ca-file", "ca.pem", stdin=secure.token.encode(),
                       env=alone)
    assert done.returncode == 0, done.stderr
    monkeypatch.chdir("/")
    assert sandbox_cli("list", env=alone).returncode == 0


def test_websockets(secure, authority, box):
    url = f"{secure.url.replace('https', 'wss', 1)}/sandboxes/{box.id}/terminal"
    with connect(url, ssl=context(authority), close_timeout=1,
                 additional_headers={"authorization": f"Bearer {secure.token}"}) as link:
        link.send(b"\x00echo $((20 + 22))\n")
        seen = b""
        while b"42" not in seen:
            message = link.recv(timeout=30)
            seen += message if isinstance(message, bytes) else b""


# --- what a plain connection does, this one does too -------------------------------------------

def raw_connection(one, authority) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", one.settings.port), timeout=30)
    return context(authority).wrap_socket(plain, server_hostname="127.0.0.1")


def test_a_client_that_leaves_ends_its_command(secure, authority, box):
    body = json.dumps({"argv": ["sleep", "98765"]}).encode()
    link = raw_connection(secure, authority)
    link.sendall(f"POST /sandboxes/{box.id}/run HTTP/1.1\r\nhost: x\r\n"
                 f"authorization: Bearer {secure.token}\r\ncontent-type: application/json\r\n"
                 f"content-length: {len(body)}\r\n\r\n".encode() + body)

    def runs() -> bool:
        return "98765" in box.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o 'p [9]8765'"
                                   ).stdout

    eventually(runs)
    link.close()
    eventually(lambda: not runs())


def test_an_early_answer_reaches_a_client_that_still_sends(secure, authority):
    link = raw_connection(secure, authority)
    size = 40 << 20
    link.sendall(f"POST /sandboxes HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {secure.token}\r\n"
                 f"content-length: {size}\r\n\r\n".encode())

    def send() -> None:
        try:
            link.sendall(bytes(size))
        except OSError:
            pass

    sender = threading.Thread(target=send)
    sender.start()
    assert link.recv(12) == b"HTTP/1.1 413"
    sender.join()
    link.close()


def test_the_audit_log_has_the_clients_address(secure, box):
    rows = Api(secure).get(f"/sandboxes/{box.id}/audit-logs").json()["items"]
    assert {row["remote"] for row in rows if row.get("remote")} == {"127.0.0.1"}


def test_slow_handshakes_keep_nobody_out(secure, authority, box):
    slow = []
    try:
        for number in range(700):
            link = socket.create_connection(("127.0.0.1", secure.settings.port), timeout=30)
            link.sendall(b"\x16\x03"[:number % 3])
            slow.append(link)
        assert curl("--cacert", authority.ca_file, f"{secure.url}/readyz").returncode == 0
    finally:
        for link in slow:
            link.close()


# --- certificates ------------------------------------------------------------------------------

def test_a_renewal_disturbs_no_stream(secure, authority, box):
    session = box.sessions.start("while read line; do echo got $line; done")
    pieces = iter(session.logs(follow=True))
    session.write("one\n")
    assert next(pieces) == "got one\n"
    authority.issue(*secure.certificate, name="renewed")
    eventually(lambda: shown_name(secure) == "renewed")
    session.write("two\n", eof=True)
    assert "".join(pieces) == "got two\n"


def log_text(one) -> str:
    return one.log_tail("sandbox-gateway", 200_000)


def test_a_bad_renewal_leaves_the_old_pair(secure, authority):
    authority.issue(*secure.certificate, name="good")
    eventually(lambda: shown_name(secure) == "good")
    certificate, key = secure.certificate
    other = authority.folder / "other.pem", authority.folder / "other.key"
    for number, break_pair in enumerate((
            lambda: authority.issue(certificate, other[1], name="foreign"),
            lambda: certificate.write_text("no certificate\n"),
            lambda: key.write_text(""),
            lambda: authority.issue(certificate, key, name="expired", expired=True))):
        refused = log_text(secure).count("the new certificate is not used")
        break_pair()
        eventually(lambda: log_text(secure).count("the new certificate is not used") > refused)
        assert shown_name(secure) == "good", number
    authority.issue(certificate, key, name="mended")
    eventually(lambda: shown_name(secure) == "mended")


@pytest.mark.parametrize("case", ["key of another", "no file", "one alone", "rubbish"])
def test_a_start_with_a_bad_pair_says_why(secure, authority, tmp_path, case):
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    authority.issue(certificate, key)
    options = {"tls-cert": certificate, "tls-key": key}
    if case == "key of another":
        authority.issue(tmp_path / "other.pem", key)
    elif case == "no file":
        certificate.unlink()
    elif case == "one alone":
        del options["tls-key"]
    else:
        key.write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    flags = [f"--{name}={value}" for name, value in options.items()]
    for words in (["config", "check"], []):
        done = subprocess.run([secure.bin / "sandbox-gateway", *words, "--config=", *flags],
                              capture_output=True, text=True, timeout=20)
        assert done.returncode == 2
        assert "tls-" in done.stderr or "pem" in done.stderr, done.stderr
        assert "AAAA" not in done.stderr


def test_an_expired_certificate_is_served_with_a_warning_and_refused_by_clients(secure, authority):
    certificate, key = authority.folder / "old.pem", authority.folder / "old.key"
    authority.issue(certificate, key, expired=True)
    kept = secure.settings.gateway_options
    secure.gateway.stop()
    secure.settings.gateway_options = {"tls-cert": str(certificate), "tls-key": str(key)}
    try:
        secure.spawn_gateway()
        eventually(lambda: curl("-k", f"{secure.url}/healthz").returncode == 0)
        done = curl("--cacert", authority.ca_file, f"{secure.url}/healthz")
        assert done.returncode == 60 and "expired" in done.stderr
        assert "the certificate is not valid now" in log_text(secure)
    finally:
        secure.gateway.stop()
        secure.settings.gateway_options = kept
        secure.start_gateway()
