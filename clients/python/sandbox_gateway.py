"""Sandbox Gateway SDK: sandboxes from container images, for Python 3.12 and later.

    from sandbox_gateway import Gateway

    with Gateway() as gw, gw.create("debian:12", cpus=1, memory_mb=512) as sbx:
        print(sbx.run(["uname", "-a"]).stdout)

The address and token come from SANDBOX_GATEWAY_URL and SANDBOX_GATEWAY_TOKEN unless given.
`AsyncGateway` is the same with `await`. Everything raised derives from `GatewayError`.

Longer than 600 lines because it is one file on purpose: it is fetched from a gateway
(/clients/sandbox_gateway.py) and dropped into a project; httpx is all it needs. How it is built:
what the API is asked and how answers are read is written once, as generators ("plans") that yield
requests and get responses; `Gateway` and `AsyncGateway` only carry the requests out.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import os
import random
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Self
from urllib.parse import quote, urlencode, urlsplit

import anyio
import anyio.to_thread
import httpx

__version__ = "0.1.0"
__all__ = [
    "AsyncGateway", "AsyncSandbox", "CommandError", "Conflict", "ConnectionFailed", "Event",
    "FileEntry", "Forbidden", "Gateway", "GatewayError", "Image", "InternalError", "InvalidRequest",
    "NotFound", "NotReady", "NotSupported", "Overloaded", "Result", "Sandbox", "SandboxFailed",
    "StorageFull", "Unauthenticated", "Unavailable", "WaitTimeout",
]

DEFAULT_URL = "http://127.0.0.1:8080"
# Longest silence of the gateway; on anything long it sends a byte every 15 seconds.
DEFAULT_TIMEOUT = 60.0
_CONNECT_TIMEOUT = 10.0
# The longest the gateway holds one waiting request is 300 s; shorter ones notice a dead peer.
_WAIT_STEP = 60
_ATTEMPTS = 4
_FIRST_PAUSE = 0.2
# A Retry-After beyond this is for the caller to decide about.
_RETRY_AFTER_MAX = 20.0
_CHUNK = 1 << 20
_EVENT_BYTES_MAX = 1 << 20
_PAGE = 1000
# Clean-up after an interruption must end soon.
_CLEANUP_TIMEOUT = 15.0
_IMPORT_TIMEOUT = 900.0
_IDENTITY = {"Accept-Encoding": "identity"}

type Plan[T] = Generator[_Request | _Sleep, httpx.Response | None, T]
type Source = bytes | bytearray | memoryview | str | os.PathLike[str] | BinaryIO
type Command = str | Sequence[str]


# ---------------------------------------------------------------------------------------- errors

class GatewayError(Exception):
    """What went wrong: `code` is the API's closed list, `status` the HTTP status (None when there
    was no answer), `details` for programs, `request_id` for the gateway's operator."""

    def __init__(self, message: str, *, code: str = "internal", status: int | None = None,
                 details: Mapping[str, Any] | None = None, request_id: str | None = None):
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status
        self.details = dict(details or {})
        self.request_id = request_id

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class InvalidRequest(GatewayError):
    """A value the gateway does not take; `details["field"]` names it."""


class NotSupported(InvalidRequest):
    """Documented, but not built yet in this gateway."""


class Unauthenticated(GatewayError):
    """No token, or a wrong one."""


class Forbidden(GatewayError):
    """Not allowed to this token, or to the user inside the sandbox."""


class NotFound(GatewayError):
    """No such sandbox, file or image (or it is not yours)."""


class Conflict(GatewayError):
    """The state of things forbids it: is_a_directory, in_use, file_exists, ..."""


class NotReady(Conflict):
    """The sandbox is not ready; `details["state"]` says what it is."""


class Overloaded(GatewayError):
    """Too many requests now, also after waiting and trying again."""


class Unavailable(GatewayError):
    """The gateway cannot do it now."""


class StorageFull(GatewayError):
    """The sandbox's storage is full."""


class InternalError(GatewayError):
    """A bug of the gateway or a broken sandbox; tell its operator the request_id."""


class ConnectionFailed(GatewayError):
    """No connection, or it ended before the answer. A command may or may not have run."""


class WaitTimeout(GatewayError):
    """The time given for waiting is over; what was waited for goes on."""


class SandboxFailed(GatewayError):
    """The sandbox failed to become ready; `code` is its reason, `data` the sandbox."""

    def __init__(self, message: str, *, code: str, data: Mapping[str, Any]):
        super().__init__(message, code=code)
        self.data = dict(data)


class CommandError(GatewayError):
    """`run` ended with another exit code than 0; `result` has all of it."""

    def __init__(self, command: Command, result: Result):
        if result.timed_out:
            how = "timed out"
        elif result.signal:
            how = f"was ended by signal {result.signal}"
        else:
            how = f"ended with exit code {result.exit_code}"
        tail = result.stderr.strip()[-500:]
        name = command if isinstance(command, str) else " ".join(command)
        super().__init__(f"{name[:200]!r} {how}" + (f": {tail}" if tail else ""),
                         code="command_failed")
        self.command = command
        self.result = result


_ERRORS_BY_CODE: dict[str, type[GatewayError]] = {
    "not_ready": NotReady, "not_supported": NotSupported, "disk_full": StorageFull,
    "image_not_allowed": Forbidden, "permission_denied": Forbidden, "read_only": Forbidden,
}
_ERRORS_BY_STATUS: dict[int, type[GatewayError]] = {
    401: Unauthenticated, 403: Forbidden, 404: NotFound, 409: Conflict, 429: Overloaded,
    503: Unavailable, 507: StorageFull,
}


