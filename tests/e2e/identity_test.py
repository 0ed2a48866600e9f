"""Who sandboxes are to others, judged by a JWT library that is none of ours (PyJWT), the exchange
of their tokens, and the credentials that they find inside."""

import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import httpx
import jwt
import pytest

import deployment
import sandbox_gateway
from deployment import IMAGE, Api, eventually

GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
JWT = "urn:ietf:params:oauth:token-type:jwt"
ACCESS = "urn:ietf:params:oauth:token-type:access_token"
OUTSIDE = "sts.example.com"
LIFETIME = 24
PLANTED = "template-secret-7311"

TEMPLATES = """
audiences: [{outside}]
services:
  packages:
    token_endpoint: {endpoint}
    audience: packages.example.com
    client_id: us
    client_secret_file: {secret}
    scope: pull
    target_audience: packages
secrets:
  proxy: {proxy}
templates:
  cloud:
    audience: {outside}
    files:
      ~/.cloud/token: "{{{{ token }}}}"
      /srv/not-there/for/users: "x"
    variables:
      CLOUD_TOKEN_FILE: ~/.cloud/token
      CLOUD_SANDBOX: "{{{{ sandbox.id }}}} of {{{{ sandbox.team }}}}"
  packages:
    service: packages
    files:
      ~/.packages.json: '{{"token": {{{{ json token }}}}, "owner": {{{{ json sandbox.owner }}}}}}'
  proxy:
    variables:
      PROXY: http://us:{{{{ secret.proxy }}}}@proxy.example.com
"""


class Packages:
    """An outside service of RFC 8693 that believes the gateway's keys, and nothing else."""

    def __init__(self, issuer: str):
        self.issuer, self.seen, self.always = issuer, [], None
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                form = {name: values[0] for name, values in parse_qs(
                    self.rfile.read(int(self.headers["content-length"])).decode()).items()}
                status, answer = service.answer(form, self.headers.get("authorization", ""))
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/token"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @contextlib.contextmanager
    def answering(self, status: int, answer):
        """Meanwhile whatever it is asked."""
        self.always = status, answer
        try:
            yield
        finally:
            self.always = None

    def answer(self, form: dict, authorization: str) -> tuple[int, dict]:
        self.seen.append((form, authorization))
        if self.always is not None:
            return self.always
        try:
            claims = verify(self.issuer, form["subject_token"], "packages.example.com")
        except jwt.PyJWTError:
            return 400, {"error": "invalid_request"}
        return 200, {"access_token": f"pkg-{claims['sandbox']}-{len(self.seen)}",
                     "issued_token_type": ACCESS, "token_type": "Bearer", "expires_in": 600}


def verify(issuer: str, token: str, audience: str) -> dict:
    """As a stranger does it: by the discovery document and the keys it names."""
    document = httpx.get(f"{issuer}/.well-known/openid-configuration").json()
    assert document["issuer"] == issuer
    key = jwt.PyJWKClient(document["jwks_uri"]).get_signing_key_from_jwt(token)
    return jwt.decode(token, key, algorithms=document["id_token_signing_alg_values_supported"],
                      audience=audience, issuer=issuer, options={"require": ["exp", "iat", "sub"]})


@pytest.fixture(scope="module")
def packages():
    service = Packages("")
    yield service
    service.server.shutdown()


@pytest.fixture(scope="module")
def deployed(packages, tmp_path_factory):
    one = deployment.make_instance("sgi", "10.217.0.0/16", 3_600_000_000, shells=2)
    packages.issuer = f"http://127.0.0.1:{one.settings.port}"
    folder = tmp_path_factory.mktemp("templates")
    for name, text in (("client", "of-the-client\n"), ("proxy", PLANTED)):
        (folder / name).write_text(text)
    one.prepare()
    file = one.state / "credentials.yaml"
    for name in ("client", "proxy"):
        (one.state / name).write_text((folder / name).read_text())
    file.write_text(TEMPLATES.format(outside=OUTSIDE, endpoint=packages.url,
                                     secret=one.state / "client", proxy=one.state / "proxy"))
    one.settings.gateway_options |= {
        "credentials": "sandbox, gatana", "credentials-file": str(file),
        "identity-lifetime": str(LIFETIME)}
    with deployment.running(one):
        yield one


