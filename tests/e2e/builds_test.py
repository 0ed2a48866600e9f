"""Image builds: from a context to a sandbox, by a builder with namespaces of its own."""

import contextlib
import gzip
import signal
import threading
import urllib.parse

import pytest

import sandbox_gateway
from deployment import error_of, eventually
from image_builds import (WAIT, bb, build, clean, failed, log_of, needs_builder,  # noqa: F401
                          output, post, tar_of)

pytestmark = needs_builder


def test_a_built_image_is_a_sandbox(api, bb):
    row = build(api, f"FROM {bb}\nENV GREETING=hello\nWORKDIR /srv/app\nCOPY a.txt .\n"
                     "RUN echo built > made && ls -n made > owner\nUSER 1000\n", {"a.txt": b"A\n"})
    assert row["image"] == f"build:{row['digest']}" and len(row["digest"]) == 64
    assert row["progress"]["percent"] == 100 and not row["cached"]
    out = output(api, row["image"], "pwd; cat a.txt made; echo $GREETING; id -u")
    assert out.splitlines() == ["/srv/app", "A", "built", "hello", "1000"]
    listed = api.get(f"/images/{urllib.parse.quote(row['image'], safe='')}").json()
    assert listed["source"] == "build" and listed["config"]["workdir"] == "/srv/app"
    assert "RUN echo built" in log_of(api, row)
    assert row["id"] in [one["id"] for one in api.get("/builds").json()["items"]]
    events = [one for one in api.get("/audit-logs?event=build.create").json()["items"]]
    assert events and events[0]["details"]["build"] == row["id"]


def test_the_same_content_is_built_once(api, bb):
    dockerfile = f"FROM {bb}\nCOPY . /x\nRUN touch /once\n"
    first = build(api, dockerfile, {"f": b"1", "d": None})
    text = dockerfile.encode()
    for context in (tar_of({"f": b"1", "d": None, "Dockerfile": text}),
                    gzip.compress(tar_of({"Dockerfile": text, "f": b"1", "d": None}))):
        again = post(api, context)
        assert again.status_code == 200 and again.json()["cached"], again.text
        assert again.json()["id"] == first["id"]
    for files, modes in (({"f": b"2", "d": None}, None), ({"f": b"1"}, None),
                         ({"g": b"1", "d": None}, None), ({"f": b"1", "d": None}, {"f": 0o755})):
        other = build(api, dockerfile, files, modes)
        assert other["digest"] != first["digest"]
    assert build(api, dockerfile, {"f": b"1", "d": None}, arg="X=1")["digest"] != first["digest"]