def _error_from(status: int, body: Any, text: str, request_id: str | None) -> GatewayError:
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        error = {"code": "unauthenticated" if status == 401 else "internal",
                 "message": f"the gateway answered with status {status}: {text[:200]}"}
    code = str(error.get("code", "internal"))
    details = error.get("details") if isinstance(error.get("details"), dict) else {}
    kind = _ERRORS_BY_CODE.get(code) or _ERRORS_BY_STATUS.get(status)
    if kind is None:
        kind = InternalError if status >= 500 else InvalidRequest
    return kind(str(error.get("message", "")), code=code, status=status, details=details,
                request_id=details.get("request_id") or request_id)


def _raise_for(response: httpx.Response) -> None:
    if response.status_code // 100 == 2:
        return
    try:
        body = json.loads(response.content)
    except ValueError:
        body = None
    text = response.content.decode("utf-8", "replace")
    raise _error_from(response.status_code, body, text, response.headers.get("x-request-id"))


# ---------------------------------------------------------------------------------------- values

@dataclasses.dataclass(frozen=True)
class Result:
    """How a command ended and what it printed."""

    exit_code: int | None
    stdout_bytes: bytes
    stderr_bytes: bytes
    signal: str | None = None
    timed_out: bool = False
    oom_killed: bool = False
    truncated: bool = False
    stdout_dropped_bytes: int = 0
    stderr_dropped_bytes: int = 0
    duration_ms: float = 0

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode("utf-8", "replace")

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and not self.timed_out


@dataclasses.dataclass(frozen=True)
class Event:
    """One thing that happened to a sandbox."""

    id: str
    at: str
    type: str
    reason: str | None = None
    message: str | None = None
    container: str | None = None


@dataclasses.dataclass(frozen=True)
class FileEntry:
    """One name of a listing. `type` is file, directory, symlink, ..."""

    name: str
    path: str
    type: str
    size: int = 0
    mode: str | int | None = None
    uid: int | None = None
    gid: int | None = None
    mtime: str | float | None = None
    link_target: str | None = None


@dataclasses.dataclass(frozen=True)
class Image:
    """An image in the gateway's store."""

    name: str
    digest: str = ""
    size_bytes: int = 0
    platform: str = ""
    source: str = ""
    created_at: str | None = None
    last_used_at: str | None = None
    in_use: bool = False
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def _read_into[T](kind: type[T], data: Mapping[str, Any]) -> T:
    """A newer gateway may say more than this file knows: the rest is left out."""
    known = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in data.items() if name in known})


# -------------------------------------------------------------------------- requests and bodies

@dataclasses.dataclass
class _Request:
    method: str
    target: str
    json: Any = None
    source: Source | None = None  # the body, streamed
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    read_timeout: float | None = None  # longest silence, where it is not the gateway's default
    repeat: bool = False  # safe to send again
    sink: _Sink | None = None  # gets the body of a 2xx piece by piece

    def content(self) -> bytes | None:
        return None if self.json is None else json.dumps(self.json).encode()


@dataclasses.dataclass(frozen=True)
class _Sleep:
    seconds: float


class _Sink:
    """Takes the body of an answer."""

    def restart(self) -> bool:
        """Forgets what came so far, before another attempt; False when that cannot be."""
        raise NotImplementedError

    def write(self, piece: bytes) -> None:
        raise NotImplementedError


class _FileSink(_Sink):
    def __init__(self, file: BinaryIO, ours: bool):
        self.file = file
        self.ours = ours
        self.begun = False

    def restart(self) -> bool:
        if self.begun and not self.ours:
            return False
        if self.begun:
            self.file.seek(0)
            self.file.truncate()
        return True

    def write(self, piece: bytes) -> None:
        self.begun = True
        self.file.write(piece)


class _EventSink(_Sink):
    """Server-Sent Events to calls."""

    def __init__(self, take: Callable[[_StreamEvent], None]):
        self.decoder = _EventDecoder()
        self.take = take

    def restart(self) -> bool:
        self.decoder = _EventDecoder()
        return True

    def write(self, piece: bytes) -> None:
        for event in self.decoder.feed(piece):
            self.take(event)


@dataclasses.dataclass(frozen=True)
class _StreamEvent:
    id: str
    type: str
    data: str


class _EventDecoder:
    """Server-Sent Events without I/O: bytes in, events out."""

    def __init__(self) -> None:
        self._rest = b""
        self._id = ""
        self._type = ""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> Iterator[_StreamEvent]:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > _EVENT_BYTES_MAX:
            raise InternalError("an event of the gateway is too long")
        for raw in lines:
            line = raw.removesuffix(b"\r").decode("utf-8", "replace")
            if not line:
                if self._data:
                    yield _StreamEvent(self._id, self._type or "message", "\n".join(self._data))
                self._type, self._data = "", []
                continue
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "data":
                self._data.append(value)
            elif name == "id":
                self._id = value
            elif name == "event":
                self._type = value


