"""Bad input: each a clear error with the code of the contract, and nothing left behind."""

import json
import socket

import pytest

from deployment import IMAGE, error_of

GOOD = {"image": IMAGE, "cpus": 1, "memory_mb": 64}


@pytest.fixture(autouse=True)
def nothing_left(api):
    """No row of this table may make a sandbox."""
    def ids() -> set:
        return {row["id"] for row in api.get("/sandboxes?limit=1000").json()["items"]}
    before = ids()
    yield
    assert ids() - before == set()


CREATE_ROWS = [
    ({"cpus": 0}, "invalid_field", "cpus"),
    ({"cpus": -1}, "invalid_field", "cpus"),
    ({"cpus": 0.0001}, "invalid_field", "cpus"),
    ({"cpus": 1e9}, "quota_never", None),
    ({"cpus": "1"}, "invalid_field", "cpus"),
    ({"cpus": None}, "missing_field", "cpus"),
    ({"memory_mb": 0}, "invalid_field", "memory_mb"),
    ({"memory_mb": -64}, "invalid_field", "memory_mb"),
    ({"memory_mb": 64.5}, "invalid_field", "memory_mb"),
    ({"memory_mb": 2**40}, "quota_never", None),
    ({"memory_mb": 2**70}, "invalid_field", "memory_mb"),
    ({"memory_mb": None}, "missing_field", "memory_mb"),
    ({"storage_mb": 0}, "invalid_field", "storage_mb"),
    ({"storage_mb": -1}, "invalid_field", "storage_mb"),
    ({"storage_mb": 2**40}, "quota_never", None),
    ({"image": None}, "missing_field", "image"),
    ({"image": ""}, "invalid_field", "image"),
    ({"image": "UPPER CASE/x"}, "invalid_field", "image"),
    ({"image": "a" * 5000}, "invalid_field", "image"),
    ({"image": 7}, "invalid_field", "image"),
    ({"imgae": "x"}, "unknown_field", "imgae"),
    ({"network": {"mode": "none", "alow": []}}, "unknown_field", "network.alow"),
    ({"network": {"mode": "closed"}}, "invalid_field", "network.mode"),
    ({"isolation": "vm"}, "not_supported", None),
    ({"isolation": "none"}, "invalid_field", "isolation"),
    ({"compose": {"files": ["services: {}"]}}, "compose_invalid", None),
    ({"run_entrypoint": True}, "invalid_field", "run_entrypoint"),
    ({"env": {"A": 1}}, "invalid_field", "env.A"),
    ({"env": {"A=B": "x"}}, "invalid_field", None),
    ({"env": {"A": "nul\0"}}, "invalid_field", None),
    ({"labels": {"k" * 64: "v"}}, "invalid_field", None),
    ({"labels": {"k": "v" * 257}}, "invalid_field", None),
    ({"labels": {f"k{i}": "v" for i in range(33)}}, "invalid_field", "labels"),
    ({"lease_sec": 0}, "invalid_field", "lease_sec"),
    ({"lease_sec": 10**9}, "invalid_field", "lease_sec"),
    ({"max_lifetime_sec": -5}, "invalid_field", "max_lifetime_sec"),
    ({"pull": "never"}, "invalid_field", "pull"),
    ({"workdir": "relative"}, "invalid_field", "workdir"),
    ({"user": "a\nb"}, "invalid_field", "user"),
]


@pytest.mark.parametrize("change, code, field", CREATE_ROWS)
def test_create_refuses(api, change, code, field):
    body = {name: value for name, value in {**GOOD, **change}.items() if value is not None}
    answer = api.post("/sandboxes", body)
    assert error_of(answer) == (422, code), answer.text
    if field is not None:
        assert answer.json()["error"]["details"]["field"] == field


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"image":"x"', b'"x"', b"\xff\xfe", b"nul",
                                  b'{"image":"\\ud800"}', b"[" * 100_000])
def test_malformed_json(api, body):
    assert error_of(api.http.post("/sandboxes", content=body)) == (400, "malformed")


def test_body_that_is_too_large(api):
    body = json.dumps({**GOOD, "env": {"A": "x" * 20_000_000}}).encode()
    assert error_of(api.http.post("/sandboxes", content=body)) == (413, "body_too_large")


@pytest.mark.parametrize("path", ["/sandboxes", "/images", "/sandboxes/none"])
def test_bad_token(api, path):
    for token in ("", "wrong", api.instance.token[:-1], api.instance.token + "x"):
        with api.client(token) as client:
            answer = client.get(path)
        assert error_of(answer) == (401, "unauthenticated"), token
    assert error_of(api.http.get(path, headers={"Authorization": "Basic dTpw"}))[0] == 401


def test_open_routes_need_no_token(api):
    with api.client("") as client:
        for path in ("/healthz", "/readyz", "/openapi.json"):
            assert client.get(path).status_code == 200, path


