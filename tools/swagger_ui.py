#!/usr/bin/env python3
"""Fetches the files of Swagger UI that the gateway serves at /docs: swagger_ui.py FOLDER

They come in a Python package, one version, checked by its digest: pip knows the mirrors and proxies
of its user, and the project needs it anyway.
"""

import hashlib
import io
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "flask-swagger-ui"
VERSION = "5.21.0"  # of Swagger UI too
SHA512 = ("ef105c1517566cfd4c1bfb07a503eb3062663d81d8214aa9b5626989fad6bc74"
          "3f8c316aeb319b72744f3992d37e351c01cc624247c076560690e16e5cb9483d")
# Names in the package and here. The licence goes wherever the files go.
FILES = {
    "swagger-ui-bundle.js": "swagger-ui-bundle.js",
    "swagger-ui.css": "swagger-ui.css",
    "favicon-32x32.png": "favicon-32x32.png",
    "LICENSE": "swagger-ui.LICENSE.txt",
}
STAMP = "VERSION"


class FetchError(Exception):
    """Why the files are not there; for a person."""


def fetch(python: Path) -> bytes:
    """The package, by pip in an environment of its own."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = f"{PACKAGE}=={VERSION}"
        for argv in ([python, "-m", "venv", f"{folder}/venv"],
                     [f"{folder}/venv/bin/pip", "download", "--quiet", "--no-deps",
                      "--only-binary", ":all:", "--dest", folder, wanted]):
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise FetchError(f"{wanted} cannot be had: {done.stderr.strip()[-300:]}")
        return next(Path(folder).glob("*.whl")).read_bytes()


def unpack(package: bytes) -> dict[str, bytes]:
    """The files of FILES, once the package is the one that is meant."""
    if hashlib.sha512(package).hexdigest() != SHA512:
        raise FetchError(f"{PACKAGE} {VERSION} has another digest than it must")
    files = {}
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        for name, target in FILES.items():
            files[target] = archive.read(f"{PACKAGE.replace('-', '_')}/dist/{name}")
    return files


def ensure(folder: Path, python: Path = Path(sys.executable)) -> None:
    """The files in `folder`, fetched once for each version. FetchError where that fails."""
    stamp = folder / STAMP
    if stamp.exists() and stamp.read_text() == VERSION:
        return
    files = unpack(fetch(python))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    stamp.write_text(VERSION)


def main() -> int:
    try:
        ensure(Path(sys.argv[1]))
    except FetchError as error:
        print(f"swagger_ui.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