class _OpenSource:
    """A body to stream: its length when known, and its pieces. Closes only what it opened."""

    def __init__(self, source: Source):
        self._ours = isinstance(source, str | os.PathLike)
        if isinstance(source, str | os.PathLike):
            self._file: BinaryIO | None = open(source, "rb")  # noqa: SIM115 (closed by close())
            self.length: int | None = os.fstat(self._file.fileno()).st_size
            self._bytes = b""
        elif isinstance(source, bytes | bytearray | memoryview):
            self._file, self._bytes = None, bytes(source)
            self.length = len(self._bytes)
        else:
            self._file, self._bytes, self.length = source, b"", None

    def read(self) -> bytes:
        if self._file is not None:
            return self._file.read(_CHUNK)
        piece, self._bytes = self._bytes[:_CHUNK], self._bytes[_CHUNK:]
        return piece

    def pieces(self) -> Iterator[bytes]:
        while piece := self.read():
            yield piece

    async def pieces_async(self) -> AsyncIterator[bytes]:
        while piece := await anyio.to_thread.run_sync(self.read):
            yield piece

    def close(self) -> None:
        if self._ours and self._file is not None:
            self._file.close()


def _connection_failed(error: Exception, url: str) -> ConnectionFailed:
    return ConnectionFailed(f"request to {url}: {error or type(error).__name__}",
                            code="connection_failed")


# ----------------------------------------------------------------------------------------- plans

def _ask(request: _Request) -> Plan[httpx.Response]:
    """One request with its repetitions; the answer is a 2xx."""
    for attempt in range(_ATTEMPTS):
        last = not request.repeat or attempt + 1 == _ATTEMPTS
        # Apart from each other, so that many clients do not come back at once.
        pause = _FIRST_PAUSE * 2**attempt * random.uniform(0.8, 1.2)
        try:
            response = yield request
        except ConnectionFailed:
            if last or (request.sink is not None and not request.sink.restart()):
                raise
            yield _Sleep(pause)
            continue
        assert response is not None
        if response.status_code in (429, 503) and not last:
            after = response.headers.get("retry-after", "")
            wanted = float(after) if after.isdecimal() else pause
            if wanted <= _RETRY_AFTER_MAX:
                yield _Sleep(max(wanted, pause))
                continue
        _raise_for(response)
        return response
    raise AssertionError("unreachable")


def _ask_json(request: _Request) -> Plan[Any]:
    response = yield from _ask(request)
    try:
        return json.loads(response.content) if response.content.strip() else None
    except ValueError:
        raise InternalError(f"the answer to {request.method} {request.target} is not JSON: is "
                            "there a Sandbox Gateway at this URL?") from None


def _get(target: str, read_timeout: float | None = None) -> Plan[Any]:
    return (yield from _ask_json(_Request("GET", target, repeat=True, read_timeout=read_timeout)))


def _pages(path: str, query: list[tuple[str, str]], limit: int | None = None,
           page_size: int | None = _PAGE) -> Plan[list[Any]]:
    """All items of a list; without a page size the gateway chooses it."""
    items: list[Any] = []
    cursor = None
    while limit is None or len(items) < limit:
        more = [("cursor", cursor)] if cursor else []
        if page_size is not None:
            count = page_size if limit is None else min(page_size, limit - len(items))
            more.append(("limit", str(count)))
        text = urlencode(query + more, quote_via=quote)
        page = yield from _get(f"{path}?{text}" if text else path)
        items += page["items"]
        cursor = page.get("next_cursor")
        if not cursor or not page["items"]:
            break
    return items


def _path(sandbox: str, suffix: str = "") -> str:
    return f"/sandboxes/{quote(sandbox, safe='')}{suffix}"


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _settled(data: Mapping[str, Any]) -> bool:
    return data["state"] not in ("queued", "starting")


def _check_ready(data: Mapping[str, Any]) -> None:
    if data["state"] != "ready":
        reason = data.get("reason") or data["state"]
        message = data.get("message")
        raise SandboxFailed(f"sandbox {data['id']} is {data['state']}"
                            + (f": {message}" if message else ""), code=reason, data=data)


def _wait_ready(sandbox: str, timeout: float | None) -> Plan[dict[str, Any]]:
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        left = _WAIT_STEP if end is None else max(0.0, end - time.monotonic())
        wait = min(_WAIT_STEP, int(left + 0.999))
        data = yield from _get(_path(sandbox, f"?wait={wait}"), DEFAULT_TIMEOUT + wait)
        if _settled(data):
            _check_ready(data)
            return data
        if end is not None and time.monotonic() >= end:
            raise WaitTimeout(f"sandbox {sandbox} is still {data['state']} after {timeout} s",
                              code="wait_timeout", details={"state": data["state"]})


def _create(body: dict[str, Any], wait: bool | float, key: str | None) -> Plan[dict[str, Any]]:
    """Nothing is left behind when this ends otherwise than with a sandbox: the caller would have
    no handle to delete it with."""
    headers = {"Idempotency-Key": key or uuid.uuid4().hex}
    timeout = None if isinstance(wait, bool) else float(wait)
    first = int(min(_WAIT_STEP, _WAIT_STEP if timeout is None else timeout))
    query = f"?wait={first}" if wait is not False and first > 0 else ""
    request = _Request("POST", f"/sandboxes{query}", json=body, headers=headers, repeat=True,
                       read_timeout=DEFAULT_TIMEOUT + first)
    started = time.monotonic()
    data = None
    try:
        data = yield from _ask_json(request)
        if wait is not False and not _settled(data):
            left = None if timeout is None else max(0.0, timeout - (time.monotonic() - started))
            data = yield from _wait_ready(data["id"], left)
        if wait is not False:
            _check_ready(data)
        return data
    except (InvalidRequest, Unauthenticated, Forbidden, Conflict, Overloaded):
        raise  # refused: nothing was created
    except BaseException:
        with contextlib.suppress(GatewayError):
            if data is None:  # the key finds the sandbox whose answer was lost
                data = yield from _ask_json(dataclasses.replace(
                    request, target="/sandboxes", repeat=False))
            if key is None:  # a key of the caller's means that the caller comes back for it
                yield from _delete(data["id"], False)
        raise


