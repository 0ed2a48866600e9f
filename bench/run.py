#!/usr/bin/env python3
"""The measurements behind bench/RESULTS.md, side by side in one run with Docker and the floor.

Usage: ./dev bench [--quick] [--no-docker] [--write]     (root; alone on the machine)

Every figure is told beside its bound and as a multiple of F, the median of vfork + exec + wait of
/bin/true in the same run (bench/floor.c). --write rewrites bench/RESULTS.md. The daemon of
Debian's docker.io runs with a state folder and socket of its own and is stopped again.
"""

import argparse
import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import demo_image  # noqa: E402
import instance  # noqa: E402

BUILD = Path(os.environ.get("SANDBOX_BUILD", ROOT / "build" / "release")).resolve()
LOAD = BUILD / "bench" / "bench_load"
FLOOR = BUILD / "bench" / "bench_floor"
STATE = Path("/var/lib/sandbox-gateway-bench")
IMAGE = demo_image.NAME
IDLE_SANDBOXES = 1000
IDLE_BOUND_MIB = 1.5
FILE_MIB = 1024
SETTLE_SECONDS = 1.5  # the pool of shells fills again
TICKS = os.sysconf("SC_CLK_TCK")


def output(*argv, **options) -> str:
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=False,
                          **options)
    if done.returncode != 0:
        raise SystemExit(f"{argv[0]} {argv[1:3]}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def floor_ms() -> float:
    return float(output(FLOOR)) / 1000


def percentile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


class Table:
    """Rows of the result, each with its bound; F is measured right before each row."""

    def __init__(self):
        self.rows: list[tuple[str, str, str, str, str]] = []

    def add(self, name: str, measured: str, bound: str, holds: bool | None, docker: str = ""):
        verdict = {True: "yes", False: "NO", None: ""}[holds]
        self.rows.append((name, measured, bound, verdict, docker))
        print(f"{name:34} {measured:34} {bound:22} {verdict:4} {docker}", flush=True)


class Bench:
    def __init__(self, quick: bool):
        self.rounds = 60 if quick else 300
        self.table = Table()
        self.one: instance.Instance | None = None

    # --- the instance --------------------------------------------------------------------
    def start(self, shells: int) -> None:
        settings = instance.Settings(
            name_prefix="sgb", subnet="10.204.0.0/16", id_base=900_000_000, shells=shells,
            port=instance.free_port(), metrics_port=instance.free_port(),
            storage_pool_mb=8192)
        self.one = instance.Instance(STATE, BUILD, settings)
        if STATE.exists() and self.one.node.pid() is None:
            self.one.purge()
            self.one.settings = settings
        self.one.start()
        with demo_image.make_tar(ROOT / "build" / "demo-image").open("rb") as tar:
            status, answer = self.one.request("POST", f"/images?name={IMAGE}", tar, 300)
        if status not in (200, 201):
            raise SystemExit(f"import: {answer}")
        time.sleep(SETTLE_SECONDS)

    def stop(self) -> None:
        if self.one is not None:
            self.one.purge()
            self.one = None

    def load(self, *argv) -> dict:
        environment = {**os.environ, "SANDBOX_GATEWAY_TOKEN": self.one.token}
        return json.loads(output(LOAD, *argv, env=environment))

    def life(self, clients: int, rounds: int, gap_ms: int, remove: bool = True) -> dict:
        address = f"127.0.0.1:{self.one.settings.port}"
        return self.load("life", address, IMAGE, clients, rounds, gap_ms,
                         "delete" if remove else "keep")

    def remove_all(self) -> None:
        while True:
            _, rows = self.one.request("GET", "/sandboxes?limit=1000")
            if not rows["items"]:
                return
            for row in rows["items"]:
                self.one.request("DELETE", f"/sandboxes/{row['id']}")
            time.sleep(0.2)

    def make(self, **fields) -> str:
        body = {"image": IMAGE, "cpus": 2, "memory_mb": 512, **fields}
        status, row = self.one.request("POST", "/sandboxes?wait=60", body)
        if status != 201 or row["state"] != "ready":
            raise SystemExit(f"create: {row}")
        return row["id"]

    # --- measures ------------------------------------------------------------------------
    def create(self, docker: "Docker | None") -> None:
        floor = floor_ms()
        times = self.life(1, self.rounds, 30)["first_result_ms"]
        middle, worst = statistics.median(times), percentile(times, 0.99)
        beside = f"docker run {docker.run():.0f} ms" if docker else ""
        self.table.add("create -> first result, median",
                       f"{middle:.2f} ms = {middle / floor:.1f} F",
                       "<= 11 F", middle <= 11 * floor, beside)
        self.table.add("create -> first result, p99", f"{worst:.2f} ms = {worst / floor:.1f} F",
                       "<= 45 F", worst <= 45 * floor)

    def create_cold(self) -> None:
        floor = floor_ms()
        middle = statistics.median(self.life(1, self.rounds, 0)["first_result_ms"])
        self.table.add("create without a ready shell", f"{middle:.2f} ms = {middle / floor:.1f} F",
                       "<= 18 F", middle <= 18 * floor)

    def burst(self) -> None:
        walls = []
        for _ in range(5):
            time.sleep(2 * SETTLE_SECONDS)
            walls.append(self.life(100, 1, 0, remove=False)["wall_ms"])
            self.remove_all()
        middle = statistics.median(walls)
        self.table.add("burst of 100, all first results",
                       f"{middle:.0f} ms (best {min(walls):.0f})",
                       "<= 400 ms", middle <= 400)

    def whole_life(self) -> None:
        floor = floor_ms()
        time.sleep(SETTLE_SECONDS)
        before = busy_seconds()
        life = self.life(4, self.rounds, 0)
        after_cpu = busy_seconds() - before
        count = len(life["first_result_ms"])
        cpu_ms = after_cpu * 1000 / count
        rate = count / (life["wall_ms"] / 1000)
        self.table.add("CPU of create+run+delete", f"{cpu_ms:.2f} ms = {cpu_ms / floor:.1f} F",
                       "<= 16 F", cpu_ms <= 16 * floor)
        self.table.add("lives a second, 4 clients", f"{rate:.0f}/s", ">= 100/s", rate >= 100)

    def run(self, docker: "Docker | None") -> None:
        sandbox = self.make()
        gateway = f"127.0.0.1:{self.one.settings.port}"
        agent = f"unix:{self.one.state}/run/sandboxes/{sandbox}/agent.sock"
        floors, relayed, direct = [], [], []
        for _ in range(5):  # turn by turn, so that all see the same machine
            floors.append(floor_ms())
            relayed += self.load("run", gateway, f"/sandboxes/{sandbox}", 1, self.rounds)["run_ms"]
            direct += self.load("run", agent, "", 1, self.rounds)["run_ms"]
        floor, middle = statistics.median(floors), statistics.median(relayed)
        share = middle - statistics.median(direct)
        beside = f"docker exec {docker.exec():.0f} ms" if docker else ""
        self.table.add("run true over HTTP, median",
                       f"{middle:.2f} ms = F + {middle - floor:.2f} ms",
                       "<= F + 0.8 ms", middle <= floor + 0.8, beside)
        self.table.add("of it the relay", f"{share:.3f} ms", "<= 0.2 ms", share <= 0.2)
        bare = float(output(FLOOR, 2))
        many = self.load("run", gateway, f"/sandboxes/{sandbox}", 16, self.rounds)
        rate = len(many["run_ms"]) / (many["wall_ms"] / 1000)
        self.table.add("run true, 16 clients",
                       f"{rate:.0f}/s = {rate / bare:.0%} of bare {bare:.0f}/s",
                       ">= 45 %", rate >= 0.45 * bare)
        self.one.request("DELETE", f"/sandboxes/{sandbox}?wait=30")

    def file(self, docker: "Docker | None") -> None:
        sandbox = self.make(memory_mb=3072, storage_mb=2560)
        gateway = f"127.0.0.1:{self.one.settings.port}"
        agent = f"unix:{self.one.state}/run/sandboxes/{sandbox}/agent.sock"
        prefix = f"/sandboxes/{sandbox}"
        for direction in ("up", "down"):
            relayed, direct = [], []
            for _ in range(3):
                direct.append(self.load(direction, agent, "", "/root/f", FILE_MIB)["wall_ms"])
                relayed.append(self.load(direction, gateway, prefix, "/root/f",
                                         FILE_MIB)["wall_ms"])
            share = min(direct) / min(relayed)
            speed = FILE_MIB / (min(relayed) / 1000)
            beside = f"docker cp {docker.copy(direction):.0f} MiB/s" if docker else ""
            self.table.add(f"file of 1 GiB, {direction}",
                           f"{speed:.0f} MiB/s = {share:.0%} of direct",
                           ">= 50 %", share >= 0.5, beside)
        self.one.request("DELETE", f"{prefix}?wait=30")

    def idle(self) -> None:
        time.sleep(2 * SETTLE_SECONDS)
        before = used_mib()
        started = time.monotonic()
        address = f"127.0.0.1:{self.one.settings.port}"
        self.load("life", address, IMAGE, 10, IDLE_SANDBOXES // 10, 0, "keep")
        took = time.monotonic() - started
        time.sleep(2 * SETTLE_SECONDS)
        each = (used_mib() - before) / IDLE_SANDBOXES
        _, rows = self.one.request("GET", "/sandboxes?limit=1000&state=ready")
        held = len(rows["items"])
        self.table.add("one idle sandbox in all", f"{each:.2f} MiB", "<= 1.5 MiB",
                       each <= IDLE_BOUND_MIB)
        self.table.add("idle sandboxes held at once", f"{held} (made in {took:.0f} s)", "1000",
                       held == IDLE_SANDBOXES)
        self.remove_all()


def busy_seconds() -> float:
    """CPU seconds of the whole machine that were not idle; our own client is counted too."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, softirq = map(int, fields[:7])
    return (user + nice + system + irq + softirq) / TICKS


def used_mib() -> float:
    """Memory in use without what the kernel can take back (page cache, reclaimable slab)."""
    text = Path("/proc/meminfo").read_text()
    rows = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines()}
    free = rows["MemFree"] + rows["Buffers"] + rows["Cached"] + rows["SReclaimable"]
    return (rows["MemTotal"] - free + rows["Shmem"]) / 1024


class Docker:
    """Debian's docker.io with a daemon of its own and the same image."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="bench-docker-"))
        self.had_bridge = Path("/sys/class/net/docker0").exists()
        socket = f"unix://{self.folder}/docker.sock"
        self.environment = {**os.environ, "DOCKER_HOST": socket}
        with (self.folder / "log").open("wb") as log:
            self.daemon = subprocess.Popen(
                ["dockerd", "--host", socket, "--data-root", self.folder / "data",
                 "--exec-root", self.folder / "exec", "--pidfile", self.folder / "pid",
                 "--iptables=false"],  # the host's firewall stays as it is
                stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while subprocess.run(["docker", "info"], env=self.environment, capture_output=True,
                             check=False).returncode != 0:
            if time.monotonic() > deadline or self.daemon.poll() is not None:
                raise SystemExit((self.folder / "log").read_text()[-2000:])
            time.sleep(0.2)
        tar = demo_image.make_tar(ROOT / "build" / "demo-image")
        output("docker", "import", tar, IMAGE, env=self.environment)
        output("docker", "run", "-d", "--name", "idle", IMAGE, "sleep", "100000",
               env=self.environment)

    def median_ms(self, rounds: int, *argv) -> float:
        times = []
        for _ in range(rounds):
            started = time.monotonic()
            output("docker", *argv, env=self.environment)
            times.append((time.monotonic() - started) * 1000)
        return statistics.median(times)

    def run(self) -> float:
        return self.median_ms(10, "run", "--rm", IMAGE, "true")

    def exec(self) -> float:
        return self.median_ms(20, "exec", "idle", "true")

    def copy(self, direction: str) -> float:
        big = self.folder / "big"
        if not big.exists():
            with big.open("wb") as file:
                for _ in range(FILE_MIB):
                    file.write(b"x" * 2**20)
        argv = (big, "idle:/root/f") if direction == "up" else ("idle:/root/f", self.folder / "b")
        return FILE_MIB / (self.median_ms(1, "cp", *argv) / 1000)

    def stop(self) -> None:
        subprocess.run(["docker", "rm", "-f", "idle"], env=self.environment, capture_output=True,
                       check=False)
        self.daemon.terminate()
        self.daemon.wait(timeout=60)
        if not self.had_bridge:
            subprocess.run(["ip", "link", "delete", "docker0"], capture_output=True, check=False)
        instance.unmount_beneath(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)


def machine() -> str:
    model = next((line.split(":", 1)[1].strip() for line in
                  Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "?")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return (f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB, Linux {platform.release()}, "
            f"load before {os.getloadavg()[0]:.1f}")


def write_results(table: Table, floors: list[float], facts: str) -> None:
    lines = ["# Measured", "",
             "Written by `./dev bench --write`; do not edit. F is the floor: the median of vfork + "
             "exec + wait of `/bin/true` in the same run (`bench/floor.c`). A figure that misses "
             "its bound says NO.", "",
             f"- {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC; {facts}",
             f"- F: {floors[0]:.2f} ms at the start, {floors[1]:.2f} ms at the end", "",
             "| measure | result | must | holds | beside it |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in table.rows]
    lines += ["", "What is measured how: `bench/run.py`, one function a measure. CPU is that of "
              "the whole machine during the run, the bench's own client included; idle memory is "
              "the growth of all memory in use, kernel included, without page cache.", ""]
    (ROOT / "bench" / "RESULTS.md").write_text("\n".join(lines))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no-docker", action="store_true")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    bench, docker, facts = Bench(arguments.quick), None, machine()
    floors = [floor_ms()]
    try:
        docker = None if arguments.no_docker else Docker()
        bench.start(shells=32)
        bench.create(docker)
        bench.whole_life()
        bench.run(docker)
        bench.file(docker)
        if docker:
            docker.stop()
            docker = None
        bench.stop()
        bench.start(shells=0)
        bench.create_cold()
        bench.stop()
        bench.start(shells=128)
        bench.burst()
        bench.idle()
    finally:
        bench.stop()
        if docker:
            docker.stop()
    floors.append(floor_ms())
    if arguments.write:
        write_results(bench.table, floors, facts)
    return 0 if all(row[3] != "NO" for row in bench.table.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
