"""kill -9 of gateway and node in the middle of image builds and of starts of compose files: what
was acknowledged comes to its end, no step and no service runs twice, and nothing is left."""

import base64
import concurrent.futures
import os
import random
import time

import pytest

from compose_services import IMAGE, containers, image, post, services  # noqa: F401
from deployment import eventually
from faults import (LONG, assert_no_leak, assert_quota_used, attempt, restart,
                    settled_holdings)
from image_builds import (WAIT, bb, build, builders, clean, needs_builder,  # noqa: F401
                          output, root_of_builder, tar_of)

ROUNDS = 30 if LONG else 4
SEED = int(os.environ.get("SANDBOX_CHAOS_SEED", "1"))
SECRET = "a secret of no worth"
HEADERS = {"Content-Type": "application/x-tar",
           "X-Build-Secrets": '{"s":"' + base64.b64encode(SECRET.encode()).decode() + '"}'}


def kill_both(deployed, chance: random.Random) -> None:
    """One of them, or both in either order."""
    processes = [deployed.node, deployed.gateway]
    chance.shuffle(processes)
    for process in processes[:chance.randint(1, 2)]:
        process.kill()
    restart(deployed)


@needs_builder
def test_builds_survive_at_every_moment(api, deployed, bb):
    chance = random.Random(SEED)
    build(api, f"FROM {bb}\nRUN true\n")  # the builder is there
    for number in range(ROUNDS):
        cache = f"--mount=type=cache,id=round-{SEED}-{number},target=/count"
        text = (f"FROM {bb}\nRUN {cache} --mount=type=secret,id=s,required=true "
                f"test \"$(cat /run/secrets/s)\" = '{SECRET}' && echo ran >> /count/n && sleep 2\n")
        context = tar_of({"Dockerfile": text.encode()})

        def start(context=context):
            return api.http.post("/builds", content=context, headers=HEADERS, timeout=60)

        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            first = thread.submit(lambda: attempt(start))
            time.sleep(chance.uniform(0, 3))  # the moment is the point of the test
            kill_both(deployed, chance)
            answer = first.result()
        acknowledged = answer is not None and answer.status_code == 201
        if acknowledged:
            row = api.get(f"/builds/{answer.json()['id']}?wait={WAIT}").json()
            assert row["state"] == "succeeded", (number, row)
        # Whoever had no answer asks again: what is there is joined or found, what was lost on its
        # way begins anew.
        again = api.http.post("/builds", params={"wait": WAIT}, content=context, headers=HEADERS,
                              timeout=WAIT + 60)
        row = again.json()
        if not acknowledged and row.get("state") == "failed":
            assert row["reason"] == "context_lost", row  # taken over before its context was there
            row = api.http.post("/builds", params={"wait": WAIT}, content=context, headers=HEADERS,
                                timeout=WAIT + 60).json()
        assert row["state"] == "succeeded", (number, row)
        counted = build(api, f"FROM {bb}\nRUN {cache} cat /count/n > /n\n")
        assert output(api, counted["image"], "cat /n") == "ran", f"round {number}: not once"
    root = root_of_builder(deployed)
    assert eventually(lambda: not os.listdir(root / "state" / "jobs"))
    assert eventually(lambda: not os.listdir(root / "dev" / "shm"))
    eventually(lambda: all(name.startswith("builder-") for name in builders(deployed)))
    rows = api.get("/builds?state=queued").json()["items"] + api.get(
        "/builds?state=running").json()["items"]
    assert rows == []


@pytest.fixture
def before(api, deployed) -> dict:
    for name in builders(deployed):
        deployed.ask_node({"op": "remove", "id": name})
    return settled_holdings(deployed)


def test_starts_of_compose_files_survive_at_every_moment(api, deployed, before):
    chance = random.Random(SEED)
    once = "echo began >> /v/{0}; sleep 1; touch /ok; exec sleep 1000"
    project = {"services": services(
        db={"command": ["sh", "-c", once.format("db")], "volumes": ["v:/v"], "secrets": ["s"],
            "healthcheck": {"test": "test -f /ok", "interval": "200ms", "start_period": "5m"}},
        main={"command": ["sh", "-c", once.format("main")], "volumes": ["v:/v"],
              "depends_on": {"db": {"condition": "service_healthy"}}}),
        "volumes": {"v": None}, "secrets": {"s": {"environment": "S"}}}
    for number in range(ROUNDS):
        made = post(api, project, wait=0, compose={"env": {"S": SECRET}})
        assert made.status_code == 201, made.text
        box = made.json()["id"]
        time.sleep(chance.uniform(0, 2))  # the moment is the point of the test
        kill_both(deployed, chance)
        row = api.get(f"/sandboxes/{box}?wait=60").json()
        assert row["state"] == "ready", (number, row)
        assert api.output(box, "cat /v/db /v/main").split() == ["began", "began"]
        assert api.output(box, "cat /run/secrets/s", container="db") == SECRET
        assert {one["state"] for one in containers(api, box).values()} == {"running"}
        assert_quota_used(api, 1)
        api.remove(box)
    assert_no_leak(deployed, before)