def _delete(sandbox: str, wait: bool) -> Plan[None]:
    query = f"?wait={_WAIT_STEP}" if wait else ""
    request = _Request("DELETE", _path(sandbox, query), repeat=True,
                       read_timeout=DEFAULT_TIMEOUT + _WAIT_STEP)
    while True:
        try:
            response = yield from _ask(request)
        except NotFound:
            return  # gone is what was wanted
        if not wait or response.status_code == 204:
            return


def _list(limit: int | None, labels: Mapping[str, str] | None, all: bool,
          filters: Mapping[str, str | None]) -> Plan[list[dict[str, Any]]]:
    query = list(_without_none(filters).items())
    query += [("label", f"{name}={value}") for name, value in (labels or {}).items()]
    query += [("all", "true")] if all else []
    return (yield from _pages("/sandboxes", query, limit))


def _command(sandbox: str, command: Command, *, cwd: str | None, env: Mapping[str, str] | None,
             user: str | None, stdin: str | bytes | None,
             timeout_sec: float | None) -> Plan[Result]:
    body = _without_none({"cwd": cwd, "env": dict(env) if env else None, "user": user,
                          "timeout_sec": timeout_sec, "encoding": "base64"})
    if isinstance(command, str):
        body["argv"] = ["sh", "-c", command]
    else:
        body["argv"] = [str(word) for word in command]
    if stdin is not None:
        raw = stdin.encode() if isinstance(stdin, str) else bytes(stdin)
        body |= {"stdin": base64.b64encode(raw).decode(), "stdin_encoding": "base64"}
    # Never repeated: a command whose answer is lost may have run. The gateway's signs of life
    # come every 15 s, so a limit on silence does not limit the command.
    answer = yield from _ask_json(_Request("POST", _path(sandbox, "/run"), json=body,
                                           read_timeout=DEFAULT_TIMEOUT))
    if isinstance(answer.get("error"), dict):  # the sandbox ended after the head was sent
        raise _error_from(502, answer, "", None)
    streams = {f"{name}_bytes": base64.b64decode(answer.get(name) or "")
               for name in ("stdout", "stderr")}
    return _read_into(Result, {**answer, **streams})


def _run(sandbox: str, command: Command, check: bool, **options: Any) -> Plan[Result]:
    result = yield from _command(sandbox, command, **options)
    if check and not result.ok:
        raise CommandError(command, result)
    return result


def _files(sandbox: str, path: str, **parameters: Any) -> str:
    query = {"path": str(path), **_without_none(parameters)}
    return _path(sandbox, f"/files?{urlencode(query, quote_via=quote)}")


def _octal(mode: int | str | None) -> str | None:
    return f"{mode:04o}" if isinstance(mode, int) else mode


def _upload(sandbox: str, source: Source, dest: str, *, mode: int | str | None,
            owner: str | None, user: str | None) -> Plan[dict[str, Any]]:
    target = _files(sandbox, dest, mode=_octal(mode), owner=owner, user=user)
    return (yield from _ask_json(_Request("PUT", target, source=source)))


def _download_to(sandbox: str, path: str, file: BinaryIO, ours: bool,
                 user: str | None) -> Plan[None]:
    sink = _FileSink(file, ours)
    yield from _ask(_Request("GET", _files(sandbox, path, user=user), headers=dict(_IDENTITY),
                             repeat=True, sink=sink))


def _download(sandbox: str, path: str, dest: str | os.PathLike[str] | BinaryIO | None,
              user: str | None) -> Plan[bytes | None]:
    if dest is None:
        request = _Request("GET", _files(sandbox, path, user=user), headers=dict(_IDENTITY),
                           repeat=True)
        return (yield from _ask(request)).content
    if not isinstance(dest, str | os.PathLike):
        yield from _download_to(sandbox, path, dest, False, user)
        return None
    target = Path(dest)
    # Readers see the old file or the whole new one.
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield from _download_to(sandbox, path, file, True, user)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~mask)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    return None


def _list_files(sandbox: str, path: str, depth: int | None,
                user: str | None) -> Plan[list[FileEntry]]:
    answer = yield from _get(_files(sandbox, path, list="1", depth=depth, user=user))
    return [_read_into(FileEntry, item) for item in answer["items"]]


def _events(sandbox: str) -> Plan[list[Event]]:
    items = yield from _pages(_path(sandbox, "/events"), [])
    return [_read_event(item) for item in items]


def _read_event(data: Mapping[str, Any]) -> Event:
    return _read_into(Event, {**data, "id": str(data.get("id", ""))})


class _Follower:
    """The state of following a sandbox's events over several connections."""

    def __init__(self, sandbox: str):
        self.target = _path(sandbox, "/events?follow=true")
        self.done = False
        self._last_id = ""
        self._decoder = _EventDecoder()
        self._failures = 0

    def headers(self) -> dict[str, str]:
        self._decoder = _EventDecoder()
        resume = {"Last-Event-ID": self._last_id} if self._last_id else {}
        return {"Accept": "text/event-stream", **_IDENTITY, **resume}

    def feed(self, piece: bytes) -> Iterator[Event]:
        for item in self._decoder.feed(piece):
            event = _read_event(json.loads(item.data))
            self._last_id = item.id or self._last_id
            self._failures = 0
            self.done = event.type == "deleted"
            yield event
            if self.done:
                return

    def pause(self, error: Exception | None) -> float:
        """Seconds until the next connection; raises when there should be none."""
        passing = error is None or isinstance(error, ConnectionFailed | Overloaded | Unavailable)
        self._failures += 1
        if not passing or self._failures > _ATTEMPTS + 1:
            raise error or ConnectionFailed("the events broke off and could not be resumed",
                                            code="connection_failed")
        return _FIRST_PAUSE * 2**self._failures


