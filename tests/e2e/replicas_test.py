"""Several gateways on one store: what one does the others know, and what one leaves undone another
finishes."""

import concurrent.futures
import contextlib
import signal
import subprocess
import threading
import time

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

import builder
import glewlwyd
import replicas
from builds_test import bb, output, tar_of  # noqa: F401
from deployment import IMAGE, Api, error_of, eventually, instance
from issuer import Key

TINY = {"image": IMAGE, "cpus": 0.1, "memory_mb": 32, "storage_mb": 16}
TAKEN_OVER_SECONDS = 60  # docs/operate.md says less, of a machine with nothing else to do


@pytest.fixture(scope="module")
def group():
    one = replicas.Group("sgr", 2, **{"drain-delay": "1", "build-storage-mb": "1024",
                                      "build-memory-mb": "1024"})
    yield one
    one.purge()


@pytest.fixture
def first(group) -> Api:
    return group.apis[0]


@pytest.fixture
def second(group) -> Api:
    return group.apis[1]


@pytest.fixture(scope="module")
def api(group) -> Api:  # noqa: F811
    """For fixtures that other modules lend."""
    return group.apis[0]


def create(api, **fields) -> dict:
    answer = api.post("/sandboxes?wait=60", {**TINY, **fields})
    assert answer.status_code == 201 and answer.json()["state"] == "ready", answer.text
    return answer.json()


def test_each_knows_the_others(group, first, second):
    ids = [[row["id"] for row in group.others(api)] for api in (first, second)]
    assert ids[0] == ids[1] and len(set(ids[0])) == 2
    answering = [[row["id"] for row in group.others(api) if row["answers"]]
                 for api in (first, second)]
    assert sorted(answering[0] + answering[1]) == sorted(ids[0])


def test_the_command_line_lists_them(group, first):
    shown = subprocess.run([first.instance.bin / "sandbox", "-o", "table", "replicas"],
                           capture_output=True, text=True, check=True, timeout=60,
                           env={"HOME": "/nonexistent", "SANDBOX_GATEWAY_URL": first.instance.url,
                                "SANDBOX_GATEWAY_TOKEN": first.instance.token})
    lines = shown.stdout.splitlines()
    assert len(lines) == 1 + len(group.gateways) and lines[0].startswith("ID"), shown.stdout
    assert sum("answers" in line for line in lines) == 1


def test_what_one_made_is_ready_and_gone_at_the_other_at_once(first, second):
    for maker, user in [(first, second), (second, first)] * 10:
        made = create(maker)["id"]
        assert user.get(f"/sandboxes/{made}").json()["state"] == "ready"
        assert user.run(made, "echo", "on")["stdout"] == "on\n"
        assert made in {row["id"] for row in user.get("/sandboxes").json()["items"]}
        answer = user.delete(f"/sandboxes/{made}?wait=30")
        assert answer.status_code == 204, answer.text
        assert maker.state(made) == "absent"
        assert error_of(maker.post(f"/sandboxes/{made}/run", {"argv": ["true"]}))[0] == 404


def test_a_wait_at_the_other_ends_with_the_start(first, second):
    made = first.post("/sandboxes", TINY).json()["id"]
    assert second.get(f"/sandboxes/{made}?wait=30").json()["state"] == "ready"
    second.remove(made)


def test_a_follower_at_the_other_hears_every_event(first, second):
    made = first.post("/sandboxes", TINY).json()["id"]
    types = []
    with second.http.stream("GET", f"/sandboxes/{made}/events?follow=true") as stream:
        for line in stream.iter_lines():
            if line.startswith("event: "):
                types.append(line.removeprefix("event: "))
                if types[-1] == "ready":
                    first.delete(f"/sandboxes/{made}")
    assert types[0] == "created" and types[-2:] == ["deleting", "deleted"]
    assert types.count("ready") == 1


def test_a_key_makes_one_sandbox_whichever_is_asked(group):
    def make(api) -> httpx.Response:
        return api.post("/sandboxes?wait=30", TINY, headers={"Idempotency-Key": "one"})

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(make, group.apis * 4))
    assert {answer.json()["id"] for answer in answers} == {answers[0].json()["id"]}
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
    assert {answer.json()["state"] for answer in answers} == {"ready"}
    group.apis[0].remove(answers[0].json()["id"])


