"""What one token may ask for: 429 with the time to wait, and nobody else is hurt."""

import json
import time

import pytest
import sandbox_gateway

from deployment import Api, error_of


def own_token(api: Api) -> str:
    return api.get("/audit-logs?limit=1&event=sandbox.create").json()["items"][0]["token"]


@pytest.fixture
def token(api, box):
    """The id of the tests' token; its limits are the operator's again afterwards."""
    found = own_token(api)
    yield found
    while api.delete(f"/tokens/{found}/limits").status_code == 429:
        time.sleep(0.2)


def limit(api: Api, token: str, **limits) -> dict:
    answer = api.http.put(f"/tokens/{token}/limits", json=limits)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_requests_a_second(api, box, token):
    assert limit(api, token, requests_per_sec=1, burst=8)["effective"]["burst"] == 8
    answers = [api.get("/me") for _ in range(30)]
    passed = [answer for answer in answers if answer.status_code == 200]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(passed) >= 8 and refused
    assert int(passed[0].headers["ratelimit-limit"]) == 1
    assert error_of(refused[0]) == (429, "rate_limited")
    time.sleep(int(refused[0].headers["retry-after"]))
    assert api.get("/me").status_code == 200
    assert api.client("").get("/healthz").status_code == 200


def test_streams_at_once(api, box, token):
    limit(api, token, concurrent_streams=1)
    events = f"/sandboxes/{box}/events?follow=true"
    with api.http.stream("GET", events) as first:
        assert first.status_code == 200
        assert error_of(api.get(events)) == (429, "rate_limited")
        assert api.run(box, "true")["exit_code"] == 0
    # The end of the first is seen a moment later.
    for _ in range(100):
        with api.http.stream("GET", events) as again:
            if again.status_code == 200:
                return
        time.sleep(0.05)
    raise AssertionError("the stream's place is not given back")


@pytest.mark.parametrize("chunked", [False, True])
def test_bodies(api, box, token, chunked):
    limit(api, token, body_mb=1)
    large = b"x" * (3 * 1024 * 1024)
    content = iter([large[:1_000_000], large[1_000_000:]]) if chunked else large
    answer = api.http.put(f"/sandboxes/{box}/files", params={"path": "/tmp/large"},
                          content=content)
    assert error_of(answer) == (413, "body_too_large")
    assert api.download(box, "/tmp/large").status_code == 404
    assert api.upload(box, "/tmp/small", b"x" * 1000).status_code in (200, 201)


def test_bad_limits(api, token):
    for body in ({"burst": -1}, {"burst": 1.5}, {"colour": 1}, {"body_mb": "1"}):
        assert api.http.put(f"/tokens/{token}/limits", json=body).status_code == 422, body
    assert error_of(api.http.put("/tokens/tok-none/limits", json={})) == (404, "not_found")


def test_limits_by_the_command_line(token, sandbox_cli):
    def limits(*options: str) -> dict:
        return json.loads(sandbox_cli("-o", "json", "token", "limits", token, *options).stdout)

    assert limits()["concurrent_creates"] is None
    assert limits("--creates", "7", "--body-mb", "0")["effective"]["concurrent_creates"] == 7
    # What is not named stays.
    after = limits("--streams", "9")
    assert (after["concurrent_creates"], after["concurrent_streams"]) == (7, 9)
    table = sandbox_cli("-o", "table", "token", "limits", token).stdout.decode()
    assert "no limit" in table and "operator's" in table
    assert limits("--reset")["concurrent_creates"] is None
    refused = sandbox_cli("token", "limits", "tok-none")
    assert refused.returncode == 125 and b"not_found" in refused.stderr
    assert sandbox_cli("token", "limits", token, "--rate", "-1").returncode == 125


def test_limits_by_the_python_client(deployed, token):
    with sandbox_gateway.Gateway(url=deployed.url, token=deployed.token) as gateway:
        tokens = gateway.tokens
        assert tokens.set_limits(token, concurrent_creates=5)["concurrent_creates"] == 5
        assert tokens.limits(token)["effective"]["concurrent_creates"] == 5
        tokens.reset_limits(token)
        assert tokens.limits(token)["concurrent_creates"] is None