def _pull(reference: str, team: str | None,
          on_progress: Callable[[dict[str, Any]], None] | None) -> Plan[dict[str, Any]]:
    body = _without_none({"pull": reference, "team": team})
    # Pulls of one image are shared, so asking again starts nothing twice.
    state = yield from _ask_json(_Request("POST", "/images", json=body, repeat=True))

    def take(event: _StreamEvent) -> None:
        nonlocal state
        state = json.loads(event.data)
        if on_progress is not None:
            on_progress(state)

    target = f"/images/pulls/{quote(str(state['id']), safe='')}?follow=true"
    while state["state"] in ("queued", "running"):
        yield from _ask(_Request("GET", target, repeat=True, sink=_EventSink(take),
                                 headers={"Accept": "text/event-stream", **_IDENTITY}))
        if state["state"] in ("queued", "running"):
            yield _Sleep(_FIRST_PAUSE)
    if state["state"] != "succeeded":
        reason = state.get("reason") or "image_pull_failed"
        raise Unavailable(f"pull of {reference}: {state.get('message') or reason}", code=reason,
                          details=state)
    return state


def _images() -> Plan[list[Image]]:
    items = yield from _pages("/images", [], page_size=None)
    return [_read_into(Image, item) for item in items]


def _image(name: str) -> Plan[Image]:
    return _read_into(Image, (yield from _get(f"/images/{quote(name, safe='')}")))


def _import(source: Source, name: str) -> Plan[Image]:
    target = f"/images?{urlencode({'name': name}, quote_via=quote)}"
    return _read_into(Image, (yield from _ask_json(
        _Request("POST", target, source=source, read_timeout=_IMPORT_TIMEOUT))))


def _remove_image(name: str) -> Plan[None]:
    yield from _ask(_Request("DELETE", f"/images/{quote(name, safe='')}", repeat=True))


def _gc() -> Plan[dict[str, Any]]:
    return (yield from _ask_json(_Request("POST", "/images/gc", repeat=False)))


# ----------------------------------------------------------------------- what both flavours share

def _create_body(image: str, options: Mapping[str, Any]) -> dict[str, Any]:
    body = _without_none({"image": image, **options})
    if isinstance(body.get("network"), str):
        body["network"] = {"mode": body["network"]}
    for name in ("labels", "env"):
        if name in body:
            body[name] = dict(body[name])
    return body


class _Connection:
    """Address and token, and how a request of ours becomes one of httpx."""

    def __init__(self, url: str | None, token: str | None, timeout: float):
        self.url = (url or os.environ.get("SANDBOX_GATEWAY_URL") or DEFAULT_URL).rstrip("/")
        self._token = token or os.environ.get("SANDBOX_GATEWAY_TOKEN") or ""
        self.timeout = timeout
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidRequest(f"{self.url!r} is not a gateway URL like https://host:port",
                                 code="invalid_field", details={"field": "url"})
        host = parts.hostname
        self.loopback = host in ("localhost", "::1") or host.startswith("127.")

    def client_options(self) -> dict[str, Any]:
        headers = {"User-Agent": f"sandbox-gateway-python/{__version__}"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token.strip()}"
        if self.loopback:  # compressing for this machine is only work
            headers |= _IDENTITY
        return {
            "headers": headers, "trust_env": not self.loopback, "follow_redirects": False,
            "limits": httpx.Limits(max_connections=None, max_keepalive_connections=64,
                                   keepalive_expiry=20.0),
            "timeout": self.timeouts(None),
        }

    def timeouts(self, read: float | None) -> httpx.Timeout:
        read = self.timeout if read is None else max(self.timeout, read)
        return httpx.Timeout(connect=_CONNECT_TIMEOUT, read=read, write=self.timeout, pool=None)

    def arguments(self, request: _Request, body: _OpenSource | None) -> dict[str, Any]:
        headers = dict(request.headers)
        if body is not None and body.length is not None:
            headers["Content-Length"] = str(body.length)
        if request.json is not None:
            headers["Content-Type"] = "application/json"
        return {"method": request.method, "url": self.url + request.target, "headers": headers,
                "timeout": self.timeouts(request.read_timeout)}

    def __repr__(self) -> str:  # never the token
        return f"<{self.url}>"


class _SandboxData:
    """A sandbox as last seen; `refresh()` looks again. All fields of the API are in `data`."""

    def __init__(self, data: Mapping[str, Any]):
        self.data: dict[str, Any] = dict(data)

    @property
    def id(self) -> str:
        return self.data["id"]

    @property
    def state(self) -> str:
        return self.data["state"]

    @property
    def reason(self) -> str | None:
        return self.data.get("reason")

    @property
    def message(self) -> str | None:
        return self.data.get("message")

    @property
    def image(self) -> str:
        return self.data.get("image", "")

    @property
    def labels(self) -> dict[str, str]:
        return dict(self.data.get("labels") or {})

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.state}>"


# ------------------------------------------------------------------------------------ synchronous

