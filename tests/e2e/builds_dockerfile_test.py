"""Image builds: what is given to steps, what a base image brings along, what becomes of results,
and what is said of input that is wrong."""

import os
import subprocess
import tarfile
import urllib.parse

import pytest

from deployment import error_of, eventually
from image_builds import (WAIT, bb, build, builders, clean, failed, log_of,  # noqa: F401
                          needs_builder, output, post, root_of_builder, tar_of)
from stub_registry import busybox_layer
from tar_files import archive, hardlink, member, symlink

pytestmark = needs_builder


def image_path(name: str) -> str:
    return f"/images/{urllib.parse.quote(name, safe='')}"


def test_a_context_may_be_zstd(api, bb):
    context = tar_of({"Dockerfile": f"FROM {bb}\nCOPY f /f\n".encode(), "f": b"zstd\n"})
    packed = subprocess.run(["zstd", "-q", "-c"], input=context, capture_output=True,
                            check=True).stdout
    row = post(api, packed).json()
    assert row["state"] == "succeeded", row
    assert output(api, row["image"], "cat /f") == "zstd"
    again = post(api, context)
    assert again.status_code == 200 and again.json()["id"] == row["id"]
    damaged = packed[:-10] + b"\0" * 10
    assert error_of(post(api, damaged)) == (422, "archive_invalid")


def test_a_result_that_was_removed_is_built_again(api, bb):
    dockerfile = f"FROM {bb}\nRUN echo again > /a\n"
    first = build(api, dockerfile)
    assert build(api, dockerfile)["cached"]
    assert api.delete(image_path(first["image"])).status_code in (200, 202, 204)
    gone = api.post("/sandboxes?wait=60", {"image": first["image"], "cpus": 0.1, "memory_mb": 32})
    assert (gone.json().get("reason") or error_of(gone)[1]) == "image_not_found", gone.text
    if gone.status_code == 201:
        api.remove(gone.json()["id"])
    second = build(api, dockerfile)
    assert second["id"] != first["id"] and second["image"] == first["image"]
    assert output(api, second["image"], "cat /a") == "again"


def test_results_that_nobody_uses_are_collected(api, bb):
    unused = build(api, f"FROM {bb}\nRUN echo unused > /u\n")["image"]
    used = build(api, f"FROM {bb}\nRUN echo used > /u\n")["image"]
    box = api.create(used, cpus=0.1, memory_mb=32)["id"]
    kept = [api.create()["id"], api.create(bb, cpus=0.1, memory_mb=32)["id"]]
    try:
        removed = api.post("/images/gc").json()["removed"]
        assert unused in removed and used not in removed
        assert api.output(box, "cat /u") == "used"
    finally:
        for name in (box, *kept):
            api.remove(name)


@pytest.fixture
def base(api, registry) -> str:
    """An image with all that a configuration can have."""
    registry.push("test/full:1", [busybox_layer()], {
        "Env": ["PATH=/bin", "A=1"], "Labels": {"org.example.kind": "base", "over": "old"},
        "OnBuild": ["RUN echo triggered > /tmp/triggered", "LABEL by=trigger"],
        "Volumes": {"/data": {}}, "StopSignal": "SIGINT", "User": "node", "WorkingDir": "/tmp",
        "ExposedPorts": {"80/tcp": {}}, "Entrypoint": ["/bin/true"], "Cmd": ["x"],
        "Healthcheck": {"Test": ["CMD", "/bin/true"], "Interval": 2_000_000_000, "Retries": 3}})
    return f"{registry.host}/test/full:1"


def test_a_base_images_configuration_is_kept_and_its_triggers_run(api, base):
    image = build(api, f"FROM {base}\nLABEL over=new\nUSER root\nRUN echo $A > /a\n")["image"]
    config = api.get(image_path(image)).json()["config"]
    assert config["labels"] == {"org.example.kind": "base", "over": "new", "by": "trigger"}
    assert config["healthcheck"]["Test"] == ["CMD", "/bin/true"]
    assert config["healthcheck"]["Interval"] == 2_000_000_000
    assert config["stop_signal"] == "SIGINT" and config["volumes"] == {"/data": {}}
    assert config["exposed_ports"] == ["80/tcp"] and config["entrypoint"] == ["/bin/true"]
    assert config["workdir"] == "/tmp" and config["user"] == "root" and config["cmd"] == ["x"]
    assert "onbuild" not in config  # they ran
    assert output(api, image, "cat /tmp/triggered /a; pwd") == "triggered\n1\n/tmp"


def test_triggers_of_a_built_image_run_where_it_is_built_on(api, bb):
    base = build(api, f"FROM {bb}\nONBUILD COPY f /f\nONBUILD RUN echo then >> /f\n"
                      "HEALTHCHECK --interval=3s CMD test -e /f\n"
                      "SHELL [\"/bin/sh\", \"-ec\"]\n")["image"]
    config = api.get(image_path(base)).json()["config"]
    assert config["onbuild"] == ["COPY f /f", "RUN echo then >> /f"]
    assert config["shell"] == ["/bin/sh", "-ec"]
    image = build(api, f"FROM {base}\nRUN echo last >> /f\n", {"f": b"first\n"})["image"]
    assert output(api, image, "cat /f") == "first\nthen\nlast"
    config = api.get(image_path(image)).json()["config"]
    assert config["healthcheck"]["Test"] == ["CMD-SHELL", "test -e /f"]
    assert config["shell"] == ["/bin/sh", "-ec"]


