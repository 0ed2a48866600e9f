"""Image builds where two gateways share a PostgreSQL store: each knows the other's, and ends what
the other left."""

import pytest

import replicas
from deployment import Api, eventually
from image_builds import WAIT, bb, clean, needs_builder, output, post, tar_of  # noqa: F401

pytestmark = needs_builder


@pytest.fixture(scope="module")
def group():
    one = replicas.Group("sgb", 2)
    yield one
    one.purge()


@pytest.fixture(scope="module")
def deployed(group):
    return group.gateways[0]


@pytest.fixture(scope="module")
def api(group) -> Api:
    return group.apis[0]


@pytest.fixture(scope="module")
def second(group) -> Api:
    return group.apis[1]


def context(text: str) -> bytes:
    return tar_of({"Dockerfile": text.encode()})


def test_a_build_of_one_gateway_is_known_joined_and_found_by_the_other(api, second, bb):
    built = context(f"FROM {bb}\nRUN echo shared > /s\n")
    row = post(api, built, wait=0).json()
    joined = post(second, built)
    assert joined.status_code == 200 and joined.json()["id"] == row["id"]
    assert joined.json()["state"] == "succeeded", joined.text
    assert "RUN echo shared" in second.get(f"/builds/{row['id']}/logs").text
    again = post(second, built)
    assert again.status_code == 200 and again.json()["cached"]
    assert output(second, row["image"], "cat /s") == "shared"
    pages = second.get("/builds?limit=1").json()
    assert [one["id"] for one in pages["items"]] == [row["id"]]


def test_a_build_is_cancelled_through_the_other(api, second, bb):
    row = post(api, context(f"FROM {bb}\nRUN sleep 998\n"), wait=0).json()
    eventually(lambda: "sleep 998" in second.get(f"/builds/{row['id']}/logs").text, 60)
    assert second.delete(f"/builds/{row['id']}").status_code == 202
    assert api.get(f"/builds/{row['id']}?wait=30").json()["state"] == "cancelled"


def test_a_build_of_a_gateway_that_died_is_ended_by_the_other(group, api, second, bb):
    row = post(api, context(f"FROM {bb}\nRUN sleep 3; echo kept > /k\n"), wait=0).json()
    eventually(lambda: second.get(f"/builds/{row['id']}").json()["state"] == "running", 60)
    group.gateways[0].gateway.kill()
    try:
        ended = second.get(f"/builds/{row['id']}?wait={WAIT}").json()
        assert ended["state"] == "succeeded", ended
        assert output(second, row["image"], "cat /k") == "kept"
    finally:
        group.gateways[0].start_gateway()
