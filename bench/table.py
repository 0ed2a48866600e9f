"""What all groups of measures share: running a program, the floor, the table of results."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("SANDBOX_BUILD", ROOT / "build" / "release")).resolve()
LOAD = BUILD / "bench" / "bench_load"
FLOOR = BUILD / "bench" / "bench_floor"
BOUNDS = BUILD / "bench" / "bench_bounds"


def output(*argv, **options) -> str:
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=False,
                          **options)
    if done.returncode != 0:
        raise SystemExit(f"{argv[0]} {argv[1:3]}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def floor_ms() -> float:
    return float(output(FLOOR)) / 1000


def settle_disk() -> None:
    """What earlier rows wrote is on the disk, and what the kernel cached of files no longer there
    (its tables of inodes are small on some machines) is forgotten: both sides start alike."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("2", encoding="ascii")


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
