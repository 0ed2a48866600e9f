"""Secrets and ssh keys of a build: they reach the steps that mount them, and nothing else."""

import base64
import json
import os
import secrets
import stat
import subprocess
from pathlib import Path

import pytest

import sandbox_gateway
from deployment import error_of, eventually
from image_builds import (WAIT, bb, clean, log_of, needs_builder, output,  # noqa: F401
                          root_of_builder, tar_of)

pytestmark = needs_builder

PIECE = 1 << 20
# Asks the agent for its keys, as ssh-add -l does, and prints how many there are.
AGENT_CLIENT = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
int main(void) {
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  strncpy(to.sun_path, getenv("SSH_AUTH_SOCK"), sizeof to.sun_path - 1);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  unsigned char answer[9];
  if (connect(fd, (struct sockaddr*)&to, sizeof to) || write(fd, "\0\0\0\1\13", 5) != 5) return 1;
  for (size_t have = 0; have < sizeof answer;) {
    ssize_t got = read(fd, answer + have, sizeof answer - have);
    if (got <= 0) return 2;
    have += got;
  }
  printf("%d keys\n", answer[8]);
}
"""


def coded(**values: bytes) -> str:
    return json.dumps({name.replace("_", "-"): base64.b64encode(value).decode()
                       for name, value in values.items()})


def post(api, dockerfile: str, headers: dict, files: dict | None = None):
    context = tar_of({"Dockerfile": dockerfile.encode(), **(files or {})})
    return api.http.post("/builds", params={"wait": WAIT}, content=context, timeout=WAIT + 60,
                         headers={"Content-Type": "application/x-tar", **headers})


def built(api, dockerfile: str, headers: dict, files: dict | None = None) -> dict:
    answer = post(api, dockerfile, headers, files)
    row = answer.json()
    assert answer.status_code == 201 and row["state"] == "succeeded", (row, log_of(api, row))
    return row


def data_of(fd: int) -> list[tuple[int, int]]:
    """Where a file's data begins and ends, without its holes; asked before anything is read, since
    what is read ahead of a preallocated hole counts as data from then on."""
    ranges, end = [], 0
    while True:
        try:
            begin = os.lseek(fd, end, os.SEEK_DATA)
        except OSError:
            return ranges  # nothing but a hole behind it
        end = os.lseek(fd, begin, os.SEEK_HOLE)
        ranges.append((begin, end))


def holds(path: Path, values: list[bytes]) -> bool:
    """Whether one of the values stands anywhere in the file's data."""
    piece = bytearray(PIECE + max(map(len, values)))
    with path.open("rb", buffering=0) as file:
        for begin, end in data_of(file.fileno()):
            for at in range(begin, end, PIECE):
                count = os.preadv(file.fileno(), [piece], at)
                if any(piece.find(value, 0, count) >= 0 for value in values):
                    return True
    return False


def files_of(folder: Path):
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            if stat.S_ISREG(path.lstat().st_mode):
                yield path


def found_of(values: list[bytes], *folders: Path) -> list[str]:
    """Where one of the values is: files, arguments and environments of processes. This process has
    them in its memory only."""
    os.sync()
    found = []
    for folder in folders:
        for path in files_of(folder):
            try:
                if holds(path, values):
                    found.append(str(path))
            except FileNotFoundError:
                pass
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                text = (process / name).read_bytes()
            except OSError:
                continue
            if any(value in text for value in values):
                found.append(f"{process / name}: {text[:80]!r}")
    return found


def test_a_secret_is_where_it_is_mounted_and_nowhere_else(api, bb, deployed, demo_layer):
    value = secrets.token_hex(24).encode()
    other = secrets.token_hex(24).encode()
    no_secret = secrets.token_hex(24).encode()
    row = built(api, f"""FROM {bb}
RUN echo {no_secret.decode()} > /no-secret
RUN --mount=type=secret,id=token wc -c < /run/secrets/token > /size
RUN --mount=type=secret,id=token,target=/tmp/t,uid=1000,mode=0400 stat -c '%u %a' /tmp/t > /mode
RUN --mount=type=secret,id=o-ther,env=OTHER echo ${{#OTHER}} > /length && sleep 1
RUN --mount=type=secret,id=none test ! -e /run/secrets/none
RUN test ! -e /run/secrets/token && test -z "$OTHER"
""", {"X-Build-Secrets": coded(token=value, o_ther=other)})
    assert output(api, row["image"], "cat /size /mode /length").splitlines() == [
        "48", "1000 400", "48"]
    # Plain, and as it came in the header.
    values = [form for secret in (value, other) for form in (secret, base64.b64encode(secret))]
    for path in (f"/builds/{row['id']}", f"/builds/{row['id']}/logs", "/audit-logs", "/builds"):
        text = api.get(path).content
        assert not any(form in text for form in values), path
    root = root_of_builder(deployed)
    assert eventually(lambda: not list((root / "dev/shm").iterdir()))
    # The state of the instance: store, logs, image store, and the pool that the builder lies in.
    places = [deployed.state, root / "state", root / "dev/shm", root / "run", root / "tmp"]
    planted = deployed.state / "planted"
    planted.write_bytes(b"\0" * 5000 + values[1])
    assert found_of(values, *places) == [str(planted)], "what is there is found, and nothing else"
    planted.unlink()
    assert holds(deployed.state / "lib/storage.img", [no_secret]), "what steps write is in the pool"


