#!/usr/bin/env python3
"""Makes the image that agents get by default, from Debian packages, as an OCI image archive.

Runs as root on Debian's own python3, with mmdebstrap. No registry is needed: the packages come
from the machine's own apt sources. An archive that was made from the same recipe is used again.
What is in it is the table below; README.md says more.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

USER, USER_ID, HOME = "ubuntu", 1000, "/home/ubuntu"
SMALL = ("adduser", "bash", "ca-certificates", "coreutils", "curl", "file", "findutils", "git",
         "grep", "gzip", "jq", "less", "procps", "python-is-python3", "python3", "ripgrep", "sed",
         "sudo", "tar", "unzip", "util-linux", "xz-utils")
REST = ("bzip2", "build-essential", "dnsutils", "iproute2", "iputils-ping", "nano", "nodejs",
        "openssh-client", "patch", "pkg-config", "python3-dev", "python3-pip", "python3-venv",
        "rsync", "sqlite3", "tree", "vim-tiny", "wget", "zip", "zstd")
# Nobody reads them there; about a third of the small image.
LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/lintian/*",
            "/usr/share/locale/*", "/var/cache/apt/*", "/var/lib/apt/lists/*")
KEPT = ("/usr/share/doc/*/copyright", "/usr/share/locale/locale.alias")
VERSION = 1  # raise when this file changes what is made
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
CONFIG = {"User": USER, "WorkingDir": HOME, "Cmd": ["/bin/bash"],
          "Env": ["PATH=/home/ubuntu/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"
                  ":/sbin:/bin", f"HOME={HOME}", "LANG=C.UTF-8"]}
PIECE = 1 << 20


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def suite_of_this_machine() -> str:
    found = re.search(r"^VERSION_CODENAME=(\S+)$", Path("/etc/os-release").read_text(), re.M)
    return found.group(1) if found else "stable"


def apt_sources() -> list[str]:
    """The machine's own, of packages (not of sources)."""
    folder = Path("/etc/apt")
    paths = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*.list")),
             *sorted((folder / "sources.list.d").glob("*.sources"))]
    return [str(path) for path in paths if path.exists() and path.stat().st_size > 0]


def packages_of_libraries(program: Path) -> set[str]:
    """The Debian packages whose libraries a program of this machine needs."""
    found = set()
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for path in re.findall(r"=> (/\S+)", linked):
        for known in (path, os.path.realpath(path), f"/usr{path}", path.removeprefix("/usr")):
            owner = subprocess.run(["dpkg-query", "-S", known], capture_output=True, text=True,
                                   check=False)
            if owner.returncode == 0:
                found.add(owner.stdout.split(":", 1)[0])
                break
    return found


def mmdebstrap_arguments(base: str, packages: tuple[str, ...], cli: Path | None,
                         target: Path) -> list[str]:
    argv = ["mmdebstrap", "--mode=root", "--variant=minbase", "--format=tar",
            f"--include={','.join(packages)}", '--aptopt=Apt::Install-Recommends "false"']
    argv += [f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT]
    argv += [f"--dpkgopt=path-include={pattern}" for pattern in KEPT]
    for path in sorted(Path("/etc/apt/apt.conf.d").glob("*")):
        # Proxies and the like; not what post-processes packages on this machine.
        if re.search(r"^\s*Acquire::", path.read_text(), re.M):
            argv.append(f"--aptopt={path}")
    return [*argv, *hooks(cli), base, str(target), *apt_sources()]


def hooks(cli: Path | None) -> list[str]:
    """What is done once the packages are there; $1 is the root."""
    out = [
        f'chroot "$1" useradd --create-home --uid {USER_ID} --user-group --shell /bin/bash {USER}',
        f'echo "{USER} ALL=(ALL) NOPASSWD:ALL" > "$1/etc/sudoers.d/{USER}"; '
        f'chmod 0440 "$1/etc/sudoers.d/{USER}"',
        'rm -rf "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/* "$1"/var/log/*.log; '
        ': > "$1/etc/machine-id"',
    ]
    if cli is not None:
        out.append(f'install -m 0755 "{cli}" "$1/usr/local/bin/sandbox"')
    return [f"--customize-hook={hook}" for hook in out]


