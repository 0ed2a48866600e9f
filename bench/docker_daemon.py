"""Docker to measure beside: Debian's docker.io, started and stopped by the bench."""

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import demo_image
import kernel_objects
from table import ROOT, output, settle_disk

IMAGE = demo_image.NAME
FILE_MIB = 1024


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

    def produce(self, mib: int) -> float:
        """MiB/s of an exec's output."""
        started = time.monotonic()
        with subprocess.Popen(["docker", "exec", "idle", "head", "-c", str(mib * 2**20),
                               "/dev/zero"], env=self.environment,
                              stdout=subprocess.PIPE) as child:
            size = 0
            while piece := child.stdout.read(2**20):
                size += len(piece)
        if size != mib * 2**20:
            raise SystemExit(f"docker exec gave {size} bytes")
        return mib / (time.monotonic() - started)

    def copy_folder(self, direction: str) -> float:
        """Milliseconds for the folder `many`, each time to or from a place of its own."""
        times = []
        for i in range(3):
            settle_disk()
            here, there = self.folder / "many", f"idle:/root/many-{i}"
            argv = (here, there) if direction == "up" else (there, self.folder / f"back-{i}")
            times.append(self.median_ms(1, "cp", *argv))
        return statistics.median(times)

    def stop(self) -> None:
        subprocess.run(["docker", "rm", "-f", "idle"], env=self.environment, capture_output=True,
                       check=False)
        self.daemon.terminate()
        self.daemon.wait(timeout=60)
        if not self.had_bridge:
            subprocess.run(["ip", "link", "delete", "docker0"], capture_output=True, check=False)
        kernel_objects.unmount_beneath(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)
