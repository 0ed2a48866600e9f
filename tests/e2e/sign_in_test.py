"""Sign-in by OpenID Connect: tokens and browsers' walks with a real issuer (Debian's glewlwyd), and
what hostile tokens and an issuer that is away, slow or wrong do to a gateway."""

import json
import subprocess
import threading
import time
import urllib.parse

import httpx
import pytest

import certificates
import glewlwyd
from deployment import IMAGE, Api, error_of, eventually, instance
from issuer import AUDIENCE, Issuer, Key, base64url, hmac_token
from sandbox_gateway import Gateway

OWN_PAGE = {"X-Sandbox-Session": "1"}
CLIENT, SECRET = "sandbox", "the-client.s_own~secret"
GROUPS = """
groups:
  - {group: "ops, all", team: default, role: admin}
  - {group: devs, team: people-red}
  - {group: leads, team: people-red, role: admin}
  - {group: guests, team: people-blue}
"""
TEAMS = ("people-red", "people-blue")


def restart(one, options: dict) -> None:
    one.gateway.stop()
    one.settings.gateway_options = {name: str(value) for name, value in options.items()}
    one.start_gateway()


@pytest.fixture(scope="module")
def folder(deployed):
    """What the gateway is configured with, in files that its user can read."""
    path = deployed.state / "sign-in"
    path.mkdir()
    path.chmod(0o755)
    (path / "groups.yaml").write_text(GROUPS)
    (path / "secret").write_text(SECRET + "\n")
    return path


@pytest.fixture(scope="module", autouse=True)
def teams(api):
    for name in TEAMS:
        assert api.post("/teams", {"name": name}).status_code == 201
    yield
    restart(api.instance, {})
    for name in TEAMS:
        assert api.delete(f"/teams/{name}").status_code == 204


def client(one, token: str = "", **options) -> httpx.Client:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx.Client(base_url=one.url, timeout=60, headers=headers, **options)


def me(one, token: str) -> httpx.Response:
    with client(one, token) as http:
        return http.get("/me")


# --- a real issuer -----------------------------------------------------------------------------

@pytest.fixture(scope="module")
def real(api, folder):
    """The gateway with glewlwyd as its issuer."""
    one = api.instance
    keys = [Key("RS256", "first"), Key("ES256", "second")]
    issuer = glewlwyd.Issuer({"keys": [key.with_private for key in keys]})
    try:
        issuer.add_client(CLIENT, SECRET, f"{one.url}/login/callback")
        issuer.add_person("amy", "amy's password", "amy@example.org", ["devs", "others"])
        issuer.add_person("lea", "lea's password", "lea@example.org", ["leads", "guests"])
        issuer.add_person("ops", "ops' password", "ops@example.org", ["ops, all"])
        issuer.add_person("zoe", "zoe's password", "zoe@example.org", [])
        issuer.add_person("eve", "eve's password", "amy@example.org", ["devs"], verified=False)
        restart(one, {"oidc-issuer": issuer.issuer, "oidc-client-id": CLIENT,
                      "oidc-client-secret-file": folder / "secret",
                      "oidc-groups-file": folder / "groups.yaml", "public-url": one.url})
        issuer.private_keys = keys
        yield issuer
    finally:
        issuer.purge()


def begin(http: httpx.Client, return_to: str = "/") -> str:
    """Where the issuer is asked."""
    answer = eventually(lambda: (found := http.get("/login", params={"return_to": return_to}))
                        and found.status_code != 503 and found)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def walk(one, issuer, name: str) -> tuple[httpx.Client, httpx.Response]:
    """A browser after its sign-in, and the answer that ended it."""
    http = client(one)
    back = issuer.authorize(begin(http, "/sandboxes"), name, f"{name}'{'' if name == 'ops' else 's'} "
                            "password", CLIENT)
    return http, http.get(back)