def test_use_over_one_is_no_idleness_for_the_other(first, second):
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda how: use(first, second, how), ["requests", "one long request"]))


def use(first, second, how: str) -> None:
    lease = 4
    made = create(first, lease_sec=lease)["id"]
    end = time.monotonic() + lease * 2
    if how == "requests":
        while time.monotonic() < end:
            assert second.run(made, "true")["exit_code"] == 0
            time.sleep(0.5)
    else:
        assert second.run(made, "sleep", str(lease * 2))["exit_code"] == 0
    assert first.state(made) == "ready"
    eventually(lambda: first.state(made) == "absent")
    types = [row["type"] for row in first.get(f"/sandboxes/{made}/events").json()["items"]]
    assert types.count("deleting") == 1 and types.count("deleted") == 1

    def expirations() -> int:
        rows = first.get(f"/sandboxes/{made}/audit-logs").json()["items"]
        return [row["event"] for row in rows].count("sandbox.expire")

    eventually(lambda: expirations() > 0)  # the one that ended it writes its rows in batches
    time.sleep(1)
    assert expirations() == 1


def test_a_token_is_good_and_revoked_at_all(first, second):
    made = first.post("/tokens", {"name": "short", "scopes": ["member"]}).json()
    token = made["secret"] if "secret" in made else made["token"]
    other = second.client(token)
    assert other.get("/sandboxes").status_code == 200
    identity = made.get("id") or made["token"]["id"]
    assert first.delete(f"/tokens/{identity}").status_code in (200, 204)
    eventually(lambda: other.get("/sandboxes").status_code == 401)


def test_a_team_and_its_limits_are_known_at_all(first, second):
    assert first.post("/teams", {"name": "blue"}).status_code == 201
    eventually(lambda: second.get("/teams/blue").status_code == 200)
    changed = second.http.patch("/teams/blue", json={"quota": {"sandboxes": 1}})
    assert changed.status_code == 200, changed.text
    eventually(lambda: first.get("/teams/blue").json()["quota"]["sandboxes"] == 1)
    assert first.delete("/teams/blue").status_code in (200, 204)
    eventually(lambda: second.get("/teams/blue").status_code == 404)


def test_changes_of_one_team_over_both_at_once_all_hold(group, first):
    """Each is planned on what the other left: nobody is told to ask again, nothing is lost."""
    assert first.post("/teams", {"name": "crowd"}).status_code == 201

    def add(number: int) -> int:
        api = group.apis[number % 2]
        return api.http.put(f"/teams/crowd/members/p{number}", json={"role": "member"}).status_code

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(add, range(24)))
    assert set(answers) <= {200, 201, 204}, answers
    for api in group.apis:
        eventually(lambda api=api: len(api.get("/teams/crowd/members").json()["items"]) == 24)
    assert first.delete("/teams/crowd").status_code in (200, 204)


def test_a_ticket_of_one_is_taken_once_by_the_other(first, second):
    box = create(first)["id"]
    ticket = first.post("/ws-tickets", {}).json()["ticket"]
    address = second.instance.url.replace("http", "ws", 1)
    with connect(f"{address}/sandboxes/{box}/terminal?ticket={ticket}") as terminal:
        terminal.send(b"\0echo $((40 + 2))\n")
        shown = b""
        while b"42" not in shown:
            message = terminal.recv(timeout=20)
            shown += message if isinstance(message, bytes) else b""
    for api in (first, second):
        address = api.instance.url.replace("http", "ws", 1)
        with pytest.raises(InvalidStatus), \
                connect(f"{address}/sandboxes/{box}/terminal?ticket={ticket}"):
            pass
    first.remove(box)


def alone(api) -> httpx.Client:
    return httpx.Client(base_url=api.instance.url, timeout=30, headers=api.http.headers)