def run_with_progress(argv: list[str], packages: int) -> None:
    """mmdebstrap's own lines ("I: ...") and how many packages are set up, on one line each."""
    started = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace")
    tail: list[str] = []
    for line in started.stdout:
        tail = [*tail[-40:], line]
        if line.startswith(("I: ", "W: ", "E: ")):
            say(line[3:].strip())
    if started.wait() != 0:
        sys.stderr.writelines(tail)
        raise SystemExit(f"mmdebstrap failed ({packages} packages were asked for)")


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()


def write_archive(layer: Path, work: Path, name: str, target: Path) -> None:
    """One OCI layout in a tar; `layer` becomes its only layer."""
    blobs = work / "layout" / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    layer_digest, layer_size = sha256_of(layer), layer.stat().st_size
    layer.rename(blobs / layer_digest)

    def put(media_type: str, value: dict) -> dict:
        data = json.dumps(value, separators=(",", ":")).encode()
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    config = put(CONFIG_TYPE, {
        "architecture": "amd64", "os": "linux", "config": CONFIG,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]}})
    manifest = put(MANIFEST_TYPE, {
        "schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": config,
        "layers": [{"mediaType": LAYER_TYPE, "digest": f"sha256:{layer_digest}",
                    "size": layer_size}]})
    manifest["annotations"] = {"org.opencontainers.image.ref.name": name}
    layout = work / "layout"
    (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
    (layout / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    subprocess.run(["tar", "-c", "--owner=0", "--group=0", "-f", target, "-C", layout,
                    "oci-layout", "index.json", "blobs"], check=True)


def make(folder: Path, small: bool, base: str, cli: Path | None, rebuild: bool) -> Path:
    """The archive in `folder`, made where there is none of this recipe."""
    libraries = packages_of_libraries(cli) if cli else set()
    packages = tuple(sorted({*SMALL, *(() if small else REST), *libraries}))
    name = "agent-small" if small else "agent"
    recipe = json.dumps({"version": VERSION, "base": base, "packages": packages, "config": CONFIG,
                         "cli": sha256_of(cli) if cli else None}, sort_keys=True)
    target, stamp = folder / f"{name}.tar", folder / f"{name}.recipe"
    if not rebuild and target.exists() and stamp.exists() and stamp.read_text() == recipe:
        say(f"{target} is of this recipe already")
        return target
    if shutil.which("mmdebstrap") is None:
        raise SystemExit("mmdebstrap is missing: apt-get install mmdebstrap")
    if os.geteuid() != 0:
        raise SystemExit("making a root file system needs root")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".work-", dir=folder) as made:
        work = Path(made)
        layer = work / "root.tar"
        say(f"making {name} of {len(packages)} packages and what they need ({base})")
        run_with_progress(mmdebstrap_arguments(base, packages, cli, layer), len(packages))
        say("packing the image")
        archive = work / "image.tar"
        write_archive(layer, work, name, archive)
        archive.rename(target)
    stamp.write_text(recipe)
    return target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help="where archives are kept")
    parser.add_argument("--small", action="store_true", help="without compilers, Node and pip")
    parser.add_argument("--base", default=suite_of_this_machine(),
                        help="Debian release of its packages (default: this machine's)")
    parser.add_argument("--cli", type=Path, help="the `sandbox` program to put into it")
    parser.add_argument("--rebuild", action="store_true", help="newer packages of the same recipe")
    arguments = parser.parse_args()
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", arguments.base):
        raise SystemExit(f"'{arguments.base}' is no Debian release")
    print(make(arguments.folder, arguments.small, arguments.base, arguments.cli,
               arguments.rebuild))
    return 0


if __name__ == "__main__":
    sys.exit(main())
