"""The command that rotates keys is killed at every step of it, beside a gateway that runs: the same
command goes on from there, and nothing is lost or sealed by a key that nobody has."""

import os
import subprocess

import pytest

from faults import BODY, fault_points


def keys(deployed, *words: str, fault: str = "") -> subprocess.CompletedProcess:
    argv = [deployed.bin / "sandbox-gateway", "keys", *words, "--config", "", "--state",
            deployed.state]
    if deployed.settings.store:
        argv += ["--store", deployed.settings.store]
    variables = {"PATH": "/usr/bin:/bin"} | ({"SANDBOX_FAULT": fault} if fault else {})
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False,
                          env=variables)


@pytest.mark.parametrize("point", fault_points("gateway", "keys."))
def test_kill_while_keys_change(api, deployed, point):
    made = api.create(**{**BODY, "env": {"SECRET": point}})["id"]
    killed = keys(deployed, "rotate", fault=point)
    assert killed.returncode == -9, killed
    assert api.run(made, "true")["exit_code"] == 0
    deployed.gateway.kill()
    deployed.start_gateway()
    assert api.output(made, "echo $SECRET") == point
    another = api.create(**BODY)["id"]
    for words in ("rotate", "retire"):
        done = keys(deployed, words)
        assert done.returncode == 0, done
    rows = [line.split() for line in keys(deployed, "list").stdout.splitlines()]
    sealing = [row for row in rows if row[1] == "seals"]
    assert len(sealing) == 1 and sealing[0][3] == sealing[0][5], rows
    assert not [row for row in rows if row[1] in ("former", "next")], rows
    assert os.stat(deployed.state / "gateway" / "secret.key").st_size == 32
    for sandbox in (made, another):
        api.remove(sandbox)
