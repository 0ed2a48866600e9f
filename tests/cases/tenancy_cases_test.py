"""AU-01: what is another team's does not exist for you, on any route of the document."""

import httpx
import pytest

from deployment import IMAGE, eventually

RANDOM = "aaaaaaaaaaaaaaaa"
NOBODY = {"team": "nosuchteam", "sandbox": f"sbx-{RANDOM}", "sid": f"ses-{RANDOM}",
          "token": f"tok-{RANDOM}", "pull": f"pul-{RANDOM}", "build": f"build-{RANDOM}", "log": "1"}
SECRET = "hush-7f3a"  # in what team A has; never in what B is told
RUN = {"argv": ["true"]}

# What each route about one thing of a team is asked with: body and query. A route that is in
# neither table below is one that nobody has thought about yet: the walk fails.
BODIES: dict[str, tuple] = {
    "GET /sandboxes/{id}": (None, "?all=true"),
    "PATCH /sandboxes/{id}": ({"labels": {}}, ""),
    "DELETE /sandboxes/{id}": (None, ""),
    "GET /sandboxes/{id}/events": (None, ""),
    "GET /sandboxes/{id}/audit-logs": (None, ""),
    "GET /sandboxes/{id}/audit-logs/{log}": (None, ""),
    "GET /sandboxes/{id}/activity": (None, ""),
    "GET /sandboxes/{id}/metrics": (None, ""),
    "POST /sandboxes/{id}/run": (RUN, ""),
    "POST /sandboxes/{id}/exec": (b'{"argv":["true"]}\n', ""),
    "GET /sandboxes/{id}/logs": (None, ""),
    "POST /sandboxes/{id}/sessions": (RUN, ""),
    "GET /sandboxes/{id}/sessions": (None, ""),
    "GET /sandboxes/{id}/sessions/{sid}": (None, ""),
    "DELETE /sandboxes/{id}/sessions/{sid}": (None, ""),
    "GET /sandboxes/{id}/sessions/{sid}/logs": (None, ""),
    "POST /sandboxes/{id}/sessions/{sid}/stdin": (b"x", ""),
    "POST /sandboxes/{id}/sessions/{sid}/kill": ({"signal": "KILL"}, ""),
    "POST /sandboxes/{id}/sessions/{sid}/resize": ({"cols": 80, "rows": 24}, ""),
    "GET /sandboxes/{id}/sessions/{sid}/attach": ("websocket", ""),
    "GET /sandboxes/{id}/terminal": ("websocket", ""),
    "GET /sandboxes/{id}/files": (None, "?path=/"),
    "PUT /sandboxes/{id}/files": (b"x", "?path=/tmp/x"),
    "DELETE /sandboxes/{id}/files": (None, "?path=/tmp/x"),
    "GET /sandboxes/{id}/files/watch": (None, "?path=/"),
    "POST /sandboxes/{id}/files/mkdir": (None, "?path=/tmp/d"),
    "POST /sandboxes/{id}/files/move": (None, "?path=/tmp/x&to=/tmp/y"),
    "POST /sandboxes/{id}/files/chmod": (None, "?path=/tmp/x&mode=0600"),
    "POST /sandboxes/{id}/containers/{container}/stop": (None, ""),
    "POST /sandboxes/{id}/ssh-session": (None, ""),
    "GET /sandboxes/{id}/ssh": ("websocket", ""),
    "GET /sandboxes/{id}/streams/tcp": ("stream", "?port=80"),
    "GET /sandboxes/{id}/streams/unix": ("stream", "?path=/tmp/socket"),
    "GET /sandboxes/{id}/streams/listen": ("stream", "?port=8000"),
    "GET /sandboxes/{id}/streams/accept": ("stream", "?listener=x&connection=x"),
    "POST /sandboxes/{id}/streams/helper": ("stream", ""),
    "POST /sandboxes/{id}/identity-token": ({}, ""),
    "POST /sandboxes/{id}/read-file": (None, "?path=/etc/passwd"),
    "POST /sandboxes/{id}/write-file": (b"x", "?path=/tmp/x"),
    "GET /api/v1/sandboxes/{id}": (None, ""),
    "DELETE /api/v1/sandboxes/{id}": (None, ""),
    "POST /api/v1/sandboxes/{id}/ssh-session": (None, ""),
    "POST /api/v1/sandboxes/{id}/exec": ({"command": "true"}, ""),
    "POST /api/v1/sandboxes/{id}/read-file": (None, "?path=/etc/passwd"),
    "POST /api/v1/sandboxes/{id}/write-file": (b"x", "?path=/tmp/x"),
    "GET /api/v1/sandboxes/{id}/audit-logs": (None, ""),
    "GET /api/v1/sandboxes/{id}/audit-logs/{log}": (None, ""),
    "GET /teams/{team}": (None, ""),
    "PUT /teams/{team}": ({}, ""),
    "PATCH /teams/{team}": ({"members": []}, ""),
    "DELETE /teams/{team}": (None, ""),
    "POST /teams/{team}/drain": (None, ""),
    "DELETE /teams/{team}/drain": (None, ""),
    "GET /teams/{team}/members": (None, ""),
    "PUT /teams/{team}/members/{subject}": ({"role": "admin"}, ""),
    "DELETE /teams/{team}/members/{subject}": (None, ""),
    "GET /teams/{team}/registries": (None, ""),
    "GET /teams/{team}/registries/{host}": (None, ""),
    "PUT /teams/{team}/registries/{host}": ({}, ""),
    "DELETE /teams/{team}/registries/{host}": (None, ""),
    "GET /tokens/{id}": (None, ""),
    "DELETE /tokens/{id}": (None, ""),
    "GET /tokens/{id}/limits": (None, ""),
    "PUT /tokens/{id}/limits": ({}, ""),
    "DELETE /tokens/{id}/limits": (None, ""),
    "GET /images/pulls/{id}": (None, ""),
    "GET /builds/{id}": (None, ""),
    "DELETE /builds/{id}": (None, ""),
    "GET /builds/{id}/logs": (None, ""),
}
# Routes that name nothing of a team, as a sign-in is a person's; lists that hold only what is
# yours are looked at below.
OF_NO_TEAM = {
    "POST /sandboxes", "GET /sandboxes", "POST /api/v1/sandboxes", "GET /api/v1/sandboxes",
    "GET /teams", "POST /teams", "PUT /teams", "GET /tokens", "POST /tokens", "GET /me",
    "POST /ws-tickets", "POST /builds", "GET /builds", "GET /images", "POST /images",
    "POST /images/gc", "GET /images/{name}",
    "DELETE /images/{name}", "GET /docs", "GET /docs/{file}", "GET /clients/{file}",
    "GET /audit-logs", "GET /audit-logs/head", "GET /activity", "GET /quotas", "GET /healthz",
    "GET /readyz", "GET /metrics", "GET /openapi.json", "GET /login", "GET /login/callback",
    "POST /login/device", "POST /login/device/token", "POST /logout", "GET /replicas",
    "POST /compose/check", "GET /sign-ins", "DELETE /sign-ins", "DELETE /sign-ins/{id}",
    "GET /identity/keys", "POST /identity/keys/rotate", "POST /oauth/token",
    "GET /.well-known/openid-configuration", "GET /.well-known/jwks.json",
}
OF_THE_PLATFORM = {"PUT /teams/{team}", "DELETE /teams/{team}", "POST /teams/{team}/drain",
                   "DELETE /teams/{team}/drain", "GET /tokens/{id}/limits",
                   "PUT /tokens/{id}/limits", "DELETE /tokens/{id}/limits"}