@pytest.fixture
def id_token(deployed, real):
    """The ID token that the issuer gives somebody, as their own program would ask for it."""
    def get(name: str) -> str:
        verifier, challenge = pkce()
        document = httpx.get(f"{real.issuer}/.well-known/openid-configuration").json()
        redirect = f"{deployed.url}/login/callback"
        location = document["authorization_endpoint"] + "?" + urllib.parse.urlencode({
            "response_type": "code", "client_id": CLIENT, "redirect_uri": redirect,
            "scope": "openid", "nonce": "12345678", "state": "x", "code_challenge": challenge,
            "code_challenge_method": "S256"})
        back = real.authorize(location, name, f"{name}'{'' if name == 'ops' else 's'} password",
                              CLIENT)
        code = urllib.parse.parse_qs(urllib.parse.urlparse(back).query)["code"][0]
        answer = httpx.post(document["token_endpoint"], auth=(CLIENT, SECRET), data={
            "grant_type": "authorization_code", "code": code, "redirect_uri": redirect,
            "code_verifier": verifier})
        assert answer.status_code == 200, answer.text
        return answer.json()["id_token"]

    return get


def pkce() -> tuple[str, str]:
    import hashlib
    import secrets
    verifier = secrets.token_urlsafe(32)
    return verifier, base64url(hashlib.sha256(verifier.encode()).digest())


def test_a_browser_signs_in_and_out(deployed, real):
    http, ended = walk(deployed, real, "amy")
    assert (ended.status_code, ended.headers["location"]) == (303, "/sandboxes"), ended.text
    cookie = next(value for value in ended.headers.get_list("set-cookie")
                  if value.startswith("sandbox_session="))
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    shown = http.get("/me", headers=OWN_PAGE).json()
    assert (shown["subject"], shown["team"], shown["role"]) == (
        "amy@example.org", "people-red", "member")
    assert shown["sign_in"]["by"] == "session" and shown["sign_in"]["groups"] == ["devs"]
    assert error_of(http.get("/me")) == (401, "unauthenticated")
    assert error_of(http.post("/sandboxes", json={})) == (401, "unauthenticated")
    made = http.post("/sandboxes?wait=60", headers=OWN_PAGE,
                     json={"image": IMAGE, "cpus": 1, "memory_mb": 128})
    assert made.status_code == 201 and made.json()["owner"] == "amy@example.org", made.text
    sandbox = made.json()["id"]
    ticket = http.post("/ws-tickets", headers=OWN_PAGE)
    assert ticket.status_code == 201
    assert http.delete(f"/sandboxes/{sandbox}?wait=60", headers=OWN_PAGE).status_code == 204
    out = http.post("/logout", headers=OWN_PAGE)
    assert out.status_code == 200
    assert "sandbox_session" not in http.cookies
    assert error_of(http.get("/me", headers=OWN_PAGE)) == (401, "unauthenticated")


@pytest.mark.parametrize(("name", "team", "role", "platform"), [
    ("amy", "people-red", "member", False), ("lea", "people-red", "admin", False),
    ("ops", "default", "admin", True)])
def test_groups_are_teams_and_roles(deployed, real, id_token, name, team, role, platform):
    shown = me(deployed, id_token(name)).json()
    assert (shown["team"], shown["role"], shown["platform_admin"]) == (team, role, platform)
    http, _ = walk(deployed, real, name)
    by_browser = http.get("/me", headers=OWN_PAGE).json()
    for field in ("subject", "team", "role", "scopes", "teams", "platform_admin"):
        assert by_browser[field] == shown[field]


def test_who_is_in_no_group_needs_a_team_to_name_them(api, deployed, real, id_token):
    token = id_token("zoe")
    assert error_of(me(deployed, token)) == (403, "forbidden")
    _, ended = walk(deployed, real, "zoe")
    assert error_of(ended) == (403, "forbidden")
    assert "set-cookie" not in ended.headers
    api.http.put("/teams/people-blue/members/zoe@example.org", json={"role": "admin"})
    assert me(deployed, token).json()["teams"] == [{"team": "people-blue", "role": "admin"}]
    api.delete("/teams/people-blue/members/zoe@example.org")
    assert error_of(me(deployed, token)) == (403, "forbidden")


def test_a_team_shows_its_groups_beside_its_members(deployed, real, sandbox_cli):
    done = sandbox_cli("team", "members", "people-red")
    rows = [line.split() for line in done.stdout.decode().splitlines()]
    assert ["(group)", "devs", "member"] in rows and ["(group)", "leads", "admin"] in rows


def test_an_address_that_is_not_verified_is_nobodys(deployed, real, id_token):
    assert error_of(me(deployed, id_token("eve"))) == (401, "unauthenticated")
    _, ended = walk(deployed, real, "eve")
    assert error_of(ended) == (401, "unauthenticated")


