"""Pulling: once for all who wait, through mirrors, and as slowly as the registry wants."""

import json
import os
import subprocess
import urllib.parse

import pytest

import deployment
from deployment import demo_image, eventually, instance
from stub_registry import StubRegistry, busybox_layer

CREATES = 64


def layers() -> list[bytes]:
    """A root file system, and a layer that no other image has."""
    return [busybox_layer(), demo_image.layer_of({"only-here": os.urandom(20_000)})]


@pytest.fixture
def stub(api):
    with StubRegistry() as one:
        path = f"/teams/default/registries/{one.host}"
        assert api.http.put(path, json={"plain_http": True}).status_code in (200, 201)
        yield one
        api.delete(path)


def start_pull(api, reference: str) -> str:
    started = api.post("/images", {"pull": reference})
    assert started.status_code == 202, started.text
    return f"/images/pulls/{started.json()['id']}"


def pull(api, reference: str) -> dict:
    path = start_pull(api, reference)
    return eventually(lambda: (row := api.get(path).json())["state"] != "running" and row, 90)


def forget(api, reference: str) -> None:
    path = f"/images/{urllib.parse.quote(reference, safe='')}"
    assert api.delete(path).status_code in (200, 202, 204)


def test_64_creates_of_a_new_image_are_one_pull(api, stub):
    stub.push("t/many", layers())
    body = {"image": f"{stub.host}/t/many", "cpus": 0.02, "memory_mb": 16}
    made = [api.post("/sandboxes", body) for _ in range(CREATES)]
    assert {answer.status_code for answer in made} <= {201, 202}, made[-1].text
    try:
        for answer in made:
            row = api.get(f"/sandboxes/{answer.json()['id']}?wait=60").json()
            assert row["state"] == "ready", row
    finally:
        for answer in made:
            api.remove(answer.json()["id"])
    blobs = [path for method, path, _ in stub.asked if method == "GET" and "/blobs/" in path]
    assert len(blobs) == len(set(blobs)) == 3, blobs  # two layers and the configuration
    assert stub.count("/manifests/latest") == 1  # the rest asks for its digest


def test_a_registry_that_limits_is_asked_again_when_it_says(api, stub):
    digest = stub.push("t/limited", layers())
    reference = f"{stub.host}/t/limited"
    stub.limited, stub.retry_after = 10**6, "2"
    path = start_pull(api, reference)
    made = api.post("/sandboxes", {"image": reference, "cpus": 0.1, "memory_mb": 32}).json()
    try:
        row = eventually(lambda: (row := api.get(path).json())["reason"] and row)
        assert row["reason"] == "image_rate_limited" and "2 s" in row["message"], row

        def told() -> bool:
            events = api.get(f"/sandboxes/{made['id']}/events").json()["items"]
            return any(one["type"] == "pulling" and "429" in one["message"] for one in events)
        eventually(told)
        stub.limited = 0
        row = eventually(lambda: (row := api.get(path).json())["state"] != "running" and row, 60)
        assert (row["state"], row["reason"]) == ("succeeded", None), row
        row = api.get(f"/sandboxes/{made['id']}?wait=60").json()
        assert row["state"] == "ready" and row["image_digest"] == digest
    finally:
        api.remove(made["id"])


def test_a_registry_that_limits_on_and_on_is_given_up_with_that_reason(api, stub):
    stub.push("t/never", layers())
    stub.limited, stub.retry_after = 10**6, "0"
    row = pull(api, f"{stub.host}/t/never")
    assert (row["state"], row["reason"]) == ("failed", "image_rate_limited"), row
    stub.limited = 0
    assert pull(api, f"{stub.host}/t/never")["state"] == "succeeded"


