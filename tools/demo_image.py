#!/usr/bin/env python3
"""Makes small Debian root file systems from Debian packages, as a tar and as an OCI layout.

Usage: demo_image.py FOLDER    writes FOLDER/debian-demo.tar (kept until the package list changes)

No registry is needed: the packages come from the machine's own apt sources. Maintainer scripts are
not run; the few files they would make are written here.
"""

import dataclasses
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

NAME = "debian-demo"
# bash, coreutils and procps are what the tour uses; the rest makes a shell pleasant.
PACKAGES = ("base-files", "base-passwd", "bash", "coreutils", "procps", "dash", "grep", "sed",
            "findutils", "hostname", "tar", "gzip", "libc-bin", "mawk", "util-linux",
            "util-linux-extra")
# Needed by maintainer scripts only.
LEFT_OUT = {"debconf", "debconf-2.0", "perl-base", "dpkg", "init-system-helpers", "lsb-base",
            "install-info", "cdebconf", "libdebian-installer4", "awk"}
DROPPED_FOLDERS = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info",
                   "usr/share/lintian", "usr/share/bug", "usr/share/menu", "usr/lib/systemd",
                   "etc/systemd", "etc/init.d")
USER_ID = 1000
VERSION = 4  # raise when this file changes what the tar holds
# What pam-auth-update would have written.
PAM_COMMON = {"auth": "auth required pam_unix.so nullok", "account": "account required pam_unix.so",
              "password": "password required pam_unix.so yescrypt",
              "session": "session required pam_unix.so",
              "session-noninteractive": "session required pam_unix.so"}
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"


@dataclasses.dataclass(frozen=True)
class Recipe:
    name: str
    packages: tuple[str, ...]
    left_out: frozenset[str] = frozenset(LEFT_OUT)


DEMO = Recipe(NAME, PACKAGES)


def output(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def closure(recipe: Recipe) -> list[str]:
    """The packages and what they depend on, without what only maintainer scripts need."""
    text = output("apt-cache", "depends", "--recurse", "--no-recommends", "--no-suggests",
                  "--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances",
                  *recipe.packages)
    depends: dict[str, list[str]] = {}
    current = ""
    for line in text.splitlines():
        if not line.startswith((" ", "|")) and line.strip():
            current = line.strip()
            depends[current] = []
        found = re.match(r"^ [ |](?:Pre)?Depends: (\S+)", line)
        if found and not found.group(1).startswith("<"):
            depends[current].append(found.group(1))
    wanted: list[str] = []
    todo = list(recipe.packages)
    while todo:
        name = todo.pop()
        if name in recipe.left_out or name in wanted or name not in depends:
            continue
        wanted.append(name)
        todo += depends[name]
    return sorted(wanted)


def unpack(packages: list[str], root: Path, downloads: Path) -> None:
    for folder in ("usr/bin", "usr/sbin", "usr/lib", "usr/lib64"):
        (root / folder).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):  # Debian's merged /usr
        (root / name).symlink_to(f"usr/{name}")
    subprocess.run(["apt-get", "download", "-q", *packages], cwd=downloads, check=True,
                   stdout=subprocess.DEVNULL)
    for package in sorted(downloads.glob("*.deb")):
        archive = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "--keep-directory-symlink", "--same-permissions",
                        "--numeric-owner", "-C", root], stdin=archive.stdout, check=True)
        if archive.wait() != 0:
            raise SystemExit(f"cannot unpack {package.name}")


