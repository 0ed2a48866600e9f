"""What an instance (tools/instance.py) holds in the kernel and on disk, found by its name prefix
and its state folder alone: to release it, and to compare it before and after a test."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

KILL_SECONDS = 45  # a process in the kernel takes its time to die
POLL_SECONDS = 0.02


def mount_points(beneath: Path) -> list[str]:
    """Mount points at or under a folder, deepest first."""
    points = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point = line.split()[4].encode().decode("unicode_escape")
        if point == str(beneath) or point.startswith(f"{beneath}/"):
            points.append(point)
    return sorted(points, key=len, reverse=True)


def loop_devices(beneath: Path) -> list[str]:
    out = subprocess.run(["losetup", "--list", "--noheadings", "--raw", "-O", "NAME,BACK-FILE"],
                         capture_output=True, text=True, check=False).stdout
    rows = (line.split(" ", 1) for line in out.splitlines())
    return [row[0] for row in rows if len(row) == 2 and row[1].startswith(f"{beneath}/")]


def unmount_beneath(folder: Path) -> None:
    loops = loop_devices(folder)
    for point in mount_points(folder):
        if subprocess.run(["umount", point], capture_output=True, check=False).returncode != 0:
            subprocess.run(["umount", "--lazy", point], check=False)
    for device in loops:  # those without autoclear
        subprocess.run(["losetup", "--detach", device], capture_output=True, check=False)


def interfaces(prefix: str) -> list[str]:
    """Host ends of the veths."""
    return [name for name in os.listdir("/sys/class/net") if name.startswith(f"{prefix}-")]


def remove_network(prefix: str, subnet: str) -> None:
    for name in interfaces(prefix):
        subprocess.run(["ip", "link", "delete", name], capture_output=True, check=False)
    # Where the node's name server listens: the first address of the subnet.
    address = subnet.split("/")[0]
    subprocess.run(["ip", "addr", "del", f"{address}/32", "dev", "lo"], capture_output=True,
                   check=False)
    forget_iptables(prefix, address)
    for family, table in nft_tables():
        if table == prefix or table.startswith(f"{prefix}_") or table.startswith(f"{prefix}-"):
            subprocess.run(["nft", "delete", "table", family, table], capture_output=True,
                           check=False)


def forget_iptables(prefix: str, address: str) -> None:
    """The node's accept rules in chains whose policy is DROP (Docker's, a host firewall's)."""
    if shutil.which("iptables") is None:
        return
    for match in (["FORWARD", "-i", f"{prefix}-+"], ["FORWARD", "-o", f"{prefix}-+"],
                  ["INPUT", "-i", f"{prefix}-+", "-d", address]):
        rule = [*match, "-j", "ACCEPT"]
        while subprocess.run(["iptables", "-w", "-D", *rule], capture_output=True,
                             check=False).returncode == 0:
            pass


def nft_tables() -> list[tuple[str, str]]:
    out = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True,
                         check=False).stdout
    return [(words[1], words[2]) for words in map(str.split, out.splitlines()) if len(words) >= 3]


def cgroup_folders(prefix: str) -> list[Path]:
    """The node's cgroups in every hierarchy: folders named prefix, or prefix-*."""
    root = Path("/sys/fs/cgroup")
    found = []
    mounts = [path for path in root.iterdir() if path.is_dir() and not path.is_symlink()]
    for base in [root, *mounts]:
        if not (base / "cgroup.procs").exists():
            continue
        found += [path for path in base.iterdir() if path.is_dir() and
                  (path.name == prefix or path.name.startswith((f"{prefix}-", f"{prefix}_")))]
    return found


def cgroup_tree(folder: Path) -> list[Path]:
    """The folder and those beneath it, deepest first."""
    return [Path(path) for path, _, _ in os.walk(folder, topdown=False)]


def kill_processes_of_cgroups(prefix: str) -> None:
    deadline = time.monotonic() + KILL_SECONDS
    while time.monotonic() < deadline:
        pids = set()
        for folder in cgroup_folders(prefix):
            for path in cgroup_tree(folder):
                try:
                    pids.update(map(int, (path / "cgroup.procs").read_text().split()))
                except OSError:
                    pass
        # 0 stands for a process that this pid namespace cannot see.
        pids.discard(0)
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(POLL_SECONDS)


def remove_cgroups(prefix: str) -> None:
    for folder in cgroup_folders(prefix):
        for path in cgroup_tree(folder):
            try:
                path.rmdir()
            except OSError as error:
                print(f"cannot remove {path}: {error}", file=sys.stderr, flush=True)


def held_by(instance) -> dict[str, list[str]]:
    """What an instance holds in the kernel and on disk: compared before and after by tests that
    claim that nothing is left behind."""
    prefix = instance.settings.name_prefix
    areas = [instance.state / "lib" / name for name in ("pool", "areas", "memory-areas")]
    cgroups = [str(path) for folder in cgroup_folders(prefix) for path in cgroup_tree(folder)]
    return {
        "mounts": sorted(mount_points(instance.state)),
        "cgroups": sorted(cgroups),
        "interfaces": sorted(interfaces(prefix)),
        "agent_folders": sorted(os.listdir(instance.state / "run" / "sandboxes")),
        "storage": sorted(name for path in areas if path.is_dir() for name in os.listdir(path)),
        "processes": sorted(processes_of_ids(instance.settings.id_base)),
        "loop_devices": sorted(loop_devices(instance.state)),
        "namespaces": namespaces_held(instance.node.pid()),
        "firewall": firewall_rows(prefix),
        "run_files": files_beneath(instance.state / "run"),
        "gateway_files": files_beneath(instance.state / "gateway"),
    }


def namespaces_held(pid: int | None) -> list[str]:
    """Those that a process keeps alive by a descriptor."""
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir() if pid else ():
        try:
            target = os.readlink(entry)
        except FileNotFoundError:
            continue
        if target.split(":")[0] in ("net", "user", "mnt", "pid", "ipc", "uts", "cgroup"):
            found.add(target)
    return sorted(found)


def firewall_rows(prefix: str) -> list[str]:
    """Lines of the instance's own tables: rules, and the elements of their sets."""
    rows = []
    for family, table in nft_tables():
        if table == prefix or table.startswith((f"{prefix}_", f"{prefix}-")):
            out = subprocess.run(["nft", "list", "table", family, table], capture_output=True,
                                 text=True, check=False).stdout
            rows += out.replace(", ", ",\n").splitlines()
    return rows


def files_beneath(folder: Path) -> list[str]:
    return sorted(os.path.join(path, name) for path, folders, files in os.walk(folder)
                  for name in (*folders, *files))


def processes_of_ids(id_base: int, span: int = 65536 * 4096) -> list[str]:
    """Processes whose uid lies in the instance's id range."""
    out = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            uid = os.stat(f"/proc/{entry}").st_uid
            status = Path(f"/proc/{entry}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        real = int(status.split("\nUid:", 1)[1].split()[0])
        if id_base <= real < id_base + span or id_base <= uid < id_base + span:
            out.append(f"{entry} {real}")
    return out
