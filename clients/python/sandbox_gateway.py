"""Sandbox Gateway SDK: sandboxes from container images, for Python 3.12 and later.

    from sandbox_gateway import Gateway

    with Gateway() as gw, gw.create("debian:12", cpus=1, memory_mb=512) as sbx:
        print(sbx.run(["uname", "-a"]).stdout)

The address and token come from SANDBOX_GATEWAY_URL and SANDBOX_GATEWAY_TOKEN unless given, the
authorities of an https:// gateway from SANDBOX_GATEWAY_CA_FILE (else the system's). A token that is
not there either is taken from the command line's configuration (SANDBOX_GATEWAY_CONFIG, else
~/.config/sandbox/config.json) where that is of the same address: within a sandbox, whose tokens
are made anew from time to time, it is looked up there again when it is refused.
`AsyncGateway` is the same with `await`. Everything raised derives from `GatewayError`.

Longer than 600 lines because it is one file on purpose: it is fetched from a gateway
(/clients/sandbox_gateway.py) and dropped into a project; httpx is all it needs. How it is built:
every call is written once, as a generator (a "plan") that yields steps (send this request, sleep,
read on) and gets their outcomes. `@_operation` and `@_flow` make methods of plans: on a `Sandbox`
they are carried out at once by `Gateway`, on an `AsyncSandbox` they are awaited from
`AsyncGateway`. Only these two, near the end, do any I/O, and forwarded ports.
"""

from __future__ import annotations

import asyncio
import base64
import codecs
import contextlib
import contextvars
import dataclasses
import datetime
import fnmatch
import functools
import inspect
import io
import json
import os
import random
import re
import signal
import socket
import ssl
import stat as stat_bits
import tarfile
import tempfile
import threading
import time
import types
import uuid
import zlib
from collections.abc import (
    AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence)
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, Concatenate, Self, cast, overload
from urllib.parse import quote, urlencode, urlsplit

import anyio
import anyio.abc
import anyio.from_thread
import httpcore
import httpx

__version__ = "0.2.0"
__all__ = [
    "AsyncBuilds", "AsyncFiles", "AsyncForward", "AsyncGateway", "AsyncImages", "AsyncSandbox",
    "AsyncSession", "AsyncSessions", "AsyncSignIns", "AsyncTeams", "AsyncTokens", "Build",
    "BuildFailed", "Builds", "CommandError", "Conflict", "ConnectionFailed", "Event",
    "FileChange", "FileEntry", "Files", "Forbidden", "Forward", "Gateway", "GatewayError",
    "Image", "Images", "InternalError", "InvalidRequest", "NotFound", "NotReady",
    "NotSupported", "Overloaded", "Result", "Sandbox", "SandboxFailed", "Session",
    "SessionExited", "Sessions", "SignIns", "StorageFull", "Teams", "Token", "Tokens",
    "Unauthenticated", "Unavailable", "UnsafeArchive", "WaitTimeout",
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
# A stream that breaks off is taken up again until this much was slept in a row without a byte:
# longer than a gateway takes to restart.
_RESUME_SECONDS = 60.0
_RESUME_PAUSE_MAX = 5.0
_LASTING_SECONDS = 5.0
_CHUNK = 1 << 20
_LINE_BYTES_MAX = 16 << 20  # an event, or a record of a log
_PAGE = 1000
# Clean-up after an interruption must end soon.
_CLEANUP_TIMEOUT = 15.0
_IMPORT_TIMEOUT = 900.0
_INLINE_NAME = ".sandbox.Dockerfile"
_COMPOSE_ROUNDS = 10
_IDENTITY = {"Accept-Encoding": "identity"}
_OUTPUT_BYTES_MAX = 32 << 20  # of a Result: what the gateway's own limit for `run` is
# Input up to this goes with the request that starts the command; its limit is 12 MiB of JSON.
_INLINE_STDIN_MAX = 4 << 20
# A command that may not last longer than this needs no signs of life on its way.
_SHORT_COMMAND_SEC = 10.0
# Connections of one forwarded port at once; more wait until others have ended.
_FORWARDED_MAX = 128
_STREAM_CHUNK = 64 << 10
# Files and callers' streams of one AsyncGateway that are waited for at once.
_THREADS_MAX = 40
# What a folder from a sandbox may fill on this machine unless the caller says otherwise.
DOWNLOAD_BYTES_MAX = 64 << 30
_DOWNLOAD_MEMBERS_MAX = 5_000_000
_TAR_BLOCK = 512
_TAR_HEADER_BYTES_MAX = 1 << 20  # extended headers hold names and times
_PACKING_LEVEL = 1

type Plan[T] = Generator[_Step, Any, T]
type Flow[I] = Generator[_Step | _Emit[I], Any, None]
type Files = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]  # paths
type Source = bytes | bytearray | memoryview | str | os.PathLike[str] | BinaryIO | Iterable[bytes]
type Command = str | Sequence[str]
# A mode ("open", "none"), the hosts of an allow-list, or the API's own object.
type Network = str | Sequence[str] | Mapping[str, Any]
type Mode = int | str  # 0o644 or "0644"
type InThread = Callable[..., Awaitable[Any]]
type Secret = bytes | str | os.PathLike[str]  # a value, or the path of a file that has it
_list = list  # inside classes with a method of that name


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

    def __reduce__(self) -> tuple[Any, ...]:  # to other processes, whatever __init__ wants
        return _bare_error, (type(self), self.args), self.__dict__


def _bare_error(kind: type[GatewayError], arguments: tuple[Any, ...]) -> GatewayError:
    return kind.__new__(kind, *arguments)


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


class SessionExited(Conflict):
    """Input for a session whose command has ended."""


class StorageFull(GatewayError):
    """The sandbox's storage is full."""


class InternalError(GatewayError):
    """A bug of the gateway or a broken sandbox; tell its operator the request_id."""


class ConnectionFailed(GatewayError):
    """No connection, or it ended before the answer. A command may or may not have run."""


class UnsafeArchive(GatewayError):
    """A downloaded folder holds a name or a link that leaves it; `details["name"]` is it."""

    def __init__(self, name: str, why: str):
        super().__init__(f"{name[:200]!r} {why}", code="archive_invalid", details={"name": name})


class WaitTimeout(GatewayError):
    """The time given for waiting is over; what was waited for goes on."""


class SandboxFailed(GatewayError):
    """The sandbox failed to become ready; `code` is its reason, `data` the sandbox."""

    def __init__(self, message: str, *, code: str, data: Mapping[str, Any]):
        super().__init__(message, code=code)
        self.data = dict(data)


class BuildFailed(GatewayError):
    """A build that ended without an image: `code` is its reason, `details` the build."""


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
    "not_ready": NotReady, "session_exited": SessionExited, "not_supported": NotSupported,
    "disk_full": StorageFull, "image_not_allowed": Forbidden, "permission_denied": Forbidden,
    "read_only": Forbidden,
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
    details = error["details"] if isinstance(error.get("details"), dict) else {}
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
class FileChange:
    """What happened beneath a watched path. `type` is ready (the watch stands), created, modified,
    attributes, deleted, moved (`source` is the old path), overflow (changes were missed: look for
    yourself) or gone (the watched folder itself; nothing follows)."""

    type: str
    path: str = ""
    is_directory: bool = False
    source: str | None = None


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
    path_encoded: str | None = None  # of a name that is not UTF-8, ready for a query


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


@dataclasses.dataclass(frozen=True)
class Build:
    """An image build; `image` is what a create takes."""

    id: str
    state: str = ""
    image: str = ""
    digest: str = ""
    cached: bool = False
    reason: str = ""
    message: str = ""
    team: str = ""
    owner: str = ""
    progress: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    created_at: str | None = None
    started_at: str | None = None
    ended_at: str | None = None


@dataclasses.dataclass(frozen=True)
class Token:
    """A token for the API. `secret` is known of one that was just made, and never shown again."""

    id: str
    name: str
    team: str = ""
    subject: str = ""
    member: bool = False
    every_team: bool = False
    role: str = "member"
    scopes: Sequence[str] = ()
    created_at: str | None = None
    expires_at: str | None = None
    last_used_at: str | None = None
    secret: str | None = dataclasses.field(default=None, repr=False)


def _read_into[T](kind: type[T], data: Mapping[str, Any]) -> T:
    """A newer gateway may say more than this file knows: the rest is left out."""
    known = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in data.items() if name in known})


class _Kept:
    """Output within a limit: of more, the first quarter and the last three quarters."""

    def __init__(self, limit: int = _OUTPUT_BYTES_MAX):
        self._head_max = limit // 4
        self._tail_max = limit - self._head_max
        self._head = bytearray()
        self._tail = bytearray()
        self.dropped = 0

    def add(self, piece: bytes) -> None:
        room = self._head_max - len(self._head)
        self._head += piece[:room]
        self._tail += piece[room:] if room < len(piece) else b""
        if len(self._tail) > 2 * self._tail_max:  # seldom, since it copies
            self._cut()

    def _cut(self) -> None:
        excess = max(0, len(self._tail) - self._tail_max)
        del self._tail[:excess]
        self.dropped += excess

    def all(self) -> bytes:
        self._cut()
        return bytes(self._head + self._tail)


# -------------------------------------------------------------------------------------- the steps

@dataclasses.dataclass
class _Request:
    """Send it, and read the answer whole."""

    method: str
    target: str
    json: Any = None
    source: Source | None = None  # the body, streamed
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    read_timeout: float | None = None  # longest silence, where it is not the gateway's default
    repeat: bool = False  # safe to send again

    def content(self) -> bytes | None:
        return None if self.json is None else json.dumps(self.json).encode()


@dataclasses.dataclass(frozen=True)
class _Open:
    """Send it and answer with the head; the body is read by `_READ`. Not a 2xx raises."""

    request: _Request


class _Read:
    """The next piece of the open answer; empty at its end."""


_READ = _Read()


@dataclasses.dataclass(frozen=True)
class _Sleep:
    seconds: float


@dataclasses.dataclass(frozen=True)
class _Call:
    """Call it. What may block goes to a thread when asynchronous; what it returns is awaited
    then, if it can be."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    blocks: bool = True


@dataclasses.dataclass(frozen=True)
class _Emit[I]:
    """The caller's iterator gives this out."""

    item: I


@dataclasses.dataclass(frozen=True)
class _Together[T]:
    """Carry out both at once and answer with what `plan` came to; `beside` is not waited for
    beyond that. `ending` ends what both of them talk to: it is carried out where either fails, so
    that the other one does not go on waiting."""

    plan: Plan[T]
    beside: Plan[None]
    ending: Callable[[], Plan[None]]


type _Step = _Request | _Open | _Read | _Sleep | _Call | _Together[Any]


class _Sync:
    """What is asked of it happens at once."""

    _gateway: Any


class _Async:
    """What is asked of it is awaited."""

    _gateway: Any


class _operation[**P, T]:
    """Makes a method of a plan."""

    def __init__(self, plan: Callable[Concatenate[Any, P], Plan[T]]):
        @functools.wraps(plan)
        def call(part: Any, *arguments: P.args, **options: P.kwargs) -> Any:
            return part._gateway._carry_out(plan(part, *arguments, **options))

        self._call = call
        self.__doc__ = plan.__doc__

    @overload
    def __get__(self, part: None, kind: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, part: _Sync, kind: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, part: _Async, kind: type) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, part: Any, kind: type) -> Any:
        return self._call if part is None else types.MethodType(self._call, part)


class _flow[**P, I]:
    """Makes an iterator (or an asynchronous one) of a plan that emits."""

    def __init__(self, plan: Callable[Concatenate[Any, P], Flow[I]]):
        @functools.wraps(plan)
        def call(part: Any, *arguments: P.args, **options: P.kwargs) -> Any:
            return part._gateway._emitted(plan(part, *arguments, **options))

        self._call = call
        self.__doc__ = plan.__doc__

    @overload
    def __get__(self, part: None, kind: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, part: _Sync, kind: type) -> Callable[P, Iterator[I]]: ...
    @overload
    def __get__(self, part: _Async, kind: type) -> Callable[P, AsyncIterator[I]]: ...
    def __get__(self, part: Any, kind: type) -> Any:
        return self._call if part is None else types.MethodType(self._call, part)


# ----------------------------------------------------------------------------------------- bodies

class _OpenSource:
    """A body to stream: its length when known, and its pieces. Closes only what it opened."""

    def __init__(self, source: Source):
        self._file: BinaryIO | None = None
        self._pieces: Iterator[bytes] = iter(())
        self._ours = isinstance(source, str | os.PathLike)
        self._waits = not isinstance(source, bytes | bytearray | memoryview)
        self.length: int | None = None
        if isinstance(source, str | os.PathLike):
            self._file = open(source, "rb")  # noqa: SIM115 (closed by close())
            self.length = os.fstat(self._file.fileno()).st_size
        elif isinstance(source, bytes | bytearray | memoryview):
            view = memoryview(source).cast("B")
            self.length = len(view)
            self._pieces = (bytes(view[at : at + _CHUNK]) for at in range(0, len(view), _CHUNK))
        elif hasattr(source, "read"):
            self._file = cast(BinaryIO, source)
        else:
            self._pieces = filter(None, source)

    @staticmethod
    def again(source: Source) -> bool:
        """Whether it can be read once more."""
        return isinstance(source, bytes | bytearray | memoryview | str | os.PathLike)

    def read(self) -> bytes:
        piece = next(self._pieces, b"") if self._file is None else self._file.read(_CHUNK)
        if isinstance(piece, str):
            raise TypeError("a file in text mode, or an iterable of str: it must give bytes")
        return piece

    def pieces(self) -> Iterator[bytes]:
        while piece := self.read():
            yield piece

    async def pieces_async(self, in_thread: InThread) -> AsyncIterator[bytes]:
        while piece := await in_thread(self.read) if self._waits else self.read():
            yield piece

    def close(self) -> None:
        if self._ours and self._file is not None:
            self._file.close()


