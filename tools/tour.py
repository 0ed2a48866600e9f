"""The newcomer's tour (`./dev demo`): each step shows a command and what it prints.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from instance import InstanceError

COLOURS = ("\033[1m", "\033[2m", "\033[0m")  # bold, dim, plain


class Tour:
    """Runs the command line program and shows what happens."""

    def __init__(self, instance, colours: bool):
        self.environment = {**os.environ, "SANDBOX_GATEWAY_URL": instance.url,
                            "SANDBOX_GATEWAY_TOKEN": instance.token}
        self.program = str(instance.bin / "sandbox")
        self.bold, self.dim, self.plain = COLOURS if colours else ("", "", "")

    def title(self, text: str) -> None:
        print(f"\n{self.bold}{text}{self.plain}", flush=True)

    def step(self, *argv: str, stdin: bytes = b"", expect: int = 0) -> str:
        shown = " ".join(a if all(c not in a for c in " '\"$|;") else f"'{a}'" for a in argv)
        print(f"{self.dim}$ sandbox {shown}{self.plain}", flush=True)
        started = time.monotonic()
        done = subprocess.run([self.program, *argv], env=self.environment, input=stdin,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        text = done.stdout.decode(errors="replace").rstrip("\n")
        if text:
            print("\n".join(f"  {line}" for line in text.splitlines()))
        print(f"{self.dim}  ({(time.monotonic() - started) * 1000:.0f} ms){self.plain}", flush=True)
        if done.returncode != expect:
            raise InstanceError(f"sandbox {argv[0]} ended with {done.returncode}, not {expect}")
        return text


def take(instance, image: str, folder: Path) -> None:
    tour = Tour(instance, sys.stdout.isatty())
    tour.title("1. A sandbox: a Linux machine of its own, from an image")
    sandbox = tour.step("create", image, "--cpus", "1", "--memory", "256m").split()[-1]
    try:
        walk(tour, sandbox, folder)
    finally:
        tour.title("5. Gone, and nothing left behind")
        tour.step("rm", sandbox)
    tour.step("list")
    tour.title("What now")
    print("  eval \"$(./dev up)\"      the same gateway for your own shell\n"
          "  sandbox --help           its command line (build/release/sandbox)\n"
          "  ./dev test               the tests\n"
          "  ./dev down               stops node and gateway")


def walk(tour: Tour, sandbox: str, folder: Path) -> None:
    tour.title("2. Commands run in it")
    tour.step("exec", sandbox, "--", "sh", "-c", "hostname; id; nproc; cat /etc/debian_version")
    tour.step("exec", sandbox, "--", "ps", "-ef")
    tour.step("exec", sandbox, "--", "sh", "-c", "echo to stderr >&2; exit 3", expect=3)
    tour.step("exec", sandbox, "--", "wc", "-c", stdin=b"from standard input")
    tour.title("3. Files go in and out")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hello.txt").write_text("hello from outside\n")
    tour.step("cp", str(folder / "hello.txt"), f"{sandbox}:/root/hello.txt")
    tour.step("exec", sandbox, "--", "sh", "-c", "tr a-z A-Z </root/hello.txt >/root/loud.txt")
    tour.step("cp", f"{sandbox}:/root/loud.txt", str(folder / "loud.txt"))
    print(f"  back outside: {(folder / 'loud.txt').read_text().strip()}")
    tour.title("4. It is confined")
    tour.step("exec", sandbox, "--", "sh", "-c",
              "cat /proc/self/uid_map; echo 1 > /proc/sys/kernel/panic; mknod disk b 8 0; true")