LISTS = ("/audit-logs", "/activity", "/sandboxes", "/sandboxes?all=true", "/sandboxes?scope=all",
         "/api/v1/sandboxes", "/builds", "/teams", "/teams?scope=all", "/tokens",
         "/tokens?scope=all")


def routes(api) -> list[str]:
    document = api.get("/openapi.json").json()
    return [f"{method.upper()} {path}" for path, methods in document["paths"].items()
            for method in methods]


class Tenants:
    """Team A with something of each kind, and callers of team B."""

    def __init__(self, api):
        self.api = api
        for team in ("case-a", "case-b"):
            answer = api.http.put(f"/teams/{team}", json={"members": [{"subject": SECRET}]})
            assert answer.status_code in (200, 201), answer.text
        self.tokens: list[str] = []
        self.a = self.client("case-a", "member")
        self.b = self.client("case-b", "member")
        self.b_admin = self.client("case-b", "admin")
        made = self.a.post("/sandboxes?wait=60", json={
            "image": IMAGE, "cpus": 1, "memory_mb": 64, "labels": {"l": SECRET},
            "env": {"E": SECRET}})
        assert made.json()["state"] == "ready", made.text
        box = made.json()["id"]
        session = self.a.post(f"/sandboxes/{box}/sessions", json={"argv": ["sleep", "1000"]})
        logs = self.a.get(f"/sandboxes/{box}/audit-logs").json()["items"]
        api.http.put("/teams/case-a/registries/a.example", json={"username": SECRET})
        # Where there is no builder, one that never was has to do for both.
        build = self.a.post("/builds?wait=60", content=f"FROM scratch\nENV E={SECRET}\n",
                            headers={"Content-Type": "text/plain"})
        assert build.status_code in (201, 422), build.text
        self.own = {"team": "case-a", "sandbox": box, "sid": session.json()["id"],
                    "token": self.tokens[0], "pull": f"pul-{RANDOM}",
                    "build": build.json().get("id", f"build-{RANDOM}"),
                    "log": str(logs[0]["id"]) if logs else "1"}

    def client(self, team: str, scope: str, **fields) -> httpx.Client:
        role = "admin" if scope == "admin" else "member"
        made = self.api.post("/tokens", {"name": "walk", "team": team, "scopes": [scope],
                                         "role": role, **fields})
        assert made.status_code == 201, made.text
        self.tokens.append(made.json()["id"])
        return self.api.client(made.json()["secret"])

    def close(self) -> None:
        self.api.remove(self.own["sandbox"])
        for token in self.tokens:
            self.api.delete(f"/tokens/{token}")
        for team in ("case-a", "case-b"):
            answer = self.api.delete(f"/teams/{team}")
            assert answer.status_code == 204, answer.text


