#!/usr/bin/env python3
"""From a build whose result is here to a ready sandbox of it, beside a plain create.

Usage: bench/builds.py [--rounds N]     (root; release build, image builder; alone on the machine)

The bound is 50 ms more than a plain create. Both are asked in turn, on one connection each.
"""

import argparse
import io
import json
import statistics
import sys
import tarfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import demo_image  # noqa: E402
import instance  # noqa: E402
from table import BUILD, percentile  # noqa: E402

STATE = Path("/var/lib/sandbox-gateway-bench-builds")
BOUND_MS = 50.0
GAP_SECONDS = 0.03  # the pool of shells fills again
CONTEXT_FILES = 50


def context() -> bytes:
    """A project of a few files on the demo image."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        files = {"Dockerfile": f"FROM {demo_image.NAME}\nCOPY . /project\n".encode()}
        files |= {f"src/{number}": b"x" * 2_000 for number in range(CONTEXT_FILES)}
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


class Run:
    def __init__(self, one: instance.Instance):
        self.one = one
        self.context = context()

    def build(self, wait: int = 0) -> dict:
        request = urllib.request.Request(
            f"{self.one.url}/builds?wait={wait}", data=self.context, method="POST",
            headers={"Authorization": f"Bearer {self.one.token}",
                     "Content-Type": "application/x-tar"})
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)

    def create(self, image: str) -> None:
        status, row = self.one.request("POST", "/sandboxes?wait=60",
                                       {"image": image, "cpus": 1, "memory_mb": 256})
        if status != 201 or row["state"] != "ready":
            raise SystemExit(f"create: {row}")
        self.created = row["id"]

    def remove(self) -> None:
        self.one.request("DELETE", f"/sandboxes/{self.created}?wait=60")
        time.sleep(GAP_SECONDS)

    def timed(self, work) -> float:
        started = time.perf_counter()
        work()
        taken = (time.perf_counter() - started) * 1000
        self.remove()
        return taken

    def built_and_created(self) -> None:
        row = self.build()
        if not row["cached"]:
            raise SystemExit(f"the build was not cached: {row}")
        self.create(row["image"])


def measure(one: instance.Instance, rounds: int) -> int:
    one.start()
    with demo_image.make_tar(ROOT / "build" / "demo-image").open("rb") as tar:
        one.request("POST", f"/images?name={demo_image.NAME}", tar, 300)
    run = Run(one)
    first = run.build(300)
    if first["state"] != "succeeded":
        raise SystemExit(f"build: {first}")
    plain, built = [], []
    for _ in range(rounds):
        plain.append(run.timed(lambda: run.create(demo_image.NAME)))
        built.append(run.timed(run.built_and_created))
    more = statistics.median(built) - statistics.median(plain)
    for name, values in (("plain create -> ready", plain), ("cached build -> ready", built)):
        print(f"{name:24} median {statistics.median(values):.1f} ms, "
              f"p99 {percentile(values, 0.99):.1f} ms")
    print(f"{'more':24} {more:.1f} ms (bound {BOUND_MS:.0f} ms: "
          f"{'held' if more <= BOUND_MS else 'beyond it'})")
    return 0 if more <= BOUND_MS else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=100)
    arguments = parser.parse_args()
    settings = instance.Settings(
        name_prefix="sgi", subnet="10.201.0.0/16", id_base=3_600_000_000, shells=4,
        port=instance.free_port(), metrics_port=instance.free_port(), storage_pool_mb=8192)
    one = instance.Instance(STATE, BUILD, settings)
    if STATE.exists():
        one.purge()
        one.settings = settings
    try:
        return measure(one, arguments.rounds)
    finally:
        one.purge()


if __name__ == "__main__":
    sys.exit(main())