class _LineDecoder:
    """Bytes in, lines out."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[bytes]:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > _LINE_BYTES_MAX:
            raise InternalError("a line of the gateway's is too long")
        return lines


@dataclasses.dataclass(frozen=True)
class _StreamEvent:
    id: str
    type: str
    data: str


class _EventDecoder:
    """Server-Sent Events without I/O: bytes in, events out."""

    def __init__(self) -> None:
        self._lines = _LineDecoder()
        self._id = ""
        self._type = ""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> Iterator[_StreamEvent]:
        for raw in self._lines.feed(piece):
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


def _connection_failed(error: Exception, url: str) -> ConnectionFailed:
    return ConnectionFailed(f"request to {url}: {error or type(error).__name__}",
                            code="connection_failed")


# ---------------------------------------------------------------------------------------- folders

def _joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in large pieces."""
    gathered = bytearray()
    for piece in pieces:
        gathered += piece
        if len(gathered) >= _CHUNK // 4:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)


def _packer() -> tuple[str, Any]:
    """A content coding and what makes it: zstd where the package zstandard is there (it costs a
    quarter of the time), else gzip."""
    try:
        import zstandard
    except ImportError:
        return "gzip", zlib.compressobj(_PACKING_LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return "zstd", zstandard.ZstdCompressor(level=_PACKING_LEVEL).compressobj()


def _accepted_packing() -> str:
    """What a download may be packed with: httpx takes zstd off where zstandard is there."""
    return "zstd, gzip" if _packer()[0] == "zstd" else "gzip"


def _packed(pieces: Iterable[bytes], packer: Any) -> Iterator[bytes]:
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()


def _walk(folder: Path, prefix: str, excluded: Callable[[str], bool]) -> Iterator[tuple[str, Path]]:
    """Names and paths beneath, parents first, sorted; links are not followed."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        name = prefix + entry.name
        if excluded(name):
            continue
        yield name, Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), f"{name}/", excluded)


def _tar_of(folder: str | os.PathLike[str], exclude: Sequence[str]) -> Iterator[bytes]:
    """A tar of what is in the folder, made while it is read. The folder itself is no member: its
    mode and time are not what the target's should be. Sockets, pipes and devices are left out."""
    def excluded(name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) or
                   fnmatch.fnmatchcase(name.rpartition("/")[2], pattern) for pattern in exclude)

    # Only to describe members: it knows hard links. Nothing is written to it.
    describe = tarfile.TarFile(fileobj=io.BytesIO(), mode="w",
                               format=tarfile.PAX_FORMAT)
    for name, path in _walk(Path(folder), "", excluded):
        member = describe.gettarinfo(path, name)
        if member is None or not (member.isreg() or member.isdir() or member.issym() or
                                  member.islnk()):
            continue
        member.uname = member.gname = ""
        yield member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
        if member.isreg():
            yield from _tar_content(path, member.size)
    yield bytes(2 * _TAR_BLOCK)


def _tar_content(path: Path, size: int) -> Iterator[bytes]:
    left = size
    with path.open("rb", buffering=0) as file:
        while left:
            piece = file.read(min(left, _CHUNK))
            if not piece:
                raise OSError(f"{path} became shorter while it was read")
            left -= len(piece)
            yield piece
    yield bytes(-size % _TAR_BLOCK)


class _Member(tarfile.TarInfo):
    """Refuses extended headers so large that they could only be meant to fill the memory."""

    _EXTENDED = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE,
                 tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in self._EXTENDED and self.size > _TAR_HEADER_BYTES_MAX:
            raise UnsafeArchive(self.name, f"has a header of {self.size} bytes")
        return super()._proc_member(tar)  # type: ignore[misc]


