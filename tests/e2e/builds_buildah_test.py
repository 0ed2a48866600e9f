"""Image builds where the builder's root holds buildah in BuildKit's place: Debian's own package, in
a builder with namespaces of its own as ever."""

import shutil
import subprocess

import pytest

import builder
import deployment
import instance
from conftest import Registry
from deployment import eventually
from image_builds import (bb, build, failed, log_of, output, post,  # noqa: F401
                          tar_of)

pytestmark = pytest.mark.skipif(shutil.which("buildah") is None or
                                not builder.kept_folder().exists(),
                                reason="no buildah, or no Go, here (./dev setup)")


@pytest.fixture(scope="module")
def deployed():
    root = builder.ensure(print, with_buildah=True)
    one = deployment.make_instance("sgw", "10.212.0.0/16", 2_750_000_000, shells=2)
    # Longer than any socket's address has room for.
    one = instance.Instance(one.state.with_name(one.state.name + "-" + "long" * 30), one.programs,
                            one.settings)
    if one.state.exists():
        settings = one.settings
        one.purge()
        one.settings = settings
    one.settings.node_options |= {"builder-root": str(root)}
    one.settings.gateway_options = {"build-timeout": "60", "build-storage-mb": "512"}
    with deployment.running(one):
        yield one


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    made = Registry(tmp_path_factory.mktemp("registry"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def api(deployed, registry):
    made = deployment.Api(deployed)
    answer = made.http.put(f"/teams/default/registries/{registry.host}", json={"plain_http": True})
    assert answer.status_code in (200, 201, 204), answer.text
    return made


def test_the_node_says_which_it_is(deployed):
    checks = deployed.ask_node({"op": "doctor"})["checks"]
    (check,) = [one for one in checks if one["name"] == "image builds"]
    assert check["ok"] and check["message"].startswith("by buildah in "), check


def test_an_image_of_stages_is_a_sandbox(api, bb):
    row = build(api, f"""# syntax=docker/dockerfile:1
ARG BASE={bb}
FROM $BASE AS maker
ARG TARGETARCH
ARG WORD=none
RUN echo $WORD $TARGETARCH > /made && chown 1000:100 /made
FROM {bb} AS never
RUN false
FROM {bb}:idx
COPY --from=maker /made /made
COPY --chmod=0751 --chown=7:8 *.txt /texts/
RUN --mount=type=cache,target=/c --mount=type=tmpfs,target=/t \\
    touch /c/x /t/y && id -u > /who
ENV GREETING=hello
WORKDIR /srv
SHELL ["/bin/sh", "-ec"]
HEALTHCHECK CMD true
USER 1000
ENTRYPOINT ["cat"]
""", {"a.txt": b"A", "b.txt": b"B", "c.txt": b"C", ".dockerignore": b"*.txt\n!a.txt\n!c.txt\n"},
                arg="WORD=given")
    out = output(api, row["image"],
                 "cat /made /who; ls -n /texts /made; pwd; echo $GREETING; id -u")
    lines = out.splitlines()
    assert lines[:2] == ["given amd64", "0"] and lines[-3:] == ["/srv", "hello", "1000"], out
    assert [line.split()[:4] + line.split()[-1:] for line in lines if ".txt" in line] == [
        ["-rwxr-x--x", "1", "7", "8", "a.txt"], ["-rwxr-x--x", "1", "7", "8", "c.txt"]], out
    assert [line.split()[2:4] for line in lines if line.endswith(" /made")] == [["1000", "100"]]
    listed = api.get("/images/" + row["image"].replace(":", "%3A")).json()["config"]
    assert listed["entrypoint"] == ["cat"]
    assert listed["healthcheck"]["Test"] == ["CMD-SHELL", "true"]
    assert row["progress"]["percent"] == 100 and "RUN echo $WORD" in log_of(api, row)


def test_from_an_earlier_build_and_by_digest(api, bb, registry, demo_layer):
    first = build(api, f"FROM {bb}\nRUN echo one > /one\nONBUILD RUN echo trigger > /two\n")
    second = build(api, f"FROM {first['image']}\n")
    assert output(api, second["image"], "cat /one /two") == "one\ntrigger"
    digest = registry.push("test/buildah:1", [demo_layer], {"Env": ["BASE=yes"]})
    row = build(api, f"FROM {registry.host}/test/buildah@{digest}\nRUN echo $BASE > /base\n")
    assert output(api, row["image"], "cat /base") == "yes"


def test_what_was_built_is_not_built_again(api, bb):
    text = f"FROM {bb}\nRUN echo $RANDOM$RANDOM > /once\n"
    first = build(api, text + "RUN true\n")
    second = build(api, text + "RUN touch /more\n")
    assert output(api, first["image"], "cat /once") == output(api, second["image"], "cat /once")
    assert "Using cache" in log_of(api, second)
    assert build(api, text + "RUN true\n")["cached"]


@pytest.mark.parametrize("text, line", [
    ("RUN true\nRUN <<EOF\nfoo\nEOF\n", 3),
    ("COPY <<EOF /x\nfoo\nEOF\n", 2),
    ("RUN true\nRUN true\nCOPY --link Dockerfile /\n", 4),
    ("RUN --network=none true\n", 2),
    ("RUN --mount=type=secret,id=x true\n", 2),
    ("RUN --mount=target=/x,type=ssh true\n", 2),
    ("ADD --checksum=sha256:00 Dockerfile /\n", 2),
    ("ONBUILD COPY --link Dockerfile /\n", 2)])
def test_what_it_cannot_do_is_said_with_its_line(api, bb, text, line):
    row = failed(api, f"FROM {bb}\n{text}")
    assert row["reason"] == "not_supported", row
    assert row["message"].startswith(f"line {line}: ") and "buildah" in row["message"], row


def test_what_is_wrong_is_said(api, bb, registry):
    for text, reason, words in (
            ("RUNN x\n", "dockerfile_invalid", "line 2"),
            ("COPY missing /x\n", "build_failed", "line 2"),
            ("USER nobody-here\nRUN true\n", "step_failed", "line 3"),
            (f"COPY --from={registry.host}/test/none:3 /x /x\n", "image_not_found", "line 2"),
            ("RUN echo 'Error: write /x: no space left on device' >&2; "
             "exit 9 # : no space left on device\n", "step_failed", "exit status 9"),
            ("RUN true && \\\n  echo before && exit 7\n", "step_failed", "line 2")):
        row = failed(api, f"FROM {bb}\n{text}")
        assert row["reason"] == reason and words in row["message"], (text, row)
    assert "before" in log_of(api, row)[-2000:]
    full = failed(api, f"FROM {bb}\nRUN dd if=/dev/zero of=/big bs=1M count=2000\n")
    assert full["reason"] in ("step_failed", "disk_full"), full
    build(api, f"FROM {bb}\nRUN echo after the disk > /a\n")


def running(command: str) -> list[str]:
    return subprocess.run(["pgrep", "-f", command], capture_output=True, text=True,
                          check=False).stdout.split()


def test_a_step_has_no_rights_beyond_its_builder(api, bb, deployed):
    row = post(api, tar_of({"Dockerfile": (f"FROM {bb}\nRUN cat /proc/self/uid_map; "
                                           "echo pids $(ls -d /proc/[0-9]* | wc -l); sleep 98765\n"
                                           ).encode()}), wait=0).json()
    eventually(lambda: "\npids " in log_of(api, row), 60)
    found = running("sleep 98765")
    assert found
    for pid in found:
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            ids = next(line for line in file if line.startswith("Uid:")).split()[1:]
        assert all(int(one) >= deployed.settings.id_base for one in ids), ids
    log = log_of(api, row)
    (mapped,) = [line.split() for line in log.splitlines() if line.split()[2:] == ["65536"]]
    assert mapped[0] == "0" and int(mapped[1]) != 0, "its root is not the host's"
    (count,) = [line for line in log.splitlines() if line.startswith("pids ")]
    assert int(count.split()[1]) < 10, "it sees its own processes only"
    api.delete(f"/builds/{row['id']}")
    assert eventually(lambda: api.get(f"/builds/{row['id']}").json()["state"] == "cancelled")
    eventually(lambda: not running("sleep 98765"), what="the end of the step")