HOSTILE = {"hardlink": [hardlink("x", "../../etc/passwd")],
           "device": [member("x", type=tarfile.CHRTYPE)],
           "through a link": [symlink("x", "/etc"), member("x/escaped")]}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_member_outside_the_context_is_refused(api, kind):
    answer = post(api, archive(*HOSTILE[kind], member("Dockerfile")))
    assert error_of(answer) == (422, "archive_invalid"), answer.text
    assert "x" in answer.json()["error"]["message"]


def test_links_stay_links_and_are_never_followed_out(api, bb):
    row = build(api, f"FROM {bb}\nCOPY . /c\n", {"out": ("->", "/etc/passwd"),
                                                 "up": ("->", "../../../etc/shadow")})
    listed = output(api, row["image"], "ls -l /c")
    assert "out -> /etc/passwd" in listed and "up -> ../../../etc/shadow" in listed
    context = tar_of({"Dockerfile": b"FROM scratch", "D": ("->", "/etc/passwd")})
    bad = post(api, context, dockerfile="D").json()
    assert (bad["state"], bad["reason"]) == ("failed", "dockerfile_invalid"), bad
    bad = failed(api, f"FROM {bb}\nCOPY up/x /x\n", {"up": ("->", "../../..")})
    assert "line 2" in bad["message"], bad


@pytest.mark.parametrize("text, reason, words", [
    ("FROM {bb}\nRUN true\nFRM x\n", "dockerfile_invalid", "line 3"),
    ("FROM {bb}\nCOPY\n", "dockerfile_invalid", "line 2"),
    ("RUN true\n", "dockerfile_invalid", "line 1"),
    ("FROM {bb}\nRUN <<EOF\ntrue\n", "dockerfile_invalid", "line 2"),
    ("FROM {bb} AS a\nCOPY --from=7 /x /x\n", "dockerfile_invalid", "line 2"),
    ("FROM {bb}\n\nCOPY --from={host}/test/none:9 /x /x\n", "image_not_found", "line 3"),
    ("FROM {bb}\nFROM build:" + "0" * 64 + "\n", "image_not_allowed", "line 2"),
    ("FROM {bb}\nEXPOSE x\n", "dockerfile_invalid", "line 2"),
    ("FROM {bb}\nADD --checksum=sha256:00 f /f\n", "", "line 2")])
def test_what_is_wrong_in_a_dockerfile_is_named_with_its_line(api, bb, registry, text, reason,
                                                              words):
    row = failed(api, text.format(bb=bb, host=registry.host), {"f": b"f"})
    assert reason in row["reason"] and words in row["message"], repr(row)


def test_a_base_image_outside_the_teams_prefixes_is_refused(api, bb, registry):
    api.http.put("/teams/e2e-narrow", json={"image_prefixes": [f"{registry.host}/allowed"]}
                 ).raise_for_status()
    token = api.post("/tokens", {"name": "narrow", "team": "e2e-narrow",
                                 "scopes": ["member"]}).json()
    try:
        with api.client(token["secret"]) as other:
            def build_of(text: str) -> dict:
                answer = other.post("/builds", params={"wait": WAIT}, content=text,
                                    headers={"Content-Type": "text/plain"}, timeout=WAIT + 60)
                return answer.json()
            for text, line in ((f"FROM scratch\nCOPY --from={registry.host}/test/x /x /x\n", 2),
                               (f"FROM {registry.host}/test/x\n", 1),
                               ("FROM scratch AS a\nFROM scratch\nCOPY --from=nostage /x /x\n", 3)):
                row = build_of(text)
                assert (row["state"], row["reason"]) == ("failed", "image_not_allowed"), row
                assert f"line {line}" in row["message"], row
    finally:
        api.delete(f"/tokens/{token['id']}")
        api.delete("/teams/e2e-narrow")


def test_a_team_has_so_many_builds_under_way_and_no_more(api, bb):
    """The operator's builds-per-team, 4 where nothing is said."""
    def start(number: int):
        return post(api, tar_of({"Dockerfile": f"FROM {bb}\nRUN sleep 2{number}\n".encode()}),
                    wait=0)
    rows = []
    try:
        for number in range(4):
            answer = start(number)
            assert answer.status_code == 201, answer.text
            rows.append(answer.json())
        assert error_of(start(4)) == (429, "overloaded")
        assert start(0).json()["id"] == rows[0]["id"], "one that is under way is joined"
    finally:
        for row in rows:
            api.delete(f"/builds/{row['id']}")
    last = eventually(lambda: (answer := start(5)).status_code == 201 and answer.json())
    api.delete(f"/builds/{last['id']}")


def test_a_step_has_the_memory_of_its_builder(api, bb):
    """The operator's build-memory-mb, here 1024; the next build has a builder that works."""
    row = failed(api, f"FROM {bb}\nRUN --mount=type=tmpfs,target=/m "
                      "dd if=/dev/zero of=/m/x bs=1M count=3000\n")
    assert row["reason"] in ("step_failed", "out_of_memory", "builder_failed", "builder_lost"), row
    build(api, f"FROM {bb}\nRUN echo after the memory > /m\n")


def test_a_failed_build_leaves_nothing_but_its_row_and_log(deployed, api, bb):
    row = failed(api, f"FROM {bb}\nRUN for i in 1 2 3 4 5 6 7 8 9; do echo line-$i; done; exit 9\n")
    log = log_of(api, row)
    assert "line-9" in log[-2000:] and "exit code: 9" in log[-2000:]
    listed = [one["name"] for one in api.get("/images").json()["items"]]
    assert row["image"] not in listed
    # Nothing of its files is in the builder, no sandbox that its base was read from is left.
    assert eventually(lambda: all(name.startswith("builder-") for name in builders(deployed)))
    jobs = root_of_builder(deployed) / "state" / "jobs"
    assert eventually(lambda: row["id"] not in os.listdir(jobs))