class _Unpacker:
    """Unpacks a tar that a sandbox made, so what it says is hostile. Nothing is written outside
    the folder: every member's parents are real folders, links come last, what is in the way is
    replaced and not written through. Python's own filter for such archives has its say first."""

    def __init__(self, target: Path, skip_unsafe: bool, bytes_max: int):
        self._target = target
        self._skip_unsafe = skip_unsafe
        self._bytes_left = bytes_max
        self._folders: set[str] = {""}
        self._modes: list[tuple[Path, tarfile.TarInfo]] = []
        self._links: list[tarfile.TarInfo] = []

    def run(self, file: BinaryIO) -> None:
        with tarfile.open(fileobj=file, mode="r|", tarinfo=_Member, encoding="utf-8",
                          errors="surrogateescape") as tar:
            left = _DOWNLOAD_MEMBERS_MAX
            while (member := tar.next()) is not None:
                tar.members = []  # type: ignore[attr-defined]  # else they are all kept
                left -= 1
                if left < 0:
                    raise UnsafeArchive(member.name, "is one name too many for one folder")
                self._attempt(self._take, tar, member)
        # Symbolic links last: until then no name leads anywhere else.
        for link in sorted(self._links, key=lambda link: link.islnk()):
            self._attempt(self._make_link, link)
        for link in self._links:
            self._attempt(self._check_link, link)
        for path, member in reversed(self._modes):
            self._set_mode(path, member)

    def _attempt(self, take: Callable[..., None], *arguments: Any) -> None:
        try:
            take(*arguments)
        except UnsafeArchive:
            if not self._skip_unsafe:
                raise

    def _take(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        self._check(member)
        if member.issym():
            self._links.append(member)
        elif member.islnk():
            if not self._make_hard_link(member):
                self._links.append(member)
        elif member.isdir():
            path = self._folder(member.name)
            self._modes.append((path, member))
        else:
            self._write(tar, member)

    def _check(self, member: tarfile.TarInfo) -> None:
        self._parts(member.name)
        if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
            raise UnsafeArchive(member.name, "is neither file, folder nor link")
        if not member.isdir():
            self._place(member.name)  # else the filter looks where an old link leads
        try:
            tarfile.data_filter(member, str(self._target))
        except tarfile.FilterError as error:
            raise UnsafeArchive(member.name, f"is refused: {error}") from None

    @staticmethod
    def _parts(name: str) -> list[str]:
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if name.startswith("/") or ".." in parts or "\0" in name:
            raise UnsafeArchive(name, "is no name within the folder")
        if os.name == "nt" and any(character in name for character in "\\:"):
            raise UnsafeArchive(name, "is no name on this system")
        return parts

    def _folder(self, name: str) -> Path:
        """That folder as a real one, made where it is missing."""
        path, known = self._target, ""
        for part in self._parts(name):
            path, known = path / part, f"{known}/{part}"
            if known in self._folders:
                continue
            try:
                mode = path.lstat().st_mode
            except FileNotFoundError:
                path.mkdir(0o755)
            else:
                if not stat_bits.S_ISDIR(mode):
                    raise UnsafeArchive(name, f"leads through {part!r}, which is no folder here")
            self._folders.add(known)
        return path

    def _place(self, name: str) -> Path:
        """Where a member other than a folder goes, with nothing in the way."""
        parts = self._parts(name)
        if not parts:
            raise UnsafeArchive(name, "is the folder itself")
        path = self._folder("/".join(parts[:-1])) / parts[-1]
        try:
            path.unlink()
        except FileNotFoundError:
            pass
        except (IsADirectoryError, PermissionError):
            if path.is_dir() and not path.is_symlink():
                raise UnsafeArchive(name, "is a folder here") from None
            raise
        return path

    def _write(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        self._bytes_left -= member.size
        if self._bytes_left < 0:
            raise StorageFull("the folder is larger than `bytes_max`", code="body_too_large")
        path = self._place(member.name)
        content = tar.extractfile(member)
        assert content is not None
        with path.open("xb", buffering=0) as file:
            while piece := content.read(_CHUNK):
                if member.issparse() and piece.count(0) == len(piece):
                    file.seek(len(piece), os.SEEK_CUR)  # a hole stays one
                    continue
                while piece:
                    piece = piece[file.write(piece) :]
            file.truncate(member.size)
        self._set_mode(path, member)

    def _make_hard_link(self, member: tarfile.TarInfo) -> bool:
        """False while its target is not there."""
        source = self._parts(member.linkname)
        if not source:
            raise UnsafeArchive(member.name, "links to the folder itself")
        old = self._folder("/".join(source[:-1])) / source[-1]
        if not old.is_symlink() and not old.exists():
            return False
        if old.is_dir() and not old.is_symlink():
            raise UnsafeArchive(member.name, "is a hard link to a folder")
        if self._parts(member.name) != source:
            os.link(old, self._place(member.name), follow_symlinks=False)
        return True

    def _make_link(self, member: tarfile.TarInfo) -> None:
        if member.issym():
            os.symlink(member.linkname, self._place(member.name))
        elif not self._make_hard_link(member):
            raise UnsafeArchive(member.name, "is a hard link to nothing")

    def _check_link(self, member: tarfile.TarInfo) -> None:
        """Where it leads now that all links are there: one alone may look harmless."""
        path = self._target.joinpath(*self._parts(member.name))
        if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(self._target):
            path.unlink()
            raise UnsafeArchive(member.name, "leads out of the folder")

    @staticmethod
    def _set_mode(path: Path, member: tarfile.TarInfo) -> None:
        # The owner can always use what it downloaded; nothing is setuid.
        path.chmod(member.mode & 0o777 | (0o700 if member.isdir() else 0o600))
        with contextlib.suppress(OverflowError, OSError):
            os.utime(path, (member.mtime, member.mtime))


class _FolderSink:
    """Takes a tar piece by piece and has it unpacked by a thread of its own, which reads it from
    a pipe: no more of it is in memory than what fits there."""

    def __init__(self, target: Path, skip_unsafe: bool, bytes_max: int):
        self._unpacker = _Unpacker(target, skip_unsafe, bytes_max)
        self._bytes_left = bytes_max + bytes_max // 4 + (1 << 30)  # headers and padding
        self._last = b"\1"  # the end mark, when all is there: blocks of zeros
        self._failure: BaseException | None = None
        reading, writing = os.pipe()
        self._out = os.fdopen(writing, "wb", buffering=_CHUNK)
        self._thread = threading.Thread(target=self._unpack, args=(os.fdopen(reading, "rb"),),
                                        daemon=True, name="unpack")
        self._thread.start()

    def _unpack(self, file: BinaryIO) -> None:
        try:
            with file:
                self._unpacker.run(file)
                while file.read(_CHUNK):  # what follows the end mark
                    pass
        except BaseException as error:  # told by write() or end()
            self._failure = error

    def write(self, piece: bytes) -> None:
        self._bytes_left -= len(piece)
        if self._bytes_left < 0:
            raise StorageFull("the folder is larger than `bytes_max`", code="body_too_large")
        self._last = (self._last + piece)[-_TAR_BLOCK:]
        try:
            self._out.write(piece)
        except BrokenPipeError:
            self.end()
            raise

    def end(self) -> None:
        """All of it came: waits for the thread and tells how it ended."""
        with contextlib.suppress(BrokenPipeError):
            self._out.close()
        self._thread.join()
        broken = isinstance(self._failure, tarfile.TarError)
        if broken or (self._failure is None and any(self._last)):
            raise InternalError(f"the folder's archive is broken: {self._failure or 'no end mark'}",
                                code="archive_invalid") from self._failure
        if self._failure is not None:
            raise self._failure

    def abort(self) -> None:
        """The rest will not come; what is written stays."""
        with contextlib.suppress(BaseException):
            self.end()


# ----------------------------------------------------------------------------------------- asking

def _ask(request: _Request) -> Plan[httpx.Response]:
    """One request with its repetitions; the answer is a 2xx."""
    for attempt in range(_ATTEMPTS):
        last = not request.repeat or attempt + 1 == _ATTEMPTS
        # Apart from each other, so that many clients do not come back at once.
        pause = _FIRST_PAUSE * 2**attempt * random.uniform(0.8, 1.2)
        try:
            response = yield request
        except ConnectionFailed:
            if last:
                raise
            yield _Sleep(pause)
            continue
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
        page = yield from _get(_with_query(path, query + more))
        items += page["items"]
        cursor = page.get("next_cursor")
        if not cursor:  # a page may be empty before the end
            break
    return items


def _named(filters: Mapping[str, str | None]) -> list[tuple[str, str]]:
    """Given filters; `from_` is the API's `from`, which Python keeps for itself."""
    return [(name.rstrip("_"), value) for name, value in filters.items() if value is not None]


class _Resume:
    """How long a broken stream is taken up again: a few times before anything came, then until
    `_RESUME_SECONDS` were slept without going on."""

    def __init__(self) -> None:
        self._begun = False
        self._failures = 0
        self._slept = 0.0
        self._opened_at: float | None = None

    def opened(self) -> None:
        """The gateway answered. A stream that then lasts for a while is no failure, though
        nothing came: proxies cut silent ones."""
        self._begun, self._opened_at = True, time.monotonic()

    def went_on(self) -> None:
        self._begun, self._failures, self._slept = True, 0, 0.0

    def pause(self, error: GatewayError) -> _Sleep:
        """The pause before the next attempt; raises the error when there should be none."""
        passing = isinstance(error, ConnectionFailed) or error.status in (429, 502, 503, 504)
        if self._opened_at is not None and time.monotonic() - self._opened_at > _LASTING_SECONDS:
            self.went_on()
        self._opened_at = None
        self._failures += 1
        if not passing or self._slept >= _RESUME_SECONDS:
            raise error
        if not self._begun and self._failures >= _ATTEMPTS:
            raise error
        seconds = min(_RESUME_PAUSE_MAX, _FIRST_PAUSE * 2 ** (self._failures - 1))
        self._slept += seconds
        return _Sleep(seconds * random.uniform(0.8, 1.2))


def _with_query(path: str, query: Mapping[str, Any] | Sequence[tuple[str, Any]]) -> str:
    text = urlencode(query, quote_via=quote)
    return f"{path}?{text}" if text else path


def _segment(name: str) -> str:
    """One name in an address. With these the address would be that of something else."""
    if name in ("", ".", ".."):
        raise InvalidRequest(f"{name!r} is no name of anything", code="invalid_field")
    return quote(name, safe="")


def _path(sandbox: str, suffix: str = "") -> str:
    return f"/sandboxes/{_segment(sandbox)}{suffix}"


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _octal(mode: Mode | None) -> str | None:
    return f"{mode:04o}" if isinstance(mode, int) else mode


# -------------------------------------------------------------------------------------- sandboxes

def _settled(data: Mapping[str, Any]) -> bool:
    return data["state"] not in ("queued", "starting")


def _check_ready(data: Mapping[str, Any]) -> None:
    if data["state"] != "ready":
        reason = data.get("reason") or data["state"]
        message = data.get("message")
        raise SandboxFailed(f"sandbox {data['id']} is {data['state']}"
                            + (f": {message}" if message else ""), code=reason, data=data)


def _wait_until(target: str, timeout: float | None, what: str,
                over: Callable[[Mapping[str, Any]], bool]) -> Plan[dict[str, Any]]:
    """Asks with `?wait=` until it is over; WaitTimeout when the time is up."""
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        left = _WAIT_STEP if end is None else max(0.0, end - time.monotonic())
        wait = min(_WAIT_STEP, int(left + 0.999))
        data = yield from _get(f"{target}?wait={wait}", DEFAULT_TIMEOUT + wait)
        if over(data):
            return data
        if end is not None and time.monotonic() >= end:
            raise WaitTimeout(f"{what} is still {data['state']} after {timeout} s",
                              code="wait_timeout", details={"state": data["state"]})


def _wait_ready(sandbox: str, timeout: float | None) -> Plan[dict[str, Any]]:
    data = yield from _wait_until(_path(sandbox), timeout, f"sandbox {sandbox}", _settled)
    _check_ready(data)
    return data


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
    except (InvalidRequest, Unauthenticated, Forbidden, Conflict, Overloaded, GeneratorExit):
        raise  # refused: nothing was created; or nothing more can be asked
    except BaseException:
        with contextlib.suppress(GatewayError):
            if data is None:  # the key finds the sandbox whose answer was lost
                data = yield from _ask_json(dataclasses.replace(
                    request, target="/sandboxes", repeat=False))
            if key is None:  # a key of the caller's means that the caller comes back for it
                yield from _delete(data["id"], False)
        raise


def _network_body(network: Network) -> dict[str, Any]:
    if isinstance(network, str):
        return {"mode": network}
    if isinstance(network, Mapping):
        return dict(network)
    return {"mode": "allow", "allow": list(network)}


def _create_body(image: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    body = _without_none({"image": image, **options})
    if "network" in body:
        body["network"] = _network_body(body["network"])
    for name in ("labels", "env"):
        if name in body:
            body[name] = dict(body[name])
    return body


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


def _read_event(data: Mapping[str, Any]) -> Event:
    return _read_into(Event, {**data, "id": str(data.get("id", ""))})


def _follow(target: str) -> Flow[_StreamEvent]:
    """Server-Sent Events over as many connections as it takes, each resumed behind the last
    event. Goes on until the caller stops reading."""
    last, resume = "", _Resume()
    while True:
        decoder = _EventDecoder()
        headers = {"Accept": "text/event-stream", **_IDENTITY}
        if last:
            headers["Last-Event-ID"] = last
        try:
            yield _Open(_Request("GET", target, headers=headers))
            resume.opened()
            while piece := (yield _READ):
                for event in decoder.feed(piece):
                    last = event.id or last
                    resume.went_on()
                    yield _Emit(event)
            raise ConnectionFailed("the stream of events ended", code="connection_failed")
        except GatewayError as error:
            yield resume.pause(error)


# --------------------------------------------------------------------------------------- commands

class _Outputs:
    """Where a command's output goes: kept for the result, and told to the caller as it comes."""

    def __init__(self, on_stdout: Callable[[Any], Any] | None,
                 on_stderr: Callable[[Any], Any] | None, text: bool):
        self.kept = {"stdout": _Kept(), "stderr": _Kept()}
        self.offset = 0  # in the session's log: what was read of it
        self.lost = 0  # what had left the log before it was read
        self._calls = {"stdout": on_stdout, "stderr": on_stderr}
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {name: decoder("replace") for name in self._calls} if text else {}

    def take(self, stream: str, piece: bytes, final: bool = False) -> Iterator[_Step]:
        name = "stderr" if stream == "stderr" else "stdout"
        self.kept[name].add(piece)
        call = self._calls[name]
        item: Any = self._decoders[name].decode(piece, final) if self._decoders else piece
        if call is not None and item:
            yield _Call(call, (item,), blocks=False)

    def end(self) -> Iterator[_Step]:
        """A character that was cut off at the very end is one U+FFFD."""
        for name in self._calls:
            yield from self.take(name, b"", final=True)

    def result(self, exit: Mapping[str, Any]) -> Result:
        out, err = self.kept["stdout"].all(), self.kept["stderr"].all()
        return _read_into(Result, {
            **exit, "stdout_bytes": out, "stderr_bytes": err,
            "stdout_dropped_bytes": self.kept["stdout"].dropped + self.lost,
            "stderr_dropped_bytes": self.kept["stderr"].dropped,
            "truncated": bool(self.lost or self.kept["stdout"].dropped
                              or self.kept["stderr"].dropped)})


def _command_body(command: Command, options: Mapping[str, Any]) -> dict[str, Any]:
    body = _without_none(options)
    if "env" in body:
        body["env"] = dict(body["env"])
    if "cwd" in body:
        body["cwd"] = os.fspath(body["cwd"])
    if isinstance(command, str):
        return {"command": command, **body}
    return {"argv": _words(command), **body}


def _words(command: Sequence[Any]) -> list[str]:
    words = [command] if isinstance(command, bytes | bytearray | memoryview) else list(command)
    for word in words:
        if word is None or isinstance(word, bytes | bytearray | memoryview):
            raise TypeError(f"{word!r} in a command: its words are text")
    return [str(word) for word in words]


def _run(sandbox: str, command: Command, stdin: str | Source | None, outputs: _Outputs,
         streamed: bool, options: Mapping[str, Any]) -> Plan[Result]:
    """By the way that fits. `run` shows signs of life however long a command is silent, and is
    one request. A session streams, takes any input, and outlives a broken connection. `exec` is
    one request too and takes any input, but is silent until the command has ended."""
    body = _command_body(command, options)
    if isinstance(stdin, str):
        stdin = stdin.encode()
    inline = stdin is None or (isinstance(stdin, bytes | bytearray | memoryview) and
                               len(stdin) <= _INLINE_STDIN_MAX)
    if inline and not streamed:
        return (yield from _run_at_once(sandbox, body, stdin))
    if not streamed and 0 < body.get("timeout_sec", 0) <= _SHORT_COMMAND_SEC:
        return (yield from _run_binary(sandbox, body, stdin or b"", outputs))
    return (yield from _run_in_session(sandbox, body, stdin, outputs))


def _run_at_once(sandbox: str, body: dict[str, Any], stdin: Any) -> Plan[Result]:
    if stdin is not None:
        body |= {"stdin": base64.b64encode(stdin).decode(), "stdin_encoding": "base64"}
    # Never repeated: a command whose answer is lost may have run. The gateway's signs of life
    # come every 15 s, so a limit on silence does not limit the command.
    answer = yield from _ask_json(_Request("POST", _path(sandbox, "/run"),
                                           json={**body, "encoding": "base64"},
                                           read_timeout=DEFAULT_TIMEOUT))
    if isinstance(answer.get("error"), dict):  # the sandbox ended after the head was sent
        raise _error_from(502, answer, "", None)
    streams = {f"{name}_bytes": base64.b64decode(answer.get(name) or "")
               for name in ("stdout", "stderr")}
    return _read_into(Result, {**answer, **streams})


def _run_binary(sandbox: str, body: dict[str, Any], stdin: Source,
                outputs: _Outputs) -> Plan[Result]:
    source = _OpenSource(stdin)
    line = json.dumps(body).encode() + b"\n"

    def content() -> Iterator[bytes]:
        yield line
        yield from source.pieces()

    headers = {} if source.length is None else {"Content-Length": str(len(line) + source.length)}
    try:
        response = yield _Open(_Request(
            "POST", _path(sandbox, "/exec"), source=content(), headers=headers,
            read_timeout=body["timeout_sec"] + DEFAULT_TIMEOUT))
        head = response.headers
        if "x-stdout-length" not in head or "x-return-code" not in head:
            raise InternalError("the answer to an exec lacks its headers: a proxy?")
        left = int(head["x-stdout-length"])
        while piece := (yield _READ):
            yield from outputs.take("stdout", piece[:left])
            yield from outputs.take("stderr", piece[left:])
            left = max(0, left - len(piece))
    finally:
        source.close()
    result = outputs.result({
        "exit_code": int(head["x-return-code"]), "signal": head.get("x-signal") or None,
        "timed_out": _said(head, "x-timed-out"), "oom_killed": _said(head, "x-oom-killed"),
        "duration_ms": float(head.get("x-duration-ms") or 0)})
    return dataclasses.replace(result, truncated=result.truncated or _said(head, "x-truncated"))


def _said(headers: httpx.Headers, name: str) -> bool:
    return headers.get(name, "").lower() in ("true", "1")


def _run_in_session(sandbox: str, body: dict[str, Any], stdin: Source | None,
                    outputs: _Outputs) -> Plan[Result]:
    """The session goes with this call, also when that ends early: with it the command."""
    name = f"exec-{uuid.uuid4().hex}"
    started = None
    try:
        started = yield from _start_session(sandbox, {
            **body, "name": name, "stdin": stdin is not None, "followed": True,
            "log_limit_bytes": _OUTPUT_BYTES_MAX})
        path = _session_path(sandbox, started["id"])
        reading = _read_records(path, outputs)
        if stdin is None:
            end = yield from reading
        else:
            end = yield _Together(reading, _feed(path, stdin), lambda: _forget_session(path))
        yield from outputs.end()
    except (GeneratorExit, InvalidRequest, Overloaded):  # nothing can be asked, or was started
        raise
    except BaseException:
        with contextlib.suppress(GatewayError):
            started = started or (yield from _find_session(sandbox, name))
            if started is not None:
                yield from _forget_session(_session_path(sandbox, started["id"]))
        raise
    yield from _forget_session(path, keep_background=True)
    return outputs.result({"duration_ms": _milliseconds(started, end), **end})


def _milliseconds(started: Mapping[str, Any], end: Mapping[str, Any]) -> float:
    try:
        first = datetime.datetime.fromisoformat(started["started_at"])
        return (datetime.datetime.fromisoformat(end["ended_at"]) - first).total_seconds() * 1000
    except (KeyError, TypeError, ValueError):
        return 0.0


def _feed(path: str, stdin: Source) -> Plan[None]:
    """Input piece by piece, as the command takes it. Somebody has to read the output meanwhile: a
    command whose output is held up takes no input."""
    source = _OpenSource(stdin)
    offset, ended = 0, False
    try:
        while not ended:
            piece = yield _Call(source.read)
            ended = not piece
            try:
                offset = yield from _send_input(path, piece, offset, eof=ended)
            except (Conflict, NotFound):
                return  # it needs no more of it: it has ended, or closed its input before its end
    finally:
        source.close()


# --------------------------------------------------------------------------------------- sessions

def _session_path(sandbox: str, session: str, suffix: str = "") -> str:
    return _path(sandbox, f"/sessions/{_segment(session)}{suffix}")


def _exited(data: Mapping[str, Any]) -> bool:
    return data["state"] == "exited"


def _find_session(sandbox: str, name: str) -> Plan[dict[str, Any] | None]:
    rows = yield from _pages(_path(sandbox, "/sessions"), [], page_size=None)
    return next((row for row in rows if row.get("name") == name), None)


def _start_session(sandbox: str, body: dict[str, Any]) -> Plan[dict[str, Any]]:
    """Its name is nobody else's, so it tells whether a start whose answer was lost happened."""
    request = _Request("POST", _path(sandbox, "/sessions"), json=body)
    try:
        return (yield from _ask_json(request))
    except ConnectionFailed:
        found = yield from _find_session(sandbox, body["name"])
        return found or (yield from _ask_json(request))


def _forget_session(path: str, keep_background: bool = False) -> Plan[None]:
    target = _with_query(path, {"keep_background": 1} if keep_background else {})
    try:
        yield from _ask(_Request("DELETE", target, repeat=True))
    except NotFound:
        pass


def _send_input(path: str, data: bytes | memoryview, offset: int, eof: bool = False) -> Plan[int]:
    """Sends all of it and answers with the offset behind it. A write whose answer is lost is
    sent again: at its offset it is taken once."""
    start, end, resume, again = offset, offset + len(data), _Resume(), False
    while True:
        piece = bytes(data[offset - start : offset - start + _CHUNK])
        query = {"offset": offset, **({"eof": 1} if eof and offset + len(piece) == end else {})}
        try:
            # It takes as long as the command does not read: no failure if that is long.
            resume.opened()
            answer = yield from _ask_json(_Request("POST", _with_query(f"{path}/stdin", query),
                                                   source=piece))
        except GatewayError as error:
            if error.code == "conflict" and "eof" in query and again:
                return end  # the lost answer was to the same end of input
            yield resume.pause(error)
            again = True
            continue
        resume.went_on()
        offset = answer["offset"]
        if not start <= offset <= end:
            raise Conflict("somebody else writes to this session, too", code="conflict",
                           status=409, details={"offset": offset})
        if offset == end:
            return offset


def _read_log(path: str, offset: int, follow: bool) -> Flow[bytes]:
    """The log's bytes, each once, over as many connections as it takes. When a stream ends, the
    session itself says whether that was all."""
    resume = _Resume()
    while True:
        query = {"offset": offset, **({"follow": "true"} if follow else {})}
        try:
            response = yield _Open(_Request("GET", _with_query(f"{path}/logs", query),
                                            headers=dict(_IDENTITY)))
            resume.opened()
            offset = int(response.headers.get("x-log-start-offset") or offset)
            while piece := (yield _READ):
                offset += len(piece)
                resume.went_on()
                yield _Emit(piece)
            if not follow:
                return
            data = yield from _get(path)
            if _exited(data) and offset >= data["log"]["end_offset"]:
                return
            yield resume.pause(ConnectionFailed("the log ended before its session",
                                                code="connection_failed"))
        except GatewayError as error:
            yield resume.pause(error)


def _records(path: str, offset: int, follow: bool) -> Flow[dict[str, Any]]:
    """The log's records, each once, with `data` as bytes; following, the last one has `exit`."""
    resume, ended = _Resume(), False
    query = {"encoding": "base64", **({"follow": "true"} if follow else {})}
    headers = {"Accept": "application/x-ndjson", **_IDENTITY}
    while not ended:
        lines = _LineDecoder()
        try:
            target = _with_query(f"{path}/logs", {"offset": offset, **query})
            yield _Open(_Request("GET", target, headers=headers))
            resume.opened()
            while piece := (yield _READ):
                resume.went_on()
                for line in filter(None, lines.feed(piece)):
                    record = json.loads(line)
                    if "data" in record:
                        record["data"] = base64.b64decode(record["data"])
                        offset = record["offset"] + len(record["data"])
                    ended = ended or "exit" in record
                    yield _Emit(record)
            if not follow:
                return
            raise ConnectionFailed("the log ended before its session", code="connection_failed")
        except GatewayError as error:
            if not ended:
                yield resume.pause(error)


def _each[I](flow: Flow[I], take: Callable[[I], Iterable[_Step | _Emit]]) -> Generator[Any]:
    """Carries out a flow within another or within a plan: what it emits goes to `take`, and what
    that yields is carried out in between."""
    try:
        step = next(flow)
        while True:
            if isinstance(step, _Emit):
                yield from take(step.item)
                step = next(flow)
                continue
            try:
                outcome = yield step
            except BaseException as error:
                step = flow.throw(error)
            else:
                step = flow.send(outcome)
    except StopIteration:
        pass


def _read_records(path: str, outputs: _Outputs) -> Plan[dict[str, Any]]:
    """Takes the log to its end, and answers with how the command ended."""
    end: dict[str, Any] = {}

    def take(record: dict[str, Any]) -> Iterator[_Step]:
        if "exit" in record:
            end.update(record["exit"])
        elif "data" in record:
            outputs.lost += max(0, record["offset"] - outputs.offset)
            outputs.offset = record["offset"] + len(record["data"])
            yield from outputs.take(record["stream"], record["data"])

    yield from _each(_records(path, outputs.offset, follow=True), take)
    return end


def _chunks(flow: Flow[bytes], as_bytes: bool) -> Flow[Any]:
    """The same as text; a character cut by two reads stays whole."""
    if as_bytes:
        yield from flow
        return
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def emit(piece: bytes, final: bool = False) -> Iterator[_Emit]:
        if text := decoder.decode(piece, final):
            yield _Emit(text)

    yield from _each(flow, emit)
    yield from emit(b"", final=True)


def _one_stream(path: str, offset: int, follow: bool, stream: str) -> Flow[bytes]:
    def emit(record: dict[str, Any]) -> Iterator[_Emit]:
        if record.get("stream") == stream and record.get("data"):
            yield _Emit(record["data"])

    yield from _each(_records(path, offset, follow), emit)


# ------------------------------------------------------------------------------------------ files

def _files(sandbox: str, path: str | os.PathLike[str], suffix: str = "", **parameters: Any) -> str:
    query = {"path": os.fspath(path), **_without_none(parameters)}
    return _with_query(_path(sandbox, f"/files{suffix}"), query)


def _change(repeat: bool, target: str) -> Plan[FileEntry]:
    return _read_into(FileEntry, (yield from _ask_json(_Request("POST", target, repeat=repeat))))


def _flag(on: bool) -> str | None:
    return "1" if on else None


def _download_to(target: str, file: BinaryIO, ours: bool) -> Plan[None]:
    """Into a file. What broke off goes on where it was, while the sandbox's file is the same."""
    resume, got, furthest, tag = _Resume(), 0, 0, ""
    while True:
        headers = dict(_IDENTITY)
        if got and tag:
            headers |= {"Range": f"bytes={got}-", "If-Range": tag}
        try:
            response = yield _Open(_Request("GET", target, headers=headers))
            if got and response.status_code != 206:
                if not ours:
                    raise InternalError("the download broke off and cannot be resumed",
                                        code="connection_failed")
                yield _Call(file.seek, (0,))
                yield _Call(file.truncate)
                got = 0
            tag = response.headers.get("etag", "")
            while piece := (yield _READ):
                yield _Call(file.write, (piece,))
                got += len(piece)
                if got > furthest:
                    furthest = got
                    resume.went_on()
            return
        except ConnectionFailed as error:
            yield resume.pause(error)


def _download(target: str, dest: str | os.PathLike[str] | BinaryIO | None) -> Plan[bytes | None]:
    if dest is None:
        memory = io.BytesIO()
        yield from _download_to(target, memory, True)
        return memory.getvalue()
    if not isinstance(dest, str | os.PathLike):
        yield from _download_to(target, dest, False)
        return None
    path = Path(dest)
    # Readers see the old file or the whole new one.
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield from _download_to(target, file, True)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    return None


def _download_folder(target: str, dest: Path, compressed: bool, skip_unsafe: bool,
                     bytes_max: int) -> Plan[None]:
    # A stream of its own kind cannot be resumed; what came is replaced when it is begun again.
    headers = {"Accept-Encoding": _accepted_packing()} if compressed else dict(_IDENTITY)
    for attempt in range(_ATTEMPTS):
        sink = None
        try:
            yield _Open(_Request("GET", target, headers=headers))
            dest.mkdir(parents=True, exist_ok=True)
            sink = _FolderSink(dest.resolve(), skip_unsafe, bytes_max)
            while piece := (yield _READ):
                yield _Call(sink.write, (piece,))
            yield _Call(sink.end)
            return
        except ConnectionFailed:
            if attempt + 1 == _ATTEMPTS:
                raise
            yield _Sleep(_FIRST_PAUSE * 2**attempt)
        finally:
            if sink is not None:
                sink.abort()


# ------------------------------------------------------------------- the calls, for both flavours

class _SandboxCalls:
    """A sandbox as last seen; `refresh()` looks again. All fields of the API are in `data`."""

    def __init__(self, gateway: Any, data: Mapping[str, Any]):
        self._gateway = gateway
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
    def queue(self) -> dict[str, Any] | None:
        """Of a queued one: its `position` in its team's queue, from 1, and the `reason`."""
        return self.data.get("queue")

    @property
    def image(self) -> str:
        return self.data.get("image", "")

    @property
    def labels(self) -> dict[str, str]:
        return dict(self.data.get("labels") or {})

    @property
    def public_key(self) -> str | None:
        """Its own ed25519 key's public half: 32 bytes in base64."""
        return self.data.get("public_key")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.state}>"

    @_operation
    def run(self, argv: Command, *, cwd: str | os.PathLike[str] | None = None,
            env: Mapping[str, str] | None = None, timeout_sec: float | None = None,
            check: bool = True, user: str | None = None, stdin: str | Source | None = None,
            on_stdout: Callable[[Any], Any] | None = None,
            on_stderr: Callable[[Any], Any] | None = None, text: bool = True,
            container: str | None = None) -> Plan[Result]:
        """Runs a command (a list is argv, a str is `sh -c`); raises CommandError unless it ends
        with exit code 0 or `check` is False. `stdin` is text, bytes, a path (Path, not str), an
        open binary file or an iterable of bytes; one that is not small is read by a thread beside
        the caller's, so that input and output go at the same time, and only as far as the command
        takes it. `on_stdout` and `on_stderr` are called with the output as it comes, as text or,
        with `text=False`, as bytes. However long the command is silent, the connection shows
        signs of life. When the call is interrupted, so is the command."""
        outputs = _Outputs(on_stdout, on_stderr, text)
        argv = argv if isinstance(argv, str) else _words(argv)
        result = yield from _run(self.id, argv, stdin, outputs, bool(on_stdout or on_stderr), {
            "cwd": cwd, "env": env or None, "user": user, "timeout_sec": timeout_sec,
            "container": container})
        if check and not result.ok:
            raise CommandError(argv, result)
        return result

    @_operation
    def exec(self, command: Command, *, cwd: str | os.PathLike[str] | None = None,
             env: Mapping[str, str] | None = None, timeout_sec: float | None = None,
             user: str | None = None, stdin: str | Source | None = None,
             on_stdout: Callable[[Any], Any] | None = None,
             on_stderr: Callable[[Any], Any] | None = None, text: bool = True,
             container: str | None = None) -> Plan[Result]:
        """The same, and never raises for the exit code."""
        outputs = _Outputs(on_stdout, on_stderr, text)
        return (yield from _run(self.id, command, stdin, outputs, bool(on_stdout or on_stderr), {
            "cwd": cwd, "env": env or None, "user": user, "timeout_sec": timeout_sec,
            "container": container}))

    @_operation
    def refresh(self) -> Plan[Self]:
        self.data = yield from _get(_path(self.id))
        return self

    @_operation
    def wait_ready(self, timeout: float | None = None) -> Plan[Self]:
        """Until ready; SandboxFailed when it fails, WaitTimeout when the time is up."""
        self.data = yield from _wait_ready(self.id, timeout)
        return self

    @_operation
    def update(self, *, labels: Mapping[str, str] | None = None, lease_sec: int | None = None,
               network: Network | None = None) -> Plan[Self]:
        """Changes what can be changed while it lives; `network` as in `create`."""
        body = _without_none({"labels": labels and dict(labels), "lease_sec": lease_sec,
                              "network": None if network is None else _network_body(network)})
        self.data = yield from _ask_json(_Request("PATCH", _path(self.id), json=body))
        return self

    @_flow
    def events(self, *, follow: bool = False) -> Flow[Event]:
        """What happened, oldest first; with `follow` on and on until the sandbox is gone."""
        if not follow:
            for item in (yield from _pages(_path(self.id, "/events"), [])):
                yield _Emit(_read_event(item))
            return
        stream = _follow(_path(self.id, "/events?follow=true"))
        last = ""

        def take(item: _StreamEvent) -> Iterator[_Emit]:
            nonlocal last
            event = _read_event(json.loads(item.data))
            last = event.type
            yield _Emit(event)
            if last == "deleted":
                stream.close()

        yield from _each(stream, take)

    @_operation
    def activity(self) -> Plan[dict[str, Any]]:
        """last_activity_at, lease_expires_at, running_commands, sessions. Does not renew the
        lease."""
        return (yield from _get(_path(self.id, "/activity")))

    @_operation
    def identity_token(self, audience: str | None = None) -> Plan[str]:
        """A signed token that says which sandbox this is, for an audience that the gateway's
        operator has configured (without one: for the gateway's own `/oauth/token`)."""
        body = _without_none({"audience": audience})
        request = _Request("POST", _path(self.id, "/identity-token"), json=body, repeat=True)
        return (yield from _ask_json(request))["token"]

    @_operation
    def metrics(self) -> Plan[dict[str, Any]]:
        """Use of cpu, memory, disk, network and processes, now and over time."""
        return (yield from _get(_path(self.id, "/metrics")))

    @_operation
    def logs(self, container: str | None = None) -> Plan[str]:
        """What its entrypoint (or that container's) printed."""
        query = _without_none({"container": container})
        target = _with_query(_path(self.id, "/logs"), query)
        response = yield from _ask(_Request("GET", target, repeat=True))
        return response.content.decode("utf-8", "replace")

    @_operation
    def stop_container(self, name: str) -> Plan[dict[str, Any]]:
        """Ends what one container of several runs, for good; the others go on."""
        target = _path(self.id, f"/containers/{_segment(name)}/stop")
        return (yield from _ask_json(_Request("POST", target, repeat=True)))

    @_operation
    def ssh_session(self, container: str | None = None) -> Plan[dict[str, Any]]:
        """A way in by SSH: `token` is the user name, good for `expiresIn` seconds at `host` and
        `port`, whose key is `hostKey` (a line of known_hosts without the name). `container` names
        one of a sandbox with several."""
        query = _without_none({"container": container})
        target = _with_query(_path(self.id, "/ssh-session"), query)
        return (yield from _ask_json(_Request("POST", target, repeat=True)))

    @_operation
    def audit_logs(self, *, event: str | None = None,
                   limit: int | None = None) -> Plan[_list[dict[str, Any]]]:
        """Who did what to it and in it, newest first; also when it is gone. `event` asks for one
        kind, such as command.run."""
        query = [("event", event)] if event else []
        return (yield from _pages(_path(self.id, "/audit-logs"), query, limit))

    @_operation
    def delete(self, *, wait: bool = True) -> Plan[None]:
        """Deletes it, and with `wait` returns when it is gone. Already gone is fine."""
        yield from _delete(self.id, wait)


class _SessionCalls:
    """A command that runs on its own, as last seen: it outlives connections and clients."""

    def __init__(self, gateway: Any, sandbox: str, data: Mapping[str, Any], input_at: int | None):
        self._gateway = gateway
        self.data: dict[str, Any] = dict(data)
        self._path = _session_path(sandbox, data["id"])
        self._input_at = input_at  # None: unknown until asked

    @property
    def id(self) -> str:
        return self.data["id"]

    @property
    def name(self) -> str | None:
        return self.data.get("name")

    @property
    def state(self) -> str:
        return self.data["state"]

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self.data.get("exit_code")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.state}>"

    @_flow
    def logs(self, *, follow: bool = False, offset: int = 0, stream: str = "both",
             bytes: bool = False) -> Flow[Any]:
        """What it printed, from that byte of its log on, in chunks of text (or bytes); with
        `follow` until it ends. Broken connections and restarts of the gateway lose and repeat
        nothing; what has left the log's ring is passed over (`data["log"]`). `stream` may be
        stdout or stderr alone."""
        if stream not in ("both", "stdout", "stderr"):
            raise InvalidRequest(f"stream {stream!r} is not both, stdout or stderr",
                                 code="invalid_field", details={"field": "stream"})
        flow = (_read_log(self._path, offset, follow) if stream == "both" else
                _one_stream(self._path, offset, follow, stream))
        yield from _chunks(flow, bytes)

    @_flow
    def records(self, *, follow: bool = False, offset: int = 0) -> Flow[dict[str, Any]]:
        """The log's pieces with what they came from: `stream`, `offset`, `time`, and `data` as
        bytes. Following, the last record has `exit`: how the command ended."""
        yield from _records(self._path, offset, follow)

    @_operation
    def write(self, data: str | bytes | bytearray | memoryview, *,
              eof: bool = False) -> Plan[None]:
        """Input. Nothing is lost or sent twice as long as one object writes to a session."""
        raw = data.encode() if isinstance(data, str) else memoryview(data).cast("B")
        if self._input_at is None:  # an empty write tells where the input is
            empty = _Request("POST", f"{self._path}/stdin", source=b"", repeat=True)
            self._input_at = (yield from _ask_json(empty))["offset"]
        self._input_at = yield from _send_input(self._path, raw, self._input_at, eof)

    @_operation
    def close_stdin(self) -> Plan[None]:
        """The end of input; once is enough."""
        try:
            yield from _ask(_Request("POST", f"{self._path}/stdin?eof=1", source=b"",
                                     repeat=True))
        except Conflict as error:
            if error.code not in ("conflict", "session_exited"):
                raise

    @_operation
    def kill(self, signal: str | signal.Signals = "TERM") -> Plan[None]:
        """Sends that signal to all its processes: "TERM", "SIGTERM" or signal.SIGTERM."""
        name = (signal if isinstance(signal, str) else signal.name).removeprefix("SIG")
        yield from _ask(_Request("POST", f"{self._path}/kill", json={"signal": name}))

    @_operation
    def resize(self, cols: int, rows: int) -> Plan[None]:
        """The size of its terminal."""
        yield from _ask(_Request("POST", f"{self._path}/resize", repeat=True,
                                 json={"cols": cols, "rows": rows}))

    @_operation
    def refresh(self) -> Plan[Self]:
        self.data = yield from _get(self._path)
        return self

    @_operation
    def wait(self, timeout: float | None = None) -> Plan[int]:
        """Its exit code, when it has ended; WaitTimeout when the time is up (it goes on)."""
        self.data = yield from _wait_until(self._path, timeout, f"session {self.id}", _exited)
        return self.data["exit_code"]

    @_operation
    def delete(self, *, keep_background: bool = False) -> Plan[None]:
        """Kills what still runs and forgets it with its log. Already gone is fine. With
        `keep_background` a finished one is only forgotten: what it left running lives on."""
        yield from _forget_session(self._path, keep_background)


class _SessionsCalls[N]:
    """The sessions of a sandbox."""

    def __init__(self, gateway: Any, sandbox: str):
        self._gateway = gateway
        self._sandbox = sandbox

    def _session(self, data: Mapping[str, Any], input_at: int | None) -> N:
        raise NotImplementedError

    @_operation
    def start(self, command: Command, *, cwd: str | os.PathLike[str] | None = None,
              env: Mapping[str, str] | None = None, user: str | None = None,
              tty: bool | tuple[int, int] = False, stdin: bool = True, name: str | None = None,
              timeout_sec: float | None = None, log_limit_bytes: int | None = None,
              followed: bool = False, container: str | None = None) -> Plan[N]:
        """Starts a command and returns at once. `tty` gives it a terminal, of (columns, rows) or
        80x24; `stdin=False` ends its input at once; `log_limit_bytes` bounds what is kept of its
        output; `followed`: you are about to follow its log, so nothing is dropped before you do."""
        columns, rows = (80, 24) if tty is True else tty or (0, 0)
        body = _command_body(command, {
            "cwd": cwd, "env": env or None, "user": user, "name": name, "stdin": stdin,
            "tty": {"cols": columns, "rows": rows} if tty else None, "container": container,
            "timeout_sec": timeout_sec, "log_limit_bytes": log_limit_bytes,
            "followed": followed or None})
        # Not repeated: a start whose answer is lost may have happened.
        path = _path(self._sandbox, "/sessions")
        return self._session((yield from _ask_json(_Request("POST", path, json=body))), 0)

    @_operation
    def list(self) -> Plan[_list[N]]:
        rows = yield from _pages(_path(self._sandbox, "/sessions"), [], page_size=None)
        return [self._session(row, None) for row in rows]

    @_operation
    def get(self, id: str) -> Plan[N]:
        return self._session((yield from _get(_session_path(self._sandbox, id))), None)


class _FileCalls:
    """The files of a sandbox. Relative paths start at its working directory; `user` is whose
    rights count (default: the sandbox's user), `container` whose files of one with several."""

    def __init__(self, gateway: Any, sandbox: str):
        self._gateway = gateway
        self._sandbox = sandbox

    @_operation
    def upload(self, source: Source, dest: str, *, mode: Mode | None = None,
               owner: str | None = None, user: str | None = None,
               container: str | None = None) -> Plan[dict[str, Any]]:
        """Puts bytes, the file of that path, an open binary file or an iterable of bytes at
        `dest`; makes parents. Answers with path, size and sha256."""
        if source is None:  # to a request that is no body, and the file would be empty
            raise TypeError("None is nothing to upload")
        target = _files(self._sandbox, dest, mode=_octal(mode), owner=owner,
                        user=user, container=container)
        return (yield from _ask_json(_Request("PUT", target, source=source,
                                              repeat=_OpenSource.again(source))))

    @_operation
    def download(self, path: str, dest: str | os.PathLike[str] | BinaryIO | None = None, *,
                 user: str | None = None, container: str | None = None) -> Plan[bytes | None]:
        """The file's bytes, or None when they went to `dest` (a path, replaced as a whole, or an
        open binary file)."""
        return (yield from _download(_files(self._sandbox, path,
                                            user=user, container=container), dest))

    @_operation
    def upload_dir(self, source: str | os.PathLike[str], dest: str, *,
                   exclude: Sequence[str] = (), preserve_owner: bool = False,
                   compress: bool | None = None, user: str | None = None,
                   container: str | None = None) -> Plan[dict[str, Any]]:
        """Puts what is in a folder of this machine into a folder of the sandbox, which is made if
        missing and keeps what else is in it. `exclude` has patterns of names or of paths within.
        Compressed on the way unless the gateway is on this machine. Answers with files and
        bytes."""
        folder = Path(source)
        if not folder.is_dir():
            raise NotADirectoryError(f"{folder} is not a folder")
        target = _files(self._sandbox, dest, tar="1", preserve_owner=_flag(preserve_owner),
                        user=user, container=container)
        pieces, headers = _joined(_tar_of(folder, exclude)), {"Content-Type": "application/x-tar"}
        if self._gateway._compresses if compress is None else compress:
            headers["Content-Encoding"], packer = _packer()
            pieces = _joined(_packed(pieces, packer))
        return (yield from _ask_json(_Request("PUT", target, source=pieces, headers=headers)))

    @_operation
    def download_dir(self, path: str, dest: str | os.PathLike[str], *, skip_unsafe: bool = False,
                     bytes_max: int = DOWNLOAD_BYTES_MAX, compress: bool | None = None,
                     user: str | None = None, container: str | None = None) -> Plan[None]:
        """Puts what is in a folder of the sandbox into a folder of this machine, which is made if
        missing and keeps what else is in it. Names and links that would lead out of it raise
        UnsafeArchive, or are left out with `skip_unsafe`; so are devices and pipes. Nothing is
        setuid, and everything belongs to you."""
        yield from _download_folder(
            _files(self._sandbox, path, tar="1", user=user, container=container), Path(dest),
            self._gateway._compresses if compress is None else compress, skip_unsafe, bytes_max)

    @_operation
    def list(self, path: str = ".", *, depth: int | None = None,
             user: str | None = None, container: str | None = None) -> Plan[_list[FileEntry]]:
        """What is in a folder, with `depth` also in those beneath."""
        answer = yield from _get(_files(self._sandbox, path, list="1", depth=depth,
                                        user=user, container=container))
        return [_read_into(FileEntry, item) for item in answer["items"]]

    @_operation
    def stat(self, path: str, *, user: str | None = None,
             container: str | None = None) -> Plan[FileEntry]:
        return _read_into(FileEntry,
                          (yield from _get(_files(self._sandbox, path, stat="1",
                                                  user=user, container=container))))

    @_operation
    def mkdir(self, path: str, *, mode: Mode | None = None, owner: str | None = None,
              user: str | None = None, container: str | None = None) -> Plan[FileEntry]:
        """Makes a folder and its parents; one that is there is fine."""
        return (yield from _change(True, _files(
            self._sandbox, path, "/mkdir", mode=_octal(mode), owner=owner,
            user=user, container=container)))

    @_operation
    def move(self, source: str, dest: str, *, overwrite: bool = False,
             user: str | None = None, container: str | None = None) -> Plan[FileEntry]:
        """Renames to exactly `dest`, whose missing parents are made."""
        return (yield from _change(False, _files(
            self._sandbox, source, "/move", to=dest, overwrite=_flag(overwrite),
            user=user, container=container)))

    @_operation
    def remove(self, path: str, *, recursive: bool = False,
               user: str | None = None, container: str | None = None) -> Plan[None]:
        """Removes a file or a link, or with `recursive` a folder with all that is in it."""
        yield from _ask(_Request("DELETE", _files(self._sandbox, path,
                                                  user=user, container=container,
                                                  recursive=_flag(recursive))))

    @_operation
    def chmod(self, path: str, mode: Mode | None = None, *, owner: str | None = None,
              recursive: bool = False, user: str | None = None,
              container: str | None = None) -> Plan[FileEntry]:
        """Changes mode, owner, or both."""
        return (yield from _change(True, _files(
            self._sandbox, path, "/chmod", mode=_octal(mode), owner=owner,
            user=user, container=container,
            recursive=_flag(recursive))))

    @_flow
    def watch(self, path: str, *, recursive: bool = False,
              user: str | None = None, container: str | None = None) -> Flow[FileChange]:
        """Changes as they happen, until you stop reading or the folder is gone. The first says
        that the watch stands."""
        stream = _follow(_files(self._sandbox, path, "/watch", user=user, container=container,
                                recursive=_flag(recursive)))
        ready = False

        def take(event: _StreamEvent) -> Iterator[_Emit]:
            nonlocal ready
            data = json.loads(event.data)
            if event.type == "ready":  # once more: there was no watch in between
                data["type"] = "overflow" if ready else "ready"
                ready = True
            change = _read_into(FileChange, {**data, "source": data.get("from")})
            if change.type == "gone":
                stream.close()
            yield _Emit(change)

        yield from _each(stream, take)

    @_operation
    def read_text(self, path: str, *, encoding: str = "utf-8",
                  user: str | None = None, container: str | None = None) -> Plan[str]:
        data = yield from _download(_files(self._sandbox, path,
                                           user=user, container=container), None)
        return (data or b"").decode(encoding)

    @_operation
    def write_text(self, path: str, text: str, *, encoding: str = "utf-8",
                   mode: Mode | None = None, user: str | None = None,
                   container: str | None = None) -> Plan[dict[str, Any]]:
        target = _files(self._sandbox, path, mode=_octal(mode), user=user, container=container)
        return (yield from _ask_json(_Request("PUT", target, source=text.encode(encoding),
                                              repeat=True)))


class _ImageCalls:
    """The images in the gateway's store."""

    def __init__(self, gateway: Any):
        self._gateway = gateway

    @_operation
    def pull(self, reference: str, *, team: str | None = None,
             on_progress: Callable[[dict[str, Any]], Any] | None = None) -> Plan[dict[str, Any]]:
        """Fetches an image and returns when it is there."""
        body = _without_none({"pull": reference, "team": team})
        # Pulls of one image are shared, so asking again starts nothing twice.
        state = yield from _ask_json(_Request("POST", "/images", json=body, repeat=True))
        stream = _follow(f"/images/pulls/{_segment(str(state['id']))}?follow=true")

        def take(event: _StreamEvent) -> Iterator[_Step]:
            nonlocal state
            state = json.loads(event.data)
            if on_progress is not None:
                yield _Call(on_progress, (state,), blocks=False)
            if state["state"] not in ("queued", "running"):
                stream.close()

        if state["state"] in ("queued", "running"):
            yield from _each(stream, take)
        if state["state"] != "succeeded":
            reason = state.get("reason") or "image_pull_failed"
            raise Unavailable(f"pull of {reference}: {state.get('message') or reason}",
                              code=reason, details=state)
        return state

    @_operation
    def list(self) -> Plan[_list[Image]]:
        items = yield from _pages("/images", [], page_size=None)
        return [_read_into(Image, item) for item in items]

    @_operation
    def get(self, name: str) -> Plan[Image]:
        return _read_into(Image, (yield from _get(f"/images/{_segment(name)}")))

    @_operation
    def import_tar(self, source: Source, name: str) -> Plan[Image]:
        """Makes an image of a root file system's tar (plain, gzip, zstd)."""
        return _read_into(Image, (yield from _ask_json(
            _Request("POST", _with_query("/images", {"name": name}), source=source,
                     read_timeout=_IMPORT_TIMEOUT))))

    @_operation
    def remove(self, name: str) -> Plan[None]:
        yield from _ask(_Request("DELETE", f"/images/{_segment(name)}", repeat=True))

    @_operation
    def gc(self) -> Plan[dict[str, Any]]:
        """Deletes what nothing uses; answers with freed_bytes and removed."""
        return (yield from _ask_json(_Request("POST", "/images/gc")))


def _build_secrets(secrets: Mapping[str, Secret] | None,
                   ssh: Mapping[str, Secret] | None) -> dict[str, str]:
    """The headers that carry them."""
    headers = {}
    for header, given in (("X-Build-Secrets", secrets), ("X-Build-Ssh", ssh)):
        coded = {}
        for id, value in (given or {}).items():
            if isinstance(value, os.PathLike):
                value = Path(value).read_bytes()
            coded[id] = base64.b64encode(
                value.encode() if isinstance(value, str) else value).decode()
        if coded:
            headers[header] = json.dumps(coded)
    return headers


def _with_inline(text: str, archive: Iterator[bytes]) -> Iterator[bytes]:
    """A Dockerfile besides, which the builder takes out of the context again."""
    if text:
        content = text.encode()
        member = tarfile.TarInfo(_INLINE_NAME)
        member.size = len(content)
        yield member.tobuf(tarfile.PAX_FORMAT) + content + bytes(-len(content) % _TAR_BLOCK)
    yield from archive


def _start_build(context: str | os.PathLike[str] | bytes, dockerfile: str | None,
                 target: str | None, args: Mapping[str, str] | None, team: str | None,
                 exclude: Sequence[str], secrets: Mapping[str, Secret] | None = None,
                 ssh: Mapping[str, Secret] | None = None, inline: str = "") -> Plan[Build]:
    query = [*_without_none({"dockerfile": dockerfile, "target": target, "team": team}).items()]
    query += [("arg", f"{name}={value}") for name, value in (args or {}).items()]
    source: Any = context
    if not isinstance(context, bytes):
        folder = Path(context)
        if not folder.is_dir():
            raise NotADirectoryError(f"{folder} is not a folder")
        source = _joined(_with_inline(inline, _tar_of(folder, exclude)))
    return _read_into(Build, (yield from _ask_json(_Request(
        "POST", _with_query("/builds", query), source=source,
        headers={"Content-Type": "application/x-tar", **_build_secrets(secrets, ssh)},
        read_timeout=_IMPORT_TIMEOUT))))


def _wait_build(id: str, timeout: float | None) -> Plan[Build]:
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        left = _WAIT_STEP if end is None else min(_WAIT_STEP, end - time.monotonic())
        build = _read_into(Build, (yield from _get(
            f"/builds/{_segment(id)}?wait={max(0, round(left))}",
            read_timeout=_WAIT_STEP + DEFAULT_TIMEOUT)))
        if build.state == "succeeded":
            return build
        if build.state in ("failed", "cancelled"):
            raise BuildFailed(f"build {id}: {build.message or build.reason}",
                              code=build.reason or build.state,
                              details=dataclasses.asdict(build))
        if end is not None and time.monotonic() >= end:
            raise WaitTimeout(f"build {id} is still {build.state}", code="timeout")


def _composed(compose: Files, team: str | None) -> Plan[dict[str, Any]]:
    """What the API takes of compose files on this machine: their texts, the variables they name,
    the env files and finished builds of their services."""
    paths = [Path(compose)] if isinstance(compose, str | os.PathLike) else [*map(Path, compose)]
    texts = [path.read_text("utf-8") for path in paths]
    folder = paths[0].parent
    whole = "\n".join(texts)
    named = {*re.findall(r"\$\{?(\w+)", whole), "COMPOSE_PROFILES",
             *re.findall(r"environment:[ \t\"']*(\w+)", whole)}  # of a config or a secret
    request: dict[str, Any] = {
        "files": texts, "env": {name: os.environ[name] for name in named & os.environ.keys()}}
    if (folder / ".env").is_file():
        request["dotenv"] = (folder / ".env").read_text("utf-8")
    texts_given: dict[str, str] = {}
    for _ in range(_COMPOSE_ROUNDS):  # files that services extend may need others
        request["env_files"] = texts_given
        needs = yield from _ask_json(_Request("POST", "/compose/check", json=request, repeat=True))
        more = {
            file["path"]: (folder / file["path"]).read_text("utf-8") for file in needs["env_files"]
            if file["path"] not in texts_given and (
                file["required"] or (folder / file["path"]).is_file())}
        if not more:
            break
        texts_given |= more
    request["builds"] = {}
    for build in needs["builds"]:
        inline = build.get("dockerfile_inline", "")
        secrets: dict[str, Secret] = {
            one["id"]: folder / one["file"] if "file" in one else os.environ[one["environment"]]
            for one in build.get("secrets", [])}
        started = yield from _start_build(
            folder / build["context"], _INLINE_NAME if inline else build["dockerfile"] or None,
            build["target"] or None, build["args"], team, (), secrets, None, inline)
        request["builds"][build["service"]] = (yield from _wait_build(started.id, None)).id
    return request


class _BuildCalls:
    """Image builds. What was built is used as `gw.create(build.image, ...)`."""

    def __init__(self, gateway: Any):
        self._gateway = gateway

    @_operation
    def start(self, context: str | os.PathLike[str] | bytes, *, dockerfile: str | None = None,
              target: str | None = None, args: Mapping[str, str] | None = None,
              team: str | None = None, exclude: Sequence[str] = (),
              secrets: Mapping[str, Secret] | None = None,
              ssh: Mapping[str, Secret] | None = None) -> Plan[Build]:
        """Sends a folder (or, as bytes, a tar: plain, gzip or zstd) to be built and returns once
        the builder has it. A build of the same content is joined, a known result found.
        `secrets` are what `RUN --mount=type=secret` mounts, by id, and `ssh` private keys for
        `--mount=type=ssh`: a value, or the path of a file."""
        return (yield from _start_build(context, dockerfile, target, args, team, exclude,
                                        secrets, ssh))

    @_operation
    def dockerfile(self, text: str, *, target: str | None = None,
                   args: Mapping[str, str] | None = None, team: str | None = None,
                   secrets: Mapping[str, Secret] | None = None,
                   ssh: Mapping[str, Secret] | None = None) -> Plan[Build]:
        """The same of one Dockerfile without a context."""
        query = [*_without_none({"target": target, "team": team}).items()]
        query += [("arg", f"{name}={value}") for name, value in (args or {}).items()]
        return _read_into(Build, (yield from _ask_json(_Request(
            "POST", _with_query("/builds", query), source=text.encode(),
            headers={"Content-Type": "text/plain; charset=utf-8", **_build_secrets(secrets, ssh)},
            read_timeout=_IMPORT_TIMEOUT))))

    @_operation
    def get(self, id: str) -> Plan[Build]:
        return _read_into(Build, (yield from _get(f"/builds/{_segment(id)}")))

    @_operation
    def list(self, *, state: str | None = None, team: str | None = None, all: bool = False,
             limit: int | None = None) -> Plan[_list[Build]]:
        """Newest first, of your teams or of that one; `all`: of every team, without what the
        messages and steps of others say."""
        query = [*_without_none({"state": state, "team": team,
                                 "scope": "all" if all else None}).items()]
        return [_read_into(Build, row) for row in (yield from _pages("/builds", query, limit))]

    @_operation
    def wait(self, id: str, timeout: float | None = None) -> Plan[Build]:
        """When it has succeeded; `BuildFailed` where it has not, `WaitTimeout` in time."""
        return (yield from _wait_build(id, timeout))

    @_operation
    def logs(self, id: str, offset: int = 0) -> Plan[str]:
        """What it has written so far; of one that has ended the last megabyte."""
        response = yield from _ask(_Request(
            "GET", f"/builds/{_segment(id)}/logs?offset={offset}", repeat=True))
        return response.text

    @_operation
    def cancel(self, id: str) -> Plan[Build]:
        return _read_into(Build, (yield from _ask_json(
            _Request("DELETE", f"/builds/{_segment(id)}"))))


def _team(name: str, suffix: str = "") -> str:
    return f"/teams/{_segment(name)}{suffix}"


class _TeamCalls:
    """Teams, their limits and their members, as the API's JSON (docs/teams.md)."""

    def __init__(self, gateway: Any):
        self._gateway = gateway

    @_operation
    def list(self, *, all: bool = False) -> Plan[_list[dict[str, Any]]]:
        """The teams the token is in; with `all` every one, of the others name and quota only."""
        return (yield from _pages("/teams", [("scope", "all")] if all else []))

    @_operation
    def get(self, name: str) -> Plan[dict[str, Any]]:
        return (yield from _get(_team(name)))

    @_operation
    def create(self, name: str, **fields: Any) -> Plan[dict[str, Any]]:
        return (yield from _ask_json(_Request("POST", "/teams", json={"name": name, **fields})))

    @_operation
    def put(self, name: str, **fields: Any) -> Plan[dict[str, Any]]:
        """Exactly these fields, the others at their defaults; members stay if not given."""
        return (yield from _ask_json(_Request("PUT", _team(name), json=fields, repeat=True)))

    @_operation
    def update(self, name: str, **fields: Any) -> Plan[dict[str, Any]]:
        """These fields, the others stay. In a limit None is no limit."""
        return (yield from _ask_json(_Request("PATCH", _team(name), json=fields, repeat=True)))

    @_operation
    def delete(self, name: str) -> Plan[None]:
        yield from _ask(_Request("DELETE", _team(name)))

    @_operation
    def apply(self, teams: Sequence[Mapping[str, Any]], *, prune: bool = False,
              dry_run: bool = False) -> Plan[dict[str, Any]]:
        """Makes all of them what is given, or none; answers with what changed."""
        target = "/teams?dry_run=true" if dry_run else "/teams"
        body = {"teams": [dict(team) for team in teams], "prune": prune}
        return (yield from _ask_json(_Request("PUT", target, json=body, repeat=True)))

    @_operation
    def members(self, name: str) -> Plan[_list[dict[str, Any]]]:
        return (yield from _pages(_team(name, "/members"), [], page_size=None))

    @_operation
    def add_member(self, name: str, subject: str, role: str = "member") -> Plan[dict[str, Any]]:
        target = _team(name, f"/members/{_segment(subject)}")
        return (yield from _ask_json(_Request("PUT", target, json={"role": role}, repeat=True)))

    @_operation
    def remove_member(self, name: str, subject: str) -> Plan[None]:
        yield from _ask(_Request("DELETE", _team(name, f"/members/{_segment(subject)}")))


class _TokenCalls:
    """Tokens for the API."""

    def __init__(self, gateway: Any):
        self._gateway = gateway

    @_operation
    def list(self, *, team: str | None = None, all: bool = False) -> Plan[_list[Token]]:
        query = [*_without_none({"team": team, "scope": "all" if all else None}).items()]
        return [_read_into(Token, item) for item in (yield from _pages("/tokens", query))]

    @_operation
    def get(self, id: str) -> Plan[Token]:
        return _read_into(Token, (yield from _get(f"/tokens/{_segment(id)}")))

    @_operation
    def create(self, name: str, scopes: Sequence[str], *, team: str | None = None,
               subject: str | None = None, role: str | None = None,
               every_team: bool | None = None, expires_in_sec: int | None = None) -> Plan[Token]:
        """A new token; its `secret` is known now and never again."""
        body = _without_none({"name": name, "scopes": [*scopes], "team": team, "subject": subject,
                              "role": role, "every_team": every_team,
                              "expires_in_sec": expires_in_sec})
        return _read_into(Token, (yield from _ask_json(_Request("POST", "/tokens", json=body))))

    @_operation
    def revoke(self, id: str) -> Plan[None]:
        yield from _ask(_Request("DELETE", f"/tokens/{_segment(id)}"))

    @_operation
    def limits(self, id: str) -> Plan[dict[str, Any]]:
        """The token's own limits (None: the operator's), and under `effective` what holds."""
        return (yield from _get(f"/tokens/{_segment(id)}/limits"))

    @_operation
    def set_limits(self, id: str, *, requests_per_sec: int | None = None, burst: int | None = None,
                   concurrent_creates: int | None = None, concurrent_streams: int | None = None,
                   body_mb: int | None = None) -> Plan[dict[str, Any]]:
        """All anew: None is the operator's limit, 0 none."""
        body = _without_none({"requests_per_sec": requests_per_sec, "burst": burst,
                              "concurrent_creates": concurrent_creates,
                              "concurrent_streams": concurrent_streams, "body_mb": body_mb})
        request = _Request("PUT", f"/tokens/{_segment(id)}/limits", json=body)
        return (yield from _ask_json(request))

    @_operation
    def reset_limits(self, id: str) -> Plan[None]:
        yield from _ask(_Request("DELETE", f"/tokens/{_segment(id)}/limits"))


class _SignInCalls:
    """Where people are signed in by the gateway's issuer."""

    def __init__(self, gateway: Any):
        self._gateway = gateway

    @_operation
    def list(self, *, subject: str | None = None,
             all: bool = False) -> Plan[_list[dict[str, Any]]]:
        """One's own; of somebody or `all` for admins of the platform."""
        query = [*_without_none({"subject": subject, "scope": "all" if all else None}).items()]
        return (yield from _pages("/sign-ins", query))

    @_operation
    def end(self, id: str) -> Plan[None]:
        yield from _ask(_Request("DELETE", f"/sign-ins/{_segment(id)}"))

    @_operation
    def end_all(self, subject: str | None = None) -> Plan[int]:
        """Signs out everywhere, this sign-in too; how many were ended."""
        target = _with_query("/sign-ins", _without_none({"subject": subject}))
        return (yield from _ask_json(_Request("DELETE", target, repeat=True)))["ended"]


class _GatewayCalls[S]:
    """What is asked of the gateway itself."""

    _connection: _Connection

    def _sandbox(self, data: Mapping[str, Any]) -> S:
        raise NotImplementedError

    @property
    def _gateway(self) -> Self:
        return self

    @property
    def _compresses(self) -> bool:
        """For this machine it is only work."""
        return not self._connection.loopback

    @property
    def url(self) -> str:
        return self._connection.url

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"

    @_operation
    def me(self) -> Plan[dict[str, Any]]:
        """Who the token is: subject, team, role, scopes, teams."""
        return (yield from _get("/me"))

    @_operation
    def create(self, image: str | None = None, *, cpus: float | None = None,
               memory_mb: int | None = None, storage_mb: int | None = None,
               compose: Mapping[str, Any] | Files | None = None,
               labels: Mapping[str, str] | None = None, env: Mapping[str, str] | None = None,
               wait: bool | float = True, user: str | None = None, workdir: str | None = None,
               lease_sec: int | None = None, max_lifetime_sec: int | None = None,
               network: Network | None = None, pull: str | None = None,
               team: str | None = None, isolation: str | None = None,
               no_new_privileges: bool | None = None, run_entrypoint: bool | None = None,
               idempotency_key: str | None = None) -> Plan[S]:
        """A new sandbox, ready unless `wait` is False; a number limits the wait in seconds. As a
        context manager it is deleted at the end. `network` is a mode ("open", "none") or the list
        of addresses, ranges and names that it may connect to. Of an image, or of compose files:
        `compose` is a path or several, whose builds are made and env files read here, or what the
        API takes, {"files": [text], "env", "env_files", "builds", "main"}. `cpus` and `memory_mb`
        may be left out where every service has limits."""
        if compose is not None and not isinstance(compose, Mapping):
            compose = yield from _composed(compose, team)
        body = _create_body(image, {
            "compose": compose,
            "cpus": cpus, "memory_mb": memory_mb, "storage_mb": storage_mb, "labels": labels,
            "env": env, "user": user, "workdir": workdir, "lease_sec": lease_sec,
            "max_lifetime_sec": max_lifetime_sec, "network": network, "pull": pull, "team": team,
            "isolation": isolation, "no_new_privileges": no_new_privileges,
            "run_entrypoint": run_entrypoint})
        return self._sandbox((yield from _create(body, wait, idempotency_key)))

    @_operation
    def check_compose(self, files: Sequence[str], *, env: Mapping[str, str] | None = None,
                      env_files: Mapping[str, str] | None = None,
                      main: str | None = None) -> Plan[dict[str, Any]]:
        """What a create of these compose files has to be given beside them: `builds` and
        `env_files`; and the names of their `services`, main first. Where a service extends one of
        a file that is not among `env_files`, nothing but that file: ask again with it."""
        body = _without_none({"files": [*files], "env": env and dict(env), "main": main,
                              "env_files": env_files and dict(env_files)})
        return (yield from _ask_json(_Request("POST", "/compose/check", json=body, repeat=True)))

    @_operation
    def get(self, id: str) -> Plan[S]:
        return self._sandbox((yield from _get(_path(id))))

    @_operation
    def list(self, *, labels: Mapping[str, str] | None = None, all: bool = False,
             limit: int | None = None, **filters: str | None) -> Plan[_list[S]]:
        """Sandboxes, newest first. Filters: state, team, owner, image, q, scope."""
        query = [*_without_none(filters).items()]
        query += [("label", f"{name}={value}") for name, value in (labels or {}).items()]
        query += [("all", "true")] if all else []
        return [self._sandbox(row) for row in (yield from _pages("/sandboxes", query, limit))]

    @_operation
    def audit_logs(self, *, limit: int | None = 100,
                   **filters: str | None) -> Plan[_list[dict[str, Any]]]:
        """Who did what in the team, newest first. Filters: event, caller, sandbox, from_, until,
        result (ok, error or a code), text; for admins team, scope="all"."""
        return (yield from _pages("/audit-logs", _named(filters), limit))

    @_operation
    def export_audit_logs(self, dest: str | os.PathLike[str] | BinaryIO | None = None,
                          **filters: str | None) -> Plan[bytes | None]:
        """The log as JSON lines in the order of its chain, into a file or, without `dest`, as
        bytes. Filters as of `audit_logs`; only a log of all teams can be verified whole."""
        query = [*_named(filters), ("format", "jsonl")]
        return (yield from _download(_with_query("/audit-logs", query), dest))

    @_operation
    def audit_head(self) -> Plan[dict[str, Any]]:
        """`id` and `hash` of the log's last row: note it, to verify against it later."""
        return (yield from _get("/audit-logs/head"))

    @_operation
    def activity(self, *, step: int | None = None,
                 **filters: str | None) -> Plan[_list[dict[str, Any]]]:
        """Who did how much, by steps of that many seconds. Filters: from_, to; for admins team,
        scope="all"."""
        query = [*_named(filters), *([("step", str(step))] if step else [])]
        return (yield from _get(_with_query("/activity", query)))["items"]

    @_operation
    def quotas(self) -> Plan[dict[str, Any]]:
        """What each team may use, uses, borrows and lends and how many wait (`items`), the `pool`
        that they share, and the operator's `total`."""
        return (yield from _get("/quotas"))

    @_operation
    def identity_keys(self) -> Plan[_list[dict[str, Any]]]:
        """The keys that sign who sandboxes are; for admins of the platform."""
        return (yield from _get("/identity/keys"))["items"]

    @_operation
    def rotate_identity_keys(self) -> Plan[_list[dict[str, Any]]]:
        """From now on the next key signs; for admins of the platform."""
        answer = yield from _ask_json(_Request("POST", "/identity/keys/rotate"))
        return answer["items"]

    @_operation
    def replicas(self) -> Plan[_list[dict[str, Any]]]:
        """The gateways that share the store, the oldest first; for admins of the platform."""
        return (yield from _get("/replicas"))["items"]


class _Connection:
    """Address and token, and how a request of ours becomes one of httpx."""

    def __init__(self, url: str | None, token: str | None, timeout: float,
                 ca_file: str | os.PathLike[str] | None, insecure: bool):
        self.url = (url or os.environ.get("SANDBOX_GATEWAY_URL") or DEFAULT_URL).rstrip("/")
        self.token = (token or os.environ.get("SANDBOX_GATEWAY_TOKEN") or "").strip()
        if not _is_word(self.token):
            raise InvalidRequest("the token must be one word of printable ASCII",
                                 code="invalid_field", details={"field": "token"})
        self.token_is_kept = not self.token
        if self.token_is_kept:
            self.token = _kept_token(self.url)
        self.timeout = timeout
        self.ca_file = ca_file or os.environ.get("SANDBOX_GATEWAY_CA_FILE")
        self.insecure = insecure
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidRequest(f"{self.url!r} is not a gateway URL like https://host:port",
                                 code="invalid_field", details={"field": "url"})
        host = parts.hostname
        self.loopback = host in ("localhost", "::1") or host.startswith("127.")

    def client_options(self) -> dict[str, Any]:
        headers = {"User-Agent": f"sandbox-gateway-python/{__version__}"}
        if self.loopback:  # compressing for this machine is only work
            headers |= _IDENTITY
        return {
            "headers": headers, "verify": self._trusted(), "trust_env": not self.loopback,
            "follow_redirects": False,
            "limits": httpx.Limits(max_connections=None, max_keepalive_connections=64,
                                   keepalive_expiry=20.0),
            "timeout": self.timeouts(None),
        }

    def _trusted(self) -> ssl.SSLContext | bool:
        if self.insecure or self.url.startswith("http:"):
            return False  # without TLS nothing is verified; loading authorities takes 50 ms
        if not self.ca_file:
            return True
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise InvalidRequest(f"{os.fspath(self.ca_file)}: {error}", code="invalid_field",
                                 details={"field": "ca_file"}) from error

    def timeouts(self, read: float | None) -> httpx.Timeout:
        read = self.timeout if read is None else max(self.timeout, read)
        return httpx.Timeout(connect=_CONNECT_TIMEOUT, read=read, write=self.timeout, pool=None)

    def arguments(self, request: _Request, body: _OpenSource | None) -> dict[str, Any]:
        headers = dict(request.headers)
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if body is not None and body.length is not None:
            headers["Content-Length"] = str(body.length)
        if request.json is not None:
            headers["Content-Type"] = "application/json"
        return {"method": request.method, "url": self.url + request.target, "headers": headers,
                "timeout": self.timeouts(request.read_timeout)}

    def refresh_token(self) -> bool:
        """Whether the configuration has another token by now than the one that was refused."""
        kept = _kept_token(self.url) if self.token_is_kept else ""
        if not kept or kept == self.token:
            return False
        self.token = kept
        return True

    def __repr__(self) -> str:  # never the token
        return f"<{self.url}>"


def _kept_token(url: str) -> str:
    """Of the command line's configuration, for that address; "": it has none."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    path = os.environ.get("SANDBOX_GATEWAY_CONFIG") or os.path.join(home, "sandbox", "config.json")
    try:
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
    except (OSError, ValueError):
        return ""
    if not isinstance(config, dict) or str(config.get("url", "")).rstrip("/") != url:
        return ""
    token = config.get("token")
    word = token.strip() if isinstance(token, str) else ""
    return word if _is_word(word) else ""


def _is_word(text: str) -> bool:
    """What a header takes as it is: nothing of a token gets into an error of httpx."""
    return all("!" <= letter <= "~" for letter in text)


class _Beside:
    """A plan that is carried out beside another: why it failed, if it did."""

    error: BaseException | None = None

    def check(self, other: BaseException | None = None) -> None:
        """Raises what went wrong. A request of the `other` one fails for its reason only."""
        if self.error is not None and (other is None or isinstance(other, GatewayError)):
            raise self.error
        if other is not None:
            raise other


@dataclasses.dataclass
class _Progress:
    """How far a plan is: what it is told next, and the answer that it reads from. It goes on only
    while what is `beside` it does not fail."""

    plan: Generator[Any, Any, Any]
    beside: _Beside | None = None
    outcome: Any = None
    error: BaseException | None = None
    cancelled: bool = False
    response: httpx.Response | None = None
    pieces: Any = None

    def next_step(self) -> Any:
        if self.beside is not None:
            self.beside.check()
        outcome, error = self.outcome, self.error
        self.outcome = self.error = None
        return self.plan.send(outcome) if error is None else self.plan.throw(error)


# ------------------------------------------------------------------------------------ synchronous

class Gateway(_GatewayCalls["Sandbox"], _Sync):
    """A gateway. Keeps connections for reuse; usable from several threads; close it or use it as
    a context manager. `timeout` is the longest silence to bear, in seconds. `ca_file` has the
    authorities (PEM) that the gateway's certificate may be of; `insecure` takes any certificate,
    so that whoever answers gets the token."""

    def __init__(self, url: str | None = None, token: str | None = None,
                 timeout: float = DEFAULT_TIMEOUT, *,
                 ca_file: str | os.PathLike[str] | None = None, insecure: bool = False):
        self._connection = _Connection(url, token, timeout, ca_file, insecure)
        self._client = httpx.Client(**self._connection.client_options())
        self.images = Images(self)
        self.builds = Builds(self)
        self.teams = Teams(self)
        self.tokens = Tokens(self)
        self.sign_ins = SignIns(self)

    def _sandbox(self, data: Mapping[str, Any]) -> Sandbox:
        return Sandbox(self, data)

    def as_async(self) -> AsyncGateway:
        """To the same gateway with the same token, with connections of its own."""
        own = self._connection
        token = None if own.token_is_kept else own.token
        return AsyncGateway(own.url, token, own.timeout, ca_file=own.ca_file,
                            insecure=own.insecure)

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _carry_out[T](self, plan: Plan[T], beside: _Beside | None = None) -> T:
        progress = _Progress(plan, beside)
        try:
            while True:
                self._take_step(progress, progress.next_step())
        except StopIteration as end:
            return end.value
        finally:
            self._end(progress)

    def _emitted[I](self, flow: Flow[I]) -> Iterator[I]:
        progress = _Progress(flow)
        try:
            while True:
                step = progress.next_step()
                if isinstance(step, _Emit):
                    yield step.item
                else:
                    self._take_step(progress, step)
        except StopIteration:
            return
        finally:
            self._end(progress)

    def _take_step(self, progress: _Progress, step: _Step) -> None:
        try:
            progress.outcome = self._perform(progress, step)
        except httpx.RequestError as error:
            progress.error = _connection_failed(error, self.url)
            progress.error.__cause__ = error
        except BaseException as caught:  # the plan decides, and may clean up
            progress.error = caught

    def _perform(self, progress: _Progress, step: _Step) -> Any:
        match step:
            case _Read():
                return next(progress.pieces, b"")
            case _Request():
                response = self._send(step)
                try:
                    response.read()
                finally:
                    response.close()
                return response
            case _Open():
                self._close_response(progress)
                progress.response = self._send(step.request)
                if progress.response.status_code // 100 != 2:
                    progress.response.read()
                    _raise_for(progress.response)
                progress.pieces = progress.response.iter_bytes()
                return progress.response
            case _Sleep():
                time.sleep(step.seconds)
            case _Call():
                return step.function(*step.arguments)
            case _Together():
                return self._carry_out_together(step)

    def _carry_out_together[T](self, step: _Together[T]) -> T:
        beside, outcome, error = _BesideThread(self, step), None, None
        try:
            outcome = self._carry_out(step.plan, beside)
        except BaseException as caught:
            error = caught
        beside.stop()
        if error is not None:
            with contextlib.suppress(GatewayError):
                self._carry_out(step.ending())
        if error is None or not beside.calls:
            beside.join()
        beside.check(error)
        return cast(T, outcome)

    def _send(self, request: _Request) -> httpx.Response:
        response = self._send_once(request)
        if response.status_code == 401 and request.source is None \
                and self._connection.refresh_token():
            response.close()
            response = self._send_once(request)
        return response

    def _send_once(self, request: _Request) -> httpx.Response:
        body = None if request.source is None else _OpenSource(request.source)
        try:
            content = request.content() if body is None else body.pieces()
            made = self._client.build_request(**self._connection.arguments(request, body),
                                              content=content)
            return self._client.send(made, stream=True)
        finally:
            if body is not None:
                body.close()

    def _close_response(self, progress: _Progress) -> None:
        if progress.response is not None:
            progress.response.close()
            progress.response = None

    def _end(self, progress: _Progress) -> None:
        progress.plan.close()
        self._close_response(progress)


class _BesideThread(_Beside):
    """Carries out `beside` of two plans in a thread of its own, until it is stopped. Its owner
    joins it, but for one that is in a function of the caller's (`calls`) when the owner fails:
    that may take any time, so the thread ends whenever it returns."""

    def __init__(self, gateway: Gateway, step: _Together[Any]):
        self.calls = False
        self._gateway = gateway
        self._step = step
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=contextvars.copy_context().run, args=(self._run,),
                                        name="sandbox-gateway-beside", daemon=True)
        self._thread.start()
        self.join = self._thread.join

    def stop(self) -> None:
        """From now on it begins nothing, and calls nothing."""
        with self._lock:
            self._stopped.set()

    def _run(self) -> None:
        progress = _Progress(self._step.beside)
        try:
            try:
                while self._may_take(step := progress.next_step()):
                    if isinstance(step, _Sleep):
                        self._stopped.wait(step.seconds)
                    else:
                        self._gateway._take_step(progress, step)
            finally:
                self._gateway._end(progress)
        except StopIteration:
            pass
        except BaseException as error:
            self.calls = False
            self.error = error
            with contextlib.suppress(GatewayError):
                self._gateway._carry_out(self._step.ending())

    def _may_take(self, step: _Step) -> bool:
        with self._lock:
            self.calls = isinstance(step, _Call)
            return not self._stopped.is_set()


class Sandbox(_SandboxCalls, _Sync):
    """One sandbox. As a context manager it is deleted at the end."""

    def __init__(self, gateway: Gateway, data: Mapping[str, Any]):
        super().__init__(gateway, data)
        self.fs = Files(gateway, self.id)
        self.sessions = Sessions(gateway, self.id)

    def as_async(self) -> AsyncSandbox:
        """The same sandbox for use with `await`, with connections of its own."""
        return AsyncSandbox(self._gateway.as_async(), self.data)

    def forward(self, port: int, *, local_port: int = 0, host: str | None = None,
                container: str | None = None) -> Forward:
        """That port in the sandbox as a port of 127.0.0.1 here, in a `with` block. `local_port` 0
        is a free one; `host` is another host as the sandbox sees it."""
        return Forward(self, port, local_port=local_port, host=host, container=container)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.delete()


class Forward:
    """A forwarded port while its `with` block lasts, served by a thread of its own. `port` and
    `address` are where it listens, `error` is why the last connection that failed could not be
    made."""

    def __init__(self, sandbox: Sandbox, port: int, **options: Any):
        self._forward = AsyncForward(sandbox.as_async(), port, **options)
        self._stack = contextlib.ExitStack()

    @property
    def port(self) -> int:
        return self._forward.port

    @property
    def address(self) -> str:
        return self._forward.address

    @property
    def error(self) -> GatewayError | None:
        return self._forward.error

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            portal = stack.enter_context(anyio.from_thread.start_blocking_portal())
            stack.callback(portal.call, self._forward.gateway.close)
            stack.enter_context(portal.wrap_async_context_manager(self._forward))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


class Session(_SessionCalls, _Sync):
    """One session. As a context manager it is deleted at the end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.delete()


class Sessions(_SessionsCalls[Session], _Sync):
    """The sessions of a sandbox."""

    def _session(self, data: Mapping[str, Any], input_at: int | None) -> Session:
        return Session(self._gateway, self._sandbox, data, input_at)


class Files(_FileCalls, _Sync):
    __doc__ = _FileCalls.__doc__


class Images(_ImageCalls, _Sync):
    __doc__ = _ImageCalls.__doc__


class Builds(_BuildCalls, _Sync):
    __doc__ = _BuildCalls.__doc__


class Teams(_TeamCalls, _Sync):
    __doc__ = _TeamCalls.__doc__


class Tokens(_TokenCalls, _Sync):
    __doc__ = _TokenCalls.__doc__


class SignIns(_SignInCalls, _Sync):
    __doc__ = _SignInCalls.__doc__


# ----------------------------------------------------------------------------------- asynchronous

class AsyncGateway(_GatewayCalls["AsyncSandbox"], _Async):
    """`Gateway` with `await`. Cancelling a call closes its connection, which ends its command."""

    def __init__(self, url: str | None = None, token: str | None = None,
                 timeout: float = DEFAULT_TIMEOUT, *,
                 ca_file: str | os.PathLike[str] | None = None, insecure: bool = False):
        self._connection = _Connection(url, token, timeout, ca_file, insecure)
        self._client = httpx.AsyncClient(**self._connection.client_options())
        # Not anyio's threads nor the event loop's: the former keep the program from its end when
        # an interrupt has ended the loop, the latter are too few for sources that wait.
        self._threads = ThreadPoolExecutor(_THREADS_MAX, "sandbox-gateway")
        self.images = AsyncImages(self)
        self.builds = AsyncBuilds(self)
        self.teams = AsyncTeams(self)
        self.tokens = AsyncTokens(self)
        self.sign_ins = AsyncSignIns(self)

    def _sandbox(self, data: Mapping[str, Any]) -> AsyncSandbox:
        return AsyncSandbox(self, data)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        await self._client.aclose()

    async def _in_thread[R](self, function: Callable[..., R], *arguments: Any) -> R:
        """What may wait: files, and what the caller gave to be read or written."""
        context = contextvars.copy_context()
        with anyio.CancelScope(shield=True):
            return await asyncio.wrap_future(
                self._threads.submit(context.run, function, *arguments))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _carry_out[T](self, plan: Plan[T], beside: _Beside | None = None) -> T:
        progress = _Progress(plan, beside)
        try:
            while True:
                await self._take_step(progress, progress.next_step())
        except StopIteration as end:
            return end.value
        finally:
            await self._end(progress)

    async def _emitted[I](self, flow: Flow[I]) -> AsyncIterator[I]:
        progress = _Progress(flow)
        try:
            while True:
                step = progress.next_step()
                if isinstance(step, _Emit):
                    yield step.item
                else:
                    await self._take_step(progress, step)
        except StopIteration:
            return
        finally:
            await self._end(progress)

    async def _take_step(self, progress: _Progress, step: _Step) -> None:
        try:
            # After a cancellation what the plan still asks for is its clean-up.
            with anyio.CancelScope(shield=progress.cancelled) as scope:
                if progress.cancelled:
                    scope.deadline = anyio.current_time() + _CLEANUP_TIMEOUT
                progress.outcome = await self._perform(progress, step)
            if scope.cancelled_caught:
                progress.error = WaitTimeout("the clean-up took too long", code="wait_timeout")
        except GeneratorExit:  # the event loop is gone
            raise
        except anyio.get_cancelled_exc_class() as caught:
            progress.cancelled, progress.error = True, caught
        except httpx.RequestError as error:
            progress.error = _connection_failed(error, self.url)
            progress.error.__cause__ = error
        except BaseException as caught:
            progress.error = caught

    async def _perform(self, progress: _Progress, step: _Step) -> Any:
        match step:
            case _Read():
                return await anext(progress.pieces, b"")
            case _Request():
                response = await self._send(step)
                try:
                    await response.aread()
                finally:
                    await response.aclose()
                return response
            case _Open():
                await self._close_response(progress)
                progress.response = await self._send(step.request)
                if progress.response.status_code // 100 != 2:
                    await progress.response.aread()
                    _raise_for(progress.response)
                progress.pieces = progress.response.aiter_bytes()
                return progress.response
            case _Sleep():
                await anyio.sleep(step.seconds)
            case _Call(blocks=True):
                return await self._in_thread(step.function, *step.arguments)
            case _Call():
                outcome = step.function(*step.arguments)
                return await outcome if inspect.isawaitable(outcome) else outcome
            case _Together():
                return await self._carry_out_together(step)

    async def _carry_out_together[T](self, step: _Together[T]) -> T:
        beside, outcome, error = _Beside(), None, None
        async with anyio.create_task_group() as group:
            group.start_soon(self._carry_out_beside, step, beside)
            try:
                outcome = await self._carry_out(step.plan, beside)
            except (GeneratorExit, anyio.get_cancelled_exc_class()):
                raise
            except BaseException as caught:
                error = caught
            group.cancel_scope.cancel()
        beside.check(error)
        return cast(T, outcome)

    async def _carry_out_beside(self, step: _Together[Any], beside: _Beside) -> None:
        try:
            await self._carry_out(step.beside)
        except (GeneratorExit, anyio.get_cancelled_exc_class()):
            raise
        except BaseException as error:
            beside.error = error
            with contextlib.suppress(GatewayError):
                await self._carry_out(step.ending())

    async def _send(self, request: _Request) -> httpx.Response:
        response = await self._send_once(request)
        if response.status_code == 401 and request.source is None \
                and self._connection.refresh_token():
            await response.aclose()
            response = await self._send_once(request)
        return response

    async def _send_once(self, request: _Request) -> httpx.Response:
        body = None if request.source is None else _OpenSource(request.source)
        try:
            content = request.content() if body is None else body.pieces_async(self._in_thread)
            made = self._client.build_request(**self._connection.arguments(request, body),
                                              content=content)
            return await self._client.send(made, stream=True)
        finally:
            if body is not None:
                body.close()

    async def _close_response(self, progress: _Progress) -> None:
        if progress.response is not None:
            await progress.response.aclose()
            progress.response = None

    async def _end(self, progress: _Progress) -> None:
        progress.plan.close()
        with anyio.CancelScope(shield=True):
            await self._close_response(progress)


class AsyncSandbox(_SandboxCalls, _Async):
    """`Sandbox` with `await`; as an async context manager it is deleted at the end."""

    def __init__(self, gateway: AsyncGateway, data: Mapping[str, Any]):
        super().__init__(gateway, data)
        self.fs = AsyncFiles(gateway, self.id)
        self.sessions = AsyncSessions(gateway, self.id)

    def forward(self, port: int, *, local_port: int = 0, host: str | None = None,
                container: str | None = None) -> AsyncForward:
        """That port in the sandbox as a port of 127.0.0.1 here, in an `async with` block; as
        `Sandbox.forward`."""
        return AsyncForward(self, port, local_port=local_port, host=host, container=container)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        # Also when the block was cancelled: the sandbox is not left behind.
        with anyio.move_on_after(_CLEANUP_TIMEOUT + _WAIT_STEP, shield=True):
            await self.delete()


class AsyncForward:
    """`Forward` with `async with`."""

    def __init__(self, sandbox: AsyncSandbox, port: int, *, local_port: int = 0,
                 host: str | None = None, container: str | None = None):
        self.gateway: AsyncGateway = sandbox._gateway
        self.port = local_port
        self.error: GatewayError | None = None
        self._sandbox = sandbox
        self._target = _with_query(_path(sandbox.id, "/streams/tcp"), _without_none(
            {"port": port, "host": host, "container": container}))
        self._stack = contextlib.AsyncExitStack()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        await self._sandbox.refresh()  # one that is not there is told before anybody connects
        async with contextlib.AsyncExitStack() as stack:
            listener = await stack.enter_async_context(await anyio.create_tcp_listener(
                local_host="127.0.0.1", local_port=self.port))
            self.port = listener.extra(anyio.abc.SocketAttribute.local_port)
            group = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(group.cancel_scope.cancel)  # its exit waits for all of them
            limit = anyio.Semaphore(_FORWARDED_MAX)
            group.start_soon(listener.serve, functools.partial(self._serve, limit))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _serve(self, limit: anyio.Semaphore, local: anyio.abc.ByteStream) -> None:
        async with limit, local:
            try:
                await self._join(local)
            except GatewayError as error:
                self.error = error
            except httpx.RequestError as error:
                self.error = _connection_failed(error, self.gateway.url)
            except (OSError, httpcore.NetworkError, anyio.BrokenResourceError):
                pass  # that one end is gone is how many connections end

    async def _join(self, local: anyio.abc.ByteStream) -> None:
        response = await self.gateway._send(_Request("GET", self._target, headers={
            "Connection": "Upgrade", "Upgrade": "sandbox-stream"}))
        try:
            if response.status_code != 101:
                await response.aread()
                _raise_for(response)
                raise ConnectionFailed("the gateway did not switch to a stream: a proxy?",
                                       code="connection_failed")
            remote = response.extensions["network_stream"]
            async with anyio.create_task_group() as group:
                group.start_soon(self._send, local, remote, group.cancel_scope)
                try:
                    while piece := await remote.read(_STREAM_CHUNK):
                        await local.send(piece)
                    await local.send_eof()
                except (OSError, httpcore.NetworkError, anyio.BrokenResourceError):
                    group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()

    @staticmethod
    async def _send(local: anyio.abc.ByteStream, remote: Any, both: anyio.CancelScope) -> None:
        """What comes here goes there. The end of it is passed on; over TLS, where one direction
        cannot end alone, it ends both."""
        try:
            async for piece in local:
                await remote.write(piece)
            if remote.get_extra_info("ssl_object") is None:
                remote.get_extra_info("socket").shutdown(socket.SHUT_WR)
            else:
                both.cancel()
        except (OSError, httpcore.NetworkError, anyio.BrokenResourceError):
            both.cancel()


class AsyncSession(_SessionCalls, _Async):
    """`Session` with `await`; as an async context manager it is deleted at the end."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.move_on_after(_CLEANUP_TIMEOUT, shield=True):
            await self.delete()


class AsyncSessions(_SessionsCalls[AsyncSession], _Async):
    """`Sessions` with `await`."""

    def _session(self, data: Mapping[str, Any], input_at: int | None) -> AsyncSession:
        return AsyncSession(self._gateway, self._sandbox, data, input_at)


class AsyncFiles(_FileCalls, _Async):
    """`Files` with `await`; disk I/O happens in threads."""


class AsyncImages(_ImageCalls, _Async):
    """`Images` with `await`."""


class AsyncBuilds(_BuildCalls, _Async):
    """`Builds` with `await`."""


class AsyncTeams(_TeamCalls, _Async):
    """`Teams` with `await`."""


class AsyncSignIns(_SignInCalls, _Async):
    """`SignIns` with `await`."""


class AsyncTokens(_TokenCalls, _Async):
    """`Tokens` with `await`."""