def test_what_a_killed_one_was_at_work_at_is_finished_by_the_other(group, first, second):
    """Nothing that was acknowledged is lost, whatever moment it was killed at."""
    for moment in (0.02, 0.1, 0.3):
        doomed = [create(second)["id"] for _ in range(4)]
        acknowledged = []

        def make(_: int) -> None:
            with contextlib.suppress(httpx.HTTPError), alone(first) as own:
                acknowledged.append(own.post("/sandboxes", json=TINY).json()["id"])

        def end(sandbox: str) -> None:
            with contextlib.suppress(httpx.HTTPError), alone(first) as own:
                own.delete(f"/sandboxes/{sandbox}")

        with concurrent.futures.ThreadPoolExecutor(16) as threads:
            for number in range(8):
                threads.submit(make, number)
            for sandbox in doomed:
                threads.submit(end, sandbox)
            time.sleep(moment)
            first.instance.gateway.kill()

        def settled() -> bool:
            rows = second.get("/sandboxes?limit=1000").json()["items"]
            return all(row["state"] == "ready" for row in rows) and \
                {row["id"] for row in rows} == group.node_ids()

        eventually(settled, TAKEN_OVER_SECONDS)
        for sandbox in acknowledged:
            assert second.run(sandbox, "true")["exit_code"] == 0
        first.instance.start_gateway()
        for row in second.get("/sandboxes?limit=1000").json()["items"]:
            first.remove(row["id"])
        eventually(lambda: not group.node_ids())
        used = second.get("/quotas").json()["total"]["used"]
        assert set(used.values()) == {0}, used


def test_one_that_stood_still_does_no_harm_when_it_goes_on(group, first, second):
    made = create(first)["id"]
    first.instance.gateway.signal(signal.SIGSTOP)
    try:
        eventually(lambda: len(group.others(second)) == 1, TAKEN_OVER_SECONDS)
        second.remove(made)
        fresh = create(second)["id"]
    finally:
        first.instance.gateway.signal(signal.SIGCONT)
    eventually(lambda: len(group.others(first)) == 2, TAKEN_OVER_SECONDS)
    assert first.state(made) == "absent"
    assert first.run(fresh, "true")["exit_code"] == 0
    first.remove(fresh)


class Users:
    """Threads that make, use and delete through the balancer until they are told to stop."""

    def __init__(self, group, count: int):
        self.group, self.stopping = group, threading.Event()
        self.lives, self.failures = 0, []
        self.threads = [threading.Thread(target=self.run, args=(number,))
                        for number in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self, number: int) -> None:
        while not self.stopping.is_set():
            try:
                with self.group.client() as http:
                    self.live(http, number)
                self.lives += 1
            except Exception as error:  # whatever it is, it is a failed request
                self.failures.append(repr(error))
                return

    @staticmethod
    def live(http: httpx.Client, number: int) -> None:
        made = http.post("/sandboxes?wait=60", json=TINY)
        assert made.status_code == 201 and made.json()["state"] == "ready", made.text
        path = f"/sandboxes/{made.json()['id']}"
        try:
            Users.use(http, path, number)
        except AssertionError:
            http.delete(path)  # the tests after this one find what they need
            raise
        gone = http.delete(f"{path}?wait=60")
        assert gone.status_code == 204, gone.text

    @staticmethod
    def use(http: httpx.Client, path: str, number: int) -> None:
        for turn in range(3):
            ran = http.post(f"{path}/run", json={"command": f"sleep 0.1; echo {number} {turn}"})
            assert ran.status_code == 200, ran.text
            assert ran.json()["stdout"] == f"{number} {turn}\n", ran.text
        written = http.put(f"{path}/files?path=/tmp/a", content=b"x" * 100_000)
        assert written.status_code in (200, 201), written.text
        assert http.get(f"{path}/files?path=/tmp/a").content == b"x" * 100_000

    def stop(self) -> None:
        self.stopping.set()
        for thread in self.threads:
            thread.join()