def test_a_code_and_a_sign_in_count_once_and_for_their_browser(deployed, real):
    http, stranger = client(deployed), client(deployed)
    back = real.authorize(begin(http), "amy", "amy's password", CLIENT)
    assert error_of(stranger.get(back)) == (401, "unauthenticated")
    begin(stranger)
    assert error_of(stranger.get(back)) == (401, "unauthenticated")
    kept = dict(http.cookies)
    assert http.get(back).status_code == 303
    again = client(deployed, cookies=kept).get(back)
    assert error_of(again) == (401, "unauthenticated")


def test_sdk_and_cli_work_with_a_token_of_the_issuer(deployed, real, id_token, sandbox_cli):
    token = id_token("amy")
    with Gateway(deployed.url, token) as gateway:
        with gateway.create(IMAGE, cpus=1, memory_mb=128) as box:
            assert box.run(["echo", "hi"]).stdout == "hi\n"
            environment = {"SANDBOX_GATEWAY_TOKEN": token}
            done = sandbox_cli("exec", box.id, "--", "echo", "there", env=environment)
            assert (done.returncode, done.stdout) == (0, b"there\n"), done.stderr
            shown = json.loads(sandbox_cli("me", "-o", "json", env=environment).stdout)
            assert shown["subject"] == "amy@example.org"


