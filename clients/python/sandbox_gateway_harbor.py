"""Sandbox Gateway as an environment of Harbor 0.26 (the package `harbor`, Python 3.12+).

    PYTHONPATH=FOLDER harbor run -p TASKS -a oracle \\
        -e sandbox_gateway_harbor:SandboxGatewayEnvironment --ek team=evals

Lies beside sandbox_gateway.py in FOLDER; both are fetched from a gateway (/clients/). Address and
token come from SANDBOX_GATEWAY_URL and SANDBOX_GATEWAY_TOKEN. Every trial gets a sandbox of its
own, whose lease is renewed while Harbor lives: a Harbor that was killed leaves nothing behind.

What a task asks for and a gateway cannot give is refused in `start()`: an exception from the
constructor would end the whole job. What Harbor does after an exception depends on the name of its
type, so the ones raised here have names that it knows (harbor/models/trial/error_policy.py).

Longer than 600 lines because it is one file on purpose, fetched from a gateway like the client.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import re
import shlex
import shutil
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal, override

from harbor.constants import MAIN_SERVICE_NAME
from harbor.environments.base import (
    BaseEnvironment,
    ExecResult,
    OutputCallback,
    SandboxBuildFailedError,
    ServiceOperationsUnsupportedError,
)
from harbor.environments.capabilities import (
    EnvironmentCapabilities,
    EnvironmentResourceCapabilities,
)
from harbor.environments.definition import (
    COMPOSE_FILE_NAME,
    DOCKERFILE_NAME,
    require_agent_environment_definition,
    should_use_prebuilt_docker_image,
)
from harbor.environments.options import EnvironmentOptions
from harbor.models.task.config import NetworkMode, NetworkPolicy
from pydantic import Field, field_validator

from sandbox_gateway import (
    AsyncGateway,
    AsyncSandbox,
    Build,
    BuildFailed,
    Forbidden,
    Gateway,
    GatewayError,
    InvalidRequest,
    NotFound,
    SandboxFailed,
    Unauthenticated,
)

__all__ = ["SandboxGatewayEnvironment", "SandboxGatewayOptions"]

_ROOT = "0"  # by number: an image need not have a file of users
_TIMED_OUT = 124
_NOT_STARTED = 126
_REFUSED_COMMANDS = ("user_unknown", "cwd_invalid")
# A command that may last longer runs as a session: it outlives a gateway that restarts.
_SHORT_COMMAND_SEC = 60
_OUTPUT_BYTES_MAX = 16 << 20  # of one stream; of more, the first quarter and the last three
_LABEL_BYTES_MAX = 256
_LOG_TAIL_CHARACTERS = 4000  # the cause is at the end
_COMPOSE_ROUNDS = 10
_KEEP_ALIVE = ["sh", "-c", "sleep infinity"]  # what Harbor gives an ENTRYPOINT to start
_RENEWALS_PER_LEASE = 4
_CLEANUP_SEC = 30
_PREFLIGHT_TIMEOUT_SEC = 15
# What ended a sandbox, and the name by which Harbor knows it.
_ENDS = ("failed", "deleting", "deleted")


class AuthenticationError(RuntimeError):
    """The gateway does not know the token. Harbor neither tries again nor grades."""


class PermissionDeniedError(RuntimeError):
    """The token's team may not have this image or sandbox. Neither tried again nor graded."""


class EnvironmentStartTimeoutError(RuntimeError):
    """Too long in the queue or in starting. Tried again (`-r`), not graded."""


class MemoryLimitExceededError(RuntimeError):
    """The sandbox ended for want of memory. Tried again, not graded."""


class RuntimeRequestError(RuntimeError):
    """The sandbox is gone while the trial runs. Tried again, not graded."""