def configure(root: Path) -> None:
    """What the maintainer scripts of these packages would have made."""
    masters = root / "usr/share/base-passwd"
    etc = root / "etc"
    passwd = (masters / "passwd.master").read_text().replace(":*:", ":x:")
    passwd = passwd.replace("root:x:0:0:root:/root:/bin/sh", "root:x:0:0:root:/root:/bin/bash")
    group = (masters / "group.master").read_text().replace(":*:", ":x:")
    (etc / "passwd").write_text(
        f"{passwd}user:x:{USER_ID}:{USER_ID}::/home/user:/bin/bash\n")
    (etc / "group").write_text(f"{group}user:x:{USER_ID}:\n")
    for name, bits in (("sh", "dash"), ("awk", "mawk")):
        link = root / "usr/bin" / name
        if not link.is_symlink():
            link.symlink_to(bits)
    if (etc / "pam.d").is_dir():
        for name, line in PAM_COMMON.items():
            (etc / "pam.d" / f"common-{name}").write_text(f"{line}\n")
        names = [line.split(":", 1)[0] for line in (etc / "passwd").read_text().splitlines()]
        (etc / "shadow").write_text("".join(f"{name}:*:20000:0:99999:7:::\n" for name in names))
        (etc / "shadow").chmod(0o600)
    nss = root / "usr/share/libc-bin/nsswitch.conf"
    if nss.exists():
        shutil.copyfile(nss, etc / "nsswitch.conf")
    home = root / "home/user"
    home.mkdir(parents=True)
    for folder in (home, root / "root"):
        for name in (".bashrc", ".profile"):
            source = root / "usr/share/base-files" / f"dot{name}"
            if source.exists():
                shutil.copyfile(source, folder / name)
    for path in (home, *home.iterdir()):
        os.chown(path, USER_ID, USER_ID)
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    for folder in DROPPED_FOLDERS:
        shutil.rmtree(root / folder, ignore_errors=True)
    subprocess.run(["ldconfig", "-r", root], check=True)


def make_tar(folder: Path, recipe: Recipe = DEMO) -> Path:
    """The tar, from the cache if the recipe is still the same."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{recipe.name}.tar"
    stamp = folder / f"{recipe.name}.recipe"
    packages = closure(recipe)
    contents = f"{VERSION} {' '.join(packages)}\n"
    if target.exists() and stamp.exists() and stamp.read_text() == contents:
        return target
    with tempfile.TemporaryDirectory(prefix="demo-image-") as work:
        # apt drops its rights for a download, so its user must be able to write here.
        Path(work).chmod(0o755)
        downloads, root = Path(work) / "downloads", Path(work) / "root"
        downloads.mkdir()
        downloads.chmod(0o777)
        root.mkdir()
        root.chmod(0o755)
        unpack(packages, root, downloads)
        configure(root)
        temporary = target.with_suffix(".new")
        subprocess.run(["tar", "-c", "--sort=name", "--numeric-owner", "-f", temporary, "-C", root,
                        "."], check=True)
        temporary.rename(target)
    stamp.write_text(contents)
    return target


# --- the same as an OCI layout, for tests that need a real registry -------------------------
def architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def layer_of(files: dict[str, bytes]) -> bytes:
    """A plain tar with these files, for small layers on top."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o644
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def write_oci_layout(folder: Path, layers: list[bytes], config: dict, platform: str = "",
                     tag: str = "latest") -> str:
    """Writes an OCI image layout with these (plain) layer tars; the manifest's digest."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def put(media_type: str, data: bytes) -> dict:
        (blobs / digest(data).split(":")[1]).write_bytes(data)
        return {"mediaType": media_type, "digest": digest(data), "size": len(data)}

    machine = platform or architecture()
    rows = [put(LAYER_TYPE, gzip.compress(layer, compresslevel=1, mtime=0)) for layer in layers]
    image = {"architecture": machine, "os": "linux", "config": config,
             "rootfs": {"type": "layers", "diff_ids": [digest(layer) for layer in layers]}}
    manifest = put(MANIFEST_TYPE, json.dumps({
        "schemaVersion": 2, "mediaType": MANIFEST_TYPE,
        "config": put(CONFIG_TYPE, json.dumps(image).encode()), "layers": rows}).encode())
    manifest["platform"] = {"architecture": machine, "os": "linux"}
    manifest["annotations"] = {"org.opencontainers.image.ref.name": tag}
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
    (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    return manifest["digest"]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    print(make_tar(Path(sys.argv[1])))