def test_a_rolling_upgrade_fails_no_request(group):
    """Each gateway in turn is told to stop, ends and is started anew, under load."""
    users = Users(group, 4)
    try:
        for one in group.gateways * 2:
            time.sleep(1)
            one.gateway.stop()
            assert len(group.balancer.ready) == 1
            one.start_gateway()
            eventually(lambda: len(group.balancer.ready) == 2)
    finally:
        users.stop()
    assert users.failures == []
    assert users.lives > 10
    eventually(lambda: not group.node_ids())


def test_why_one_waits_is_told_alike_by_all(group, first, second):
    assert first.http.patch("/teams/default", json={"quota": {"sandboxes": 1}}).status_code == 200
    runs = create(first)["id"]
    waits = first.post("/sandboxes", TINY).json()["id"]
    try:
        told = [eventually(lambda api=api: api.get(f"/sandboxes/{waits}").json()["queue"])
                for api in (first, second)]
        assert told[0] == told[1] and "sandboxes: 1 wanted, 0 free" in told[0]["reason"], told
        for api in (first, second):
            assert api.get(f"/sandboxes/{waits}").json()["message"] is None
    finally:
        first.http.patch("/teams/default", json={"quota": {"sandboxes": None}})
    assert second.get(f"/sandboxes/{waits}?wait=60").json()["state"] == "ready"
    for sandbox in (runs, waits):
        second.remove(sandbox)
    gone = first.get(f"/sandboxes/{waits}?all=true").json()
    assert gone["message"] is None, gone


# --- image builds ------------------------------------------------------------------------------

needs_builder = pytest.mark.skipif(not builder.kept_folder().exists(),
                                   reason="no image builder here (./dev setup makes it)")


def start_build(api, text: str) -> httpx.Response:
    return api.http.post("/builds", params={"wait": 0}, content=tar_of({"Dockerfile": text.encode()}),
                         headers={"Content-Type": "application/x-tar"}, timeout=300)


def build_state(api, build: str) -> str:
    return api.get(f"/builds/{build}").json()["state"]


@needs_builder
def test_a_build_is_followed_joined_and_used_at_the_other(first, second, bb):  # noqa: F811
    text = f"FROM {bb}\nRUN echo begun; sleep 3; echo x > /x\n"
    begun = start_build(first, text)
    assert begun.status_code == 201, begun.text
    build = begun.json()["id"]
    joined = start_build(second, text)
    assert (joined.status_code, joined.json()["id"]) == (200, build), joined.text
    with second.http.stream("GET", f"/builds/{build}/logs?follow=true", timeout=300) as log:
        assert b"begun" in log.read()  # to its end
    row = second.get(f"/builds/{build}?wait=120").json()
    assert row["state"] == "succeeded", row
    assert output(second, row["image"], "cat /x") == "x"
    assert build in {one["id"] for one in second.get("/builds").json()["items"]}


@needs_builder
def test_a_build_is_cancelled_at_the_other(first, second, bb):  # noqa: F811
    build = start_build(first, f"FROM {bb}\nRUN echo cancel me; sleep 999\n").json()["id"]
    eventually(lambda: "cancel me" in second.get(f"/builds/{build}/logs").text)
    assert second.delete(f"/builds/{build}").status_code == 202
    eventually(lambda: build_state(first, build) == "cancelled")
    assert error_of(first.delete(f"/builds/{build}")) == (409, "conflict")


@needs_builder
def test_a_build_outlives_the_gateway_that_began_it(first, second, bb):  # noqa: F811
    text = f"FROM {bb}\nRUN echo begun; sleep 5; echo lived > /l\n"
    build = start_build(first, text).json()["id"]
    eventually(lambda: build_state(second, build) == "running")
    first.instance.gateway.kill()
    try:
        row = eventually(lambda: (found := second.get(f"/builds/{build}?wait=30").json())["state"]
                         not in ("queued", "running") and found, 120)
        assert row["state"] == "succeeded", row
        assert output(second, row["image"], "cat /l") == "lived"
    finally:
        first.instance.start_gateway()
    assert build_state(first, build) == "succeeded"


# --- sandboxes' own tokens ----------------------------------------------------------------------