class PullThroughCache:
    """Debian's docker-registry as a cache of another registry."""

    def __init__(self, folder, origin: str):
        self.host = f"127.0.0.1:{instance.free_port()}"
        self.data = folder / "data"
        config = folder / "config.yml"
        config.write_text(json.dumps({
            "version": 0.1, "log": {"level": "error"},
            "storage": {"filesystem": {"rootdirectory": str(self.data)}},
            "http": {"addr": self.host}, "proxy": {"remoteurl": f"http://{origin}"}}))
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(["docker-registry", "serve", config], stdout=log,
                                            stderr=log)
        eventually(self.answers, what="docker-registry as a cache")

    def answers(self) -> bool:
        assert self.process.poll() is None
        try:
            return deployment.httpx.get(f"http://{self.host}/v2/").status_code == 200
        except deployment.httpx.TransportError:
            return False

    def kept(self) -> set[str]:
        """Digests; it stores beside what it answers with."""
        return {f"sha256:{path.parent.name}" for path in self.data.rglob("blobs/sha256/*/*/data")}

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=10)


@pytest.fixture
def cache(stub, tmp_path):
    one = PullThroughCache(tmp_path, stub.host)
    yield one
    one.close()


def test_a_pull_through_cache_spares_the_registry(api, stub, cache):
    digest = stub.push("t/cached", layers())
    reference = f"{stub.host}/t/cached"
    path = f"/teams/default/registries/{stub.host}"
    api.http.put(path, json={"mirror": f"http://{cache.host}", "plain_http": True})
    assert api.get(path).json()["mirror"] == f"http://{cache.host}"
    assert pull(api, reference)["state"] == "succeeded"
    forget(api, reference)
    eventually(lambda: cache.kept() >= set(stub.blobs), what="the cache has stored the blobs")
    before = stub.count("/blobs/")
    row = pull(api, reference)
    assert row["state"] == "succeeded", row
    assert stub.count("/blobs/") == before
    made = api.create(reference, cpus=0.1, memory_mb=32)
    assert made["image_digest"] == digest
    api.remove(made["id"])


def test_where_a_mirror_lacks_something_the_registry_itself_is_asked(api, stub):
    stub.push("t/partly", layers())
    path = f"/teams/default/registries/{stub.host}"
    with StubRegistry() as mirror:
        mirror.manifests = dict(stub.manifests)
        api.http.put(path, json={"mirror": f"http://{mirror.host}", "plain_http": True})
        assert pull(api, f"{stub.host}/t/partly")["state"] == "succeeded"
        assert mirror.count("/manifests/") and stub.count("/blobs/") == 3
        assert stub.count("/manifests/latest") == 0
    forget(api, f"{stub.host}/t/partly")
    assert pull(api, f"{stub.host}/t/partly")["state"] == "succeeded"  # the mirror is gone


def test_the_operators_mirror_is_for_teams_without_one(api, deployed):
    path = "/teams/default/registries/mirrored.example.com"
    with StubRegistry(deployed.mirror_port) as operators, StubRegistry() as own:
        digest = operators.push("t/one", layers())
        made = api.create("mirrored.example.com/t/one", cpus=0.1, memory_mb=32)
        assert made["image_digest"] == digest
        api.remove(made["id"])
        # An entry without a mirror leaves it, one with a mirror does without it.
        api.http.put(path, json={"plain_http": False}).raise_for_status()
        try:
            operators.push("t/two", layers())
            assert pull(api, "mirrored.example.com/t/two")["state"] == "succeeded"
            asked = len(operators.asked)
            own.push("t/three", layers())
            api.http.put(path, json={"mirror": f"http://{own.host}"}).raise_for_status()
            assert pull(api, "mirrored.example.com/t/three")["state"] == "succeeded"
            assert len(operators.asked) == asked
        finally:
            api.delete(path)


def test_a_mirror_is_a_host(api):
    path = "/teams/default/registries/registry.example.com"
    for wrong in ("https://x", "http://", "a b", "x/y"):
        answer = api.http.put(path, json={"mirror": wrong})
        assert deployment.error_of(answer) == (422, "invalid_field"), wrong


def test_images_are_fetched_ahead(api, stub, sandbox_cli):
    stub.push("t/ahead", layers())
    reference = f"{stub.host}/t/ahead"
    done = sandbox_cli("image", "pull", reference)
    assert done.returncode == 0 and done.stdout.decode().strip() == f"{reference}:latest"
    made = api.create(reference, cpus=0.1, memory_mb=32)
    events = [one["type"] for one in api.get(f"/sandboxes/{made['id']}/events").json()["items"]]
    assert "pulling" not in events
    api.remove(made["id"])
