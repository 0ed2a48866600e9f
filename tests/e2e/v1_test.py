"""/api/v1 as HTTP: what its published clients (tests/clients) do not look at."""

import json
import socket

import httpx
import pytest

import deployment

ROOT = "/api/v1/sandboxes"


@pytest.fixture(scope="module")
def default_image(api):
    """The demo image under the name of the gateway's default."""
    with deployment.demo_tar().open("rb") as tar:
        status, answer = api.instance.request("POST", "/images?name=agent", tar, 300)
    assert status in (200, 201), answer
    yield "agent"
    api.delete("/images/agent")


@pytest.fixture
def made(api, default_image):
    answer = api.post(ROOT)
    assert answer.status_code == 200, answer.text
    sandbox = answer.json()["sandbox"]["id"]
    yield sandbox
    api.remove(sandbox)


def lines_of(answer: httpx.Response) -> list[dict]:
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def refused(answer: httpx.Response) -> tuple[int, str]:
    body = answer.json()
    assert body["message"] == body["error"]["message"]
    assert body["error"]["details"]["request_id"] == answer.headers["x-request-id"]
    return answer.status_code, body["error"]["code"]


def test_without_its_image_a_create_says_what_to_do(api):
    assert api.get("/images/agent").status_code == 404
    answer = api.post(ROOT)
    assert refused(answer) == (503, "unavailable")
    assert "build-default" in answer.json()["message"]


def test_it_has_the_operators_size(api, made):
    row = api.get(f"/sandboxes/{made}").json()
    assert (row["image"], row["cpus"], row["memory_mb"]) == ("agent", 1, 2048)


def test_a_line_has_the_keys_of_both_forms(api, made):
    lines = lines_of(api.post(f"{ROOT}/{made}/exec", {"command": "echo a; echo b >&2; exit 5"}))
    assert {"type": "stdout", "stream": "stdout", "data": "a\n"} in lines
    assert {"type": "stderr", "stream": "stderr", "data": "b\n"} in lines
    done = lines[-1]
    assert done["type"] == "done" and done["done"] is True and done["exitCode"] == 5


def test_a_sandbox_that_ends_is_an_error_line_without_done(api, made):
    with api.http.stream("POST", f"{ROOT}/{made}/exec",
                         json={"command": "echo up; sleep 600"}) as answer:
        lines = answer.iter_lines()
        assert json.loads(next(lines))["data"] == "up\n"
        api.delete(f"/sandboxes/{made}")
        last = [json.loads(line) for line in lines][-1]
    assert last["type"] == "error" and last["error"] is True and last["message"]


@pytest.mark.parametrize("body, refusal", [
    (b"", (400, "malformed")), (b"{}", (422, "missing_field")),
    (b'{"command":"a","user":"root"}', (422, "unknown_field")),
    (b'{"command":"a","timeout":-1}', (422, "invalid_field")),
    (b'{"command":"a","workdir":"/none"}', (422, "cwd_invalid"))])
def test_exec_refuses(api, made, body, refusal):
    assert refused(api.http.post(f"{ROOT}/{made}/exec", content=body)) == refusal


def test_files_fail_with_their_own_codes(api, made):
    def read(path: str) -> tuple[int, str]:
        return refused(api.http.post(f"{ROOT}/{made}/read-file", params={"path": path}))

    assert read("/none") == (404, "file_not_found")
    assert read("/etc") == (409, "is_a_directory")
    assert read("/dev/zero") == (409, "not_a_file")
    assert refused(api.http.post(f"{ROOT}/{made}/write-file", params={"path": "/etc"},
                                 content=b"x")) == (409, "is_a_directory")
    assert refused(api.http.post(f"{ROOT}/{made}/write-file", content=b"x")) == (
        422, "missing_field")


def test_a_body_in_chunks_is_written_whole(api, made):
    pieces = (bytes([i]) * 100_000 for i in range(50))
    answer = api.http.post(f"{ROOT}/{made}/write-file", params={"path": "/a/b/c"}, content=pieces)
    assert answer.status_code == 200 and answer.json() == {"success": True}
    read = api.http.post(f"{ROOT}/{made}/read-file", params={"path": "/a/b/c"})
    assert read.content == b"".join(bytes([i]) * 100_000 for i in range(50))


def test_unknown_paths_below_it_are_404_in_its_form(api):
    for path in ("/api/v1", "/api/v1/", "/api/v1/artifacts", f"{ROOT}/x/y/z", f"{ROOT}/none"):
        assert refused(api.get(path)) == (404, "not_found")
    assert refused(api.http.put(ROOT)) == (405, "method_not_allowed")
    assert refused(api.client("").get(ROOT)) == (401, "unauthenticated")


def test_the_routes_that_do_not_collide_are_there_without_the_prefix(api, made):
    path = {"path": "/tmp/x"}
    assert api.http.post(f"/sandboxes/{made}/write-file", params=path,
                         content=b"1").json() == {"success": True}
    assert api.http.post(f"/sandboxes/{made}/read-file", params=path).content == b"1"
    row = api.get(f"/sandboxes/{made}/audit-logs").json()["items"][0]
    one = api.get(f"/sandboxes/{made}/audit-logs/{row['id']}").json()
    assert one["eventName"] == row["event"] == "file.read"


def test_a_connection_is_kept_after_each_answer(api, made):
    """The published client has one connection for all its calls."""
    host, port = api.instance.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        stream = connection.makefile("rwb")
        for _ in range(3):
            body = b'{"command":"true"}'
            stream.write(f"POST {ROOT}/{made}/exec HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
                         f"{api.instance.token}\r\nContent-Length: {len(body)}\r\n\r\n".encode())
            stream.write(body)
            stream.flush()
            assert stream.readline().startswith(b"HTTP/1.1 200")
            while stream.readline() != b"\r\n":
                pass
            while (size := int(stream.readline(), 16)) > 0:
                stream.read(size + 2)
            stream.readline()
