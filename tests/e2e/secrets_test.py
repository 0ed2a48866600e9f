"""What is secret is nowhere but where it belongs: values planted in everything that takes one are
looked for in all that the daemons write, show and answer."""

import json
import os
import secrets
import subprocess
from pathlib import Path

import httpx
import pytest

import deployment
from deployment import IMAGE, Api, eventually

KINDS = ("create-env", "run-env", "stdin", "session-env", "session-stdin", "exec-env", "header",
         "bad-token", "registry", "template", "template-file", "compose-env", "upload", "bad-body",
         "token-in-query", "form")
TEMPLATES = """
secrets: {{one: {file}}}
templates:
  planted:
    files: {{~/.planted: "{{{{ secret.one }}}} {file_value}"}}
    variables: {{PLANTED: "{{{{ secret.one }}}}"}}
"""


@pytest.fixture(scope="module")
def planted() -> dict[str, str]:
    return {kind: f"planted{number:02d}{secrets.token_hex(12)}"
            for number, kind in enumerate(KINDS)}


@pytest.fixture(scope="module")
def deployed(planted):
    one = deployment.make_instance("sgs", "10.218.0.0/16", 900_000_000, shells=2)
    # Where an operator has them: not in the state folder, which is looked through.
    folder = Path("/var/lib") / f"sandbox-gateway-planted-{one.settings.name_prefix}"
    folder.mkdir(exist_ok=True)
    (folder / "one").write_text(planted["template"])
    (folder / "templates.yaml").write_text(TEMPLATES.format(
        file=folder / "one", file_value=planted["template-file"]))
    one.settings.gateway_options |= {
        "credentials": "sandbox,gatana", "credentials-file": str(folder / "templates.yaml"),
        "log-level": "debug"}
    try:
        with deployment.running(one):
            yield one
    finally:
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


@pytest.fixture(scope="module")
def api(deployed) -> Api:
    return Api(deployed)


@pytest.fixture(scope="module")
def said(api, planted) -> list[str]:
    """Goes through the routes with the planted values; every answer that is not what a command
    said itself."""
    answers: list[str] = []

    def told(answer: httpx.Response) -> httpx.Response:
        answers.append(f"{answer.headers} {answer.text}")
        return answer

    p = planted
    made = told(api.post("/sandboxes?wait=60", {
        "image": IMAGE, "cpus": 1, "memory_mb": 256, "env": {"E": p["create-env"]}})).json()
    box = f"/sandboxes/{made['id']}"
    # They are where they belong.
    assert api.output(made["id"], "echo $E $PLANTED; cat ~/.planted") == (
        f"{p['create-env']} {p['template']}\n{p['template']} {p['template-file']}")
    for argv in (["true"], ["false"], ["not-there"], ["sh", "-c", "kill -9 $$"]):
        told(api.post(f"{box}/run", {"argv": argv, "env": {"R": p["run-env"]},
                                     "stdin": p["stdin"]}))
    told(api.post(f"{box}/run", {"argv": ["true"], "cwd": "/absent", "env": {"R": p["run-env"]}}))
    told(api.post(f"{box}/run", {"argv": ["true"], "env": {"A=B": p["run-env"]}}))
    told(api.post(f"{box}/run", {"argv": ["true"], "env": {"A": p["run-env"] + "\0"}}))
    told(api.post(f"{box}/run", {"argv": ["true"], "env": p["bad-body"]}))
    told(api.http.post(f"{box}/run", content='{"argv":["true"],"env":{"A":"' + p["bad-body"]))
    told(api.http.post("/sandboxes", content='{"env":{"A":"' + p["bad-body"]))
    line = json.dumps({"argv": ["true"], "env": {"X": p["exec-env"]}})
    told(api.http.post(f"{box}/exec", content=f"{line}\n{p['stdin']}"))
    session = told(api.post(f"{box}/sessions", {"argv": ["cat"],
                                                "env": {"S": p["session-env"]}})).json()["id"]
    told(api.http.post(f"{box}/sessions/{session}/stdin?eof=1", content=p["session-stdin"]))
    told(api.get(f"{box}/sessions/{session}?wait=20"))
    told(api.get(f"{box}/sessions"))
    told(api.post(f"/api/v1{box}/exec", {"command": "true"}))
    told(api.upload(made["id"], "/tmp/file", p["upload"].encode()))
    told(api.upload(made["id"], "/proc/nothing/file", p["upload"].encode()))
    told(api.http.put("/teams/default/registries/r.example",
                      json={"username": "us", "password": p["registry"]}))
    told(api.get("/teams/default/registries"))
    told(api.post("/sandboxes?wait=20", {"image": "r.example/absent:1", "cpus": 1,
                                         "memory_mb": 64, "env": {"E": p["create-env"]}}))
    compose = f"services: {{main: {{image: {IMAGE}, environment: {{C: {p['compose-env']}}}}}}}"
    several = told(api.post("/sandboxes?wait=60", {"compose": {"files": [compose]}, "cpus": 1,
                                                   "memory_mb": 256})).json()
    told(api.post("/compose/check", {"files": [compose]}))
    told(api.http.get("/me", headers={"X-Own": p["header"], "Cookie": f"a={p['header']}"}))
    told(httpx.get(f"{api.instance.url}/me",
                   headers={"Authorization": f"Bearer {p['bad-token']}"}))
    told(httpx.get(f"{api.instance.url}/me",
                   headers={"Authorization": f"Basic {p['bad-token']}"}))
    told(httpx.get(f"{api.instance.url}{box}/terminal?ticket={p['token-in-query']}",
                   headers={"Upgrade": "websocket", "Connection": "Upgrade",
                            "Sec-WebSocket-Version": "13",
                            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}))
    told(httpx.post(f"{api.instance.url}/oauth/token",
                    data={"grant_type": "x", "subject_token": p["form"]}))
    told(httpx.post(f"{api.instance.url}/oauth/token", data={
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "subject_token": p["form"]}))
    for one in (made, several):
        if one.get("id"):
            for path in ("", "/events", "/audit-logs", "/activity", "/metrics"):
                told(api.get(f"/sandboxes/{one['id']}{path}"))
    for path in ("/sandboxes?all=true", "/audit-logs?limit=1000", "/audit-logs?format=jsonl",
                 "/teams/default", "/images", "/metrics", "/replicas", "/activity"):
        told(api.get(path))
    answers.append(httpx.get(
        f"http://127.0.0.1:{api.instance.settings.metrics_port}/metrics").text)
    return answers


