"""run_entrypoint: the image's ENTRYPOINT and CMD as the session `main`."""

import signal

import pytest

from deployment import IMAGE, demo_image, error_of, eventually

SERVICE = {"Entrypoint": ["/bin/sh", "-c", "echo $0 $1 in $PWD as $(id -un); exec sleep 1000"],
           "Cmd": ["first", "second"], "WorkingDir": "/srv", "User": "nobody"}


@pytest.fixture(scope="module")
def service(registry, demo_layer) -> str:
    registry.push("test/service:1", [demo_layer, demo_image.layer_of({"srv/x": b""})], SERVICE)
    return f"{registry.host}/test/service:1"


def logs(api, box, **query) -> str:
    answer = api.get(f"/sandboxes/{box}/logs", params=query)
    assert answer.status_code == 200, answer.text
    return answer.text


def main_of(api, box) -> dict:
    answer = api.get(f"/sandboxes/{box}/sessions/main")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_entrypoint_runs_and_its_log_is_the_sandboxs(api, service):
    box = api.create(service, run_entrypoint=True)["id"]
    eventually(lambda: "as nobody" in logs(api, box))
    assert logs(api, box, container="main") == "first second in /srv as nobody\n"
    row = main_of(api, box)
    assert (row["name"], row["state"]) == ("main", "running")
    assert api.output(box, "echo beside") == "beside"
    for process in (api.instance.gateway, api.instance.node):
        process.signal(signal.SIGKILL)
        process.wait_gone(20)
    api.instance.start()
    assert main_of(api, box)["id"] == row["id"]
    assert logs(api, box).count("first") == 1
    killed = api.post(f"/sandboxes/{box}/sessions/main/kill", {"signal": "KILL"})
    assert killed.status_code == 204
    eventually(lambda: main_of(api, box)["state"] == "exited")
    assert main_of(api, box)["signal"] == "KILL"
    assert api.state(box) == "ready", "the sandbox stays when its entrypoint ends"
    api.remove(box)


def test_without_it_nothing_runs(api, service):
    box = api.create(service)["id"]
    assert api.get(f"/sandboxes/{box}/sessions").json()["items"] == []
    assert error_of(api.get(f"/sandboxes/{box}/logs")) == (404, "not_found")
    assert error_of(api.get(f"/sandboxes/{box}/logs?container=db")) == (422, "invalid_field")
    api.remove(box)


def test_an_image_that_has_none(api, registry, demo_layer):
    answer = api.post("/sandboxes", {"image": IMAGE, "cpus": 1, "memory_mb": 64,
                                     "run_entrypoint": True})
    assert error_of(answer) == (422, "invalid_field")
    assert answer.json()["error"]["details"]["field"] == "run_entrypoint"
    registry.push("test/plain:1", [demo_layer], {})
    made = api.post("/sandboxes?wait=60", {"image": f"{registry.host}/test/plain:1", "cpus": 1,
                                           "memory_mb": 64, "run_entrypoint": True}).json()
    assert (made["state"], made["reason"]) == ("failed", "start_failed")
    assert "ENTRYPOINT" in made["message"]
    api.remove(made["id"])


def test_a_program_that_is_not_there(api, registry, demo_layer):
    """The sandbox is ready; its session tells."""
    registry.push("test/absent:1", [demo_layer], {"Cmd": ["/absent"]})
    box = api.create(f"{registry.host}/test/absent:1", run_entrypoint=True)["id"]
    eventually(lambda: main_of(api, box)["state"] == "exited")
    assert main_of(api, box)["exit_code"] == 127
    api.remove(box)