@pytest.fixture(scope="module")
def tenants(api):
    both = Tenants(api)
    yield both
    both.close()


def ask(client: httpx.Client, route: str, ids: dict[str, str]) -> tuple[int, str]:
    """Status and body, without what differs by the id and by the request."""
    method, path = route.split(" ")
    body, query = BODIES[route]
    thing = ("token" if path.startswith("/tokens") else
             "build" if path.startswith("/builds") else
             "pull" if path.startswith("/images/pulls") else "sandbox")
    target = path.format(id=ids[thing], sid=ids["sid"], team=ids["team"], log=ids["log"],
                         subject=SECRET, host="a.example", container="main")
    options: dict = {"content": body} if isinstance(body, bytes) else {"json": body}
    if body in (None, "websocket", "stream"):
        options = {}
    if body == "stream":
        options["headers"] = {"Connection": "Upgrade", "Upgrade": "sandbox-stream"}
    if body == "websocket":
        options["headers"] = {"Connection": "Upgrade", "Upgrade": "websocket",
                              "Sec-WebSocket-Version": "13",
                              "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    answer = client.request(method, target + query, **options)
    text = answer.text.replace(answer.headers["x-request-id"], "REQUEST")
    for name, value in ids.items():
        text = text.replace(value, name)
    return answer.status_code, text


def test_the_walk_knows_every_route_of_the_document(api):
    known = set(BODIES) | OF_NO_TEAM
    assert set(routes(api)) - known == set(), "a new route: say in this file what it is about"
    assert known - set(routes(api)) == set()


@pytest.mark.parametrize("route", BODIES)
def test_another_teams_thing_is_as_one_that_never_was(tenants, route):
    for client in (tenants.b, tenants.b_admin):
        foreign = ask(client, route, tenants.own)
        assert foreign == ask(client, route, NOBODY)
        assert SECRET not in foreign[1].replace("members/" + SECRET, "")
    # 403 only where B's role is told, before anything is looked up.
    assert foreign[0] in (403, 404), foreign
    assert foreign[0] == 404 or route in OF_THE_PLATFORM


def test_nothing_of_it_was_touched(tenants):
    box = tenants.own["sandbox"]
    assert tenants.a.get(f"/sandboxes/{box}").json()["labels"] == {"l": SECRET}
    session = tenants.a.get(f"/sandboxes/{box}/sessions/{tenants.own['sid']}").json()
    assert session["state"] == "running"
    registries = tenants.api.get("/teams/case-a/registries").json()["items"]
    assert [row["host"] for row in registries] == ["a.example"]
    members = tenants.api.get("/teams/case-a/members").json()["items"]
    assert members == [{"subject": SECRET, "role": "member"}]
    assert tenants.api.get(f"/tokens/{tenants.own['token']}").status_code == 200


@pytest.mark.parametrize("target", LISTS)
def test_lists_show_no_secret_of_another_team(tenants, target):
    for client in (tenants.b, tenants.b_admin):
        answer = client.get(target)
        assert answer.status_code == 200, answer.text
        text = answer.text
        if target.startswith("/teams"):  # B has a member of that name itself
            text = "".join(str(row) for row in answer.json()["items"] if row["name"] == "case-a")
        if target == "/audit-logs":  # what B itself asked for, the walk's names in it
            assert {row["team"] for row in answer.json()["items"]} == {"case-b"}
            continue
        assert SECRET not in text
        if "scope=all" not in target:
            assert tenants.own["sandbox"] not in text and "case-a" not in text


def test_no_route_but_the_open_ones_answers_without_a_valid_token(tenants, api):
    open_routes = {"GET /docs", "GET /docs/{file}", "GET /clients/{file}", "GET /healthz",
                   "GET /readyz", "GET /openapi.json", "GET /login", "GET /login/callback",
                   "POST /login/device", "POST /login/device/token", "POST /logout",
                   "GET /.well-known/openid-configuration", "GET /.well-known/jwks.json",
                   "POST /oauth/token"}
    expired = tenants.client("case-b", "member", expires_in_sec=1)
    revoked = tenants.client("case-b", "member")
    assert api.delete(f"/tokens/{tenants.tokens[-1]}").status_code == 204
    eventually(lambda: expired.get("/me").status_code == 401, what="the token expires")
    wrong = [api.client(""), api.client("wrong"), expired, revoked]
    for route in routes(api):
        method, path = route.split(" ")
        if route in open_routes:
            continue
        target = path.format(id=tenants.own["sandbox"], sid="x", team="case-b", log="1",
                             subject="x", host="x", name="x", file="x", container="x")
        for client in wrong:
            answer = client.request(method, target)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), (
                route, answer.text)


def test_a_token_is_taken_from_its_header_only(tenants, api):
    secret = tenants.b.headers["authorization"].split(" ")[1]
    nobody = api.client("")
    for name in ("token", "access_token", "bearer", "ticket"):
        assert nobody.get(f"/me?{name}={secret}").status_code == 401
    assert nobody.get("/me", headers={"Cookie": f"token={secret}"}).status_code == 401
    twice = [("Authorization", f"Bearer {secret}"), ("Authorization", "Bearer wrong")]
    for headers in (twice, twice[::-1]):
        assert nobody.get("/me", headers=headers).status_code == 401
    assert nobody.get("/me", headers={"Authorization": f"bearer {secret}"}).status_code == 200
    log = api.instance.log_tail("sandbox-gateway", 1_000_000)
    assert secret not in log
