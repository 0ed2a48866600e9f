"""Keys change while two gateways run on one store: nothing changes before both have the new key,
and what one gives out the other takes all the time."""

import subprocess

import pytest

import replicas
from deployment import eventually, instance
from keys_test import TINY, access_token, argv_of, key_file, right, status_with, used_all_the_time


@pytest.fixture(scope="module")
def group():
    one = replicas.Group("sgr", 2)
    yield one
    one.purge()


def keys(one: instance.Instance, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run(argv_of(one, "keys", *words), capture_output=True, text=True,
                          timeout=120, check=False, env={"PATH": "/usr/bin:/bin"})


def replica_id(one: instance.Instance) -> str:
    return (one.state / "gateway" / "replica-id").read_text().strip()


def give_key_file(group) -> None:
    """As an administrator copies it, for the gateway's user."""
    first, second = (key_file(one) for one in group.gateways)
    fresh = second.with_suffix(".copy")
    fresh.write_bytes(first.read_bytes())
    fresh.chmod(0o600)
    instance.os.chown(fresh, instance.GATEWAY_UID, instance.GATEWAY_UID)
    fresh.rename(second)


def test_both_have_the_key_before_it_seals(group):
    first, second = group.apis
    made = first.post("/sandboxes?wait=60", {**TINY, "env": {"SECRET": "x"}}).json()["id"]
    before = access_token(first, made)
    refused = keys(group.gateways[0], "rotate")
    assert refused.returncode == 1, refused
    assert replica_id(group.gateways[1]) in refused.stderr
    assert replica_id(group.gateways[0]) not in refused.stderr
    # Nothing has changed for anybody.
    assert status_with(second, access_token(first, made)) == 200
    give_key_file(group)
    with used_all_the_time(first, made), used_all_the_time(second, made):
        right(keys(group.gateways[0], "rotate"))
        for maker, user in ((first, second), (second, first)):
            assert status_with(user, before) == 200
            assert status_with(user, access_token(maker, made)) == 200
            other = maker.post("/sandboxes?wait=60", {**TINY, "env": {"SECRET": "y"}}).json()["id"]
            assert user.output(other, "echo $SECRET") == "y"
            user.remove(other)
        after = access_token(second, made)
        for one in group.gateways:
            right(keys(one, "retire"))
        for api in group.apis:
            eventually(lambda api=api: status_with(api, before) == 401)
            assert status_with(api, after) == 200
    assert len(key_file(group.gateways[1]).read_bytes()) == 32
    # One that was away comes back with the former key only, and is told.
    first.remove(made)


def test_one_that_was_away_is_told_that_its_key_is_not_the_store_s(group):
    away = group.gateways[1]
    away.gateway.stop()
    former = key_file(away).read_bytes()
    # The row of one that has stopped is gone: nobody waits for it.
    right(keys(group.gateways[0], "rotate"))
    with pytest.raises(instance.InstanceError, match="is not the key that this store is used with"):
        away.start_gateway()
    assert key_file(away).read_bytes() == former
    give_key_file(group)
    away.start_gateway()
    made = group.apis[1].post("/sandboxes?wait=60", TINY).json()
    assert made["state"] == "ready", made
    group.apis[0].remove(made["id"])
