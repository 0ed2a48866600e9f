#!/usr/bin/env python3
"""Lists of a store with 10,000 sandboxes and 1,000,000 rows of audit log, on both engines.

Usage: bench/store.py [--sandboxes N] [--audit N]     (release build; SANDBOX_BUILD names it)

The bound is 20 ms a list. PostgreSQL is a server of the run's own whose commits reach the disk.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import postgresql  # noqa: E402

BOUND_MS = 20.0
LOAD = Path(os.environ.get("SANDBOX_BUILD", ROOT / "build" / "release")) / "bench" / "store_load"


def measure(url: str, sandboxes: int, audit_rows: int) -> dict[str, dict]:
    out = subprocess.run([LOAD, url, str(sandboxes), str(audit_rows)], check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    return {row["what"]: row for row in map(json.loads, out.splitlines())}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--sandboxes", type=int, default=10_000)
    parser.add_argument("--audit", type=int, default=1_000_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sandbox-store-bench-", dir="/var/tmp") as folder:
        lite = measure(f"{folder}/gateway.db", arguments.sandboxes, arguments.audit)
    server = postgresql.Server(durable=True)
    try:
        post = measure(server.create_database("bench"), arguments.sandboxes, arguments.audit)
    finally:
        server.purge()
    print(f"{'median (most), ms':32} {'SQLite':>18} {'its CPU':>8} {'PostgreSQL':>18}")
    slow = []
    for what, row in lite.items():
        cells = [f"{each['median_ms']:.2f} ({each['most_ms']:.2f})" for each in (row, post[what])]
        print(f"{what:32} {cells[0]:>18} {row['cpu_ms']:>8.2f} {cells[1]:>18}")
        slow += [what for each in (row, post[what]) if each["median_ms"] > BOUND_MS]
    print(f"bound {BOUND_MS:.0f} ms: {'beyond it: ' + ', '.join(slow) if slow else 'held'}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