class Gateway:
    """A gateway. Keeps connections for reuse; usable from several threads; close it or use it as
    a context manager. `timeout` is the longest silence to bear, in seconds."""

    def __init__(self, url: str | None = None, token: str | None = None,
                 timeout: float = DEFAULT_TIMEOUT):
        self._connection = _Connection(url, token, timeout)
        self._client = httpx.Client(**self._connection.client_options())
        self.images = Images(self)

    @property
    def url(self) -> str:
        return self._connection.url

    def create(self, image: str, *, cpus: float, memory_mb: int, storage_mb: int | None = None,
               labels: Mapping[str, str] | None = None, env: Mapping[str, str] | None = None,
               wait: bool | float = True, user: str | None = None, workdir: str | None = None,
               lease_sec: int | None = None, max_lifetime_sec: int | None = None,
               network: str | Mapping[str, Any] | None = None, pull: str | None = None,
               team: str | None = None, isolation: str | None = None,
               no_new_privileges: bool | None = None,
               idempotency_key: str | None = None) -> Sandbox:
        """A new sandbox, ready unless `wait` is False; a number limits the wait in seconds. As a
        context manager it is deleted at the end."""
        body = _create_body(image, {
            "cpus": cpus, "memory_mb": memory_mb, "storage_mb": storage_mb, "labels": labels,
            "env": env, "user": user, "workdir": workdir, "lease_sec": lease_sec,
            "max_lifetime_sec": max_lifetime_sec, "network": network, "pull": pull, "team": team,
            "isolation": isolation, "no_new_privileges": no_new_privileges})
        return Sandbox(self, self._carry_out(_create(body, wait, idempotency_key)))

    def get(self, id: str) -> Sandbox:
        return Sandbox(self, self._carry_out(_get(_path(id))))

    def list(self, *, labels: Mapping[str, str] | None = None, all: bool = False,
             limit: int | None = None, **filters: str | None) -> list[Sandbox]:
        """Sandboxes, newest first. Filters: state, team, owner, image, q, scope."""
        rows = self._carry_out(_list(limit, labels, all, filters))
        return [Sandbox(self, row) for row in rows]

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Gateway {self.url}>"

    def _carry_out[T](self, plan: Plan[T]) -> T:
        answer: httpx.Response | None = None
        error: BaseException | None = None
        try:
            while True:
                step = plan.send(answer) if error is None else plan.throw(error)
                answer, error = None, None
                try:
                    if isinstance(step, _Sleep):
                        time.sleep(step.seconds)
                    else:
                        answer = self._send(step)
                except BaseException as caught:  # the plan decides, and may clean up
                    error = caught
        except StopIteration as end:
            return end.value
        finally:
            plan.close()

    def _send(self, request: _Request) -> httpx.Response:
        body = None if request.source is None else _OpenSource(request.source)
        try:
            content = request.content() if body is None else body.pieces()
            made = self._client.build_request(**self._connection.arguments(request, body),
                                              content=content)
            response = self._client.send(made, stream=True)
            try:
                if request.sink is None or response.status_code // 100 != 2:
                    response.read()
                else:
                    for piece in response.iter_bytes():
                        request.sink.write(piece)
            finally:
                response.close()
            return response
        except httpx.TransportError as error:
            raise _connection_failed(error, self.url) from error
        finally:
            if body is not None:
                body.close()

    def _follow(self, follower: _Follower) -> Iterator[Event]:
        while not follower.done:
            failure: GatewayError | None = None
            try:
                with self._client.stream("GET", self.url + follower.target,
                                         headers=follower.headers()) as response:
                    if response.status_code // 100 != 2:
                        response.read()
                        _raise_for(response)
                    for piece in response.iter_bytes():
                        yield from follower.feed(piece)
            except httpx.TransportError as error:
                failure = _connection_failed(error, self.url)
            except GatewayError as error:
                failure = error
            if not follower.done:
                time.sleep(follower.pause(failure))


class Sandbox(_SandboxData):
    """One sandbox. As a context manager it is deleted at the end."""

    def __init__(self, gateway: Gateway, data: Mapping[str, Any]):
        super().__init__(data)
        self._gateway = gateway
        self.fs = Files(gateway, self.id)

    def run(self, argv: Command, *, cwd: str | None = None, env: Mapping[str, str] | None = None,
            timeout_sec: float | None = None, check: bool = True, user: str | None = None,
            stdin: str | bytes | None = None) -> Result:
        """Runs a command (a list is argv, a str is `sh -c`); raises CommandError unless it ends
        with exit code 0 or `check` is False."""
        return self._gateway._carry_out(_run(self.id, argv, check, cwd=cwd, env=env, user=user,
                                             stdin=stdin, timeout_sec=timeout_sec))

    def exec(self, command: Command, *, cwd: str | None = None,
             env: Mapping[str, str] | None = None, timeout_sec: float | None = None,
             user: str | None = None, stdin: str | bytes | None = None) -> Result:
        """The same, and never raises for the exit code."""
        return self.run(command, cwd=cwd, env=env, timeout_sec=timeout_sec, check=False, user=user,
                        stdin=stdin)

    def refresh(self) -> Self:
        self.data = self._gateway._carry_out(_get(_path(self.id)))
        return self

    def wait_ready(self, timeout: float | None = None) -> Self:
        """Until ready; SandboxFailed when it fails, WaitTimeout when the time is up."""
        self.data = self._gateway._carry_out(_wait_ready(self.id, timeout))
        return self

    def events(self, *, follow: bool = False) -> Iterator[Event]:
        """What happened, oldest first; with `follow` on and on until the sandbox is gone."""
        if follow:
            return self._gateway._follow(_Follower(self.id))
        return iter(self._gateway._carry_out(_events(self.id)))

    def delete(self, *, wait: bool = True) -> None:
        """Deletes it, and with `wait` returns when it is gone. Already gone is fine."""
        self._gateway._carry_out(_delete(self.id, wait))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.delete()