def test_no_answer_has_them(said, planted):
    for kind, value in planted.items():
        for answer in said:
            assert value not in answer, f"{kind}: {answer[:400]}"


def files_below(folder: Path):
    """Regular files that the daemons write; not what is within a sandbox, where they belong."""
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders
                      if not os.path.ismount(os.path.join(root, name)) or name == "run"]
        for name in names:
            file = Path(root, name)
            if file.is_file() and not file.is_symlink() and not name.endswith(".img"):
                yield file


def test_no_file_of_the_daemons_has_them(said, deployed, planted):
    api = Api(deployed)
    for row in api.get("/sandboxes").json()["items"]:
        eventually(lambda row=row: api.state(row["id"]) != "starting")
    # What the store has is flushed by a clean end.
    deployed.gateway.stop()
    try:
        looked = 0
        for folder in ("gateway", "log", "run", "lib"):
            for file in files_below(deployed.state / folder):
                if "storage" in file.parts or "images" in file.parts or "layers" in file.parts:
                    continue
                text = file.read_bytes()
                looked += 1
                for kind, value in planted.items():
                    assert value.encode() not in text, f"{kind} in {file}"
        assert looked > 5
        assert deployed.token.encode() not in b"".join(
            file.read_bytes() for file in files_below(deployed.state / "log"))
    finally:
        deployed.start()


def processes() -> dict[int, str]:
    out = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                out[int(entry.name)] = (entry / "comm").read_text().strip()
            except OSError:
                continue
    return out


def test_no_process_of_the_host_shows_them(said, deployed, planted):
    daemons = [pid for pid, name in processes().items() if name.startswith("sandbox-")]
    assert deployed.gateway.pid() in daemons and deployed.node.pid() in daemons
    for pid in daemons:
        for what in ("cmdline", "environ"):
            try:
                text = Path(f"/proc/{pid}/{what}").read_bytes()
            except OSError:
                continue
            for kind, value in planted.items():
                assert value.encode() not in text, f"{kind} in {what} of {pid}"


def test_the_gateways_memory_is_in_no_file(deployed):
    """Neither a core file nor another process of its user gets at it."""
    pid = deployed.gateway.pid()
    limits = Path(f"/proc/{pid}/limits").read_text()
    core = next(line for line in limits.splitlines() if line.startswith("Max core file size"))
    assert core.split()[4:6] == ["0", "0"]
    read = subprocess.run(
        ["setpriv", f"--reuid={os.stat(deployed.state / 'gateway').st_uid}", "--clear-groups",
         "cat", f"/proc/{pid}/environ"], capture_output=True, check=False)
    assert read.returncode != 0 and read.stdout == b""
