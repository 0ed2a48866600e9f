"""Every way to run a command through the API, with one form of result, so that a case is tried
on all of them and must mean the same on each."""

import base64
import dataclasses
import json

from deployment import Api

NAMES = ("run", "exec", "stream", "session")


@dataclasses.dataclass
class Outcome:
    """What a form told: `signal` is None where the form has no field for it."""

    code: int | None
    out: bytes
    err: bytes
    timed_out: bool = False
    signal: str | None = None


def command(form: str, api: Api, sandbox: str, text: str, timeout: float | None = None,
            http_timeout: float = 60) -> Outcome:
    """Runs `sh -c text` and waits for its end."""
    return FORMS[form](api, sandbox, text, timeout, http_timeout)


def _body(text: str, timeout: float | None) -> dict:
    return {"command": text, **({"timeout_sec": timeout} if timeout is not None else {})}


def _run(api, sandbox, text, timeout, http_timeout):
    answer = api.http.post(f"/sandboxes/{sandbox}/run", timeout=http_timeout,
                           json={**_body(text, timeout), "encoding": "base64"})
    assert answer.status_code == 200, answer.text
    told = answer.json()
    return Outcome(told["exit_code"], base64.b64decode(told["stdout"]),
                   base64.b64decode(told["stderr"]), told["timed_out"], told["signal"])


def _exec(api, sandbox, text, timeout, http_timeout, stdin=b""):
    answer = api.http.post(f"/sandboxes/{sandbox}/exec", timeout=http_timeout,
                           content=json.dumps(_body(text, timeout)).encode() + b"\n" + stdin)
    assert answer.status_code == 200, answer.text
    head = answer.headers
    out, err = int(head["x-stdout-length"]), int(head["x-stderr-length"])
    body = answer.content
    assert len(body) == out + err
    return Outcome(int(head["x-return-code"]), body[:out], body[out:],
                   head["x-timed-out"] in ("1", "true"), head.get("x-signal") or None)


def _stream(api, sandbox, text, timeout, http_timeout):
    body = {"command": text, **({"timeout": timeout} if timeout is not None else {})}
    told = {"stdout": [], "stderr": []}
    end, error = None, None
    with api.http.stream("POST", f"/api/v1/sandboxes/{sandbox}/exec", json=body,
                         timeout=http_timeout) as answer:
        assert answer.status_code == 200, answer.read()
        for line in answer.iter_lines():
            event = json.loads(line)
            if "stream" in event:
                told[event["stream"]].append(event["data"])
            elif event.get("done"):
                end = event
            elif event.get("error"):
                error = event["message"]
    assert end is not None, "the stream has no end"
    out, err = ("".join(told[name]).encode() for name in ("stdout", "stderr"))
    return Outcome(end["exitCode"], out, err, error == "timeout", end.get("signal"))


def _session(api, sandbox, text, timeout, http_timeout):
    answer = api.post(f"/sandboxes/{sandbox}/sessions", _body(text, timeout))
    assert answer.status_code == 201, answer.text
    path = f"/sandboxes/{sandbox}/sessions/{answer.json()['id']}"
    told = {"stdout": b"", "stderr": b""}
    end = None
    with api.http.stream("GET", f"{path}/logs", params={"offset": 0, "follow": "true"},
                         headers={"accept": "application/x-ndjson"},
                         timeout=http_timeout) as answer:
        assert answer.status_code == 200, answer.read()
        for line in answer.iter_lines():
            record = json.loads(line)
            if "stream" in record:
                told[record["stream"]] += record["data"].encode()
            elif "exit" in record:
                end = record["exit"]
    assert end is not None, "the log has no end"
    return Outcome(end["exit_code"], told["stdout"], told["stderr"], end["timed_out"],
                   end["signal"])


FORMS = {"run": _run, "exec": _exec, "stream": _stream, "session": _session}


def exec_with_input(api: Api, sandbox: str, text: str, stdin: bytes, **limits) -> Outcome:
    """Binary exec with bytes for the command's standard input."""
    return _exec(api, sandbox, text, limits.get("timeout"), limits.get("http_timeout", 60), stdin)
