#!/usr/bin/env python3
"""Lists and filters of an audit log of a million rows: each at most 20 ms.

Usage: audit.py BUILD_FOLDER [--rows N] [--postgresql]

Starts nothing but the store: `audit_bench` fills a store of its own (SQLite in a temporary folder,
or a PostgreSQL server from tools/postgresql.py) by the store's own appends, then times each kind
of question. Prints the median and the worst of 20 runs in milliseconds.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--postgresql", action="store_true")
    options = parser.parse_args()
    bench = options.build / "bench" / "audit_bench"
    if not options.postgresql:
        with tempfile.TemporaryDirectory(prefix="audit-bench-") as folder:
            return subprocess.run([bench, f"{folder}/gateway.db", str(options.rows)],
                                  check=False).returncode
    server = subprocess.Popen([sys.executable, ROOT / "tools" / "postgresql.py"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().strip()
        return subprocess.run([bench, url, str(options.rows)], check=False).returncode
    finally:
        server.stdin.close()
        server.wait()


if __name__ == "__main__":
    sys.exit(main())
