#!/usr/bin/env python3
"""A PostgreSQL server of one's own, for tests and benches: own folder, own port, unprivileged.

As a program it prints the server's URL and then obeys the lines of its standard input ("database
NAME", "stop", "start", "kill", "freeze", "thaw"), each answered by "ok". At the end of its input,
so also when whoever started it was killed, the server ends and its folder goes. What is left by a
run that was killed itself is removed by the next one.
"""

import argparse
import glob
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
import instance  # noqa: E402

PREFIX = "sandbox-postgresql-"
START_SECONDS = 60
POLL_SECONDS = 0.02


def binaries() -> Path | None:
    """The folder of Debian's newest server, None where none is installed."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"),
                   key=lambda path: int(path.split("/")[4]))
    return Path(found[-1]).parent if found else None


def server_user() -> dict:
    """subprocess options: the server refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        except KeyError:
            continue
    raise instance.InstanceError("there is no user to run PostgreSQL as")


def descendants(pid: int) -> list[int]:
    """A process and its children: the server's have no further ones."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [pid, *map(int, text.split())]


def remove_leftovers() -> None:
    """Servers and folders whose owner is gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        owner, _, started = folder.name.removeprefix(PREFIX).partition("-")
        if not owner.isdigit() or instance.start_time(int(owner)) == started.split("-")[0]:
            continue
        try:
            pid = int((folder / "data" / "postmaster.pid").read_text().split()[0])
            if Path(f"/proc/{pid}/cwd").resolve() == folder / "data":
                signal_all(descendants(pid), signal.SIGKILL)
        except (OSError, ValueError, IndexError):
            pass
        shutil.rmtree(folder, ignore_errors=True)


def signal_all(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


class Server:
    def __init__(self, durable: bool = False, settings: tuple[str, ...] = ()):
        """`durable`: commits reach the disk, as in production (tests kill processes, not the
        machine, and need not wait for it)."""
        self.programs = binaries()
        if self.programs is None:
            raise instance.InstanceError("PostgreSQL's server is not installed: ./dev setup")
        remove_leftovers()
        self.user = server_user()
        self.durable = durable
        self.settings = settings
        name = f"{PREFIX}{os.getpid()}-{instance.start_time(os.getpid())}-"
        self.folder = Path(tempfile.mkdtemp(prefix=name))
        if self.user:
            os.chown(self.folder, self.user["user"], self.user["group"])
        self.folder.chmod(0o755)  # the socket is for every user
        self.port = instance.free_port()
        self.process: subprocess.Popen | None = None
        try:
            self.run("initdb", "-D", self.folder / "data", "--username=postgres", "--auth=trust",
                     "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync")
            self.start()
        except BaseException:
            self.purge()
            raise

    def run(self, program: str, *argv) -> None:
        done = subprocess.run([str(self.programs / program), *map(str, argv)], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/",
                              **self.user)
        if done.returncode != 0:
            raise instance.InstanceError(f"{program}: {done.stdout.decode(errors='replace')}")

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str) -> str:
        """Its URL; of an existing one too."""
        self.query(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self.query(f"CREATE DATABASE {name}")
        return self.url(name)

    def query(self, sql: str, database: str = "postgres") -> str:
        """One statement; rows as lines."""
        done = subprocess.run([str(self.programs / "psql"), "-XAtq", "-v", "ON_ERROR_STOP=1",
                               "-c", sql, self.url(database)], capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            raise instance.InstanceError(f"psql: {done.stderr.strip()}")
        return done.stdout.strip()

    def start(self) -> None:
        settings = [f"port={self.port}", "listen_addresses=127.0.0.1",
                    f"unix_socket_directories={self.folder}", "max_connections=60",
                    "shared_buffers=64MB", *self.settings]
        if not self.durable:
            settings += ["fsync=off", "full_page_writes=off"]
        argv = [str(self.programs / "postgres"), "-D", str(self.folder / "data")]
        for setting in settings:
            argv += ["-c", setting]
        with (self.folder / "log").open("ab") as out:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                            start_new_session=True, cwd="/", **self.user)
        deadline = time.monotonic() + START_SECONDS
        ready = [str(self.programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(ready, check=False).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > deadline:
                log = (self.folder / "log").read_text(errors="replace")[-2000:]
                raise instance.InstanceError(f"PostgreSQL does not start:\n{log}")
            time.sleep(POLL_SECONDS)

    def signal(self, number: int) -> None:
        """To the server and all its processes."""
        signal_all(descendants(self.process.pid), number)

    def freeze(self) -> None:
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def stop(self) -> None:
        """As an operator's restart does: connections are ended, then a checkpoint."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait()

    def kill(self) -> None:
        """kill -9 of every process of it."""
        pids = descendants(self.process.pid)
        signal_all(pids, signal.SIGKILL)
        self.process.wait()
        while any(instance.start_time(pid) for pid in pids):
            time.sleep(POLL_SECONDS)

    def purge(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def serve(durable: bool) -> None:
    # What ends this program ends the server first.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    server = Server(durable)
    try:
        print(server.url(), flush=True)
        for line in sys.stdin:
            words = line.split()
            if words[0] == "database":
                server.create_database(words[1])
            else:
                {"stop": server.stop, "start": server.start, "kill": server.kill,
                 "freeze": server.freeze, "thaw": server.thaw}[words[0]]()
            print("ok", flush=True)
    finally:
        server.purge()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--durable", action="store_true", help="commits reach the disk")
    arguments = parser.parse_args()
    if binaries() is None:
        print("none", flush=True)
        return 0
    try:
        serve(arguments.durable)
    except (instance.InstanceError, KeyboardInterrupt, BrokenPipeError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