def test_the_command_line_signs_a_person_in(deployed, real, sandbox_cli, tmp_path):
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    with subprocess.Popen([deployed.bin / "sandbox", "login", deployed.url, "--oidc"],
                          env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as login:
        line = login.stderr.readline()
        assert line.startswith("Open http://localhost:"), line
        real.confirm_device(line.rsplit(" ", 1)[1].strip(), "amy", "amy's password", CLIENT)
        assert login.wait(60) == 0, login.stderr.read()

    def cli(*argv: str) -> subprocess.CompletedProcess:
        return subprocess.run([deployed.bin / "sandbox", *argv], env=environment,
                              capture_output=True, text=True, timeout=60)

    shown = cli("me", "-o", "json")
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["subject"] == "amy@example.org"
    rows = json.loads(cli("-o", "json", "sign-in", "list").stdout)
    assert [row["kind"] for row in rows if row["current"]] == ["program"], rows
    assert "this one" in cli("-o", "table", "sign-in", "list").stdout
    assert cli("sign-in", "end").returncode == 125
    assert cli("sign-in", "end", "sgn-none").returncode == 125
    ended = cli("sign-in", "end", "--all", "-o", "json")
    assert json.loads(ended.stdout)["ended"] == len(rows), ended
    assert cli("me").returncode == 125


def test_admins_of_the_platform_end_sign_ins_of_others(deployed, real):
    http, _ = walk(deployed, real, "amy")
    with Gateway(deployed.url, deployed.token) as gateway:
        rows = gateway.sign_ins.list(subject="amy@example.org")
        assert rows and rows[0] in gateway.sign_ins.list(all=True)
        gateway.sign_ins.end(rows[0]["id"])
        assert error_of(http.get("/me", headers=OWN_PAGE)) == (401, "unauthenticated")
        assert gateway.sign_ins.end_all("amy@example.org") == len(rows) - 1
        assert gateway.sign_ins.list(subject="amy@example.org") == []


def test_the_audit_log_names_the_person(api, deployed, real, id_token):
    http, _ = walk(deployed, real, "lea")
    made = http.post("/sandboxes?wait=60", headers=OWN_PAGE,
                     json={"image": IMAGE, "cpus": 1, "memory_mb": 128}).json()["id"]
    http.delete(f"/sandboxes/{made}?wait=60", headers=OWN_PAGE)
    rows = api.get("/audit-logs?scope=all&limit=50").json()["items"]
    events = {(row["event"], row["caller"], row["team"]) for row in rows}
    for event in ("login", "sandbox.create", "sandbox.delete"):
        assert (event, "lea@example.org", "people-red") in events
    text = deployed.log_path("sandbox-gateway").read_text(errors="replace")
    assert SECRET not in text and "code=" not in text and "eyJ" not in text


def test_keys_of_a_real_issuer_rotate(deployed, real, id_token):
    old = id_token("amy")
    assert me(deployed, old).status_code == 200
    try:
        real.use_keys({"keys": [Key("ES256", "third").with_private]})
        new = id_token("amy")
        eventually(lambda: me(deployed, new).status_code == 200, what="the new key is taken")
        assert error_of(me(deployed, old)) == (401, "unauthenticated")
    finally:
        real.use_keys({"keys": [key.with_private for key in real.private_keys]})


# --- hostile tokens ----------------------------------------------------------------------------

@pytest.fixture(scope="module")
def own(deployed, folder):
    """The gateway with an issuer whose words the test chooses."""
    issuer = Issuer(*[Key(name, name.lower()) for name in ("RS256", "PS256", "ES256", "EdDSA")])
    restart(deployed, {"oidc-issuer": issuer.url, "oidc-audience": AUDIENCE + ", other",
                       "oidc-groups-file": folder / "groups.yaml"})
    eventually(lambda: me(deployed, issuer.token()).status_code == 200, what="the first keys")
    yield issuer
    issuer.close()


def refused(deployed, token: str) -> bool:
    answer = me(deployed, token)
    assert answer.status_code in (200, 401, 431), answer.text
    return answer.status_code != 200


@pytest.mark.parametrize("index", range(4))
def test_each_algorithm_of_the_list_is_taken(deployed, own, index):
    assert not refused(deployed, own.token(own.keys[index]))
    assert not refused(deployed, own.token(own.keys[index], aud=["x", "other"]))
    assert not refused(deployed, own.keys[index].token(own.claims(), typ="at+jwt"))


def test_what_is_not_for_us_or_not_of_the_issuer_is_refused(deployed, own):
    for changes in ({"iss": "http://127.0.0.1:1"}, {"iss": own.url + "/"}, {"iss": None},
                    {"aud": "another"}, {"aud": []}, {"aud": None}, {"aud": [AUDIENCE + "x"]},
                    {"email": None}, {"email": ""}, {"email": 7}, {"email": "a b@example.org"},
                    {"email": "x" * 2000}, {"email_verified": False}, {"email_verified": None},
                    {"email_verified": "yes"}):
        claims = {name: value for name, value in {**own.claims(), **changes}.items()
                  if value is not None}
        assert refused(deployed, own.keys[0].token(claims)), changes


def test_times_count_with_a_bounded_skew(deployed, own):
    now = int(time.time())
    for changes, is_refused in (
            ({"exp": now - 30}, False), ({"exp": now - 90}, True), ({"exp": 0}, True),
            ({"nbf": now + 30}, False), ({"nbf": now + 90}, True),
            ({"iat": now + 30}, False), ({"iat": now + 90}, True), ({"exp": now + 0.5}, False),
            ({"exp": str(now + 600)}, True), ({"exp": True}, True), ({"exp": 1e300}, True)):
        claims = {**own.claims(), **changes}
        head = {"alg": own.keys[0].algorithm, "kid": own.keys[0].kid}
        token = signed(own.keys[0], head, json.dumps(claims))
        assert refused(deployed, token) == is_refused, changes
    assert refused(deployed, own.keys[0].token({k: v for k, v in own.claims().items()
                                                if k != "exp"}))


def signed(key: Key, head: dict | str, claims: str) -> str:
    """A token of exactly these texts with a signature of that key."""
    head = head if isinstance(head, str) else json.dumps(head)
    text = f"{base64url(head.encode())}.{base64url(claims.encode())}"
    from jwt import get_algorithm_by_name
    signature = get_algorithm_by_name(key.algorithm).sign(text.encode(), key.private)
    return f"{text}.{base64url(signature)}"


def test_no_key_is_confused_with_another(deployed, own):
    claims = own.claims()
    unsigned = ".".join(base64url(json.dumps(part).encode())
                        for part in ({"alg": "none", "typ": "JWT"}, claims))
    tokens = [f"{unsigned}.", f"{unsigned}.AAAA"]
    for key in own.keys:
        for secret in (key.public_pem(), key.public_pem().strip(), json.dumps(key.public).encode(),
                       base64url_bytes(key.public.get("n", key.public.get("x")))):
            tokens.append(hmac_token(secret, claims, kid=key.kid))
        stranger = Key(key.algorithm, key.kid)
        tokens.append(stranger.token(claims))
        # A key of its own, offered in the head.
        tokens += [stranger.token(claims, jwk=stranger.public),
                   stranger.token(claims, jku="http://127.0.0.1:1/keys"),
                   stranger.token(claims, x5u="http://127.0.0.1:1/keys")]
        for other in own.keys:
            if other is not key:
                text = json.dumps(claims)
                tokens.append(signed(key, {"alg": other.algorithm, "kid": other.kid}, text))
                tokens.append(signed(key, {"alg": key.algorithm, "kid": other.kid}, text))
                tokens.append(signed(key, {"alg": other.algorithm, "kid": key.kid}, text))
    for token in tokens:
        assert refused(deployed, token), token


def base64url_bytes(text: str) -> bytes:
    import base64
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_what_can_be_read_in_two_ways_is_refused(deployed, own):
    key = own.keys[0]
    head = {"alg": key.algorithm, "kid": key.kid}
    text = json.dumps(own.claims())
    assert not refused(deployed, signed(key, head, text))
    twice = [text[:-1] + ', "email": "ops@example.org"}', text[:-1] + ', "\\u0065xp": 99999999999}',
             '{"groups": ["ops, all"], ' + text[1:], text + "{}", text[:-1], f"[{text}]", "",
             text.replace('"devs"', '{"a": 1, "a": 2}')]
    tokens = [signed(key, head, one) for one in twice]
    tokens += [signed(key, json.dumps(head)[:-1] + ', "alg": "none"}', text),
               signed(key, json.dumps(head)[:-1] + ', "kid": "es256"}', text),
               signed(key, {**head, "crit": ["exp"]}, text),
               signed(key, {**head, "b64": False, "crit": ["b64"]}, text),
               signed(key, {**head, "typ": "logout+jwt"}, text),
               signed(key, {**head, "kid": 1}, text), signed(key, {"alg": "RS256"}, text)[:-2]]
    whole = signed(key, head, text)
    tokens += [whole + ".", whole + "=", whole + "A", whole.replace(".", "..", 1), "." + whole,
               whole[:-1], "a.b.c", "..", "eyJ.eyJ.eyJ"]
    for token in tokens:
        assert refused(deployed, token), token


def test_tokens_are_bounded(deployed, own):
    many = [f"group-{number:04}" for number in range(600)]
    assert not refused(deployed, own.token(groups=["devs", *many]))
    assert refused(deployed, own.token(filling="x" * 17_000))
    assert refused(deployed, own.token(filling="x" * 40_000))
    deep = json.dumps(own.claims())[:-1] + ', "a": ' + "[" * 5000 + "]" * 5000 + "}"
    assert refused(deployed, signed(own.keys[0], {"alg": "RS256", "kid": "rs256"}, deep))


def test_an_unknown_key_makes_the_gateway_ask_once_and_not_for_each_token(deployed, own):
    before = own.fetches()
    for number in range(40):
        assert refused(deployed, Key("EdDSA", f"unknown-{number}").token(own.claims()))
    assert own.fetches() - before <= 3  # one in five seconds


def test_keys_rotate(deployed, own):
    old, new = own.keys[3], Key("EdDSA", "next")
    token = own.token(old)
    assert not refused(deployed, token)
    own.keys[3] = new
    eventually(lambda: not refused(deployed, own.token(new)), what="the new key is taken")
    assert refused(deployed, token)


def test_a_slow_issuer_holds_up_nobody_else(api, deployed, own):
    new = Key("ES256", "slow")
    own.keys[2] = new
    own.open.clear()
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(me(deployed, own.token(new))))
    try:
        before = len(own.asked)

        def is_asked() -> bool:
            refused(deployed, Key("EdDSA", "unknown").token(own.claims()))
            return len(own.asked) > before

        eventually(is_asked, what="the issuer is asked")
        waiting.start()
        for _ in range(20):
            assert api.get("/me").status_code == 200
            assert me(deployed, own.token()).status_code == 200  # of a key that is known
    finally:
        own.open.set()
    waiting.join(30)
    assert answers[0].status_code in (200, 401)
    eventually(lambda: not refused(deployed, own.token(new)), what="the new key is taken")


