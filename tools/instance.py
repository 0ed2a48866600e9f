"""One sandbox-node with its sandbox-gateway on loopback, all of it under one state folder.

Used by `./dev up|down|demo|bench` and by the tests, each with a folder, a name prefix, a subnet
and an id range of its own, so that several live side by side. Nothing here is known to the
programs: it starts, stops and cleans up what a killed run left behind. Needs root.

A process is remembered as pid + start time, so a reused pid is never killed.
"""

import dataclasses
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zlib
from pathlib import Path

import builder
import kernel_objects

GATEWAY_UID = 64100  # numeric, unprivileged, outside every id range given to sandboxes
SSH_UID = 64101
PROGRAMS = ("sandbox-node", "sandbox-gateway", "sandbox-image", "sandbox-dns", "sandbox-agent",
            "sandbox-ssh", "sandbox")
START_SECONDS = 60  # the first start formats the storage pool
STOP_SECONDS = 45  # longer than the gateway's own patience with what runs
POLL_SECONDS = 0.02
# For those that are set apart: subnets beside the usual one, and 900 sandboxes each.
PLACES_APART = 64
FIRST_NET_APART = 130
FIRST_ID_APART, IDS_APART = 100_000_000, 60_000_000


class InstanceError(Exception):
    """Something a person can act on; printed without a traceback."""


