"""Docker's compose plugin, which Debian 12 has no package of: compiled from its Go module, once,
outside the tree. Only the bench uses it; where it cannot be had, compose is not measured."""

import os
import shutil
import subprocess
from pathlib import Path

import builder

MODULE = "github.com/docker/compose/v2"
# The last whose client speaks to Docker 20.10, which Debian 12 has.
VERSION = "v2.40.3"


def config_folder() -> Path:
    """For DOCKER_CONFIG. BuildError where it cannot be made."""
    kept = builder.kept_folder().parent / f"docker-compose-{VERSION}"
    if kept.exists():
        return kept
    go = builder.go_program()
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local",
                   "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false"}
    partial = kept.with_name(f"{kept.name}.{os.getpid()}")
    try:
        print("compiling Docker's compose plugin (once, about five minutes of CPU)", flush=True)
        subprocess.run([go, "mod", "download", f"{MODULE}@{VERSION}"], env={
            **environment, "GOFLAGS": "-mod=mod"}, cwd="/", check=True, capture_output=True)
        cache = subprocess.run([go, "env", "GOMODCACHE"], check=True, capture_output=True,
                               text=True).stdout.strip()
        # In the module's own folder, so that its own go.mod decides what it is made of.
        subprocess.run([go, "build", f"-ldflags=-s -w -X {MODULE}/internal.Version={VERSION}",
                        "-o", partial / "cli-plugins" / "docker-compose", "./cmd"],
                       env=environment, cwd=Path(cache) / f"{MODULE}@{VERSION}", check=True,
                       capture_output=True)
        partial.rename(kept)
    except (OSError, subprocess.CalledProcessError) as error:
        told = getattr(error, "stderr", b"") or b""
        raise builder.BuildError(
            f"compose cannot be compiled: {error}\n{told.decode()[-2000:]}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return kept