# --- an issuer that is away or wrong ------------------------------------------------------------

def test_one_that_is_away_at_first_and_later(api, deployed, folder):
    port = instance.free_port()
    key = Key("ES256", "k")
    restart(deployed, {"oidc-issuer": f"http://127.0.0.1:{port}", "oidc-client-id": AUDIENCE,
                       "oidc-groups-file": folder / "groups.yaml", "public-url": deployed.url})
    assert api.get("/me").status_code == 200
    with client(deployed) as http:
        assert error_of(http.get("/login")) == (503, "unavailable")
    issuer = Issuer(key, port=port)
    token = issuer.token()
    answer = me(deployed, token)
    assert answer.status_code in (200, 503)
    eventually(lambda: me(deployed, token).status_code == 200, what="the issuer is found")
    issuer.close()
    assert me(deployed, token).status_code == 200
    assert me(deployed, key.token({**issuer.claims(), "sub": "2"})).status_code == 200
    assert error_of(me(deployed, Key("ES256", "other").token(issuer.claims())))[0] == 401


def test_it_must_be_the_one_it_says(deployed, folder):
    issuer = Issuer(Key("ES256", "k"))
    try:
        issuer.changes = {"issuer": "https://issuer.example"}
        restart(deployed, {"oidc-issuer": issuer.url, "oidc-client-id": AUDIENCE,
                           "oidc-groups-file": folder / "groups.yaml"})
        eventually(lambda: issuer.asked, what="the document is read")
        assert error_of(me(deployed, issuer.token())) == (503, "unavailable")
        assert issuer.fetches() == 0
    finally:
        issuer.close()


