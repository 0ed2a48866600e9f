"""The daemons' configuration as an operator meets it: file, variables, flags, and their check."""

import json
import subprocess
import sys

import pytest

import deployment

sys.path.insert(0, str(deployment.ROOT / "tools"))
import option_documents  # noqa: E402

PROGRAMS = {"sandbox-gateway": "SANDBOX_GATEWAY_", "sandbox-node": "SANDBOX_NODE_"}


def call(deployed, program: str, *argv, env=None) -> subprocess.CompletedProcess:
    environment = {"PATH": "/usr/bin:/bin", **(env or {})}
    return subprocess.run([deployed.bin / program, *map(str, argv)], capture_output=True, text=True,
                          env=environment, timeout=20)


@pytest.fixture(params=PROGRAMS)
def program(request) -> str:
    return request.param


def test_the_default_file_is_right_and_changes_nothing(deployed, program, tmp_path):
    file = tmp_path / "default.conf"
    file.write_text(call(deployed, program, "config", "default").stdout)
    done = call(deployed, program, "config", "check", "--config", file)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
    shown = call(deployed, program, "config", "show", "--config", file).stdout.splitlines()
    assert shown and all(line.startswith("default ") for line in shown)


def test_flag_variable_file_and_default_hold_in_this_order(deployed, tmp_path):
    file = tmp_path / "gateway.conf"
    file.write_text("log-level = debug\nretention-days = 7\ndefault-cpus = 0.5\n")
    done = call(deployed, "sandbox-gateway", "config", "show", "--log-level", "error",
                env={"SANDBOX_GATEWAY_CONFIG": str(file), "SANDBOX_GATEWAY_RETENTION_DAYS": "8",
                     "SANDBOX_GATEWAY_LOG_LEVEL": "warning"})
    rows = {}
    for line in done.stdout.splitlines():
        origin, setting = line.split(None, 1)
        rows[setting.split(" = ")[0]] = (origin, setting)
    assert rows["log-level"] == ("--log-level", "log-level = error")
    assert rows["retention-days"] == ("SANDBOX_GATEWAY_RETENTION_DAYS", "retention-days = 8")
    assert rows["default-cpus"] == (f"{file}:3", "default-cpus = 0.5")
    assert rows["listen"] == ("default", "listen = 127.0.0.1:8080")


@pytest.mark.parametrize("value", ["mirror.example.com", "=m", "a.example.com=https://m", "A=m",
                                   "a.example.com=m a.example.com=n"])
def test_a_wrong_mirror_is_named(deployed, tmp_path, value):
    done = call(deployed, "sandbox-gateway", "config", "check", "--registry-mirrors", value)
    assert done.returncode == 2 and "registry-mirrors: " in done.stderr, done


@pytest.mark.parametrize("line", ["nonsense = 1", "allow-local-images = perhaps", "just words"])
def test_a_wrong_line_stops_check_and_start(deployed, program, tmp_path, line):
    file = tmp_path / "wrong.conf"
    file.write_text(f"# first\n{line}\n")
    for argv in (("config", "check"), ("config", "show"), ()):
        done = call(deployed, program, *argv, "--config", file)
        assert done.returncode == 2
        assert f"{file}:2: " in done.stderr
        assert done.stdout == ""
        if "=" in line:
            assert line.split(" ")[0] in done.stderr


def test_a_named_file_that_is_not_there_is_said(deployed, program):
    done = call(deployed, program, "config", "check", "--config", "/nonexistent/x.conf")
    assert done.returncode == 2
    assert "/nonexistent/x.conf" in done.stderr


@pytest.mark.parametrize("argv", [["--bad"], ["word"], ["config"], ["config", "word"],
                                  ["--log-level"], ["--config"], ["config", "default", "x"]])
def test_wrong_arguments_are_refused(deployed, program, argv):
    done = call(deployed, program, *argv)
    assert done.returncode == 2
    assert done.stderr.startswith(f"{program}: ")


def test_help_names_every_option(deployed, program):
    table = json.loads(call(deployed, program, "config", "options").stdout)
    done = call(deployed, program, "--help")
    assert done.returncode == 0
    for option in table["options"]:
        assert f"--{option['name']} " in done.stdout
        assert option["variable"].startswith(PROGRAMS[program])


def test_the_configuration_page_is_what_the_programs_say(deployed):
    tables = [option_documents.read_table(deployed.bin, name)
              for name in option_documents.PROGRAMS]
    page = (deployment.ROOT / "docs" / "configuration.md").read_text()
    assert page == option_documents.configuration_page(tables), "run ./dev docs"


def test_a_group_that_is_not_there_is_said(deployed):
    done = call(deployed, "sandbox-node", "--config", "", "--gateway-group", "no-such-group")
    assert done.returncode == 1
    assert "no-such-group" in done.stderr