class SandboxGatewayOptions(EnvironmentOptions):
    """What `--ek name=value` takes."""

    url: str | None = Field(None, description="The gateway; else SANDBOX_GATEWAY_URL.")
    ca_file: str | None = Field(None, description="Authorities (PEM) of an https:// gateway.")
    team: str | None = Field(None, description="For tokens in several teams.")
    isolation: Literal["container", "gvisor", "vm"] | None = Field(
        None, description="How sandboxes are kept apart; else the team's.")
    pull: Literal["missing", "always"] | None = Field(
        None, description="Whether to ask the registry again for an image that is here.")
    default_cpus: float = Field(1, gt=0, description="For tasks that do not say `cpus`.")
    default_memory_mb: int = Field(
        2048, ge=16, description="For tasks that do not say `memory_mb`.")
    default_storage_mb: int | None = Field(
        None, ge=16, description="For tasks that do not say `storage_mb`; else the team's.")
    sidecar_cpus: float = Field(
        0.5, gt=0, description="For services of a compose file that give themselves no limit.")
    sidecar_memory_mb: int = Field(512, ge=16, description="Likewise.")
    lease_sec: int = Field(
        600, ge=5, description="How long a sandbox outlives a Harbor that was killed.")
    max_lifetime_sec: int | None = Field(
        None, ge=1, description="The end of a sandbox whatever happens; else the team's.")
    entrypoint: bool = Field(True, description="Start the image's ENTRYPOINT, as Docker does.")

    @field_validator("auto_mounting", mode="after")
    @classmethod
    def refuse_mounts(cls, value: bool) -> bool:
        if value:
            raise ValueError("sandboxes run elsewhere: logs are downloaded, never mounted")
        return value


class _Clients:
    """One client for all environments of an event loop, as long as one of them is there: they
    share its connections, and what it trusts is loaded once."""

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], AsyncGateway] = {}
        self._users: dict[AsyncGateway, int] = {}

    def take(self, options: SandboxGatewayOptions) -> AsyncGateway:
        key = (asyncio.get_running_loop(), options.url, options.ca_file)
        gateway = self._made.get(key)
        if gateway is None:
            gateway = self._made[key] = AsyncGateway(options.url, ca_file=options.ca_file)
        self._users[gateway] = self._users.get(gateway, 0) + 1
        return gateway

    async def give_back(self, gateway: AsyncGateway) -> None:
        self._users[gateway] -= 1
        if self._users[gateway] == 0:
            del self._users[gateway]
            self._made = {key: made for key, made in self._made.items() if made is not gateway}
            await gateway.close()


_clients = _Clients()


