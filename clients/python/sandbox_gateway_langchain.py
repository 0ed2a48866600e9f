"""Sandbox Gateway as the sandbox of LangChain Deep Agents (deepagents 0.7), for Python 3.12+.

    from deepagents import create_deep_agent
    from sandbox_gateway import Gateway
    from sandbox_gateway_langchain import SandboxGatewayBackend

    with Gateway() as gw, gw.create("debian:12", cpus=1, memory_mb=2048) as sbx:
        agent = create_deep_agent(model=..., backend=SandboxGatewayBackend(sandbox=sbx))

Lies beside sandbox_gateway.py and needs deepagents. The image needs sh and python3; GNU grep or
ripgrep for `grep`. In Deep Agents Code (`dcode`) it is a provider by configuration:

    [sandboxes.providers.sandbox-gateway]
    class_path = "sandbox_gateway_langchain:SandboxGatewayProvider"
    working_dir = "/root"
    params = { image = "debian:12", cpus = 2, memory_mb = 4096 }
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from deepagents.backends.protocol import (
    FILE_NOT_FOUND,
    INVALID_PATH,
    IS_DIRECTORY,
    PERMISSION_DENIED,
    ExecuteResponse,
    FileDownloadResponse,
    FileUploadResponse,
    WriteResult,
)
from deepagents.backends.sandbox import BaseSandbox

from sandbox_gateway import (
    AsyncSandbox,
    ConnectionFailed,
    Gateway,
    GatewayError,
    NotFound,
    Result,
    Sandbox,
)

if TYPE_CHECKING:
    from deepagents_code.integrations.sandbox_provider import (
        SandboxNotFoundError,
        SandboxProvider,
        SandboxProviderMetadata,
    )
else:
    try:
        from deepagents_code.integrations.sandbox_provider import (
            SandboxNotFoundError,
            SandboxProvider,
            SandboxProviderMetadata,
        )
    except ImportError:  # the backend does without dcode, and dcode only looks for the methods
        SandboxProvider, SandboxNotFoundError, SandboxProviderMetadata = object, LookupError, None

__all__ = ["SandboxGatewayBackend", "SandboxGatewayProvider"]

DEFAULT_TIMEOUT_SEC = 1800  # what the other backends have, too
_TIMED_OUT = 124
_TRANSFERS = 8  # files on their way at the same time

_FILE_ERRORS = {
    "file_not_found": FILE_NOT_FOUND, "permission_denied": PERMISSION_DENIED,
    "read_only": PERMISSION_DENIED, "is_a_directory": IS_DIRECTORY,
    "path_invalid": INVALID_PATH, "not_a_directory": INVALID_PATH, "not_a_file": INVALID_PATH,
}


class SandboxGatewayBackend(BaseSandbox):
    """A sandbox as a Deep Agents backend. It belongs to the caller, who deletes it. `timeout` is
    how long a command may take unless it says otherwise, in seconds; 0 is for ever. Usable from
    several threads and event loops."""

    def __init__(self, *, sandbox: Sandbox, timeout: int = DEFAULT_TIMEOUT_SEC):
        self._sandbox = sandbox
        self._timeout = timeout
        # Connections belong to the event loop that made them, and go with it.
        self._twins: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncSandbox] = (
            weakref.WeakKeyDictionary())

    @property
    def id(self) -> str:
        return self._sandbox.id

    @property
    def _twin(self) -> AsyncSandbox:
        loop = asyncio.get_running_loop()
        if loop not in self._twins:
            self._twins[loop] = self._sandbox.as_async()
        return self._twins[loop]

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        limit = self._timeout if timeout is None else timeout
        result = self._sandbox.exec(_merged(command), timeout_sec=limit or None)
        return _response(result, limit)

    async def aexecute(self, command: str, *, timeout: int | None = None  # noqa: ASYNC109
                       ) -> ExecuteResponse:
        limit = self._timeout if timeout is None else timeout
        result = await self._twin.exec(_merged(command), timeout_sec=limit or None)
        return _response(result, limit)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [self._upload(path, content) for path, content in files]

    def _upload(self, path: str, content: bytes) -> FileUploadResponse:
        if not path.startswith("/"):
            return FileUploadResponse(path, error=INVALID_PATH)
        try:
            self._sandbox.fs.upload(content, path)
        except GatewayError as error:
            return FileUploadResponse(path, error=_file_error(error))
        return FileUploadResponse(path)

    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return await _each_of(files, lambda item: self._aupload(*item))

    async def _aupload(self, path: str, content: bytes) -> FileUploadResponse:
        if not path.startswith("/"):
            return FileUploadResponse(path, error=INVALID_PATH)
        try:
            await self._twin.fs.upload(content, path)
        except GatewayError as error:
            return FileUploadResponse(path, error=_file_error(error))
        return FileUploadResponse(path)

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [self._download(path) for path in paths]

    def _download(self, path: str) -> FileDownloadResponse:
        if not path.startswith("/"):
            return FileDownloadResponse(path, error=INVALID_PATH)
        try:
            return FileDownloadResponse(path, content=self._sandbox.fs.download(path))
        except GatewayError as error:
            return FileDownloadResponse(path, error=_file_error(error))

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return await _each_of(paths, self._adownload)

    async def _adownload(self, path: str) -> FileDownloadResponse:
        if not path.startswith("/"):
            return FileDownloadResponse(path, error=INVALID_PATH)
        try:
            return FileDownloadResponse(path, content=await self._twin.fs.download(path))
        except GatewayError as error:
            return FileDownloadResponse(path, error=_file_error(error))

    # An upload makes the folders itself, so the base's command before it is not needed.
    def write(self, file_path: str, content: str) -> WriteResult:
        return _written(self._upload(file_path, content.encode()))

    async def awrite(self, file_path: str, content: str) -> WriteResult:
        return _written(await self._aupload(file_path, content.encode()))


def _merged(command: str) -> str:
    """Both streams in the order in which they were written."""
    return f"exec 2>&1\n{command}"


def _response(result: Result, limit: int) -> ExecuteResponse:
    output = result.stdout + result.stderr
    if result.timed_out:
        gap = "\n" if output and not output.endswith("\n") else ""
        return ExecuteResponse(f"{output}{gap}Command timed out after {limit} seconds",
                               exit_code=_TIMED_OUT, truncated=result.truncated)
    return ExecuteResponse(output, exit_code=result.exit_code, truncated=result.truncated)


def _file_error(error: GatewayError) -> str:
    """The protocol's word where it has one. What is no matter of this file is raised."""
    if error.code in ("unauthenticated", "not_found", "not_ready") or isinstance(
            error, ConnectionFailed):
        raise error
    return _FILE_ERRORS.get(error.code, str(error))