class Files:
    """The files of a sandbox. Relative paths start at its working directory; `user` is whose
    rights count (default: the sandbox's user)."""

    def __init__(self, gateway: Gateway, sandbox: str):
        self._gateway = gateway
        self._sandbox = sandbox

    def upload(self, source: Source, dest: str, *, mode: int | str | None = None,
               owner: str | None = None, user: str | None = None) -> dict[str, Any]:
        """Puts bytes, the file of that path, or an open binary file at `dest`; makes parents.
        Answers with path, size and sha256."""
        return self._gateway._carry_out(
            _upload(self._sandbox, source, dest, mode=mode, owner=owner, user=user))

    def download(self, path: str, dest: str | os.PathLike[str] | BinaryIO | None = None, *,
                 user: str | None = None) -> bytes | None:
        """The file's bytes, or None when they went to `dest` (a path, replaced as a whole, or an
        open binary file)."""
        return self._gateway._carry_out(_download(self._sandbox, path, dest, user))

    def list(self, path: str = ".", *, depth: int | None = None,
             user: str | None = None) -> list[FileEntry]:
        return self._gateway._carry_out(_list_files(self._sandbox, path, depth, user))

    def read_text(self, path: str, *, encoding: str = "utf-8", user: str | None = None) -> str:
        return (self.download(path, user=user) or b"").decode(encoding)

    def write_text(self, path: str, text: str, *, encoding: str = "utf-8",
                   mode: int | str | None = None, user: str | None = None) -> dict[str, Any]:
        return self.upload(text.encode(encoding), path, mode=mode, user=user)


class Images:
    """The images in the gateway's store."""

    def __init__(self, gateway: Gateway):
        self._gateway = gateway

    def pull(self, reference: str, *, team: str | None = None,
             on_progress: Callable[[dict[str, Any]], None] | None = None) -> dict[str, Any]:
        """Fetches an image and returns when it is there."""
        return self._gateway._carry_out(_pull(reference, team, on_progress))

    def list(self) -> list[Image]:
        return self._gateway._carry_out(_images())

    def get(self, name: str) -> Image:
        return self._gateway._carry_out(_image(name))

    def import_tar(self, source: Source, name: str) -> Image:
        """Makes an image of a root file system's tar (plain, gzip, zstd)."""
        return self._gateway._carry_out(_import(source, name))

    def remove(self, name: str) -> None:
        self._gateway._carry_out(_remove_image(name))

    def gc(self) -> dict[str, Any]:
        """Deletes what nothing uses; answers with freed_bytes and removed."""
        return self._gateway._carry_out(_gc())


# ----------------------------------------------------------------------------------- asynchronous

class AsyncGateway:
    """`Gateway` with `await`. Cancelling a call closes its connection, which ends its command."""

    def __init__(self, url: str | None = None, token: str | None = None,
                 timeout: float = DEFAULT_TIMEOUT):
        self._connection = _Connection(url, token, timeout)
        self._client = httpx.AsyncClient(**self._connection.client_options())
        self.images = AsyncImages(self)

    @property
    def url(self) -> str:
        return self._connection.url

    async def create(self, image: str, *, cpus: float, memory_mb: int,
                     storage_mb: int | None = None, labels: Mapping[str, str] | None = None,
                     env: Mapping[str, str] | None = None, wait: bool | float = True,
                     user: str | None = None, workdir: str | None = None,
                     lease_sec: int | None = None, max_lifetime_sec: int | None = None,
                     network: str | Mapping[str, Any] | None = None, pull: str | None = None,
                     team: str | None = None, isolation: str | None = None,
                     no_new_privileges: bool | None = None,
                     idempotency_key: str | None = None) -> AsyncSandbox:
        body = _create_body(image, {
            "cpus": cpus, "memory_mb": memory_mb, "storage_mb": storage_mb, "labels": labels,
            "env": env, "user": user, "workdir": workdir, "lease_sec": lease_sec,
            "max_lifetime_sec": max_lifetime_sec, "network": network, "pull": pull, "team": team,
            "isolation": isolation, "no_new_privileges": no_new_privileges})
        return AsyncSandbox(self, await self._carry_out(_create(body, wait, idempotency_key)))

    async def get(self, id: str) -> AsyncSandbox:
        return AsyncSandbox(self, await self._carry_out(_get(_path(id))))

    async def list(self, *, labels: Mapping[str, str] | None = None, all: bool = False,
                   limit: int | None = None, **filters: str | None) -> list[AsyncSandbox]:
        rows = await self._carry_out(_list(limit, labels, all, filters))
        return [AsyncSandbox(self, row) for row in rows]

    async def close(self) -> None:
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncGateway {self.url}>"

    async def _carry_out[T](self, plan: Plan[T]) -> T:
        answer: httpx.Response | None = None
        error: BaseException | None = None
        cancelled = False
        try:
            while True:
                step = plan.send(answer) if error is None else plan.throw(error)
                answer, error = None, None
                try:
                    # After a cancellation what the plan still asks for is its clean-up.
                    with anyio.CancelScope(shield=cancelled) as scope:
                        if cancelled:
                            scope.deadline = anyio.current_time() + _CLEANUP_TIMEOUT
                        if isinstance(step, _Sleep):
                            await anyio.sleep(step.seconds)
                        else:
                            answer = await self._send(step)
                    if scope.cancelled_caught:
                        error = WaitTimeout("the clean-up took too long", code="wait_timeout")
                except anyio.get_cancelled_exc_class() as caught:
                    cancelled, error = True, caught
                except BaseException as caught:
                    error = caught
        except StopIteration as end:
            return end.value
        finally:
            plan.close()

    async def _send(self, request: _Request) -> httpx.Response:
        body = None if request.source is None else _OpenSource(request.source)
        try:
            content = request.content() if body is None else body.pieces_async()
            made = self._client.build_request(**self._connection.arguments(request, body),
                                              content=content)
            response = await self._client.send(made, stream=True)
            try:
                if request.sink is None or response.status_code // 100 != 2:
                    await response.aread()
                else:
                    async for piece in response.aiter_bytes():
                        await anyio.to_thread.run_sync(request.sink.write, piece)
            finally:
                await response.aclose()
            return response
        except httpx.TransportError as error:
            raise _connection_failed(error, self.url) from error
        finally:
            if body is not None:
                body.close()

    async def _follow(self, follower: _Follower) -> AsyncIterator[Event]:
        while not follower.done:
            failure: GatewayError | None = None
            try:
                async with self._client.stream("GET", self.url + follower.target,
                                               headers=follower.headers()) as response:
                    if response.status_code // 100 != 2:
                        await response.aread()
                        _raise_for(response)
                    async for piece in response.aiter_bytes():
                        for event in follower.feed(piece):
                            yield event
            except httpx.TransportError as error:
                failure = _connection_failed(error, self.url)
            except GatewayError as error:
                failure = error
            if not follower.done:
                await anyio.sleep(follower.pause(failure))