def test_unknown_things(api):
    assert error_of(api.get("/nothing")) == (404, "not_found")
    assert error_of(api.get("/sandboxes/sb-none")) == (404, "not_found")
    assert error_of(api.delete("/sandboxes/sb-none")) == (404, "not_found")
    assert error_of(api.post("/sandboxes/sb-none/run", {"argv": ["true"]})) == (404, "not_found")
    assert error_of(api.http.put("/sandboxes")) == (405, "method_not_allowed")
    assert error_of(api.get("/sandboxes/..%2f..%2fetc"))[0] == 404


RUN_ROWS = [
    ({"argv": []}, "invalid_field", "argv"),
    ({"argv": "true"}, "invalid_field", "argv"),
    ({"argv": [1]}, "invalid_field", "argv"),
    ({"argv": ["a\0b"]}, "invalid_field", "argv"),
    ({}, "missing_field", None),
    ({"argv": ["true"], "command": "true"}, "invalid_field", None),
    ({"argv": ["true"], "cwd": "/no/such/folder"}, "cwd_invalid", None),
    ({"argv": ["true"], "cwd": "/etc/passwd"}, "cwd_invalid", None),
    ({"argv": ["true"], "cwd": "/proc/self/fd/3"}, "cwd_invalid", None),
    ({"argv": ["true"], "user": "nobody-here"}, "user_unknown", None),
    ({"argv": ["true"], "user": "-1"}, "user_unknown", None),
    ({"argv": ["true"], "user": "root\n"}, "user_unknown", None),
    ({"argv": ["true"], "timeout_sec": -1}, "invalid_field", "timeout_sec"),
    ({"argv": ["true"], "encoding": "latin1"}, "invalid_field", "encoding"),
    ({"argv": ["cat"], "stdin": "???", "stdin_encoding": "base64"}, "invalid_field", "stdin"),
    ({"argv": ["true"], "argvv": 1}, "unknown_field", "argvv"),
    ({"argv": ["true"], "container": "other"}, None, None),
]


@pytest.mark.parametrize("body, code, field", RUN_ROWS)
def test_run_refuses(api, shared_box, body, code, field):
    answer = api.post(f"/sandboxes/{shared_box}/run", body)
    status, found = error_of(answer)
    assert status in (422, 404) if code is None else (status, found) == (422, code), answer.text
    if field is not None:
        assert answer.json()["error"]["details"]["field"] == field


@pytest.mark.parametrize("method, path", [("GET", "/nodes"), ("GET", "/stream")])
def test_documented_but_not_built_is_said_so(api, method, path):
    answer = api.http.request(method, path)
    assert error_of(answer) == (422, "not_supported")


@pytest.mark.parametrize("path, code", [("/tmp/a\0b", "path_invalid"), ("a" * 5000, "path_invalid"),
                                        ("/" + "x/" * 3000, "path_invalid")])
def test_paths_that_cannot_be(api, shared_box, path, code):
    assert error_of(api.download(shared_box, path)) == (422, code)
    assert error_of(api.upload(shared_box, path, b"x")) == (422, code)


def test_dots_stay_inside_the_sandbox(api, shared_box):
    api.output(shared_box, "echo inside >/etc/marker")
    path = "/../../../../../../etc/marker"
    answer = api.download(shared_box, path)
    assert answer.status_code == 422 or answer.text == "inside\n"


def raw(api, data: bytes) -> bytes:
    """The start of the answer to these very bytes."""
    with socket.create_connection(("127.0.0.1", api.instance.settings.port), 20) as connection:
        connection.sendall(data)
        return connection.recv(65536)


RAW_ROWS = [
    (b"GARBAGE\r\n\r\n", b"400"),
    (b"GET / HTTP/9.9\r\n\r\n", b"400"),
    (b"POST /sandboxes HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n"
     b"\r\n0\r\n\r\n", b"400"),
    (b"POST /sandboxes HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
     b"400"),
    (b"GET /healthz HTTP/1.1\r\nhost: h\r\nx: a\x01b\r\n\r\n", b"400"),
    (b"GET /healthz HTTP/1.1\r\n" + b"x: " + b"y" * 40_000 + b"\r\n\r\n", b"431"),
]


@pytest.mark.parametrize("data, status", RAW_ROWS)
def test_broken_http(api, data, status):
    assert raw(api, data).split(b" ")[1] == status
    assert api.get("/healthz").status_code == 200


def test_header_injection_stays_a_value(api, deployed):
    """Checklist D.3 72: what a client sends cannot forge a log line."""
    forged = 'x","level":"forged-by-client'
    api.http.get("/sandboxes", headers={"X-Request-Id": forged, "User-Agent": forged})
    for line in deployed.log_path("sandbox-gateway").read_text().splitlines():
        if line.startswith("{"):
            assert json.loads(line)["level"] != "forged-by-client"