class SandboxGatewayEnvironment(BaseEnvironment):
    """One sandbox a trial (and one for a separate verifier). Of a compose file it has one container
    for each service."""

    options_model = SandboxGatewayOptions
    options: SandboxGatewayOptions

    def __init__(self, *arguments: Any, **named: Any):
        self._refusal: str | None = None
        self._gateway: AsyncGateway | None = None
        self._sandbox: AsyncSandbox | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._shell = "bash"
        super().__init__(*arguments, **named)

    # ----------------------------------------------------------------------- what Harbor asks first

    @staticmethod
    @override
    def type() -> str:
        return "sandbox-gateway"

    @property
    @override
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(
            disable_internet=True, network_allowlist=True, network_allowlist_hostnames=True,
            network_allowlist_wildcard_hostnames=True, network_allowlist_ipv4_addresses=True,
            network_allowlist_ipv4_cidrs=True, dynamic_network_policy=True, docker_compose=True)

    @classmethod
    @override
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        return EnvironmentResourceCapabilities(cpu_limit=True, memory_limit=True,
                                               fractional_cpus=True)

    @classmethod
    @override
    def preflight(cls, kwargs: dict[str, Any] | None = None) -> None:
        super().preflight(kwargs)
        options = SandboxGatewayOptions.model_validate(kwargs or {})
        try:
            with Gateway(options.url, timeout=_PREFLIGHT_TIMEOUT_SEC,
                         ca_file=options.ca_file) as gateway:
                gateway.me()
        except Unauthenticated as error:
            raise SystemExit(f"{error.message}: set SANDBOX_GATEWAY_TOKEN to a token of the "
                             "Sandbox Gateway") from None
        except GatewayError as error:
            raise SystemExit(f"Sandbox Gateway: {error.message}") from None

    @property
    @override
    def _uses_compose(self) -> bool:
        return bool(self.extra_docker_compose_paths
                    or (self.environment_dir / COMPOSE_FILE_NAME).exists())

    # Base would raise these from the constructor: `_refuse` does in start().

    @override
    def _maybe_resolve_task_env(self) -> None:
        try:
            super()._maybe_resolve_task_env()
        except ValueError as error:
            self._refusal = str(error)

    @override
    def _validate_definition(self) -> None:
        pass

    @override
    def _validate_resource_mode_support(self) -> None:
        pass

    @override
    def _validate_gpu_support(self) -> None:
        pass

    @override
    def _validate_tpu_support(self) -> None:
        pass

    @override
    def _validate_network_policy_support(self) -> None:
        pass

    @override
    def _validate_windows_support(self) -> None:
        pass

    def _refuse(self) -> None:
        """Raises for a task that asks for what no gateway has."""
        base = super()
        if self._refusal is not None:
            raise _refused(self._refusal)
        try:
            require_agent_environment_definition(
                self.environment_dir, docker_image=self.task_env_config.docker_image,
                extra_docker_compose_paths=self.extra_docker_compose_paths)
            base._validate_resource_mode_support()
            base._validate_gpu_support()
            base._validate_tpu_support()
            base._validate_network_policy_support()
            base._validate_windows_support()
        except (FileNotFoundError, ValueError, RuntimeError) as error:
            raise _refused(str(error)) from error
        if self._host_mounts:
            raise _refused("sandboxes run elsewhere: this machine's folders cannot be mounted")

    # ----------------------------------------------------------------------------- begin and end

    @override
    async def start(self, force_build: bool) -> None:
        self._refuse()
        self._gateway = _clients.take(self.options)
        try:
            if self._uses_compose:
                self._sandbox = await self._create_of_services(force_build)
            else:
                self._sandbox = await self._create(
                    image=await self._image(force_build), cpus=self._cpus(),
                    memory_mb=self._memory_mb())
            self._renewal = asyncio.create_task(self._renew_lease(self._sandbox))
            await self._prepare()
        except BaseException as error:
            # Also when cancelled: the sandbox is not left behind.
            await asyncio.shield(self._end(delete=True))
            if isinstance(error, GatewayError):
                raise _start_error(error) from error
            raise

    def _prebuilt_image(self, force_build: bool) -> str | None:
        image = self.task_env_config.docker_image
        return image if should_use_prebuilt_docker_image(
            self.environment_dir, docker_image=image, force_build=force_build) else None

    async def _image(self, force_build: bool) -> str:
        """What the sandbox is made of; a Dockerfile is built by the gateway, which does so once
        for the same content."""
        prebuilt = self._prebuilt_image(force_build)
        return prebuilt or (await self._build(self.environment_dir)).image

    async def _build(self, context: Path, **how: Any) -> Build:
        assert self._gateway is not None
        if not context.is_dir():
            raise _refused(f"{COMPOSE_FILE_NAME}: there is no folder {context}")
        builds = self._gateway.builds
        build = await builds.start(context, team=self.options.team, **how)
        if build.state == "succeeded":
            return build
        try:
            return await builds.wait(build.id)
        except BuildFailed as error:
            log = ""
            with contextlib.suppress(GatewayError):
                log = (await builds.logs(build.id))[-_LOG_TAIL_CHARACTERS:]
            raise SandboxBuildFailedError(f"{error.message}\n{log}") from error

    async def _create(self, **what: Any) -> AsyncSandbox:
        assert self._gateway is not None
        options = self.options
        # The client's own Idempotency-Key: an answer that is lost makes no second sandbox, and
        # one that is not waited for any more is deleted.
        return await self._gateway.create(
            storage_mb=self._effective_storage_mb or options.default_storage_mb,
            labels=self._labels(), env=self._startup_env(), network=_network(self._network_policy),
            team=options.team, isolation=options.isolation, pull=options.pull,
            lease_sec=options.lease_sec, max_lifetime_sec=options.max_lifetime_sec, **what)

    def _cpus(self) -> float:
        """In the gateway's steps, never less than asked for."""
        return math.ceil((self._effective_cpus or self.options.default_cpus) * 1000) / 1000

    def _memory_mb(self) -> int:
        return self._effective_memory_mb or self.options.default_memory_mb

    async def _create_of_services(self, force_build: bool) -> AsyncSandbox:
        """One sandbox with a container for each service. The gateway reads the files and says what
        it needs beside them; its cpus and memory are those of all services together."""
        assert self._gateway is not None
        files = self._compose_files(force_build)
        variables = self._variables(files, force_build)
        texts: dict[str, str] = {}
        for _ in range(_COMPOSE_ROUNDS):  # files that services extend may need others
            needs = await self._gateway.check_compose(files, env=variables, env_files=texts,
                                                      main=MAIN_SERVICE_NAME)
            paths = {need["path"]: self._of_task(need["path"]) for need in needs["env_files"]}
            more = {name: path.read_text() for name, path in paths.items()
                    if name not in texts and path.exists()}
            if not more:
                break
            texts |= more
        builds = {}
        for need in needs["builds"]:
            for key in ("dockerfile_inline", "secrets"):
                if need.get(key):
                    raise _refused(f"{COMPOSE_FILE_NAME}: services.{need['service']}.build.{key} "
                                   "is not supported here")
            build = await self._build(
                self._of_task(need["context"]), dockerfile=need["dockerfile"] or None,
                target=need["target"] or None, args=need["args"])
            builds[need["service"]] = build.id
            if need["service"] == MAIN_SERVICE_NAME:
                variables["MAIN_IMAGE_NAME"] = build.image
        return await self._create(compose={
            "files": [self._limits(needs["services"]), *files], "env": variables,
            "env_files": texts, "builds": builds, "main": MAIN_SERVICE_NAME})

    def _of_task(self, path: str) -> Path:
        """What a compose file names, which is nobody's to read elsewhere on this machine."""
        found = (self.environment_dir / path).resolve()
        if not found.is_relative_to(self.environment_dir.resolve().parent):
            raise _refused(f"{COMPOSE_FILE_NAME}: {path!r} is not in the task's folder")
        return found

    def _compose_files(self, force_build: bool) -> list[str]:
        """Later ones win, in Harbor's order: what main is made of, the task's, those of the
        command line."""
        main: dict[str, Any] = {"command": _KEEP_ALIVE}
        if self._prebuilt_image(force_build):
            main["image"] = "${PREBUILT_IMAGE_NAME}"
        elif (self.environment_dir / DOCKERFILE_NAME).exists():
            main["build"] = {"context": "."}
        paths = (self.environment_dir / COMPOSE_FILE_NAME, *self.extra_docker_compose_paths)
        return [json.dumps({"services": {MAIN_SERVICE_NAME: main}}),
                *(path.read_text() for path in paths if path.exists())]

    def _variables(self, files: list[str], force_build: bool) -> dict[str, str]:
        """Those that the files name, and no more of this machine's."""
        known = {**os.environ, **self._startup_env(), "MAIN_IMAGE_NAME": MAIN_SERVICE_NAME,
                 "CONTEXT_DIR": str(self.environment_dir), "CPUS": str(self._cpus()),
                 "MEMORY": f"{self._memory_mb()}M"}
        if prebuilt := self._prebuilt_image(force_build):
            known["PREBUILT_IMAGE_NAME"] = prebuilt
        named = set(re.findall(r"\$\{?(\w+)", "\n".join(files)))
        return {name: known[name] for name in sorted(named & known.keys())}

    def _limits(self, services: list[str]) -> str:
        """The file beneath all others: what a service may use that says nothing itself."""
        options = self.options
        limits = {name: {"cpus": options.sidecar_cpus,
                         "mem_limit": f"{options.sidecar_memory_mb}m"} for name in services}
        limits[MAIN_SERVICE_NAME] = {"cpus": self._cpus(), "mem_limit": f"{self._memory_mb()}m"}
        return json.dumps({"services": limits})

    def _labels(self) -> dict[str, str]:
        labels = {"harbor.managed": "true", "harbor.environment_name": self.environment_name,
                  "harbor.session_id": self.session_id}
        if self.context_id is not None:
            labels["harbor.trial_id"] = str(self.context_id)
        return {name: value.encode()[:_LABEL_BYTES_MAX].decode(errors="ignore")
                for name, value in labels.items()}

    async def _renew_lease(self, sandbox: AsyncSandbox) -> None:
        """However long an agent thinks between two commands."""
        lease = self.options.lease_sec
        while True:
            await asyncio.sleep(lease / _RENEWALS_PER_LEASE)
            try:
                await sandbox.update(lease_sec=lease)
            except NotFound:
                return
            except GatewayError as error:
                self.logger.debug(f"renewing the lease of {sandbox.id}: {error}")

    async def _prepare(self) -> None:
        """Harbor's folders, the working directory, the ENTRYPOINT, loose files of the task."""
        commands = ["if command -v bash >/dev/null; then echo bash; else echo sh; fi"]
        if workdir := self.task_env_config.workdir:
            commands.append(f"mkdir -p {shlex.quote(workdir)}")
        if targets := self._mount_targets(writable_only=True):
            commands.append(self._ensure_dirs_command(targets))
        done = await self._execute(["sh", "-c", " && ".join(commands)], cwd="/", user=_ROOT,
                                   timeout_sec=_SHORT_COMMAND_SEC)
        if done.return_code != 0:
            raise RuntimeError(f"the image lacks what Harbor needs: {done.stderr or done.stdout}")
        self._shell = (done.stdout or "").split("\n", 1)[0]
        if self.options.entrypoint and not self._uses_compose:
            await self._start_entrypoint()
        await self._upload_environment_dir_after_start()

    async def _start_entrypoint(self) -> None:
        """With the arguments that Harbor's containers get. When it ends, the sandbox stays."""
        assert self._gateway is not None and self._sandbox is not None
        image = await self._gateway.images.get(self._sandbox.image)
        if entrypoint := image.config.get("entrypoint"):
            await self._sandbox.sessions.start([*entrypoint, *_KEEP_ALIVE], name="entrypoint",
                                               stdin=False)

    @override
    async def stop(self, delete: bool) -> None:
        await self._end(delete)

    async def _end(self, delete: bool) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None
        sandbox, self._sandbox = self._sandbox, None
        gateway, self._gateway = self._gateway, None
        if gateway is None:
            return
        try:
            if sandbox is not None and delete:
                await asyncio.wait_for(sandbox.delete(), _CLEANUP_SEC)
            elif sandbox is not None:
                self.logger.info(f"sandbox {sandbox.id} is kept: `sandbox shell {sandbox.id}`; it "
                                 f"ends {self.options.lease_sec} s after its last use")
        except (GatewayError, TimeoutError) as error:
            # The trial is over and its result stands; nothing stays for ever.
            self.logger.warning(f"sandbox {sandbox and sandbox.id} was not deleted and ends with "
                                f"its lease: {error or type(error).__name__}")
        finally:
            await _clients.give_back(gateway)

    # --------------------------------------------------------------------------------- commands

    @override
    async def service_exec(self, command: str, *, service: str | None = None,
                           cwd: str | None = None, env: dict[str, str] | None = None,
                           timeout_sec: int | None = None,
                           user: str | int | None = None) -> ExecResult:
        container = self._container(service)
        if container is None:
            return await self.exec(command, cwd, env, timeout_sec, user)
        # A sidecar has nothing of main's: folder, user, environment; and hardly bash.
        return await self._execute(["sh", "-c", command], cwd=cwd, env=env, user=user,
                                   timeout_sec=timeout_sec, container=container)

    def _container(self, service: str | None) -> str | None:
        """Of a sidecar; None for main, where everything goes that names none."""
        if self.is_main_service(service):
            return None
        if not self._uses_compose:
            raise ServiceOperationsUnsupportedError(
                f"the task has no {COMPOSE_FILE_NAME}, so there is no service {service!r}")
        return service

    @override
    async def stop_service(self, service: str) -> None:
        async with self._inside() as sandbox:
            await sandbox.stop_container(service)

    @override
    async def exec(self, command: str, cwd: str | None = None, env: dict[str, str] | None = None,
                   timeout_sec: int | None = None,
                   user: str | int | None = None) -> ExecResult:
        return await self._execute([self._shell, "-c", command],
                                   cwd=cwd or self.task_env_config.workdir,
                                   env=self._merge_env(env), timeout_sec=timeout_sec,
                                   user=self._resolve_user(user))

    async def _execute(self, argv: list[str], *, cwd: str | None = None,
                       env: dict[str, str] | None = None, timeout_sec: int | None = None,
                       user: str | int | None = None,
                       container: str | None = None) -> ExecResult:
        limit = timeout_sec if timeout_sec and timeout_sec > 0 else None
        callback = self._output_callback()
        how = {"cwd": cwd, "env": env, "timeout_sec": limit, "user": _user(user),
               "container": container}
        try:
            async with self._inside() as sandbox:
                if callback is None and limit is not None and limit <= _SHORT_COMMAND_SEC:
                    result = await sandbox.exec(argv, **how)
                    return _exec_result(result.stdout, result.stderr, vars(result), limit)
                return await self._follow(sandbox, argv, how, callback)
        except InvalidRequest as error:
            if error.code in _REFUSED_COMMANDS:  # as a shell would say it
                return ExecResult(stdout="", stderr=error.message, return_code=_NOT_STARTED)
            raise

    async def _follow(self, sandbox: AsyncSandbox, argv: list[str], how: dict[str, Any],
                      callback: OutputCallback | None) -> ExecResult:
        """As a session. It is not deleted when it has ended: what it left running goes on."""
        session = await sandbox.sessions.start(argv, stdin=False, followed=True,
                                               log_limit_bytes=2 * _OUTPUT_BYTES_MAX, **how)
        outputs = {"stdout": _Output("stdout", callback), "stderr": _Output("stderr", callback)}
        end: dict[str, Any] = {}
        try:
            async for record in session.records(follow=True):
                if "data" in record:
                    await outputs[record["stream"]].take(record["data"])
                end = record.get("exit", end)
        except BaseException as error:
            # Interrupted: so is the command, with all its processes.
            if not isinstance(error, GatewayError):
                with contextlib.suppress(GatewayError, TimeoutError):
                    await asyncio.shield(asyncio.wait_for(session.delete(), _CLEANUP_SEC))
            raise
        return _exec_result(outputs["stdout"].text(), outputs["stderr"].text(), end,
                            how["timeout_sec"])

    @contextlib.asynccontextmanager
    async def _inside(self) -> AsyncIterator[AsyncSandbox]:
        """The sandbox; where it is gone, what is raised says why."""
        sandbox = self._sandbox
        if sandbox is None:
            raise RuntimeError("the sandbox is not running: start() has not succeeded")
        try:
            yield sandbox
        except GatewayError as error:
            if error.code in ("not_ready", "not_found") or (error.status or 0) >= 500:
                raise await _lost(sandbox, error) from error
            raise

    @override
    async def attach(self) -> None:
        """A shell by the command line program; Harbor deletes the sandbox afterwards."""
        program = shutil.which("sandbox")
        if program is None:
            raise NotImplementedError("attaching needs the command line program `sandbox`")
        assert self._gateway is not None
        variables = {**os.environ, "SANDBOX_GATEWAY_URL": self._gateway.url}
        if self.options.ca_file:
            variables["SANDBOX_GATEWAY_CA_FILE"] = self.options.ca_file
        async with self._inside() as sandbox:
            shell = await asyncio.create_subprocess_exec(program, "shell", sandbox.id,
                                                         env=variables)
            await shell.wait()

    # ------------------------------------------------------------------------------------- files

    @override
    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        source = Path(source_path)
        mode = stat.S_IMODE(source.stat().st_mode) & 0o777
        target = target_path
        if target.endswith("/"):
            target += source.name
        async with self._inside() as sandbox:
            try:
                await sandbox.fs.upload(source, target, mode=mode, user=_ROOT)
            except GatewayError as error:
                if error.code != "is_a_directory":
                    raise
                await sandbox.fs.upload(source, f"{target}/{source.name}", mode=mode, user=_ROOT)

    @override
    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        async with self._inside() as sandbox:
            await sandbox.fs.upload_dir(source_dir, target_dir, user=_ROOT)

    @override
    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        await self._download_file(source_path, target_path, None)

    async def _download_file(self, source_path: str, target_path: Path | str,
                             container: str | None) -> None:
        async with self._inside() as sandbox:
            target = Path(target_path)
            target.parent.mkdir(parents=True, exist_ok=True)
            await sandbox.fs.download(source_path, target, user=_ROOT, container=container)

    @override
    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        await self._download_dir(source_dir, target_dir, None)

    async def _download_dir(self, source_dir: str, target_dir: Path | str,
                            container: str | None) -> None:
        async with self._inside() as sandbox:
            await sandbox.fs.download_dir(source_dir, target_dir, user=_ROOT, skip_unsafe=True,
                                          container=container)

    @override
    async def service_download_file(self, source_path: str, target_path: Path | str, *,
                                    service: str | None = None) -> None:
        await self._download_file(source_path, target_path, self._container(service))

    @override
    async def service_download_dir(self, source_dir: str, target_dir: Path | str, *,
                                   service: str | None = None) -> None:
        await self._download_dir(source_dir, target_dir, self._container(service))

    # ----------------------------------------------------------------------------------- network

    @override
    async def _apply_network_policy(self, network_policy: NetworkPolicy) -> None:
        async with self._inside() as sandbox:
            await sandbox.update(network=_network(network_policy))


