#!/usr/bin/env python3
"""What a trial of Harbor costs: trivial tasks by the published program, one at a time and many at
once. Harbor's own Docker environment beside it, with Debian's docker.io and the compose plugin that
compose_plugin.py makes.

Usage: build/venv-harbor/bin/python bench/harbor.py [--trials N] [--together N]

Root; a release build (SANDBOX_BUILD names it); `./dev test harbor` makes the environment of that
Python. A trivial task's own commands take some milliseconds, so its whole time is overhead; what
Harbor itself costs (a second to start, then some CPU for each trial) is in it. The bound is 0.5 s.
"""

import argparse
import dataclasses
import datetime
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import builder  # noqa: E402
import compose_plugin  # noqa: E402
import demo_image  # noqa: E402
import instance  # noqa: E402
from docker_daemon import Docker  # noqa: E402
from table import BUILD, output, percentile  # noqa: E402

BOUND_SEC = 0.5
STATE = Path("/var/lib/sandbox-bench-harbor")
# One that every environment can run, and one whose image is built.
TRIVIAL = ROOT / "bench" / "trivial"
DOCKERFILE = ROOT / "tests" / "harbor" / "tasks" / "dockerfile"
OURS = "sandbox_gateway_harbor:SandboxGatewayEnvironment"
# By the phases of a trial's result; what is left is transfers, artifacts and the end.
PHASES = ("environment_setup", "agent_execution", "verifier")


@dataclasses.dataclass
class Trials:
    """Seconds of each trial, in all and by phase, and of the whole command."""

    whole: list[float]
    phases: dict[str, list[float]]
    command: float


def seconds(row: dict) -> float:
    times = [datetime.datetime.fromisoformat(row[key]) for key in ("started_at", "finished_at")]
    return (times[1] - times[0]).total_seconds()


def run(task: Path, environment: str, variables: dict[str, str], attempts: int,
        at_once: int) -> Trials:
    """Trials that all earn their reward."""
    with tempfile.TemporaryDirectory(prefix="bench-harbor-") as home:
        started = time.monotonic()
        output(Path(sys.executable).parent / "harbor", "run", "-p", task, "-a", "oracle",
               "-e", environment, "-k", attempts, "-n", at_once, "-o", home, "--job-name", "job",
               "-y", "-q", cwd=home, env={
                   "PATH": os.environ["PATH"], "HOME": home, "HARBOR_TELEMETRY": "off",
                   "PYTHONPATH": str(ROOT / "clients" / "python"), **variables})
        took = time.monotonic() - started
        rows = [json.loads(path.read_text()) for path in Path(home).glob("job/*/result.json")]
    for row in rows:
        if row["exception_info"] or row["verifier_result"]["rewards"] != {"reward": 1}:
            raise SystemExit(f"{task.name}: {row['exception_info'] or row['verifier_result']}")
    if len(rows) != attempts:
        raise SystemExit(f"{task.name}: {len(rows)} of {attempts} trials")
    return Trials([seconds(row) for row in rows],
                  {name: [seconds(row[name]) for row in rows] for name in PHASES}, took)


def show(name: str, trials: Trials, bound: float | None = None) -> bool:
    middle = statistics.median(trials.whole)
    phases = ", ".join(f"{key.split('_')[0]} {statistics.median(values):.2f}"
                       for key, values in trials.phases.items())
    verdict = "" if bound is None else f"  must <= {bound} s: {'yes' if middle <= bound else 'NO'}"
    worst = percentile(trials.whole, 0.99)
    print(f"{name:40} median {middle:.2f} s, p99 {worst:.2f} s ({phases}); the command "
          f"{trials.command:.1f} s{verdict}", flush=True)
    return bound is None or middle <= bound


def beside(trials: int) -> None:
    try:
        plugin = compose_plugin.config_folder()
    except builder.BuildError as error:
        print(f"Docker beside it: {error}")
        return
    docker = Docker()
    try:
        variables = {**docker.environment, "DOCKER_CONFIG": str(plugin)}
        show("Docker, image, one at a time", run(TRIVIAL, "docker", variables, trials, 1))
    finally:
        docker.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--together", type=int, default=64)
    arguments = parser.parse_args()
    settings = instance.Settings(
        name_prefix="sgh", subnet="10.205.0.0/16", id_base=910_000_000, shells=16,
        port=instance.free_port(), metrics_port=instance.free_port(), storage_pool_mb=8192)
    one = instance.Instance(STATE, BUILD, settings)
    if STATE.exists() and one.node.pid() is None:
        one.purge()
        one.settings = settings
    try:
        one.start()
        with demo_image.make_tar(ROOT / "build" / "demo-image").open("rb") as tar:
            status, answer = one.request("POST", f"/images?name={demo_image.NAME}", tar, 300)
        if status not in (200, 201):
            raise SystemExit(f"import: {answer}")
        variables = {"SANDBOX_GATEWAY_URL": one.url, "SANDBOX_GATEWAY_TOKEN": one.token}
        held = show("image, one at a time",
                    run(TRIVIAL, OURS, variables, arguments.trials, 1), BOUND_SEC)
        run(DOCKERFILE, OURS, variables, 1, 1)  # builds it
        held = show("Dockerfile that is built, one at a time",
                    run(DOCKERFILE, OURS, variables, arguments.trials, 1), BOUND_SEC) and held
        count = arguments.together
        trials = run(TRIVIAL, OURS, variables, count, count)
        show(f"image, {count} at once", trials)
    finally:
        one.purge()
    beside(arguments.trials)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
