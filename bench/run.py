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
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import demo_image  # noqa: E402
import instance  # noqa: E402
from admission import admission  # noqa: E402
from docker_daemon import FILE_MIB, Docker  # noqa: E402
from streams import SMALL_FILES, STREAM_MIB, Streams, crowd  # noqa: E402
from table import BOUNDS, BUILD, FLOOR, LOAD, Table, floor_ms, output, percentile  # noqa: E402

STATE = Path("/var/lib/sandbox-gateway-bench")
IMAGE = demo_image.NAME
IDLE_SANDBOXES, BUSY_BESIDE = 1000, 2000
IDLE_BOUND_MIB = 1.5
OTHER_RUNS = "## Other runs"  # what is written by hand begins here
SETTLE_SECONDS = 1.5  # the pool of shells fills again
TICKS = os.sysconf("SC_CLK_TCK")


def pool_mb() -> int:
    """Nearly the disk that Docker may use, up to what a large host's pool has without a word."""
    free = os.statvfs(STATE.parent)
    return min(65536, free.f_bavail * free.f_frsize // 2**20 * 3 // 4)


class Bench:
    def __init__(self, quick: bool):
        self.rounds = 60 if quick else 300
        self.table = Table()
        self.one: instance.Instance | None = None
        self.image = IMAGE
        self.docker: dict[str, str] = {}
        self.docker_tar_ms: dict[str, float] = {}

    def measure_docker(self) -> None:
        """Before ours and gone again: its daemon follows every mount and interface of the host."""
        docker = Docker()
        try:
            self.docker = {"run": f"docker run {docker.run():.0f} ms",
                           "exec": f"docker exec {docker.exec():.0f} ms",
                           "up": f"docker cp {docker.copy('up'):.0f} MiB/s",
                           "down": f"docker cp {docker.copy('down'):.0f} MiB/s",
                           "output": f"docker exec {docker.produce(STREAM_MIB):.0f} MiB/s"}
            output(BOUNDS, "many", docker.folder / "many", SMALL_FILES)
            self.docker_tar_ms = {"up": docker.copy_folder("up"),
                                  "down": docker.copy_folder("down")}
        finally:
            docker.stop()

    # --- the instance --------------------------------------------------------------------
    def start(self, shells: int) -> None:
        settings = instance.Settings(
            name_prefix="sgb", subnet="10.204.0.0/16", id_base=900_000_000, shells=shells,
            port=instance.free_port(), metrics_port=instance.free_port(),
            storage_pool_mb=pool_mb(), gateway_options={"credentials": "sandbox"})  # as packaged
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
    def create(self) -> None:
        floor = floor_ms()
        times = self.life(1, self.rounds, 30)["first_result_ms"]
        middle, worst = statistics.median(times), percentile(times, 0.99)
        beside = self.docker.get("run", "")
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
        time.sleep(SETTLE_SECONDS)
        node, gateway = self.one.node.pid(), self.one.gateway.pid()
        programs = {"gateway": lambda: cpu_ms(gateway)[0], "node": lambda: cpu_ms(node)[0],
                    "sandboxes": lambda: cpu_ms(node)[1]}  # they are the node's children
        before = {name: read() for name, read in programs.items()}
        floors, machine, lives = [], 0.0, []
        for _ in range(4):  # turn by turn, so that both see the same machine
            floors.append(floor_ms())
            machine_before = busy_ms()
            lives.append(self.life(4, self.rounds // 4, 0))
            machine += busy_ms() - machine_before
        floor = statistics.median(floors)
        count = sum(len(life["first_result_ms"]) for life in lives)
        wall_s = sum(life["wall_ms"] for life in lives) / 1000
        parts = {name: (read() - before[name]) / count for name, read in programs.items()}
        whole, client = machine / count, sum(life["own_cpu_ms"] for life in lives) / count
        parts["kernel and the rest"] = whole - client - sum(parts.values())
        service = whole - client
        rate = count / wall_s
        self.table.add("CPU of create+run+delete",
                       f"{service:.2f} ms = {service / floor:.1f} F", "<= 16 F",
                       service <= 16 * floor,
                       f"whole machine {whole:.2f} ms, of it the client {client:.2f}")
        self.table.add("of it",
                       ", ".join(f"{name} {part:.2f}" for name, part in parts.items()), "", None)
        self.table.add("lives a second, 4 clients", f"{rate:.0f}/s", ">= 100/s", rate >= 100)

    def run(self) -> None:
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
        beside = self.docker.get("exec", "")
        self.table.add("run true over HTTP, median",
                       f"{middle:.2f} ms = F + {middle - floor:.2f} ms",
                       "<= F + 0.6 ms", middle <= floor + 0.6, beside)
        self.table.add("of it the relay", f"{share:.3f} ms", "<= 0.2 ms", share <= 0.2)
        bare = float(output(FLOOR, 2))
        many = self.load("run", gateway, f"/sandboxes/{sandbox}", 16, self.rounds)
        rate = len(many["run_ms"]) / (many["wall_ms"] / 1000)
        self.table.add("run true, 16 clients",
                       f"{rate:.0f}/s = {rate / bare:.0%} of bare {bare:.0f}/s",
                       ">= 50 %", rate >= 0.5 * bare)
        self.one.request("DELETE", f"/sandboxes/{sandbox}?wait=30")

    def file(self) -> None:
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
            beside = self.docker.get(direction, "")
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
        self.load("life", address, IMAGE, 10, (BUSY_BESIDE - IDLE_SANDBOXES) // 10, 0, "keep")
        time.sleep(2 * SETTLE_SECONDS)
        held = len(self.rows("/sandboxes?state=ready"))
        # One with two processors of its own: the idle ones have a fraction, and would be throttled.
        path = f"/sandboxes/{self.make()}"
        times = self.load("run", address, path, 1, 1000)["run_ms"]
        worst = percentile(times, 0.99)
        self.table.add(f"run true beside {held} idle sandboxes, p99",
                       f"{worst:.2f} ms (median {statistics.median(times):.2f})", "<= 15 ms",
                       worst <= 15 and held == BUSY_BESIDE)
        self.remove_all()

    def rows(self, path: str) -> list[dict]:
        """All pages."""
        items, cursor = [], ""
        while cursor is not None:
            _, page = self.one.request("GET", f"{path}&limit=1000{cursor}")
            items += page["items"]
            cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
        return items


def busy_ms() -> float:
    """CPU time of the whole machine that was not idle; our own client is counted too."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, softirq = map(int, fields[:7])
    return (user + nice + system + irq + softirq) * 1000 / TICKS


def cpu_ms(pid: int) -> tuple[float, float]:
    """CPU time of a process, and of those of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    user, system, children_user, children_system = map(int, fields[11:15])
    return (user + system) * 1000 / TICKS, (children_user + children_system) * 1000 / TICKS


def used_mib() -> float:
    """Memory in use without what the kernel can take back (page cache, reclaimable slab)."""
    text = Path("/proc/meminfo").read_text()
    rows = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines()}
    free = rows["MemFree"] + rows["Buffers"] + rows["Cached"] + rows["SReclaimable"]
    return (rows["MemTotal"] - free + rows["Shmem"]) / 1024


def machine() -> str:
    model = next((line.split(":", 1)[1].strip() for line in
                  Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "?")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return (f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB, Linux {platform.release()}, "
            f"load before {os.getloadavg()[0]:.1f}")


def write_results(table: Table, floors: list[float], facts: str) -> None:
    results = ROOT / "bench" / "RESULTS.md"
    kept = results.read_text().partition(OTHER_RUNS)
    lines = ["# Measured", "",
             "Written by `./dev bench --write`, but for the last part. F is the floor: the "
             "median of vfork + exec + wait of `/bin/true` in the same run (`bench/floor.c`). A "
             "figure that misses its bound says NO.", "",
             f"- {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC; {facts}",
             f"- F: {floors[0]:.2f} ms at the start, {floors[1]:.2f} ms at the end", "",
             "| measure | result | must | holds | beside it |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in table.rows]
    lines += ["", "What is measured how: `bench/run.py`, one function a measure. CPU is that of "
              "the whole machine during the run, kernel threads included, less what the bench's "
              "own client used; idle memory is the growth of all memory in use, kernel included, "
              "without page cache.", "", kept[1] + kept[2]]
    results.write_text("\n".join(lines))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no-docker", action="store_true")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    bench, facts = Bench(arguments.quick), machine()
    floors = [floor_ms()]
    try:
        if not arguments.no_docker:
            bench.measure_docker()
        bench.start(shells=32)
        bench.create()
        bench.whole_life()
        bench.run()
        bench.file()
        streams = Streams(bench)
        streams.all()
        streams.stop()
        bench.stop()
        bench.start(shells=0)
        bench.create_cold()
        bench.stop()
        bench.start(shells=128)
        bench.burst()
        crowd(bench)
        bench.idle()
        admission(bench)
    finally:
        bench.stop()
    floors.append(floor_ms())
    if arguments.write:
        write_results(bench.table, floors, facts)
    return 0 if all(row[3] != "NO" for row in bench.table.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
