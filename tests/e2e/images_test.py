"""Images: from a real registry over HTTP, from a tar, and everything that can be wrong with one."""

import io
import json
import os
import tarfile
import urllib.parse

import pytest

from deployment import ROOT, demo_image, error_of, eventually

CONFIG = {"Env": ["PATH=/usr/bin:/bin", "FROM_IMAGE=yes"], "WorkingDir": "/srv/app",
          "User": "user:user", "Entrypoint": ["/bin/false"], "Cmd": ["unused"],
          "Labels": {"run.oci.hooks": "/bin/false"}}
TOP_LAYER = {"srv/app/hello.txt": b"hello from the image\n", "etc/.wh.debian_version": b""}


@pytest.fixture(scope="session")
def pushed(registry, demo_layer) -> str:
    """A two-layer image: Debian, and a layer that adds a file and whites one out."""
    registry.push("test/debian:1", [demo_layer, demo_image.layer_of(TOP_LAYER)], CONFIG)
    return f"{registry.host}/test/debian:1"


def failed_create(api, image: str, **fields) -> dict:
    """The sandbox of a create that fails; deleted again."""
    answer = api.post("/sandboxes?wait=60", {"image": image, "cpus": 1, "memory_mb": 64, **fields})
    assert answer.status_code == 201, answer.text
    row = answer.json()
    assert row["state"] == "failed", row
    assert row["message"]
    events = [e["type"] for e in api.get(f"/sandboxes/{row['id']}/events").json()["items"]]
    assert events[-1] == "failed"
    api.remove(row["id"])
    return row


def pull(api, reference: str) -> dict:
    started = api.post("/images", {"pull": reference})
    assert started.status_code == 202, started.text
    path = f"/images/pulls/{started.json()['id']}"
    return eventually(lambda: (row := api.get(path).json())["state"] != "running" and row, 60)


def test_real_image_from_a_real_registry(api, pushed):
    made = api.create(pushed)
    sandbox = made["id"]
    try:
        assert made["image"] == pushed and made["image_digest"].startswith("sha256:")
        out = api.output(sandbox, "pwd; id -un; echo $FROM_IMAGE; cat hello.txt")
        assert out.splitlines() == ["/srv/app", "user", "yes", "hello from the image"]
        assert api.shell(sandbox, "cat /etc/debian_version")["exit_code"] == 1
        assert api.output(sandbox, "cat /proc/1/cmdline | tr '\\0' ' '", user="root")
        types = [e["type"] for e in api.get(f"/sandboxes/{sandbox}/events").json()["items"]]
        assert types.index("pulling") < types.index("pulled") < types.index("ready")
        row = api.get(f"/images/{urllib.parse.quote(pushed, safe='')}").json()
        assert row["in_use"] and row["source"] == "registry"
        assert row["platform"] == f"linux/{demo_image.architecture()}"
        assert row["config"]["workdir"] == "/srv/app" and row["config"]["user"] == "user:user"
        busy = api.delete(f"/images/{urllib.parse.quote(pushed, safe='')}")
        assert error_of(busy) == (409, "in_use")
    finally:
        api.remove(sandbox)


def test_second_create_does_not_pull(api, pushed):
    api.remove(api.create(pushed)["id"])
    made = api.create(pushed)
    types = [e["type"] for e in api.get(f"/sandboxes/{made['id']}/events").json()["items"]]
    assert "pulling" not in types
    api.remove(made["id"])


def test_by_digest(api, registry, demo_layer):
    digest = registry.push("test/by-digest:1", [demo_layer], {})
    made = api.create(f"{registry.host}/test/by-digest@{digest}")
    assert made["image_digest"] == digest
    api.remove(made["id"])


def test_concurrent_creates_share_one_pull(api, registry, demo_layer):
    registry.push("test/shared:1", [demo_layer], {"Env": ["SHARED=1"]})
    reference = f"{registry.host}/test/shared:1"
    made = [api.post("/sandboxes", {"image": reference, "cpus": 0.1, "memory_mb": 64}).json()["id"]
            for _ in range(4)]
    rows = [api.get(f"/sandboxes/{sandbox}?wait=60").json() for sandbox in made]
    assert [row["state"] for row in rows] == ["ready"] * 4
    listed = [row for row in api.get("/images").json()["items"] if row["name"] == reference]
    assert len(listed) == 1
    for sandbox in made:
        api.remove(sandbox)