def log(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


@dataclasses.dataclass
class Settings:
    """What tells one instance from another."""

    name_prefix: str = "sg"
    subnet: str = "10.201.0.0/16"
    id_base: int = 2_000_000
    port: int = 8080
    metrics_port: int = 9464
    ssh_port: int = 0  # 0: no SSH front
    shells: int = 16
    storage_pool_mb: int = 0  # 0: the node's own rule
    store: str = ""  # a URL; empty: SQLite in the gateway's folder
    fault_point: str = ""  # where a fault-point build kills itself
    gateway_variables: dict[str, str] = dataclasses.field(default_factory=dict)
    # More options by name, as in a configuration file.
    gateway_options: dict[str, str] = dataclasses.field(default_factory=dict)
    node_options: dict[str, str] = dataclasses.field(default_factory=dict)
    ssh_options: dict[str, str] = dataclasses.field(default_factory=dict)


def set_apart(settings: Settings, state: Path) -> None:
    """Gives it names, addresses and ids that only this state folder leads to, so that several
    instances live on one machine. Two folders that lead to the same ones: the second node says
    so and ends."""
    number = zlib.crc32(os.fsencode(state)) % PLACES_APART
    settings.name_prefix = f"sg{number}"
    settings.subnet = f"10.{FIRST_NET_APART + number}.0.0/16"
    settings.id_base = FIRST_ID_APART + number * IDS_APART


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start_time(pid: int) -> str | None:
    """The kernel's start time of a process, None when it is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rsplit(")", 1)[1].split()
    return None if fields[0] in "ZX" else fields[19]


class Process:
    """A daemon remembered in a pid file."""

    def __init__(self, pid_file: Path):
        self.pid_file = pid_file
        self.child: subprocess.Popen | None = None

    def pid(self) -> int | None:
        """Its pid while it is alive and still the one that was started."""
        if self.child is not None:
            self.child.poll()  # reaps a child that died
        try:
            pid, started, boot = self.pid_file.read_text().split()
        except (FileNotFoundError, ValueError):
            return None
        return int(pid) if start_time(int(pid)) == started and boot == boot_id() else None

    def start(self, argv: list[str], log_file: Path, **popen) -> None:
        with log_file.open("ab") as out:
            self.child = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                cwd="/", **popen)
        started = start_time(self.child.pid) or "0"
        temporary = self.pid_file.with_suffix(".new")
        temporary.write_text(f"{self.child.pid} {started} {boot_id()}\n")
        temporary.rename(self.pid_file)

    def signal(self, number: int) -> None:
        pid = self.pid()
        if pid is not None:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def wait_gone(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.pid() is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def stop(self) -> None:
        self.signal(signal.SIGTERM)
        if not self.wait_gone(STOP_SECONDS):
            self.kill()
        self.pid_file.unlink(missing_ok=True)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        if not self.wait_gone(STOP_SECONDS):
            raise InstanceError(f"{self.pid_file} does not end after SIGKILL")


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class Instance:
    def __init__(self, state: Path, programs: Path, settings: Settings | None = None):
        self.state = state
        self.programs = programs  # the folder of a build
        self.settings = settings or Settings()
        self.node = Process(state / "node.pid")
        self.gateway = Process(state / "gateway.pid")
        self.ssh = Process(state / "ssh.pid")

    # --- facts ---------------------------------------------------------------------------
    @property
    def url(self) -> str:
        scheme = "https" if self.settings.gateway_options.get("tls-cert") else "http"
        return f"{scheme}://127.0.0.1:{self.settings.port}"

    @property
    def trust(self) -> ssl.SSLContext | None:
        """For what is asked here, on this machine, any certificate of its own will do."""
        if self.url.startswith("http:"):
            return None
        return ssl._create_unverified_context()

    @property
    def token(self) -> str:
        return (self.state / "gateway" / "admin.token").read_text().strip()

    @property
    def bin(self) -> Path:
        return self.state / "bin"

    @property
    def node_socket(self) -> Path:
        return self.state / "run" / "node.sock"

    def log_path(self, program: str) -> Path:
        return self.state / "log" / f"{program}.log"

    def log_tail(self, program: str, lines: int = 12) -> str:
        try:
            text = self.log_path(program).read_text(errors="replace")
        except FileNotFoundError:
            return "(no log)"
        return "\n".join(text.splitlines()[-lines:])

    # --- start ---------------------------------------------------------------------------
    def prepare(self) -> None:
        """Folders and a copy of the programs: a rebuild does not disturb what runs, and the
        gateway's uid can execute them wherever the clone lies."""
        if os.geteuid() != 0:
            raise InstanceError("sandbox-node needs root: run this as root (sudo)")
        for folder in (self.state, self.bin, self.state / "log"):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o755)
        for name in ("gateway", "gateway-ssh"):
            folder = self.state / name
            folder.mkdir(exist_ok=True)
            folder.chmod(0o700)
            os.chown(folder, GATEWAY_UID, GATEWAY_UID)
        for parent in self.state.parents:
            if parent.stat().st_mode & 0o001 == 0:
                raise InstanceError(
                    f"{parent} is closed to the gateway's user: choose another --state folder")
        for program in PROGRAMS:
            source, target = self.programs / program, self.bin / program
            if not source.exists():
                raise InstanceError(f"{source} is not built: ./dev build")
            if not same_file(source, target):
                temporary = target.with_suffix(".new")
                shutil.copyfile(source, temporary)
                temporary.chmod(0o755)
                shutil.copystat(source, temporary)
                temporary.rename(target)

    def start(self) -> None:
        """Starts what does not run. The settings of a running instance are kept."""
        settings_file = self.state / "settings.json"
        if self.node.pid() is None and self.gateway.pid() is None:
            self.prepare()
            settings_file.write_text(json.dumps(dataclasses.asdict(self.settings)))
        self.start_node()
        self.start_gateway()
        self.start_ssh()

    def load_settings(self) -> None:
        """Takes the settings that a running instance was started with."""
        try:
            known = json.loads((self.state / "settings.json").read_text())
        except FileNotFoundError:
            return
        self.settings = Settings(**known)

    def start_node(self) -> None:
        if self.node.pid() is None:
            self.spawn_node()
        self.wait_for("sandbox-node", self.node, self.node_answers)

    def spawn_node(self) -> None:
        s = self.settings
        argv = [str(self.bin / "sandbox-node"), "--config", "", "--state", str(self.state),
                "--gateway-group", str(GATEWAY_UID), "--shells", str(s.shells),
                "--agent", str(self.bin / "sandbox-agent"),
                "--image-helper", str(self.bin / "sandbox-image"),
                "--dns-helper", str(self.bin / "sandbox-dns"),
                "--name-prefix", s.name_prefix, "--subnet", s.subnet, "--id-base", str(s.id_base)]
        if s.storage_pool_mb:
            argv += ["--storage-pool-mb", str(s.storage_pool_mb)]
        if builder.kept_folder().exists():
            argv += ["--builder-root", str(builder.kept_folder())]
        argv += [f"--{name}={value}" for name, value in s.node_options.items()]
        self.node.start(argv, self.log_path("sandbox-node"), env=self.environment("node"))

    def start_gateway(self) -> None:
        if self.gateway.pid() is None:
            self.spawn_gateway()
        self.wait_for("sandbox-gateway", self.gateway, self.gateway_ready)

    def spawn_gateway(self) -> None:
        s = self.settings
        argv = [str(self.bin / "sandbox-gateway"), "--config", "", "--state", str(self.state),
                "--listen", f"127.0.0.1:{s.port}",
                "--metrics-listen", f"127.0.0.1:{s.metrics_port}",
                "--node-socket", str(self.node_socket)]
        groups = []
        if s.ssh_port:
            argv += ["--ssh-port", str(s.ssh_port), "--ssh-group", str(SSH_UID)]
            groups = [SSH_UID]
        if s.store:
            argv += ["--store", s.store]
        argv += [f"--{name}={value}" for name, value in s.gateway_options.items()]
        self.gateway.start(argv, self.log_path("sandbox-gateway"), user=GATEWAY_UID,
                           group=GATEWAY_UID, extra_groups=groups, umask=0o077,
                           env=self.environment("gateway"))

    def start_ssh(self) -> None:
        if not self.settings.ssh_port:
            return
        if self.ssh.pid() is None:
            argv = [str(self.bin / "sandbox-ssh"), "--config", "",
                    "--listen", f"127.0.0.1:{self.settings.ssh_port}",
                    "--gateway-socket", str(self.state / "gateway-ssh" / "gateway.sock")]
            argv += [f"--{name}={value}" for name, value in self.settings.ssh_options.items()]
            self.ssh.start(argv, self.log_path("sandbox-ssh"), user=SSH_UID, group=SSH_UID,
                           extra_groups=[], umask=0o077, env=self.environment("ssh"))
        self.wait_for("sandbox-ssh", self.ssh, self.ssh_ready)

    def ssh_ready(self) -> bool:
        """The gateway knows: a connection to it would be a login."""
        url = f"http://127.0.0.1:{self.settings.metrics_port}/metrics"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return b"sandbox_gateway_ssh_fronts 1" in answer.read()
        except (OSError, urllib.error.URLError):
            return False

    def environment(self, role: str) -> dict[str, str]:
        """A small fixed environment; a fault point ("node.create.place") goes to its process
        only."""
        out = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
            if name in os.environ:
                out[name] = os.environ[name]
        if self.settings.fault_point.startswith(f"{role}."):
            out["SANDBOX_FAULT"] = self.settings.fault_point
        if role == "gateway":
            out |= self.settings.gateway_variables
        return out

    def wait_for(self, program: str, process: Process, ready) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not ready():
            if process.pid() is None:
                raise InstanceError(f"{program} ended while starting:\n{self.log_tail(program)}")
            if time.monotonic() > deadline:
                raise InstanceError(
                    f"{program} is not ready after {START_SECONDS} s:\n{self.log_tail(program)}")
            time.sleep(POLL_SECONDS)

    def node_answers(self) -> bool:
        try:
            self.ask_node({"op": "hello"})
            return True
        except (OSError, InstanceError):
            return False

    def gateway_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5,
                                        context=self.trust) as answer:
                return answer.status == 200 and (self.state / "gateway" / "admin.token").exists()
        except (OSError, urllib.error.URLError):
            return False

    # --- talk ----------------------------------------------------------------------------
    def ask_node(self, request: dict, seconds: float = 60) -> dict:
        """One request of api/node-protocol.md on a connection of its own."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(seconds)
            connect_unix(connection, self.node_socket)
            connection.sendall(json.dumps({"seq": 1, **request}).encode() + b"\n")
            line = connection.makefile("rb").readline()
        if not line:
            raise InstanceError("sandbox-node closed the connection")
        answer = json.loads(line)
        if "error" in answer:
            raise InstanceError(f"sandbox-node: {answer['error']['message']}")
        return answer["ok"]

    def request(self, method: str, path: str, body=None, seconds: float = 120) -> tuple[int, dict]:
        """One API call: status and JSON. `body` is a dict (JSON) or an open binary file."""
        headers = {"Authorization": f"Bearer {self.token}"}
        data = body
        if isinstance(body, dict):
            data = json.dumps(body).encode()
        elif body is not None:
            headers["Content-Length"] = str(os.fstat(body.fileno()).st_size)
            headers["Content-Type"] = "application/x-tar"
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=seconds, context=self.trust) as answer:
                return answer.status, decode(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, decode(error.read())

    # --- stop ----------------------------------------------------------------------------
    def stop(self) -> None:
        """Ends all and takes away what the node keeps in the kernel. Images and the gateway's
        records stay in the state folder."""
        if self.gateway.pid() is not None:
            self.delete_sandboxes()
        self.ssh.stop()
        self.gateway.stop()
        if self.node.pid() is not None:
            self.remove_leftovers()
        self.node.stop()
        self.release_kernel_objects()

    def delete_sandboxes(self) -> None:
        try:
            _, rows = self.request("GET", "/sandboxes?limit=1000")
            for row in rows.get("items", []):
                self.request("DELETE", f"/sandboxes/{row['id']}?wait=20")
        except (OSError, urllib.error.URLError) as error:
            log(f"the gateway does not delete its sandboxes: {error}")

    def remove_leftovers(self) -> None:
        try:
            for row in self.ask_node({"op": "list"})["sandboxes"]:
                self.ask_node({"op": "remove", "id": row["id"]})
        except (OSError, InstanceError) as error:
            log(f"the node does not remove its sandboxes: {error}")

    def release_kernel_objects(self) -> None:
        """What outlives a node on purpose (it adopts it at the next start), or by a kill -9."""
        kernel_objects.kill_processes_of_cgroups(self.settings.name_prefix)
        kernel_objects.remove_network(self.settings.name_prefix, self.settings.subnet)
        kernel_objects.unmount_beneath(self.state)
        kernel_objects.remove_cgroups(self.settings.name_prefix)

    def purge(self) -> None:
        """Ends everything and deletes the state folder: for tests, and for what a killed run of
        theirs left behind."""
        self.kill()
        remove(self.state)

    def kill(self) -> None:
        """Ends everything at once, and takes away what it has in the kernel."""
        self.load_settings()
        self.ssh.kill()
        self.gateway.kill()
        self.node.kill()
        self.release_kernel_objects()


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        raise InstanceError(f"{folder} cannot be deleted")


def connect_unix(connection: socket.socket, path: Path) -> None:
    """By way of its open folder: a socket's address has room for 107 bytes only."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        connection.connect(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def decode(body: bytes) -> dict:
    return json.loads(body) if body.strip() else {}


def same_file(source: Path, target: Path) -> bool:
    if not target.exists():
        return False
    a, b = source.stat(), target.stat()
    return a.st_size == b.st_size and int(a.st_mtime) == int(b.st_mtime)
