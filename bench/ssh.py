#!/usr/bin/env python3
"""Measures of SSH, beside OpenSSH's own server on this machine in the same run.

Usage: ssh.py (with the Python of build/venv, which has asyncssh). Makes an instance of its own, and
a key, a server and files below a temporary folder; needs root, as the node does.
"""

import asyncio
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import asyncssh

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import demo_image  # noqa: E402
import instance  # noqa: E402
from table import BUILD, Table, output  # noqa: E402

ROUNDS = 40
TRANSFER_MIB = 256
CONNECTIONS, CROWD = 200, 1000
QUIET = ["-F", "none", "-q", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
HOST = "127.0.0.1"


class Server:
    """OpenSSH's, for whoever has its key."""

    def __init__(self, folder: Path):
        self.port = instance.free_port()
        for name in ("host", "user"):
            output("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name)
        (folder / "authorized").write_bytes((folder / "user.pub").read_bytes())
        Path("/run/sshd").mkdir(exist_ok=True)
        (folder / "config").write_text(
            f"Port {self.port}\nListenAddress {HOST}\nHostKey {folder}/host\nStrictModes no\n"
            f"AuthorizedKeysFile {folder}/authorized\nPermitRootLogin yes\nUsePAM no\n"
            "Subsystem sftp /usr/lib/openssh/sftp-server\nPidFile none\n")
        self.process = subprocess.Popen(["/usr/sbin/sshd", "-D", "-f", folder / "config"])
        self.options = ["-i", str(folder / "user"), "-o", "User=root"]


def timed(argv) -> float:
    began = time.perf_counter()
    subprocess.run([str(word) for word in argv], stdin=subprocess.DEVNULL, check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return (time.perf_counter() - began) * 1000


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def own_kib(pid: int) -> int:
    """Its share of memory, what it has in common with others divided among them."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(text.split("Pss:")[1].split()[0])


class Bench:
    def __init__(self, folder: Path):
        self.folder, self.table, self.server = folder, Table(), Server(folder)
        settings = instance.Settings(
            name_prefix="sgs", subnet="10.206.0.0/16", id_base=1_950_000_000, shells=4,
            port=instance.free_port(), metrics_port=instance.free_port(),
            ssh_port=instance.free_port(), storage_pool_mb=4096)
        self.one = instance.Instance(Path("/var/lib/sandbox-gateway-bench-ssh"), BUILD, settings)
        if self.one.state.exists():
            self.one.purge()
            self.one.settings = settings
        self.one.start()
        with demo_image.make_tar(ROOT / "build" / "demo-image").open("rb") as tar:
            self.one.request("POST", f"/images?name={demo_image.NAME}", tar, 300)
        _, made = self.one.request("POST", "/sandboxes?wait=60", {
            "image": demo_image.NAME, "cpus": 2, "memory_mb": 1024, "storage_mb": 2048})
        self.box = made["id"]

    def stop(self) -> None:
        self.server.process.kill()
        self.one.purge()

    def token(self) -> str:
        return self.one.request("POST", f"/sandboxes/{self.box}/ssh-session", {})[1]["token"]

    def ssh(self, *words: str) -> list[str]:
        return ["ssh", *QUIET, "-p", str(self.one.settings.ssh_port), "-l", self.token(), *words]

    def commands(self) -> None:
        master = ["-o", f"ControlPath={self.folder}/m"]
        subprocess.run(self.ssh(*master, "-o", "ControlMaster=auto", "-o", "ControlPersist=60",
                                HOST, "true"), check=True)
        held, check, run, new, theirs = [], [], [], [], []
        with_master, plain = self.ssh(*master, HOST, "true"), self.ssh(HOST, "true")
        reference = ["ssh", *QUIET, "-p", str(self.server.port), *self.server.options, HOST, "true"]
        for _ in range(ROUNDS):
            held.append(timed(with_master))
            check.append(timed(["ssh", *QUIET, *master, "-O", "check", HOST]))
            began = time.perf_counter()
            self.one.request("POST", f"/sandboxes/{self.box}/run", {"argv": ["true"]})
            run.append((time.perf_counter() - began) * 1000)
            new.append(timed(plain))
            theirs.append(timed(reference))
        subprocess.run(self.ssh(*master, "-O", "exit", HOST), check=True)
        middle = statistics.median
        more = middle(held) - middle(check) - middle(run)
        self.table.add("ssh true, held master", f"{middle(held):.1f} ms, run + {more:.1f} ms",
                       "run + 5 ms", more <= 5, f"client alone {middle(check):.1f} ms")
        self.table.add("ssh true, new connection", f"{middle(new):.0f} ms", "60 ms",
                       middle(new) <= 60, f"sshd {middle(theirs):.0f} ms")

    def transfers(self) -> None:
        here, back = self.folder / "data", self.folder / "back"
        here.write_bytes(os.urandom(1 << 20) * TRANSFER_MIB)
        for name, flags in (("scp (sftp)", []), ("scp -O", ["-O"])):
            rates: dict[str, list[float]] = {"ours up": [], "ours down": [], "sshd up": [],
                                             "sshd down": []}
            for _ in range(3):
                ours = ["-P", str(self.one.settings.ssh_port), "-o", f"User={self.token()}"]
                sshd = ["-P", str(self.server.port), *self.server.options]
                for who, options, there in (("ours", ours, "/root/data"),
                                            ("sshd", sshd, self.folder / "there")):
                    scp = ["scp", *flags, *QUIET, *options]
                    up = timed([*scp, here, f"{HOST}:{there}"])
                    rates[f"{who} up"].append(TRANSFER_MIB / up * 1000)
                    down = timed([*scp, f"{HOST}:{there}", back])
                    rates[f"{who} down"].append(TRANSFER_MIB / down * 1000)
            for way in ("up", "down"):
                mine, other = (statistics.median(rates[f"{who} {way}"]) for who in ("ours", "sshd"))
                self.table.add(f"{name} {way}", f"{mine:.0f} MiB/s", "70 % of sshd's",
                               mine >= 0.7 * other, f"sshd {other:.0f} MiB/s")

    async def connect(self):
        return await asyncssh.connect(HOST, self.one.settings.ssh_port, username=self.token(),
                                      known_hosts=None, config=None, client_keys=None)

    async def many(self) -> None:
        front = self.one.ssh.pid()
        open_ones, sums = [], []
        for number in range(CONNECTIONS):
            open_ones.append(await self.connect())
            if number + 1 in (CONNECTIONS // 2, CONNECTIONS):
                sums.append(sum(map(own_kib, children(front))) / (number + 1))
        await asyncio.gather(*[one.run("true") for one in open_ones])
        after = sum(map(own_kib, children(front))) / CONNECTIONS
        self.table.add(f"memory of one of {CONNECTIONS} connections", f"{after / 1024:.2f} MiB",
                       "flat", after < 1.5 * sums[0], f"of half as many {sums[0] / 1024:.2f} MiB")
        for one in open_ones:
            one.close()

    async def crowd(self) -> None:
        held = await self.connect()

        async def command() -> float:
            began = time.perf_counter()
            await held.run("true")
            return (time.perf_counter() - began) * 1000
        alone = statistics.median([await command() for _ in range(ROUNDS)])
        crowd = [socket.create_connection((HOST, self.one.settings.ssh_port))
                 for _ in range(CROWD)]
        for one in crowd[::2]:
            one.sendall(b"SSH-2.0-crowd\r\n")
        among = max([await command() for _ in range(ROUNDS)])
        self.table.add(f"a command among {CROWD} silent logins", f"{among:.0f} ms at most",
                       "100 ms more", among - alone <= 100, f"without them {alone:.1f} ms")
        for one in crowd:
            one.close()
        held.close()


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        try:
            bench.commands()
            bench.transfers()
            asyncio.run(bench.many())
            asyncio.run(bench.crowd())
        finally:
            bench.stop()
    return 0 if all(row[3] != "NO" for row in bench.table.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