@pytest.fixture(scope="module")
def one_name(group):
    """Both gateways are one issuer, as behind a balancer."""
    for one in group.gateways:
        one.settings.gateway_options["public-url"] = group.balancer.url
        one.gateway.kill()
        one.start_gateway()
    eventually(lambda: len(group.balancer.ready) == len(group.gateways))


def exchanged(api, identity: str) -> httpx.Response:
    return httpx.post(f"{api.instance.url}/oauth/token", timeout=60, data={
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "subject_token": identity})


def identity_token(api, box: str) -> str:
    return api.post(f"/sandboxes/{box}/identity-token", {}).json()["token"]


@pytest.mark.usefixtures("one_name")
def test_an_exchanged_token_is_good_and_ended_at_all(first, second):
    team = "/teams/default"
    for maker, other in [(first, second), (second, first)]:
        box = create(maker)["id"]
        identity = identity_token(maker, box)
        # The identity token is one's, the exchange the other's, and what it gives is good at both.
        answer = exchanged(other, identity)
        assert answer.status_code == 200, answer.text
        own = [api.client(answer.json()["access_token"]) for api in (maker, other)]
        for api in own:
            assert api.get("/me").json()["subject"] == f"sandbox:{box}"
            ran = api.post(f"/sandboxes/{box}/run", json={"argv": ["echo", "own"]})
            assert ran.json()["stdout"] == "own\n", ran.text
        # What its team takes away over one is gone at the other.
        none = {"sandbox_identity": {"sandboxes": "none"}}
        assert maker.http.patch(team, json=none).status_code == 200
        try:
            for api in own:
                eventually(lambda api=api: api.get("/me").status_code == 403)
            eventually(lambda: exchanged(other, identity).json()["error"] == "invalid_scope")
        finally:
            maker.http.patch(team, json={"sandbox_identity": {"sandboxes": "own"}})
        for api in own:
            eventually(lambda api=api: api.get("/me").status_code == 200)
        # It ends with its sandbox.
        maker.remove(box)
        for api in own:
            eventually(lambda api=api: api.get("/me").status_code == 401)
        refused = exchanged(other, identity)
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")


@pytest.mark.usefixtures("one_name")
def test_the_key_that_one_turned_to_is_the_others_too(first, second):
    box = create(first)["id"]
    old = identity_token(second, box)
    time.sleep(1.1)  # a key signs for a second at least
    assert first.post("/identity/keys/rotate").status_code == 200

    def keys(api) -> dict[str, str]:
        return {row["id"]: row["state"] for row in api.get("/identity/keys").json()["items"]}

    eventually(lambda: keys(first) == keys(second))
    for token in (old, identity_token(first, box), identity_token(second, box)):
        for api in (first, second):
            assert exchanged(api, token).status_code == 200
    first.remove(box)


# --- sign-in of people -------------------------------------------------------------------------

CLIENT, SECRET, PERSON, PASSWORD = "sandbox", "the-client.s_own~secret", "amy", "amy's password"
OWN_PAGE = {"X-Sandbox-Session": "1"}


@pytest.fixture(scope="module")
def issuer(group):
    """Both gateways with a real issuer, which leads browsers back to the balancer."""
    real = glewlwyd.Issuer({"keys": [Key("ES256", "one").with_private]})
    folder = group.gateways[0].state / "sign-in"
    folder.mkdir()
    folder.chmod(0o755)
    (folder / "secret").write_text(SECRET + "\n")
    options = {"oidc-issuer": real.issuer, "oidc-client-id": CLIENT,
               "oidc-client-secret-file": str(folder / "secret"), "public-url": group.balancer.url}
    try:
        real.add_client(CLIENT, SECRET, f"{group.balancer.url}/login/callback")
        real.add_person(PERSON, PASSWORD, "amy@example.org", [])
        group.apis[0].http.put("/teams/default/members/amy@example.org", json={"role": "member"})
        for one in group.gateways:
            one.settings.gateway_options |= options
            one.gateway.kill()
            one.start_gateway()
        eventually(lambda: len(group.balancer.ready) == len(group.gateways))
        for api in group.apis:  # each has fetched the issuer's document
            eventually(lambda api=api: api.client("").get("/login").status_code == 303)
        yield real
    finally:
        real.purge()