class _Output:
    """One stream of a command, within a limit, and told as it comes."""

    def __init__(self, name: Literal["stdout", "stderr"], callback: OutputCallback | None):
        self._name = name
        self._callback = callback
        self._kept = bytearray()
        self._dropped = 0

    async def take(self, piece: bytes) -> None:
        self._kept += piece
        excess = len(self._kept) - _OUTPUT_BYTES_MAX
        if excess > _OUTPUT_BYTES_MAX:  # seldom, since it copies
            self._cut(excess)
        if self._callback is not None:
            await self._callback(piece.decode(errors="replace"), self._name)

    def _cut(self, excess: int) -> None:
        start = _OUTPUT_BYTES_MAX // 4
        del self._kept[start : start + excess]
        self._dropped += excess

    def text(self) -> str:
        self._cut(max(0, len(self._kept) - _OUTPUT_BYTES_MAX))
        return self._kept.decode(errors="replace")


def _exec_result(stdout: str, stderr: str, end: Any, limit: int | None) -> ExecResult:
    if end["timed_out"]:
        stderr += f"Command timed out after {limit} seconds\n"
        return ExecResult(stdout=stdout, stderr=stderr, return_code=_TIMED_OUT)
    if end["oom_killed"]:
        stderr += "Killed: the sandbox's memory was not enough\n"
    # A status that did not come is never taken for success.
    if end["exit_code"] is None:
        raise RuntimeRequestError("the command ended without an exit code")
    return ExecResult(stdout=stdout, stderr=stderr, return_code=end["exit_code"])