def test_pull_reports_progress_and_the_name(api, registry, demo_layer):
    registry.push("test/pulled:1", [demo_layer, demo_image.layer_of({"p": b"1"})], {})
    row = pull(api, f"{registry.host}/test/pulled:1")
    assert row["state"] == "succeeded", row
    assert row["progress"]["layers_done"] == row["progress"]["layers"] == 2
    path = f"/images/{urllib.parse.quote(f'{registry.host}/test/pulled:1', safe='')}"
    assert api.get(path).status_code == 200
    assert api.delete(path).status_code in (200, 202, 204)
    assert error_of(api.get(path)) == (404, "not_found")


def test_unknown_image(api, registry):
    assert failed_create(api, f"{registry.host}/test/none:1")["reason"] == "image_not_found"


def test_unreachable_registry(api):
    host = "/teams/default/registries/127.0.0.1:1"
    assert api.http.put(host, json={"plain_http": True}).status_code in (200, 201, 204)
    assert failed_create(api, "127.0.0.1:1/test/debian:1")["reason"] == "image_pull_failed"
    api.delete(host)


def test_loopback_registry_needs_the_operator(api):
    """An image name cannot make the helper talk to services of this machine."""
    row = failed_create(api, "127.0.0.1:2/test/debian:1")
    assert row["reason"] == "image_pull_denied"


def test_wrong_digest(api, pushed):
    """A digest that the registry does not have; and a manifest whose bytes are not its digest."""
    name = pushed.rsplit(":", 1)[0]
    row = failed_create(api, f"{name}@sha256:{'0' * 64}")
    assert row["reason"] in ("image_not_found", "image_digest_mismatch")


def test_manifest_that_does_not_match_its_digest(api, registry, demo_layer):
    digest = registry.push("test/forged:1", [demo_layer, demo_image.layer_of({"f": b"1"})], {})
    path = registry.blob(digest)
    path.write_bytes(path.read_bytes() + b" ")
    row = failed_create(api, f"{registry.host}/test/forged@{digest}")
    assert row["reason"] in ("image_digest_mismatch", "image_pull_failed")


def test_corrupt_layer(api, registry):
    layer = demo_image.layer_of({"unique-for-corrupt": os.urandom(100_000)})
    digest = registry.push("test/corrupt:1", [layer], {})
    registry.corrupt_layer(digest)
    row = failed_create(api, f"{registry.host}/test/corrupt:1")
    assert row["reason"] in ("image_digest_mismatch", "image_pull_failed", "image_invalid")


def test_image_of_another_architecture(api, registry):
    other = "arm64" if demo_image.architecture() == "amd64" else "amd64"
    registry.push("test/other:1", [demo_image.layer_of({"x": b"other"})], {}, other)
    row = failed_create(api, f"{registry.host}/test/other:1")
    assert row["reason"] == "image_platform_mismatch"


@pytest.mark.parametrize("name", ["../escape", "/absolute-escape", "a/../../escape"])
def test_layer_that_climbs_out_of_its_folder(api, deployed, registry, demo_layer, name):
    """Checklist D.3 61: nothing of it lands outside, whether it is refused or kept inside."""
    tag = f"test/climb{abs(hash(name))}:1"
    registry.push(tag, [demo_layer, demo_image.layer_of({name: b"x"})], {})
    answer = api.post("/sandboxes?wait=60", {"image": f"{registry.host}/{tag}", "cpus": 1,
                                             "memory_mb": 64}).json()
    assert answer["state"] in ("failed", "ready")
    if answer["state"] == "failed":
        assert answer["reason"] == "image_invalid"
    api.remove(answer["id"])
    for folder in ("/", str(deployed.state), str(deployed.state / "lib")):
        assert not os.path.exists(f"{folder}/escape")
        assert not os.path.exists(f"{folder}/absolute-escape")


def test_import_of_what_is_no_archive(api, tmp_path):
    bad = tmp_path / "bad.tar"
    bad.write_bytes(b"this is not a tar archive " * 1000)
    answer = api.http.post("/images?name=bad-archive", content=bad.read_bytes())
    status, code = error_of(answer)
    assert status == 422 and code in ("archive_invalid", "invalid_field")
    assert error_of(api.get("/images/bad-archive"))[0] == 404


def pack_layout(folder, spoil=lambda blobs: None) -> bytes:
    """An OCI layout as the archive that skopeo, buildkit and `docker save` make of it."""
    spoil(folder / "blobs" / "sha256")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, path.name)
    return out.getvalue()