def browser_of(group, issuer) -> httpx.Client:
    """After its sign-in, of which each request went to another gateway."""
    http = httpx.Client(base_url=group.balancer.url, timeout=60,
                        limits=httpx.Limits(max_keepalive_connections=0))
    begun = http.get("/login")
    assert begun.status_code == 303, begun.text
    back = issuer.authorize(begun.headers["location"], PERSON, PASSWORD, CLIENT)
    ended = http.get(back)
    assert ended.status_code == 303, ended.text
    return http


def at(api, browser: httpx.Client) -> httpx.Client:
    """The same browser, at one gateway."""
    return httpx.Client(base_url=api.instance.url, timeout=60, headers=OWN_PAGE,
                        cookies=dict(browser.cookies))


def test_a_browsers_session_is_good_at_all_and_ended_at_all(group, first, second, issuer):
    laptop, phone = browser_of(group, issuer), browser_of(group, issuer)
    for api in (first, second):  # at once, though one of them was not there
        for browser in (laptop, phone):
            assert at(api, browser).get("/me").json()["subject"] == "amy@example.org"
    rows = at(second, laptop).get("/sign-ins").json()["items"]
    other = next(row["id"] for row in rows if not row["current"])
    assert len(rows) == 2 and {row["kind"] for row in rows} == {"browser"}
    assert at(first, laptop).delete(f"/sign-ins/{other}").status_code == 204
    for api in (first, second):
        eventually(lambda api=api: at(api, phone).get("/me").status_code == 401)
        assert at(api, laptop).get("/me").status_code == 200
    assert at(second, laptop).post("/logout").status_code == 200
    eventually(lambda: at(first, laptop).get("/me").status_code == 401)


def test_a_device_signs_in_over_both(group, first, second, issuer):
    begun = first.client("").post("/login/device").json()
    attempt = {"attempt": begun["attempt"]}
    assert second.client("").post("/login/device/token", json=attempt).status_code == 202
    issuer.confirm_device(begun["user_code"], PERSON, PASSWORD, CLIENT)

    def token():
        answer = second.client("").post("/login/device/token", json=attempt)
        assert answer.status_code in (200, 202), answer.text
        return answer.json().get("token")

    made = eventually(token)
    for api in (first, second):
        assert api.client(made).get("/me").json()["subject"] == "amy@example.org"
    assert second.client(made).delete("/sign-ins").json() == {"ended": 1}
    for api in (first, second):
        eventually(lambda api=api: api.client(made).get("/me").status_code == 401)


def refusal(group, *options: str) -> str:
    one = group.gateways[0]
    done = subprocess.run([one.bin / "sandbox-gateway", "--config", "", "--listen", "127.0.0.1:0",
                           "--metrics-listen", "", *options], capture_output=True, text=True,
                          timeout=60, check=False, user=instance.GATEWAY_UID,
                          group=instance.GATEWAY_UID, extra_groups=[],
                          env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 1, done.stderr
    return done.stderr


def test_one_with_another_key_does_not_start(group):
    one = group.gateways[0]
    folder = one.state / "stranger"
    (folder / "gateway").mkdir(parents=True)
    for path in (folder, folder / "gateway"):
        instance.os.chown(path, instance.GATEWAY_UID, instance.GATEWAY_UID)
    told = refusal(group, "--state", str(folder), "--store", one.settings.store)
    assert "secret.key is missing" in told
    assert not (folder / "gateway" / "secret.key").exists()
    (folder / "gateway" / "secret.key").write_bytes(b"k" * 32)
    (folder / "gateway" / "secret.key").chmod(0o644)
    told = refusal(group, "--state", str(folder), "--store", one.settings.store)
    assert "is not the key that this store is used with" in told


def test_two_do_not_share_a_folder_or_a_file(group, tmp_path):
    one = group.gateways[0]
    told = refusal(group, "--state", str(one.state), "--store", one.settings.store)
    assert "is used by another sandbox-gateway" in told
