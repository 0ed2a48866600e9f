#!/usr/bin/env python3
"""Makes the root file system of image builders: builder.py [--buildah] [FOLDER]

It holds buildkitd (BuildKit, at the version that builder/go.mod names), our program
sandbox-builder, an OCI runtime with the libraries it needs, and certificates. Compiling BuildKit
takes about seven minutes of CPU, so the result is kept outside the tree, once for each state of
builder/, and found again by every clone. With --buildah Debian's buildah takes BuildKit's place
(docs/builds.md says what it cannot do). Without Go there is no builder: images cannot be built.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "builder"
BUILDKITD = "github.com/moby/buildkit/cmd/buildkitd"
GO_MIN = (1, 26)  # what BuildKit's own go.mod asks for
RUNTIME, BUILDAH = "runc", "buildah"
# Every image that buildah is given comes from the gateway.
IMAGE_POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}\n'
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
# Folders that mounts and programs expect.
FOLDERS = ("bin", "etc/ssl/certs", "proc", "sys", "dev", "state", "run", "tmp", "root")
PROGRESS_SECONDS = 15


class BuildError(Exception):
    """Why there is no builder; for a person."""


def go_program() -> str:
    candidates = [shutil.which("go"), "/usr/local/go/bin/go", "/usr/lib/go/bin/go"]
    for candidate in filter(None, candidates):
        if not Path(candidate).exists():
            continue
        told = subprocess.run([candidate, "env", "GOVERSION"], capture_output=True, text=True,
                              check=False, env={**os.environ, "GOTOOLCHAIN": "local"}, cwd="/")
        match = re.match(r"go(\d+)\.(\d+)", told.stdout)
        if match and tuple(map(int, match.groups())) >= GO_MIN:
            return candidate
    raise BuildError(f"no Go {GO_MIN[0]}.{GO_MIN[1]} or newer here")


def fingerprint() -> str:
    """Of all that goes into the result, this file included."""
    digest = hashlib.sha256()
    for path in [Path(__file__).resolve(), *sorted(SOURCE.iterdir())]:
        if path.suffix != "_test.go":
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def kept_folder(with_buildah: bool = False) -> Path:
    """Where the result of this state of builder/ is, or will be. Its name has no hidden part: the
    node's image helper reads it under ids of its own."""
    parent = os.environ.get("SANDBOX_BUILDER_CACHE", "/var/cache/sandbox-gateway")
    return Path(parent) / f"builder-{fingerprint()}{'-buildah' if with_buildah else ''}"


def compile_programs(go: str, target: Path, say, packages: dict[str, str]) -> None:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local",
                   "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false"}
    for name, package in packages.items():
        started = told = time.monotonic()
        seen = 0
        with subprocess.Popen([go, "build", "-v", "-ldflags=-s -w", "-o", target / "bin" / name,
                               package], cwd=SOURCE, env=environment, text=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            tail: list[str] = []
            for line in process.stderr:
                seen += 1
                tail = [*tail[-19:], line]
                if time.monotonic() - told > PROGRESS_SECONDS:
                    told = time.monotonic()
                    say(f"compiling {name}: {seen} packages, {told - started:.0f} s")
        if process.returncode != 0:
            raise BuildError(f"{name} cannot be compiled:\n{''.join(tail)}")


def libraries(program: Path) -> list[Path]:
    """The shared libraries a program is loaded with, its loader included."""
    told = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return [Path(path) for path in re.findall(r"(/\S+) \(0x", told)]


def copy_program(name: str, target: Path) -> None:
    """With the libraries that it needs."""
    found = shutil.which(name)
    if found is None:
        raise BuildError(f"no {name} here: apt-get install {name}")
    shutil.copy(found, target / "bin" / name)
    for library in libraries(Path(found)):
        place = target / library.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, place)


def make(target: Path, say, with_buildah: bool) -> None:
    go = go_program()
    for folder in FOLDERS:
        (target / folder).mkdir(parents=True, exist_ok=True)
    packages = {"sandbox-builder": "."}
    if with_buildah:
        copy_program(BUILDAH, target)
        (target / "etc/containers").mkdir()
        (target / "etc/containers/policy.json").write_text(IMAGE_POLICY)
        # Where it keeps whole layers for a moment: on the builder's own disk.
        (target / "var").mkdir()
        (target / "var/tmp").symlink_to("/state/tmp")
    else:
        packages["buildkitd"] = BUILDKITD
    compile_programs(go, target, say, packages)
    copy_program(RUNTIME, target)
    if CERTIFICATES.exists():
        shutil.copy(CERTIFICATES, target / "etc/ssl/certs")
    (target / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/false\n")
    (target / "etc/group").write_text("root:x:0:\n")


def ensure(say, with_buildah: bool = False) -> Path:
    """The root file system, made where it is not kept yet. BuildError where that fails."""
    kept = kept_folder(with_buildah)
    if kept.exists():
        return kept
    say(f"compiling the image builder (once, about {1 if with_buildah else 7} minutes of CPU)")
    partial = kept.with_name(f"{kept.name}.{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        make(partial, say, with_buildah)
        partial.chmod(0o755)
        partial.rename(kept)
    except OSError as error:
        if not kept.exists():  # another run was faster
            raise BuildError(f"the image builder cannot be kept: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--buildah", action="store_true")
    parser.add_argument("folder", nargs="?")
    asked = parser.parse_args()
    try:
        made = ensure(lambda text: print(text, file=sys.stderr, flush=True), asked.buildah)
        if asked.folder:
            shutil.copytree(made, asked.folder, symlinks=True)
        print(asked.folder or made)
    except (BuildError, OSError) as error:
        print(f"builder.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