def test_an_oci_archive_brings_its_layers_and_its_config(api, demo_layer, tmp_path):
    second = demo_image.layer_of({"etc/second": b"2", "etc/.wh.motd": b""})
    digest = demo_image.write_oci_layout(
        tmp_path, [demo_layer, second],
        {"User": "user", "WorkingDir": "/home/user", "Env": ["KIND=archive"]})
    answer = api.http.post("/images?name=from-archive", content=pack_layout(tmp_path))
    assert answer.status_code == 201, answer.text
    image = answer.json()
    assert image["digest"] == digest and image["source"] == "import"
    assert image["config"]["user"] == "user" and image["config"]["workdir"] == "/home/user"
    box = api.create("from-archive")["id"]
    assert api.output(box, "id -un; pwd; echo $KIND; cat /etc/second") == (
        "user\n/home/user\narchive\n2")
    api.remove(box)


def corrupt(blobs, old: bytes, new: bytes) -> None:
    for path in blobs.iterdir():
        data = path.read_bytes()
        if old in data[:10_000]:
            path.write_bytes(data.replace(old, new))


def replace_by_link(blobs) -> None:
    for path in blobs.iterdir():
        path.unlink()
        path.symlink_to("/etc/passwd")


@pytest.mark.parametrize("spoil", [
    lambda blobs: corrupt(blobs, b'"os":', b'"oz":'),
    lambda blobs: corrupt(blobs, b"User", b"Xser"),
    replace_by_link, lambda blobs: [path.unlink() for path in blobs.iterdir()],
    lambda blobs: [path.write_bytes(b"\0" * 100) for path in blobs.iterdir()]])
def test_a_broken_oci_archive_is_refused(api, demo_layer, tmp_path, spoil):
    demo_image.write_oci_layout(tmp_path, [demo_image.layer_of({"a": b"1"})], {"User": "user"})
    answer = api.http.post("/images?name=broken", content=pack_layout(tmp_path, spoil))
    assert answer.status_code in (409, 422), answer.text
    assert api.get("/images/broken").status_code == 404
    assert api.get("/readyz").status_code == 200


def test_credentials_go_in_and_never_out(api, deployed):
    secret = "canary-registry-password"
    path = "/teams/default/registries/registry.example.com"
    put = api.http.put(path, json={"username": "u", "password": secret, "plain_http": False})
    assert put.status_code in (200, 201, 204)
    got = api.get(path)
    assert got.status_code == 200 and secret not in got.text
    assert api.delete(path).status_code in (200, 204)
    assert error_of(api.get(path)) == (404, "not_found")
    for program in ("sandbox-node", "sandbox-gateway"):
        assert secret not in deployed.log_tail(program, 100_000)


def test_gc_removes_what_nobody_uses(api, registry, demo_layer):
    registry.push("test/unused:1", [demo_image.layer_of({"big": os.urandom(500_000)})], {})
    reference = f"{registry.host}/test/unused:1"
    assert pull(api, reference)["state"] == "succeeded"
    kept = api.create()
    freed = api.post("/images/gc")
    assert freed.status_code == 200, freed.text
    names = {row["name"] for row in api.get("/images").json()["items"]}
    assert reference in freed.json()["removed"] and freed.json()["freed_bytes"] > 400_000
    assert kept["image"] in names and reference not in names
    api.remove(kept["id"])
    if "debian-demo" not in {row["name"] for row in api.get("/images").json()["items"]}:
        with demo_image.make_tar(ROOT / "build" / "demo-image").open("rb") as tar:
            api.instance.request("POST", "/images?name=debian-demo", tar, 300)


def test_list_comes_in_pages_without_loss_or_repeat(api, registry, demo_layer):
    for number in range(2):
        registry.push(f"test/page:{number}", [demo_layer], {"Labels": {"n": str(number)}})
        assert pull(api, f"{registry.host}/test/page:{number}")["state"] == "succeeded"
    whole = [row["name"] for row in api.get("/images").json()["items"]]
    names, cursor = [], ""
    while cursor is not None:
        page = api.get(f"/images?limit=1&cursor={urllib.parse.quote(cursor)}" if cursor
                       else "/images?limit=1").json()
        assert len(page["items"]) == 1
        names.append(page["items"][0]["name"])
        cursor = page["next_cursor"]
    assert names == whole and len(names) >= 2
    assert error_of(api.get("/images?cursor=nonsense")) == (422, "invalid_field")
    assert error_of(api.get("/images?limit=0")) == (422, "invalid_field")


def test_openapi_names_the_image_routes(api):
    document = json.loads(api.get("/openapi.json").text)
    assert {"/images", "/images/{name}", "/images/gc"} <= set(document["paths"])