def test_a_build_that_waits_or_fails_leaves_no_secret(api, bb, deployed):
    value = secrets.token_hex(24).encode()
    answer = post(api, f"FROM {bb}\nRUN --mount=type=secret,id=x false\n",
                  {"X-Build-Secrets": coded(x=value)})
    assert answer.json()["reason"] == "step_failed", answer.text
    answer = post(api, "FROM e2e-none-such\nRUN --mount=type=secret,id=x true\n",
                  {"X-Build-Secrets": coded(x=value)})
    assert answer.json()["state"] == "failed", answer.text  # no session has taken it
    root = root_of_builder(deployed)
    assert eventually(lambda: not list((root / "dev/shm").iterdir()))
    assert found_of([value, base64.b64encode(value)], root / "state", root / "dev/shm") == []


def test_a_secret_is_not_in_the_digest(api, bb):
    text = f"FROM {bb}\nRUN --mount=type=secret,id=x wc -c < /run/secrets/x > /n\n"
    first = built(api, text, {"X-Build-Secrets": coded(x=b"1")})
    again = post(api, text, {"X-Build-Secrets": coded(x=b"22")})
    assert again.status_code == 200 and again.json()["id"] == first["id"]
    missing = post(api, f"FROM {bb}\nRUN --mount=type=secret,id=y,required=true true\n", {})
    row = missing.json()
    assert row["state"] == "failed" and "y" in row["message"], row


@pytest.fixture(scope="module")
def agent_client(tmp_path_factory) -> bytes:
    folder = tmp_path_factory.mktemp("agent")
    (folder / "client.c").write_text(AGENT_CLIENT)
    subprocess.run(["clang-19", "-static", "-O1", "-o", folder / "client", folder / "client.c"],
                   check=True)
    return (folder / "client").read_bytes()


@pytest.fixture(scope="module")
def private_key() -> bytes:
    return subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519"], capture_output=True,
                          check=True).stdout


def test_a_key_is_an_agent_inside(api, bb, deployed, agent_client, private_key):
    text = f"""FROM {bb}
COPY --chmod=755 client /client
RUN --mount=type=ssh /client > /keys
RUN --mount=type=ssh,id=deploy /client >> /keys
RUN test -z "$SSH_AUTH_SOCK"
"""
    keys = coded(default=private_key, deploy=private_key)
    row = built(api, text, {"X-Build-Ssh": keys}, {"client": agent_client})
    assert output(api, row["image"], "cat /keys").splitlines() == ["1 keys", "1 keys"]
    middle = private_key.splitlines()[1]
    root = root_of_builder(deployed)
    assert found_of([middle, base64.b64encode(private_key)], deployed.state, root / "state",
                    root / "dev/shm") == []
    required = post(api, f"FROM {bb}\nRUN --mount=type=ssh,required=true true\n", {}).json()
    assert required["state"] == "failed" and "SSH" in required["message"], required
    bad = post(api, text, {"X-Build-Ssh": coded(default=b"no key")}, {"client": b"1"}).json()
    assert bad["reason"] == "ssh_key_invalid" and "default" in bad["message"], bad


def test_wrong_secrets_are_refused(api):
    for name in ("X-Build-Secrets", "X-Build-Ssh"):
        for text in ("hunter2", "[]", '{"x": "hunter2!"}', '{"../x": ""}', '{"x": 1}',
                     coded(x=b"1" * (16 * 1024 + 1)), json.dumps({f"i{i}": "" for i in range(33)})):
            answer = post(api, "FROM scratch\n", {name: text})
            assert error_of(answer) == (422, "invalid_field"), answer.text
            assert answer.json()["error"]["details"]["field"] == name
            assert "hunter2" not in answer.text
    twice = api.http.post("/builds", content=b"", headers=[("X-Build-Secrets", "{}")] * 2)
    assert error_of(twice) == (422, "invalid_field")


def test_the_clients_read_secrets_here(api, deployed, bb, sandbox_cli, tmp_path, agent_client,
                                       private_key):
    value = secrets.token_hex(8)
    (tmp_path / "token").write_text(value)
    (tmp_path / "key").write_bytes(private_key)
    project = tmp_path / "project"
    project.mkdir()
    (project / "client").write_bytes(agent_client)
    check = (f"test $(cat /run/secrets/a) = {value} && test \"$B\" = {value} && "
             "/client | grep '1 keys'")
    (project / "Dockerfile").write_text(
        f"FROM {bb}\nARG N\nCOPY --chmod=755 client /client\nRUN --mount=type=secret,id=a "
        f"--mount=type=secret,id=b,env=B --mount=type=ssh {check}\n")
    done = sandbox_cli("build", str(project), "--build-arg", "N=1",
                       "--secret", f"id=a,src={tmp_path / 'token'}", "--secret", "id=b,env=VALUE",
                       "--ssh", f"default={tmp_path / 'key'}", env={"VALUE": value})
    assert done.returncode == 0, done.stderr
    bad = sandbox_cli("build", str(project), "--secret", "id=b,env=NO_SUCH_VARIABLE")
    assert bad.returncode == 125 and b"NO_SUCH_VARIABLE" in bad.stderr
    bad = sandbox_cli("build", str(project), "--ssh", "default")
    assert bad.returncode == 125 and b"KEYFILE" in bad.stderr
    with sandbox_gateway.Gateway(deployed.url, deployed.token) as gateway:
        started = gateway.builds.start(
            project, args={"N": "2"}, ssh={"default": tmp_path / "key"},
            secrets={"a": tmp_path / "token", "b": value})
        assert gateway.builds.wait(started.id, timeout=WAIT).state == "succeeded"