class AsyncSandbox(_SandboxData):
    """`Sandbox` with `await`; as an async context manager it is deleted at the end."""

    def __init__(self, gateway: AsyncGateway, data: Mapping[str, Any]):
        super().__init__(data)
        self._gateway = gateway
        self.fs = AsyncFiles(gateway, self.id)

    async def run(self, argv: Command, *, cwd: str | None = None,
                  env: Mapping[str, str] | None = None, timeout_sec: float | None = None,
                  check: bool = True, user: str | None = None,
                  stdin: str | bytes | None = None) -> Result:
        return await self._gateway._carry_out(
            _run(self.id, argv, check, cwd=cwd, env=env, user=user, stdin=stdin,
                 timeout_sec=timeout_sec))

    async def exec(self, command: Command, *, cwd: str | None = None,
                   env: Mapping[str, str] | None = None, timeout_sec: float | None = None,
                   user: str | None = None, stdin: str | bytes | None = None) -> Result:
        return await self.run(command, cwd=cwd, env=env, timeout_sec=timeout_sec, check=False,
                              user=user, stdin=stdin)

    async def refresh(self) -> Self:
        self.data = await self._gateway._carry_out(_get(_path(self.id)))
        return self

    async def wait_ready(self, timeout: float | None = None) -> Self:
        self.data = await self._gateway._carry_out(_wait_ready(self.id, timeout))
        return self

    async def events(self, *, follow: bool = False) -> AsyncIterator[Event]:
        if follow:
            async for event in self._gateway._follow(_Follower(self.id)):
                yield event
            return
        for event in await self._gateway._carry_out(_events(self.id)):
            yield event

    async def delete(self, *, wait: bool = True) -> None:
        await self._gateway._carry_out(_delete(self.id, wait))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        # Also when the block was cancelled: the sandbox is not left behind.
        with anyio.move_on_after(_CLEANUP_TIMEOUT + _WAIT_STEP, shield=True):
            await self.delete()


class AsyncFiles:
    """`Files` with `await`; disk I/O happens in threads."""

    def __init__(self, gateway: AsyncGateway, sandbox: str):
        self._gateway = gateway
        self._sandbox = sandbox

    async def upload(self, source: Source, dest: str, *, mode: int | str | None = None,
                     owner: str | None = None, user: str | None = None) -> dict[str, Any]:
        return await self._gateway._carry_out(
            _upload(self._sandbox, source, dest, mode=mode, owner=owner, user=user))

    async def download(self, path: str, dest: str | os.PathLike[str] | BinaryIO | None = None, *,
                       user: str | None = None) -> bytes | None:
        return await self._gateway._carry_out(_download(self._sandbox, path, dest, user))

    async def list(self, path: str = ".", *, depth: int | None = None,
                   user: str | None = None) -> list[FileEntry]:
        return await self._gateway._carry_out(_list_files(self._sandbox, path, depth, user))

    async def read_text(self, path: str, *, encoding: str = "utf-8",
                        user: str | None = None) -> str:
        return (await self.download(path, user=user) or b"").decode(encoding)

    async def write_text(self, path: str, text: str, *, encoding: str = "utf-8",
                         mode: int | str | None = None, user: str | None = None) -> dict[str, Any]:
        return await self.upload(text.encode(encoding), path, mode=mode, user=user)


class AsyncImages:
    """`Images` with `await`."""

    def __init__(self, gateway: AsyncGateway):
        self._gateway = gateway

    async def pull(self, reference: str, *, team: str | None = None,
                   on_progress: Callable[[dict[str, Any]], None] | None = None) -> dict[str, Any]:
        return await self._gateway._carry_out(_pull(reference, team, on_progress))

    async def list(self) -> list[Image]:
        return await self._gateway._carry_out(_images())

    async def get(self, name: str) -> Image:
        return await self._gateway._carry_out(_image(name))

    async def import_tar(self, source: Source, name: str) -> Image:
        return await self._gateway._carry_out(_import(source, name))

    async def remove(self, name: str) -> None:
        await self._gateway._carry_out(_remove_image(name))

    async def gc(self) -> dict[str, Any]:
        return await self._gateway._carry_out(_gc())