def _written(response: FileUploadResponse) -> WriteResult:
    if response.error:
        return WriteResult(error=f"Failed to write file '{response.path}': {response.error}")
    return WriteResult(path=response.path)


async def _each_of[I, O](items: list[I], take: Callable[[I], Awaitable[O]]) -> list[O]:
    """A few at a time; answers in the order of the items."""
    free = asyncio.Semaphore(_TRANSFERS)

    async def one(item: I) -> O:
        async with free:
            return await take(item)

    return await asyncio.gather(*map(one, items))


class SandboxGatewayProvider(SandboxProvider):
    """Makes and deletes sandboxes for `dcode`. What `get_or_create` takes besides `sandbox_id` is
    what `Gateway.create` takes; `image` is required for a new one."""

    def __init__(self) -> None:
        self._gateway = Gateway()

    @property
    def metadata(self) -> SandboxProviderMetadata | None:
        return SandboxProviderMetadata and SandboxProviderMetadata(
            name="sandbox-gateway", working_dir="/root")

    def get_or_create(self, *, sandbox_id: str | None = None, cpus: float = 1,
                      memory_mb: int = 2048, timeout: int = DEFAULT_TIMEOUT_SEC,
                      **kwargs: Any) -> SandboxGatewayBackend:
        if sandbox_id is None:
            sandbox = self._gateway.create(cpus=cpus, memory_mb=memory_mb, **kwargs)
        else:
            try:
                sandbox = self._gateway.get(sandbox_id).wait_ready()
            except NotFound as error:
                raise SandboxNotFoundError(sandbox_id) from error
        return SandboxGatewayBackend(sandbox=sandbox, timeout=timeout)

    def delete(self, *, sandbox_id: str, **kwargs: Any) -> None:
        try:
            self._gateway.get(sandbox_id).delete()
        except NotFound:
            pass
