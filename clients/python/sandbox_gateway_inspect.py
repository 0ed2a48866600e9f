"""Sandbox Gateway as a sandbox environment of Inspect (inspect_ai), for Python 3.12+.

    from inspect_ai.util import SandboxEnvironmentSpec
    from sandbox_gateway_inspect import SandboxGatewayConfig    # registers "sandbox-gateway"

    Task(..., sandbox=SandboxEnvironmentSpec(
        "sandbox-gateway", SandboxGatewayConfig(image="python:3.13", cpus=2, user="1000")))
    Task(..., sandbox="sandbox-gateway")    # with a file sandbox-gateway.yaml beside the task

Lies beside sandbox_gateway.py and needs inspect_ai. Every sample gets a sandbox of its own, which
is deleted with it. A command that timed out is not tried again, whatever `timeout_retry` says: it
did run, and its processes are gone.
"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any, Literal, Self, overload

import yaml
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxConnection,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    sandboxenv,
)
from inspect_ai.util._sandbox.environment import SandboxUnavailableError
from pydantic import BaseModel

from sandbox_gateway import (
    AsyncGateway,
    AsyncSandbox,
    ConnectionFailed,
    GatewayError,
    InternalError,
    NotFound,
    NotReady,
    Overloaded,
    Unavailable,
)

__all__ = ["SandboxGatewayConfig", "SandboxGatewayEnvironment"]

_CONFIG_FILE = "sandbox-gateway.yaml"
_LABEL = "inspect-task"  # marks what belongs to Inspect
_LABEL_BYTES_MAX = 256
_NOT_EXECUTABLE = 126
_REFUSED = ("user_unknown", "cwd_invalid")
_UNAVAILABLE = (NotFound, NotReady, Overloaded, Unavailable, ConnectionFailed, InternalError)


class SandboxGatewayConfig(BaseModel):
    """What a sandbox is made of; the names are those of `Gateway.create`."""

    image: str
    cpus: float = 1
    memory_mb: int = 2048
    storage_mb: int | None = None
    env: dict[str, str] | None = None
    user: str | None = None
    workdir: str | None = None
    network: str | dict[str, Any] | None = None
    max_lifetime_sec: int | None = None
    team: str | None = None

    def __hash__(self) -> int:  # Inspect tells configurations apart by it
        return hash(self.model_dump_json())

    @classmethod
    def of(cls, config: SandboxEnvironmentConfigType | None) -> Self:
        if isinstance(config, cls):
            return config
        if isinstance(config, str):
            return cls(**yaml.safe_load(Path(config).read_text()))
        raise ValueError(f"say which image: a SandboxGatewayConfig, or a file {_CONFIG_FILE}")


@sandboxenv(name="sandbox-gateway")
class SandboxGatewayEnvironment(SandboxEnvironment):
    """One sandbox. `files` and commands are relative to the image's working directory."""

    def __init__(self, gateway: AsyncGateway, sandbox: AsyncSandbox):
        super().__init__()
        self._gateway = gateway
        self._sandbox = sandbox

    @classmethod
    async def create(cls, config: SandboxEnvironmentConfigType | None, task_name: str) -> Self:
        options = SandboxGatewayConfig.of(config).model_dump(exclude_none=True)
        label = task_name.encode()[:_LABEL_BYTES_MAX].decode(errors="ignore")
        gateway = AsyncGateway()
        try:
            return cls(gateway, await gateway.create(labels={_LABEL: label}, **options))
        except BaseException:
            await gateway.close()
            raise

    async def delete(self) -> None:
        try:
            await self._sandbox.delete()
        finally:
            await self._gateway.close()

    @classmethod
    async def sample_init(cls, task_name: str, config: SandboxEnvironmentConfigType | None,
                          metadata: dict[str, str]) -> dict[str, SandboxEnvironment]:
        return {"default": await cls.create(config, task_name)}

    @classmethod
    async def sample_cleanup(cls, task_name: str, config: SandboxEnvironmentConfigType | None,
                             environments: dict[str, SandboxEnvironment],
                             interrupted: bool) -> None:
        for environment in environments.values():
            await environment.as_type(cls).delete()

    @classmethod
    async def cli_cleanup(cls, id: str | None) -> None:
        """Deletes that sandbox, or all that samples left behind."""
        async with AsyncGateway() as gateway:
            if id is not None:
                with contextlib.suppress(NotFound):
                    await (await gateway.get(id)).delete()
                return
            for sandbox in await gateway.list():
                if _LABEL in sandbox.labels:
                    await sandbox.delete()

    @classmethod
    def config_files(cls) -> list[str]:
        return [_CONFIG_FILE]

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        return SandboxGatewayConfig(**config)

    async def exec(self, cmd: list[str], input: str | bytes | None = None,
                   cwd: str | None = None, env: dict[str, str] | None = None,
                   user: str | None = None, timeout: int | None = None,  # noqa: ASYNC109
                   timeout_retry: bool = True, concurrency: bool = True) -> ExecResult[str]:
        try:
            result = await self._sandbox.exec(cmd, stdin=input, cwd=cwd, env=env, user=user,
                                              timeout_sec=timeout)
        except _UNAVAILABLE as error:
            raise SandboxUnavailableError(str(error)) from error
        except GatewayError as error:
            if error.code in _REFUSED:  # as a shell would say it
                return ExecResult(False, _NOT_EXECUTABLE, "", error.message)
            raise
        if result.timed_out:
            raise TimeoutError(f"not done after {timeout} seconds: {cmd[0]}")
        if result.exit_code == _NOT_EXECUTABLE and "permission denied" in result.stderr.lower():
            raise PermissionError(result.stderr.strip())
        limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        for output in (result.stdout_bytes, result.stderr_bytes):
            if len(output) > limit or result.truncated:
                raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR,
                                               output[-limit:].decode(errors="replace"))
        assert result.exit_code is not None
        return ExecResult(result.exit_code == 0, result.exit_code, result.stdout, result.stderr)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        data = contents.encode() if isinstance(contents, str) else contents
        try:
            await self._sandbox.fs.upload(data, file)
        except GatewayError as error:
            raise _file_error(error, file) from error

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...
    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...
    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        content = _Content(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE)
        try:
            await self._sandbox.fs.download(file, content)
        except GatewayError as error:
            raise _file_error(error, file) from error
        return content.getvalue().decode() if text else content.getvalue()

    async def connection(self, *, user: str | None = None) -> SandboxConnection:
        who = f" --user {user}" if user else ""
        return SandboxConnection(type="sandbox-gateway", container=self._sandbox.id,
                                 command=f"sandbox shell{who} {self._sandbox.id}")


class _Content(io.BytesIO):
    """A file's bytes, up to Inspect's limit. The limit is taken where the call is made: it may be
    another one in the thread that writes."""

    def __init__(self, limit: int):
        super().__init__()
        self._limit = limit
        self._limit_text = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR

    def write(self, piece: Any) -> int:
        if self.tell() + len(piece) > self._limit:
            raise OutputLimitExceededError(self._limit_text, None)
        return super().write(piece)


def _file_error(error: GatewayError, file: str) -> Exception:
    """The exception that Inspect's tools know; each names the file as it was given."""
    text = f"{file}: {error.message}"
    match error.code:
        case "file_not_found":
            return FileNotFoundError(text)
        case "permission_denied" | "read_only":
            return PermissionError(text)
        case "is_a_directory":
            return IsADirectoryError(f"{file}: is a directory")
        case "not_a_directory":
            return NotADirectoryError(text)
    return error
