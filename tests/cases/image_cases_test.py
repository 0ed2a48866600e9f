"""Faults of images that other systems had (IM cases): entrypoints, whiteouts, forms of layers,
indexes, logins, owners."""

import gzip
import subprocess

import pytest

from deployment import demo_image, error_of
from stub_registry import (PASSWORD, USER, StubRegistry, busybox_layer, descriptor, platform)
from tar_files import archive, entry

MANY = "t/many"


@pytest.fixture
def stub(api):
    with StubRegistry() as one:
        assert put_access(api, one).status_code in (200, 201)
        yield one
        api.delete(f"/teams/default/registries/{one.host}")


def put_access(api, stub, **fields):
    return api.http.put(f"/teams/default/registries/{stub.host}",
                        json={"plain_http": True, **fields})


def start(api, image: str, **fields) -> dict:
    """What becomes of a create."""
    answer = api.post("/sandboxes?wait=60",
                      {"image": image, "cpus": 0.2, "memory_mb": 32, **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()


def output(api, image: str, command: str, **fields) -> str:
    row = start(api, image)
    assert row["state"] == "ready", row
    try:
        return api.output(row["id"], command, **fields)
    finally:
        api.remove(row["id"])


def refused(api, image: str) -> dict:
    row = start(api, image)
    assert row["state"] == "failed", row
    api.remove(row["id"])
    return row


def layer(*members) -> bytes:
    """Each member: name, bytes or None for a folder or ("->", target), and what else it has."""
    return archive(*(entry(name, what, **(fields[0] if fields else {}))
                     for name, what, *fields in members))


@pytest.mark.parametrize("config", [
    {"Entrypoint": ["/bin/sh"]}, {"Entrypoint": ["/bin/false"]}, {"Cmd": ["true"]}, {},
    {"Entrypoint": ["/bin/cat", "--needs-an-argument"]},
    {"Healthcheck": {"Test": ["CMD", "false"]}}, {"StopSignal": "SIGINT"},
    {"Env": ["PATH=/nowhere"]}])
def test_an_entrypoint_is_not_run_unasked(api, stub, config):
    """IM-06"""
    stub.push("t/e", [busybox_layer()], {"Env": ["PATH=/bin"], **config})
    row = start(api, f"{stub.host}/t/e")
    assert row["state"] == "ready", row
    assert api.run(row["id"], "/bin/echo", "runs")["stdout"] == "runs\n"
    api.remove(row["id"])


def test_an_image_without_a_shell_runs_its_program(api, stub, probe):
    """IM-06"""
    stub.push("t/scratch", [layer(("probe", probe, {"mode": 0o755}), ("srv/x/", None))],
              {"WorkingDir": "/srv/x"})
    row = start(api, f"{stub.host}/t/scratch")
    assert row["state"] == "ready", row
    try:
        assert api.run(row["id"], "/probe")["exit_code"] not in (126, 127)
        no_shell = api.post(f"/sandboxes/{row['id']}/run", {"command": "true"})
        answer = no_shell.json()
        said = answer["error"]["message"] if "error" in answer else answer["stderr"]
        assert no_shell.status_code == 422 or answer["exit_code"] == 127, answer
        assert "sh" in said, answer
    finally:
        api.remove(row["id"])


def test_the_working_directory_is_the_images(api, stub):
    """IM-06"""
    stub.push("t/w", [busybox_layer(), layer(("srv/x/", None))],
              {"Env": ["PATH=/bin"], "WorkingDir": "/srv/x"})
    assert output(api, f"{stub.host}/t/w", "pwd") == "/srv/x"


def test_a_working_directory_that_no_layer_has_is_made(api, stub):
    """IM-06"""
    stub.push("t/v", [busybox_layer()], {"Env": ["PATH=/bin"], "WorkingDir": "/srv/new/one"})
    shown = output(api, f"{stub.host}/t/v", "pwd; stat -c %a:%u . .. /srv")
    assert shown == "/srv/new/one\n755:0\n755:0\n755:0"


LOWER = layer(("a/", None), ("a/b/", None), ("a/b/old", b"old"), ("a/keep", b"k"), ("w/", None),
              ("w/gone", b"g"), ("w/.hidden", b"h"))
NEW = [("a/b/new", b"new"), ("a/b/sub/", None), ("a/b/sub/x", b"x")]
MARK = [("a/b/.wh..wh..opq", b"")]
FOUND = "cd /; find a w -type f | sort"


@pytest.mark.parametrize("members", [
    [("a/", None), ("a/b/", None), *NEW, *MARK], [("a/", None), ("a/b/", None), *MARK, *NEW],
    [*NEW, *MARK]])
def test_an_opaque_mark_counts_wherever_it_stands(api, stub, members):
    """IM-08"""
    upper = layer(*members, ("w/.wh.gone", b""))
    stub.push("t/o", [busybox_layer(), LOWER, upper], {"Env": ["PATH=/bin"]})
    assert output(api, f"{stub.host}/t/o", FOUND).split() == [
        "a/b/new", "a/b/sub/x", "a/keep", "w/.hidden"]


def test_later_entries_win_and_whiteouts_of_nothing_are_nothing(api, stub):
    """IM-08"""
    upper = layer(("a/.wh.b", b""), ("a/b", b"file"), ("w/.wh.never", b""), ("x", b"1"),
                  ("x", b"2"), ("w/.wh.hid", b""), ("l", ("->", "a")))
    top = layer(("l", None), ("l/inside", b"i"), ("w", ("->", "a")))
    stub.push("t/l", [busybox_layer(), LOWER, upper, top], {"Env": ["PATH=/bin"]})
    said = output(api, f"{stub.host}/t/l",
                  "cat /a/b /x /l/inside /w/keep; ls -a / | grep -c wh; true")
    assert said.split() == ["file2ik0"], said


def zstd(data: bytes) -> bytes:
    return subprocess.run(["zstd", "-q", "-c"], input=data, capture_output=True,
                          check=True).stdout


PLAIN = layer(("form", b"unpacked"))
OCI_LAYER = "application/vnd.oci.image.layer.v1.tar"
FORMS = {
    "docker zstd": ("application/vnd.docker.image.rootfs.diff.tar.zstd", zstd),
    "oci zstd": (f"{OCI_LAYER}+zstd", zstd),
    "plain": (OCI_LAYER, bytes),
    "gzip in two": (f"{OCI_LAYER}+gzip",
                    lambda data: gzip.compress(data[:700]) + gzip.compress(data[700:])),
    "zstd called gzip": (f"{OCI_LAYER}+gzip", zstd)}


@pytest.mark.parametrize("form", FORMS)
def test_layers_of_every_form_run_or_are_named(api, stub, form):
    """IM-09"""
    media_type, pack = FORMS[form]
    stub.push("t/f", [busybox_layer(), (media_type, pack(PLAIN), PLAIN)], {"Env": ["PATH=/bin"]})
    row = start(api, f"{stub.host}/t/f")
    try:
        if row["state"] == "ready":
            assert api.output(row["id"], "cat /form") == "unpacked"
        else:
            assert row["reason"] == "image_invalid" and "media type" in row["message"], row
    finally:
        api.remove(row["id"])


def test_a_layer_without_entries_is_one(api, stub):
    """IM-09"""
    empty = layer()
    stub.push("t/n", [busybox_layer(), empty, empty], {"Env": ["PATH=/bin"]})
    assert output(api, f"{stub.host}/t/n", "echo fine") == "fine"


def test_bytes_that_are_not_what_they_should_be_are_named_and_kept_nowhere(api, stub):
    """IM-09"""
    stub.push("t/d", [busybox_layer(), PLAIN], {"Env": ["PATH=/bin"]},
              diff_ids=[demo_image.digest(busybox_layer()), "sha256:" + "1" * 64])
    row = refused(api, f"{stub.host}/t/d")
    assert row["reason"] == "image_digest_mismatch" and "sha256:" in row["message"], row
    foreign = ("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", gzip.compress(PLAIN),
               PLAIN)
    stub.push("t/d", [busybox_layer(), foreign], {"Env": ["PATH=/bin"]})
    assert refused(api, f"{stub.host}/t/d")["reason"] == "image_invalid"
    packed = gzip.compress(layer(("other", b"bytes")))
    stub.push("t/d", [busybox_layer(), (demo_image.LAYER_TYPE, packed, PLAIN)],
              {"Env": ["PATH=/bin"]})
    stub.blobs[demo_image.digest(packed)] = gzip.compress(layer(("altered", b"bytes")))
    row = refused(api, f"{stub.host}/t/d")
    assert row["reason"] in ("image_digest_mismatch", "image_pull_failed"), row
    stub.push("t/d", [busybox_layer(), PLAIN], {"Env": ["PATH=/bin"]})
    assert output(api, f"{stub.host}/t/d", "cat /form") == "unpacked"


def test_the_platforms_image_is_taken_from_an_index(api, stub):
    """IM-10"""
    stub.push(MANY, [busybox_layer()], {"Env": ["PATH=/bin"]}, tag="amd")
    stub.push(MANY, [layer(("x", b"arm"))], {}, tag="arm", architecture="arm64")
    digest = stub.entry(MANY, "amd")["digest"]
    attestation = descriptor(demo_image.MANIFEST_TYPE, b"{}", **platform("unknown", "unknown"))
    amd = stub.entry(MANY, "amd", **platform("amd64"))
    arm = stub.entry(MANY, "arm", **platform("arm64"))
    v3 = descriptor(demo_image.MANIFEST_TYPE, b"none", **platform("amd64", variant="v3"))
    indexes = {"idx": [attestation, arm, v3, amd], "nested": None, "arm-only": [attestation, arm]}
    for tag, entries in indexes.items():
        if entries:
            stub.push_index(MANY, tag, entries)
    stub.push_index(MANY, "nested", [stub.entry(MANY, "idx")])
    for tag in ("idx", "nested"):
        row = start(api, f"{stub.host}/{MANY}:{tag}")
        assert row["state"] == "ready" and row["image_digest"] == digest, row
        api.remove(row["id"])
    row = refused(api, f"{stub.host}/{MANY}:arm-only")
    assert row["reason"] == "image_platform_mismatch" and "linux/amd64" in row["message"], row
    gone = descriptor(demo_image.MANIFEST_TYPE, b"no such manifest", **platform("amd64"))
    stub.push_index(MANY, "gone", [gone])
    row = refused(api, f"{stub.host}/{MANY}:gone")
    assert row["reason"] == "image_not_found" and gone["digest"][:20] in row["message"], row
    stub.push_index(MANY, "lies", [stub.entry(MANY, "arm", **platform("amd64"))])
    assert refused(api, f"{stub.host}/{MANY}:lies")["reason"] == "image_platform_mismatch"
    row = start(api, f"{stub.host}/{MANY}:amd@{digest}")
    assert row["state"] == "ready", row
    api.remove(row["id"])
    row = refused(api, f"{stub.host}/{MANY}:amd@sha256:{'2' * 64}")
    assert row["reason"] in ("image_not_found", "image_digest_mismatch"), row


@pytest.mark.parametrize("auth", ["bearer", "basic"])
def test_the_right_login_alone_pulls_and_goes_to_nobody_else(api, deployed, stub, auth):
    """IM-11"""
    stub.push("t/p", [busybox_layer(), layer((auth, b"1"))], {"Env": ["PATH=/bin"]})
    stub.auth = auth
    image = f"{stub.host}/t/p"
    with StubRegistry() as store:
        store.blobs = stub.blobs
        stub.redirect = lambda digest: f"http://{store.host}/v2/signed/blobs/{digest}?Signature=x"
        for fields in ({}, {"username": USER, "password": "wrong-canary"}):
            put_access(api, stub, **fields)
            row = refused(api, image)
            assert row["reason"] == "image_pull_denied", row
            assert "canary" not in str(row)
        put_access(api, stub, username=USER, password=PASSWORD)
        assert output(api, image, "echo in") == "in"
        signed = [one for one in store.asked if "/signed/" in one[1]]
        assert signed and {scheme for _, _, scheme in signed} == {""}, signed
    for program in ("sandbox-node", "sandbox-gateway"):
        assert PASSWORD not in deployed.log_tail(program, 100_000)


def test_a_registry_that_refuses_heads_and_is_slow_is_pulled_from(api, stub):
    """IM-11"""
    stub.push("t/s", [busybox_layer(), PLAIN, layer(("third", b"3"))], {"Env": ["PATH=/bin"]})
    stub.auth, stub.blob_pause, stub.refuse_head = "bearer", 0.5, True
    put_access(api, stub, username=USER, password=PASSWORD)
    assert output(api, f"{stub.host}/t/s", "cat /third") == "3"


@pytest.mark.parametrize("target", ["self", "file:///etc/passwd"])
def test_a_redirect_leads_nowhere_it_must_not(api, stub, target):
    """IM-11"""
    stub.push("t/r", [busybox_layer(), layer(("r", target.encode()))], {"Env": ["PATH=/bin"]})
    stub.redirect = lambda digest: f"/v2/t/r/blobs/{digest}" if target == "self" else target
    row = refused(api, f"{stub.host}/t/r")
    assert row["reason"] in ("image_pull_failed", "image_pull_denied"), row


def test_owners_in_the_range_are_kept_and_others_named(api, stub):
    """IM-13"""
    inside = layer(("nobody", b"n", {"uid": 65534, "gid": 65534}), ("u", b"u", {"uid": 65532}))
    stub.push("t/u", [busybox_layer(), inside], {"Env": ["PATH=/bin"], "User": "65532"})
    said = output(api, f"{stub.host}/t/u", "stat -c '%u %g' /nobody /u; id -u")
    assert said.splitlines() == ["65534 65534", "65532 0", "65532"]
    beyond = layer(("far/", None), ("far/away", b"f", {"uid": 1_516_583_083, "gid": 454_177_323}))
    stub.push("t/far", [busybox_layer(), beyond], {"Env": ["PATH=/bin"]})
    row = start(api, f"{stub.host}/t/far")
    try:
        if row["state"] == "ready":
            uid = int(api.output(row["id"], "stat -c %u /far/away"))
            assert uid <= 65_535
        else:
            assert row["reason"] == "image_invalid" and "far/away" in row["message"], row
            assert "1516583083" in row["message"], row
    finally:
        api.remove(row["id"])


def test_names_of_images_that_are_none_are_refused_at_once(api):
    for name in ("a b", "x@sha256:12", "../x", "x:" + "t" * 200, ""):
        answer = api.post("/sandboxes", {"image": name, "cpus": 0.1, "memory_mb": 32})
        assert answer.status_code == 422, (name, answer.text)
        assert error_of(answer)[1] in ("invalid_field", "missing_field"), name