@pytest.fixture(scope="module")
def api(deployed) -> Api:
    return Api(deployed)


@pytest.fixture(scope="module")
def box(api):
    made = api.create(labels={"job": "7"})["id"]
    yield made
    api.remove(made)


def identity_token(api: Api, sandbox: str, audience: str | None = None) -> str:
    body = {"audience": audience} if audience else {}
    answer = api.post(f"/sandboxes/{sandbox}/identity-token", body)
    assert answer.status_code == 200, answer.text
    return answer.json()["token"]


def exchange(api: Api, **form) -> httpx.Response:
    return httpx.post(f"{api.instance.url}/oauth/token",
                      data={"grant_type": GRANT, "subject_token_type": JWT, **form})


def access_of(api: Api, sandbox: str, **form) -> httpx.Client:
    """The API as the sandbox itself sees it."""
    answer = exchange(api, subject_token=identity_token(api, sandbox), **form)
    assert answer.status_code == 200, answer.text
    return api.client(answer.json()["access_token"])


def words_of(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json()["error_description"]
    return answer.status_code, answer.json()["error"]


def test_another_library_verifies_who_a_sandbox_is(deployed, api, box):
    row = api.get(f"/sandboxes/{box}").json()
    claims = verify(deployed.url, identity_token(api, box, OUTSIDE), OUTSIDE)
    assert claims["sub"] == f"sandbox:{box}" and claims["sandbox"] == box
    assert (claims["team"], claims["owner"]) == (row["team"], row["owner"])
    assert (claims["image"], claims["image_digest"]) == (row["image"], row["image_digest"])
    assert claims["labels"] == {"job": "7"}
    assert claims["exp"] - claims["iat"] == LIFETIME
    with pytest.raises(jwt.InvalidAudienceError):
        verify(deployed.url, identity_token(api, box), OUTSIDE)
    forbidden = api.post(f"/sandboxes/{box}/identity-token", {"audience": "other.example.com"})
    assert deployment.error_of(forbidden) == (422, "invalid_field")


def test_the_next_key_signs_and_the_old_one_stays_published(deployed, api, box, sandbox_cli):
    old = identity_token(api, box, OUTSIDE)
    keys = {row["state"]: row["id"] for row in api.get("/identity/keys").json()["items"]}
    assert jwt.get_unverified_header(old)["kid"] == keys["signing"]
    time.sleep(1.1)  # a key signs for a second at least
    done = sandbox_cli("identity", "rotate", "-o", "json")
    assert done.returncode == 0, done.stderr
    now = {row["id"]: row["state"] for row in json.loads(done.stdout)}
    assert now[keys["signing"]] == "ended" and now[keys["next"]] == "signing"
    printed = sandbox_cli("identity", "token", box, "--audience", OUTSIDE)
    new = printed.stdout.decode().strip()
    assert jwt.get_unverified_header(new)["kid"] == keys["next"]
    for token in (old, new):
        assert verify(deployed.url, token, OUTSIDE)["sandbox"] == box
    deployed.gateway.kill()
    deployed.start()
    assert verify(deployed.url, old, OUTSIDE) and verify(deployed.url, new, OUTSIDE)
    kid = jwt.get_unverified_header(identity_token(api, box, OUTSIDE))["kid"]
    assert kid == keys["next"]


def test_what_its_token_opens_is_itself(api, box):
    other = api.create()["id"]
    try:
        with access_of(api, box) as own:
            assert own.get("/me").json()["subject"] == f"sandbox:{box}"
            assert [row["id"] for row in own.get("/sandboxes").json()["items"]] == [box]
            assert [row["id"] for row in own.get("/sandboxes?scope=all").json()["items"]] == [box]
            assert [row["id"] for row in own.get("/api/v1/sandboxes").json()["sandboxes"]] == [box]
            ran = own.post(f"/sandboxes/{box}/run", json={"argv": ["echo", "hi"]})
            assert ran.json()["stdout"] == "hi\n"
            for path in (f"/sandboxes/{other}", f"/sandboxes/{other}/files?path=/etc/hostname",
                         f"/api/v1/sandboxes/{other}"):
                assert own.get(path).status_code == 404
            assert own.post(f"/sandboxes/{other}/run", json={"argv": ["id"]}).status_code == 404
            assert own.delete(f"/sandboxes/{other}").status_code == 404
            for method, path in (("POST", "/sandboxes"), ("GET", "/teams"), ("GET", "/images"),
                                 ("GET", "/audit-logs"), ("POST", "/tokens"), ("GET", "/quotas"),
                                 ("GET", "/identity/keys"), ("PATCH", f"/sandboxes/{box}")):
                answer = own.request(method, path, json={} if method != "GET" else None)
                assert answer.status_code == 403, (method, path, answer.text)
        with access_of(api, box, scope="read") as reader:
            assert reader.get(f"/sandboxes/{box}").status_code == 200
            assert reader.post(f"/sandboxes/{box}/run", json={"argv": ["id"]}).status_code == 403
        rows = api.get(f"/sandboxes/{box}/audit-logs?event=command.run").json()["items"]
        assert f"sandbox:{box}" in {row["caller"] for row in rows}
    finally:
        api.remove(other)


def test_a_team_widens_and_narrows_it(api):
    made = api.create()["id"]
    other = api.create()["id"]
    try:
        with access_of(api, made) as own:
            assert own.get(f"/sandboxes/{other}").status_code == 404
            wide = {"sandbox_identity": {"sandboxes": "team"}}
            assert api.http.patch("/teams/default", json=wide).status_code == 200
            assert own.get(f"/sandboxes/{other}").status_code == 200
            third = own.post("/sandboxes?wait=60",
                             json={"image": IMAGE, "cpus": 1, "memory_mb": 64}).json()
            assert third["owner"] == f"sandbox:{made}"
            assert own.delete(f"/sandboxes/{third['id']}?wait=60").status_code == 204
            assert own.patch(f"/sandboxes/{made}", json={"labels": {}}).status_code == 403
            assert own.post("/tokens", json={}).status_code == 403
            none = {"sandbox_identity": {"sandboxes": "none"}}
            assert api.http.patch("/teams/default", json=none).status_code == 200
            assert own.get("/me").status_code == 403
        refused = exchange(api, subject_token=identity_token(api, made))
        assert words_of(refused) == (400, "invalid_scope")
        bad = api.http.patch("/teams/default", json={"sandbox_identity": {"scopes": ["admin"]}})
        assert deployment.error_of(bad) == (422, "invalid_field")
    finally:
        api.http.patch("/teams/default", json={"sandbox_identity": {"sandboxes": "own"}})
        api.remove(made)
        api.remove(other)


def test_a_token_ends_with_its_sandbox(api):
    made = api.create()["id"]
    identity = identity_token(api, made)
    with access_of(api, made) as own:
        assert own.get("/me").status_code == 200
        api.remove(made)
        assert own.get("/me").status_code == 401
    assert words_of(exchange(api, subject_token=identity)) == (400, "invalid_request")


def test_what_is_no_identity_token_is_refused(api, box):
    identity = identity_token(api, box)
    head, claims, signature = identity.split(".")
    for token in ("x", "a.b.c", identity[:-4] + "AAAA", f"{head}.{claims}.", api.instance.token,
                  identity_token(api, box, OUTSIDE), "e30." + claims + "." + signature):
        assert words_of(exchange(api, subject_token=token)) == (400, "invalid_request")
    # An identity token is none of the API's, nor is what is like one of a sandbox.
    for bearer in (identity, "sandbox.AAAA", "sandbox.", identity_token(api, box, OUTSIDE)):
        with api.client(bearer) as client:
            assert client.get("/me").status_code == 401
    access = exchange(api, subject_token=identity).json()["access_token"]
    assert words_of(exchange(api, subject_token=access)) == (400, "invalid_request")


def test_refusals_are_those_of_oauth(api, box):
    token = identity_token(api, box)
    for form, word in (({"grant_type": "password"}, "unsupported_grant_type"),
                       ({"subject_token_type": ACCESS}, "invalid_request"),
                       ({"subject_token": ""}, "invalid_request"),
                       ({"actor_token": "x"}, "invalid_request"),
                       ({"audience": "nobody.example.com"}, "invalid_target"),
                       ({"resource": "https://nobody.example.com"}, "invalid_target"),
                       ({"scope": "admin"}, "invalid_scope"),
                       ({"requested_token_type": JWT}, "invalid_request"),
                       ({"audience": OUTSIDE, "scope": "read"}, "invalid_scope")):
        assert words_of(exchange(api, **{"subject_token": token, **form})) == (400, word), form
    url = f"{api.instance.url}/oauth/token"
    for body, kind in ((b"grant_type=a&grant_type=b", "application/x-www-form-urlencoded"),
                       (b"grant_type=%zz", "application/x-www-form-urlencoded"),
                       (b"{}", "application/json"), (b"", "")):
        answer = httpx.post(url, content=body, headers={"content-type": kind} if kind else {})
        assert words_of(answer) == (400, "invalid_request")


def test_an_exchange_for_others(deployed, api, box, packages):
    token = identity_token(api, box)
    identity = exchange(api, subject_token=token, audience=OUTSIDE).json()
    assert (identity["token_type"], identity["issued_token_type"]) == ("N_A", JWT)
    assert verify(deployed.url, identity["access_token"], OUTSIDE)["sandbox"] == box
    given = exchange(api, subject_token=token, audience="packages").json()
    assert given["access_token"].startswith(f"pkg-{box}-") and given["token_type"] == "Bearer"
    assert 500 < given["expires_in"] <= 600
    form, authorization = packages.seen[-1]
    assert (form["audience"], form["scope"], form["grant_type"]) == ("packages", "pull", GRANT)
    assert authorization.startswith("Basic ") and "client_secret" not in form
    with packages.answering(503, {}):
        away = exchange(api, subject_token=token, audience="packages")
        assert words_of(away) == (503, "temporarily_unavailable")


@pytest.mark.parametrize("lie", [
    {}, [], {"access_token": None}, {"access_token": 7}, {"access_token": ["x"]},
    *({"access_token": text, "token_type": "Bearer", "expires_in": 600}
      for text in ("", "a\nb", "a\0b", "tök", "x" * 40_000))])
def test_what_a_service_gives_that_is_no_token_goes_nowhere(api, box, packages, lie):
    token = identity_token(api, box)
    with packages.answering(200, lie):
        answer = exchange(api, subject_token=token, audience="packages")
        assert words_of(answer) == (503, "temporarily_unavailable")


@pytest.mark.parametrize("life", [0, -1, 2**70, 1e300, "600", None, {}])
def test_a_time_that_is_none_is_a_short_one(api, box, packages, life):
    token = identity_token(api, box)
    odd = {"access_token": "a token", "expires_in": life, "token_type": 7,
           "issued_token_type": "a\nb", "scope": {}}
    with packages.answering(200, odd):
        given = exchange(api, subject_token=token, audience="packages").json()
        assert given["access_token"] == "a token" and given["token_type"] == "Bearer"
        assert 290 < given["expires_in"] <= 300 and given["issued_token_type"] == "ab"


def test_credentials_are_there_for_the_first_command(deployed, api):
    made = api.create(user="1000", env={"PROXY": "mine"})["id"]
    try:
        home = api.output(made, "echo $HOME")
        listed = api.output(made, "stat -c '%a %u' ~/.config/sandbox/config.json ~/.gatana.config "
                                  "~/.cloud/token ~/.packages.json")
        assert listed.split("\n") == ["600 1000"] * 4
        config = json.loads(api.output(made, "cat ~/.config/sandbox/config.json"))
        assert config["url"] == "http://169.254.1.1"
        with api.client(config["token"]) as own:
            assert own.get("/me").json()["subject"] == f"sandbox:{made}"
        cloud = api.output(made, "cat $CLOUD_TOKEN_FILE")
        assert verify(deployed.url, cloud, OUTSIDE)["sandbox"] == made
        assert json.loads(api.output(made, "cat ~/.packages.json"))["token"].startswith("pkg-")
        variables = {"CLOUD_TOKEN_FILE": f"{home}/.cloud/token", "PROXY": "mine",
                     "CLOUD_SANDBOX": f"{made} of default",
                     "SANDBOX_GATEWAY_CONFIG": f"{home}/.config/sandbox/config.json"}
        for name, value in variables.items():
            assert api.output(made, f"echo ${name}") == value
        # Everywhere: a session, a terminal's shell, binary exec, the streamed form.
        ask = "echo got:$CLOUD_SANDBOX"
        session = api.post(f"/sandboxes/{made}/sessions", {"command": ask}).json()["id"]
        api.get(f"/sandboxes/{made}/sessions/{session}?wait=30")
        logs = api.get(f"/sandboxes/{made}/sessions/{session}/logs").text
        binary = api.http.post(f"/sandboxes/{made}/exec",
                               content=json.dumps({"command": ask}) + "\n").text
        streamed = api.post(f"/api/v1/sandboxes/{made}/exec", {"command": ask}).text
        for text in (logs, binary, streamed):
            assert f"got:{made} of default" in text
        own = api.output(made, "echo $PROXY $GATANA_API_KEY", env={"GATANA_API_KEY": "theirs"})
        assert own == "mine theirs"
        # What could not be written is told, and hinders nothing else.
        events = eventually(lambda: [event for event in
                                     api.get(f"/sandboxes/{made}/events").json()["items"]
                                     if event["type"] == "credentials_failed"])
        assert "/srv/not-there/for/users" in events[0]["message"] and len(events) == 1
    finally:
        api.remove(made)


@pytest.fixture
def registry(api, tmp_path_factory):
    from conftest import Registry
    made = Registry(tmp_path_factory.mktemp("registry"))
    api.http.put(f"/teams/default/registries/{made.host}", json={"plain_http": True})
    yield made
    made.close()


def test_an_entrypoint_finds_them(api, registry, demo_layer):
    image = {"Entrypoint": ["/bin/sh", "-c", "echo $CLOUD_SANDBOX; cat ~/.cloud/token"]}
    registry.push("test/identity:1", [demo_layer], image)
    made = api.create(f"{registry.host}/test/identity:1", run_entrypoint=True)["id"]
    try:
        said = eventually(lambda: (lambda text: text.count(".") == 2 and text)(
            api.get(f"/sandboxes/{made}/logs").text))
        first, token = said.split("\n")
        assert first == f"{made} of default"
        assert verify(api.instance.url, token, OUTSIDE)["sandbox"] == made
    finally:
        api.remove(made)


def test_they_are_made_anew_and_a_running_command_does_not_notice(api):
    made = api.create()["id"]
    try:
        read = "cat ~/.config/sandbox/config.json"
        first = json.loads(api.output(made, read))["token"]
        # A reader that never meets half a file, nor none.
        watch = ("n=0; while [ -z \"$stop\" ]; do read -r line < ~/.config/sandbox/config.json || "
                 "exit 9; case $line in *'\"}') ;; *) exit 8;; esac; "
                 "[ -e /tmp/stop ] && exit 0; done")
        session = api.post(f"/sandboxes/{made}/sessions", {"command": watch}).json()["id"]
        second = eventually(lambda: (lambda token: token != first and token)(
            json.loads(api.output(made, read))["token"]), LIFETIME + 30)
        assert api.output(made, "echo $GATANA_API_KEY") != first
        for token in (first, second):
            with api.client(token) as own:
                status = own.get("/me").status_code
                assert status == 200 or (token == first and status == 401)
        api.output(made, "touch /tmp/stop")
        done = api.get(f"/sandboxes/{made}/sessions/{session}?wait=30").json()
        assert done["exit_code"] == 0
    finally:
        api.remove(made)


def bash_inside(api: Api, sandbox: str, script: str, **fields) -> dict:
    return api.run(sandbox, "bash", "-c", script, **fields)


ASK = (r"exec 3<>/dev/tcp/169.254.1.1/80; printf 'GET %s HTTP/1.1\r\nHost: g\r\n"
       r"Connection: close\r\nAuthorization: Bearer %s\r\n\r\n' $0 $1 >&3; cat <&3")


@pytest.mark.parametrize("network", [{"mode": "open"},
                                     {"mode": "allow", "allow": ["192.0.2.1"]}])
def test_the_gateway_answers_inside(api, network):
    made = api.create(network=network)["id"]
    try:
        token = json.loads(api.output(made, "cat ~/.config/sandbox/config.json"))["token"]
        done = api.run(made, "bash", "-c", ASK, "/me", token, timeout_sec=30)
        assert "200 OK" in done["stdout"] and f"sandbox:{made}" in done["stdout"], done
        none = api.run(made, "bash", "-c", ASK, "/me", "x", timeout_sec=30)
        assert "401" in none["stdout"].split("\r\n")[0]
        rows = api.get("/audit-logs?event=access.denied&scope=all").json()["items"]
        address = api.output(made, "hostname -I").split()[0]
        assert address in {row["remote"] for row in rows}
        # Nothing else of the host is there.
        for port in (22, 8080, api.instance.settings.port):
            tried = api.run(made, "timeout", "3", "bash", "-c",
                            f"exec 3<>/dev/tcp/169.254.1.1/{port}", timeout_sec=20)
            assert tried["exit_code"] != 0
    finally:
        api.remove(made)


def test_without_network_only_the_credentials_are_there(api):
    made = api.create(network={"mode": "none"})["id"]
    try:
        assert "169.254.1.1" in api.output(made, "cat ~/.config/sandbox/config.json")
        tried = api.run(made, "timeout", "3", "bash", "-c", "exec 3<>/dev/tcp/169.254.1.1/80",
                        timeout_sec=20)
        assert tried["exit_code"] != 0
    finally:
        api.remove(made)


def test_one_sandbox_does_not_take_all_connections(api, box):
    script = ("for i in $(seq 5 84); do eval \"exec $i<>/dev/tcp/169.254.1.1/80\" || exit 1; done; "
              "head -c 12 <&84; echo; "
              "printf 'GET /healthz HTTP/1.1\\r\\nHost: g\\r\\n\\r\\n' >&5; head -c 12 <&5")
    done = bash_inside(api, box, script, timeout_sec=60)
    assert done["stdout"].split("\n")[:2] == ["HTTP/1.1 429", "HTTP/1.1 200"], done
    assert api.get("/healthz").status_code == 200


def test_the_command_line_works_inside_without_set_up(deployed, api, box):
    program = (deployed.bin / "sandbox").read_bytes()
    assert api.upload(box, "/usr/local/bin/sandbox", program, mode="0755").status_code == 200
    for name in needed_libraries(deployed):
        api.upload(box, f"/usr/local/lib/{name.name}", name.read_bytes(), mode="0755")
    environment = {"LD_LIBRARY_PATH": "/usr/local/lib"}
    assert json.loads(api.output(box, "sandbox me -o json", env=environment))["subject"] == (
        f"sandbox:{box}")
    assert api.output(box, "sandbox list -q", env=environment) == box
    assert api.output(box, f"sandbox exec {box} -- echo from inside", env=environment) == (
        "from inside")


def needed_libraries(deployed):
    """What of its libraries an image without them lacks."""
    import subprocess
    from pathlib import Path
    said = subprocess.run(["ldd", deployed.bin / "sandbox"], capture_output=True, text=True,
                          check=False).stdout
    return [Path(line.split("=>")[1].split()[0]) for line in said.splitlines() if "=> /" in line]


def test_the_client_takes_a_fresh_token_when_one_is_refused(deployed, api, box, tmp_path,
                                                            monkeypatch):
    """Python inside of a sandbox, as far as the client can tell."""
    file = tmp_path / "config.json"
    monkeypatch.delenv("SANDBOX_GATEWAY_TOKEN", raising=False)
    monkeypatch.setenv("SANDBOX_GATEWAY_URL", deployed.url)
    monkeypatch.setenv("SANDBOX_GATEWAY_CONFIG", str(file))

    def keep(token: str):
        file.write_text(json.dumps({"url": deployed.url, "token": token}))

    def fresh() -> str:
        return exchange(api, subject_token=identity_token(api, box)).json()["access_token"]

    keep(fresh())
    with sandbox_gateway.Gateway() as gateway:
        assert [row.id for row in gateway.list()] == [box]
        gateway._connection.token = "sandbox.over"
        with pytest.raises(sandbox_gateway.Unauthenticated):
            keep("sandbox.over")
            gateway.list()
        keep(fresh())
        assert gateway.get(box).run(["echo", "still"]).stdout == "still\n"
        assert gateway.get(box).identity_token(OUTSIDE).count(".") == 2