def _user(user: str | int | None) -> str | None:
    if user is None:
        return None
    return _ROOT if user == "root" else str(user)


def _network(policy: NetworkPolicy) -> dict[str, Any]:
    match policy.network_mode:
        case NetworkMode.PUBLIC:
            return {"mode": "open"}
        case NetworkMode.ALLOWLIST if policy.allowed_hosts:
            return {"mode": "allow", "allow": list(policy.allowed_hosts)}
    return {"mode": "none"}


def _refused(message: str) -> Exception:
    """Neither tried again nor graded."""
    return ServiceOperationsUnsupportedError(f"sandbox-gateway cannot run this task: {message}")


def _start_error(error: GatewayError) -> Exception:
    text = f"starting the sandbox: {error}"
    match error:
        case Unauthenticated():
            return AuthenticationError(text)
        case Forbidden():
            return PermissionDeniedError(text)
        case InvalidRequest():
            return _refused(str(error))
        case SandboxFailed(code="out_of_memory"):
            return MemoryLimitExceededError(text)
        case SandboxFailed(code="queue_timeout" | "start_timeout"):
            return EnvironmentStartTimeoutError(text)
        case SandboxFailed(code=code) if code.startswith("image_"):
            return SandboxBuildFailedError(text)
    return RuntimeRequestError(text)


async def _lost(sandbox: AsyncSandbox, error: GatewayError) -> Exception:
    """Why a sandbox is not there any more; the error itself where it is."""
    end = None
    with contextlib.suppress(GatewayError):
        async for event in sandbox.events():
            if event.type in _ENDS and (event.reason or end is None):
                end = event
    if end is None:
        return error
    text = (f"sandbox {sandbox.id} on {sandbox.data.get('node') or 'its node'} is gone since "
            f"{end.at}: {end.reason or end.type}" + (f": {end.message}" if end.message else ""))
    if end.reason == "out_of_memory":
        return MemoryLimitExceededError(text)
    return RuntimeRequestError(text)