def test_a_running_build_is_joined(api, bb):
    context = tar_of({"Dockerfile": f"FROM {bb}\nRUN sleep 3; echo joined > /j\n".encode()})
    rows = []
    threads = [threading.Thread(target=lambda: rows.append(post(api, context).json()))
               for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({row["id"] for row in rows}) == 1
    assert {row["state"] for row in rows} == {"succeeded"}, rows


def test_one_dockerfile_is_enough(api, bb):
    answer = api.http.post("/builds", params={"wait": WAIT}, headers={"Content-Type": "text/plain"},
                           content=f"FROM {bb}\nRUN echo 1 > /1\n", timeout=WAIT + 60)
    assert answer.json()["state"] == "succeeded", answer.text
    assert output(api, answer.json()["image"], "cat /1") == "1"


def test_from_a_registry_with_the_teams_access_and_from_an_earlier_build(api, registry, demo_layer):
    registry.push("test/base:1", [demo_layer], {"Env": ["BASE=yes"], "WorkingDir": "/opt"})
    base = f"{registry.host}/test/base:1"
    first = build(api, f"FROM {base}\nRUN echo $BASE > one && pwd >> one\n")
    assert output(api, first["image"], "cat /opt/one") == "yes\n/opt"
    second = build(api, f"FROM {first['image']}\nRUN echo two > two\nCMD [\"x\"]\n")
    assert output(api, second["image"], "cat one two; pwd") == "yes\n/opt\ntwo\n/opt"


def test_stages_copies_and_their_owners(api, bb, registry):
    row = build(api, f"""# syntax=docker/dockerfile:1
FROM {bb} AS maker
WORKDIR /out
RUN echo tool > tool
FROM {bb} AS never
RUN false
FROM {bb}
COPY --from=maker --chmod=0751 --chown=1000:100 /out/tool /usr/bin/tool
COPY --link a /l/a
ADD --chown=user b /b
RUN --mount=type=cache,target=/cache echo c > /cache/c
RUN --mount=type=cache,target=/cache test -e /cache/c
RUN --mount=type=bind,from=maker,source=/out,target=/m test -e /m/tool
RUN --network=none true
""", {"a": b"a", "b": b"b"})
    out = output(api, row["image"], "stat -c '%a %u %g' /usr/bin/tool; stat -c %u /b; "
                                    "test ! -e /cache/c", user="root")
    assert out.splitlines() == ["751 1000 100", "1000"]
    one = build(api, f"FROM {bb} AS one\nRUN echo 1 > /one\n"
                     f"FROM {registry.host}/test/none:3 AS two\n", target="one")
    assert output(api, one["image"], "cat /one") == "1"


@pytest.mark.parametrize("ignored, kept", [
    ("*\n!**/*.py\n", {"a.py", "sub/b.py", "sub/deep/c.py"}),
    ("**\n!sub\nsub/n.txt\n", {"sub/b.py", "sub/deep/c.py"}),
    ("# note\n\n/sub/\r\n  dir/file1  \n.git\nDockerfile\n.dockerignore\n*.txt\n",
     {"a.py", "dir/file2", "dir/file3"})])
def test_ignore_files(api, bb, ignored, kept):
    files = {name: b"x" for name in (
        "a.py", "n.txt", "sub/b.py", "sub/deep/c.py", "sub/n.txt", "dir/file1", "dir/file2",
        "dir/file3", ".git/x")}
    row = build(api, f"FROM {bb}\nCOPY . /x\n", {**files, ".dockerignore": ignored.encode()})
    found = output(api, row["image"], "cd /x; find . -type f").split()
    assert {name[2:] for name in found} == kept


def test_users_and_workdirs(api, bb):
    row = build(api, f"""FROM {bb}
USER 1000
WORKDIR /w/a/b
RUN touch f
WORKDIR c
ENV P=/w
WORKDIR ${{P}}/z
SHELL ["/bin/sh", "-ec"]
RUN echo shell > s
HEALTHCHECK CMD true
ENTRYPOINT ["/bin/false"]
""")
    out = output(api, row["image"], "pwd; cat s; id -u; stat -c %u /w/a/b/f; ls -d /w/a/b/c")
    assert out.splitlines() == ["/w/z", "shell", "1000", "1000", "/w/a/b/c"]


def test_what_a_step_leaves_running_ends_with_it(api, bb):
    row = build(api, f"""FROM {bb}
RUN sh -c 'while :; do echo x >> /l; done & exit 0'
RUN a=$(wc -c < /l); sleep 1; test $a = $(wc -c < /l)
RUN setsid sleep 1000 & exit 0
RUN mkfifo /p
""")
    assert output(api, row["image"], "ls -l /p | grep -c ^p") == "1"


def test_the_builder_is_not_the_host(api, bb, deployed):
    """Root of a step is an id of the builder's own range, and sees no process of the host's."""
    row = build(api, f"FROM {bb}\nRUN cat /proc/self/uid_map > /map; id -u > /id; ps > /ps\n")
    out = output(api, row["image"], "cat /map /id; wc -l < /ps").splitlines()
    inside, outside, count = out[0].split()
    assert (inside, count) == ("0", "65536") and int(outside) > 0
    assert out[1] == "0" and int(out[2]) < 20
    statuses = [line for line in open("/proc/mounts", encoding="utf-8") if "buildkit" in line]
    assert statuses == []  # nothing of it is mounted on the host


def test_what_is_wrong_is_said(api, bb, registry):
    for body, code in ((b"no tar at all" * 100, "archive_invalid"),
                       (tar_of({"../Dockerfile": b"FROM scratch"}), "archive_invalid"),
                       (tar_of({"/etc/x": b"1", "Dockerfile": b""}), "archive_invalid"),
                       (gzip.compress(tar_of({"Dockerfile": b""}))[:-9], "archive_invalid"),
                       (b"", "archive_invalid"),
                       (tar_of({"other": b"1"}), "dockerfile_invalid")):
        assert error_of(post(api, body)) == (422, code), body[:20]
    assert error_of(post(api, b"", platform="linux/arm64")) == (422, "invalid_field")
    assert error_of(post(api, b"", arg="=x")) == (422, "invalid_field")
    assert error_of(post(api, b"", color="red")) == (422, "unknown_field")
    assert error_of(api.get("/builds/build-none")) == (404, "not_found")
    for text, reason, words in (
            (f"FROM {bb}\nRUNN x\n", "dockerfile_invalid", "line 2"),
            ("", "dockerfile_invalid", ""),
            (f"FROM {bb}\nCOPY --from={registry.host}/test/none:2 /x /x\n", "image_not_found", ""),
            (f"FROM {registry.host}/test/none:1\n", "image_not_found", "none"),
            ("# syntax=evil/front:1\nFROM scratch\n", "dockerfile_invalid", "syntax"),
            (f"FROM {bb}\nCOPY missing /x\n", "", "missing"),
            (f"FROM {bb}\nUSER nobody-here\nRUN true\n", "step_failed", "line 3"),
            # What a step says of itself decides nothing.
            (f"FROM {bb}\nRUN echo 'dockerfile parse error: unknown instruction'; "
             "echo 'write /x: no space left on device' >&2; exit 9 # : no space left on device\n",
             "step_failed", "exit code: 9"),
            (f"FROM {bb}\nRUN echo 'source denied by policy'; exit 255\n", "step_failed",
             "exit code: 255"),
            (f"FROM {bb}\nRUN echo before; exit 7\n", "step_failed", "line 2")):
        row = failed(api, text)
        assert reason in row["reason"] and words in row["message"], (text, row)
    log = log_of(api, row)
    assert "before" in log and "exit code: 7" in log[-2000:]
    row = failed(api, f"FROM {bb}\n", target="nostage")
    assert row["reason"] == "dockerfile_invalid" and "nostage" in row["message"]


@contextlib.contextmanager
def build_timeout(deployed, seconds: int):
    for options in ({"build-timeout": str(seconds)}, {}):
        deployed.gateway.stop()
        deployed.settings.gateway_options = options
        deployed.start_gateway()
        if options:
            yield


def test_a_step_that_takes_all_there_is_ends_and_the_next_build_works(api, bb, deployed):
    row = failed(api, f"FROM {bb}\nRUN dd if=/dev/zero of=/big bs=1M count=8000\n")
    assert row["reason"] in ("step_failed", "disk_full"), row
    assert "uota" in log_of(api, row)[-2000:] or "space" in log_of(api, row)[-2000:]
    build(api, f"FROM {bb}\nRUN echo after the disk > /a\n")
    row = failed(api, f"FROM {bb}\nRUN while :; do sleep 1000 & done\n")
    assert row["reason"] in ("step_failed", "build_timeout", "build_failed"), row
    with build_timeout(deployed, 5):
        row = failed(api, f"FROM {bb}\nRUN sleep 1000\n")
    assert row["reason"] == "build_timeout", row
    build(api, f"FROM {bb}\nRUN echo after the processes > /a\n")


def test_a_cancelled_build_ends(api, bb):
    row = post(api, tar_of({"Dockerfile": f"FROM {bb}\nRUN sleep 999\n".encode()}), wait=0).json()
    eventually(lambda: "sleep 999" in log_of(api, row), 60)
    assert api.delete(f"/builds/{row['id']}").status_code == 202
    assert api.get(f"/builds/{row['id']}").json()["state"] == "cancelled"
    assert error_of(api.delete(f"/builds/{row['id']}")) == (409, "conflict")


def test_a_build_outlives_gateway_and_node(api, bb, deployed):
    text = f"FROM {bb}\nRUN sleep 8; echo lived > /l\n"
    row = post(api, tar_of({"Dockerfile": text.encode()}), wait=0).json()
    eventually(lambda: api.get(f"/builds/{row['id']}").json()["state"] == "running", 60)
    for process in (deployed.gateway, deployed.node):
        process.signal(signal.SIGKILL)
        assert process.wait_gone(10)
    deployed.start()
    again = api.get(f"/builds/{row['id']}?wait={WAIT}").json()
    assert again["state"] == "succeeded", again
    assert output(api, again["image"], "cat /l") == "lived"


def test_a_build_is_its_teams(api, bb):
    row = build(api, f"FROM {bb}\nRUN echo mine > /m\n")
    api.http.put("/teams/e2e-other", json={}).raise_for_status()
    token = api.post("/tokens", {"name": "other", "team": "e2e-other",
                                 "scopes": ["member"]}).json()
    try:
        with api.client(token["secret"]) as other:
            for call in (other.get(f"/builds/{row['id']}"), other.delete(f"/builds/{row['id']}"),
                         other.get(f"/builds/{row['id']}/logs")):
                assert error_of(call) == (404, "not_found")
            assert other.get("/builds").json()["items"] == []
            assert error_of(other.get("/builds?team=default")) == (404, "not_found")
            seen = other.get("/builds?scope=all&team=default&limit=1").json()["items"][0]
            assert (seen["id"], seen["state"]) == (row["id"], "succeeded")
            assert seen["message"] == "" and seen["progress"]["step"] == ""
            wrong = failed(api, f"FROM {bb}\nRUN exit 3\n")
            seen = other.get("/builds?scope=all&limit=1").json()["items"][0]
            assert (seen["id"], seen["reason"]) == (wrong["id"], "step_failed")
            assert seen["message"] == "" and wrong["message"]
            assert error_of(other.get("/builds?scope=some")) == (422, "invalid_field")
            assert error_of(other.get("/builds?scope=all&team=none")) == (404, "not_found")
            used = other.post("/sandboxes", json={"image": row["image"], "cpus": 0.1,
                                                  "memory_mb": 64})
            assert error_of(used) == (403, "image_not_allowed")
            api.http.patch("/teams/e2e-other", json={"builds": False}).raise_for_status()
            refused = other.post("/builds", content=tar_of({"Dockerfile": b"FROM scratch"}))
            assert error_of(refused) == (403, "forbidden")
    finally:
        api.delete(f"/tokens/{token['id']}")
        api.delete("/teams/e2e-other")
    own = api.get("/builds?team=default&limit=1").json()["items"]
    assert own[0]["id"] == wrong["id"] and own[0]["message"]


def test_the_command_line_builds(api, bb, sandbox_cli, tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "Dockerfile").write_text(f"FROM {bb}\nARG A\nCOPY x /x\nRUN echo \"cli $A\" > /c\n")
    (folder / "x").write_text("x")
    done = sandbox_cli("build", str(folder), "--build-arg", "A=1")
    assert done.returncode == 0, done.stderr
    assert b"RUN echo" in done.stderr
    assert output(api, done.stdout.decode().strip(), "cat /c") == "cli 1"
    listed = sandbox_cli("builds", "--all-teams", "--limit", "1")
    assert listed.returncode == 0 and b"succeeded" in listed.stdout, listed
    (folder / "Dockerfile").write_text(f"FROM {bb}\nRUN exit 3\n")
    bad = sandbox_cli("build", str(folder))
    assert bad.returncode == 125 and b"step_failed" in bad.stderr, bad.stderr


def test_the_python_client_builds(deployed, bb, tmp_path):
    (tmp_path / "Dockerfile").write_text(f"FROM {bb}\nRUN echo sdk > /s\n")
    with sandbox_gateway.Gateway(deployed.url, deployed.token) as gateway:
        made = gateway.builds.wait(gateway.builds.start(tmp_path).id, timeout=WAIT)
        with gateway.create(made.image, cpus=0.5, memory_mb=64) as box:
            assert box.run(["cat", "/s"]).stdout == "sdk\n"
        assert made.id in [row.id for row in gateway.builds.list(all=True, limit=5)]
        with pytest.raises(sandbox_gateway.BuildFailed) as error:
            gateway.builds.wait(gateway.builds.dockerfile(f"FROM {bb}\nRUN false\n").id)
        assert error.value.code == "step_failed"