def test_https_is_checked_against_the_operators_authority(deployed, folder):
    authority = certificates.Authority(folder / "ca")
    (folder / "ca").chmod(0o755)
    authority.ca_file.chmod(0o644)
    pair = folder / "c.pem", folder / "k.pem"
    authority.issue(*pair)
    issuer = Issuer(Key("ES256", "k"), tls=pair)
    options = {"oidc-issuer": issuer.url, "oidc-client-id": AUDIENCE,
               "oidc-groups-file": folder / "groups.yaml"}
    try:
        restart(deployed, options)
        assert error_of(me(deployed, issuer.token())) == (503, "unavailable")
        restart(deployed, {**options, "oidc-ca-file": authority.ca_file})
        eventually(lambda: me(deployed, issuer.token()).status_code == 200, what="it is trusted")
    finally:
        issuer.close()


# --- configuration -----------------------------------------------------------------------------

@pytest.mark.parametrize(("options", "named"), [
    ({"oidc-issuer": "http://issuer.example"}, "oidc-issuer"),
    ({"oidc-issuer": "issuer.example"}, "oidc-issuer"),
    ({"oidc-issuer": "https://a@issuer.example"}, "oidc-issuer"),
    ({"oidc-issuer": "https://issuer.example", "oidc-client-id": ""}, "oidc-audience"),
    ({"oidc-issuer": ""}, "oidc-issuer"),
    ({"public-url": "http://us.example"}, "public-url"),
    ({"public-url": "https://us.example/sandbox"}, "public-url"),
    ({"oidc-scopes": "email"}, "oidc-scopes"),
    ({"oidc-clock-skew": "301"}, "oidc-clock-skew"),
    ({"session-lifetime": "1"}, "session-lifetime"),
    ({"oidc-client-secret-file": "/nonexistent"}, "oidc-client-secret-file"),
    ({"oidc-groups-file": "/nonexistent"}, "oidc-groups-file")])
def test_a_wrong_configuration_is_told_by_its_check(deployed, options, named):
    done = check(deployed, options)
    assert done.returncode != 0
    assert named in done.stdout + done.stderr


@pytest.mark.parametrize("text", [
    "groups: [{group: a, team: red, role: owner}]", "groups: [{group: a}]", "groups: {}", "[]", "",
    "groups: [{group: a, team: red, since: 1}]", "groups: [{group: '', team: red}]",
    "groups: [{group: a, team: 'Red Team'}]", "teams: []",
    "groups: [{group: a, team: red}, {group: a, team: red, role: admin}]"])
def test_a_wrong_file_of_groups_is_told_by_its_check(deployed, tmp_path, text):
    file = tmp_path / "groups.yaml"
    file.write_text(text)
    done = check(deployed, {"oidc-groups-file": file})
    assert done.returncode != 0
    assert "oidc-groups-file" in done.stdout + done.stderr


def check(deployed, options: dict) -> subprocess.CompletedProcess:
    given = {"oidc-issuer": "https://issuer.example", "oidc-client-id": "us", **options}
    return subprocess.run(
        [deployed.bin / "sandbox-gateway", "config", "check", "--config", "",
         *[f"--{name}={value}" for name, value in given.items()]],
        capture_output=True, text=True, timeout=20)
