"""Certificates for tests, made by openssl: an authority, and pairs that it signs for loopback."""

import os
import subprocess
from pathlib import Path


def openssl(*argv, **options) -> None:
    subprocess.run(["openssl", *map(str, argv)], check=True, capture_output=True, **options)


class Authority:
    """An authority under `folder`; its certificate is `ca_file`."""

    def __init__(self, folder: Path, name: str = "test authority"):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.ca_file = folder / "ca.pem"
        self.key = folder / "ca.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", self.key, "-out", self.ca_file, "-days", "2", "-subj", f"/CN={name}",
                "-addext", "keyUsage=critical,keyCertSign")

    def issue(self, certificate: Path, key: Path, name: str = "gateway",
              expired: bool = False) -> None:
        """A pair for 127.0.0.1 and localhost, put in place by rename like a renewal does."""
        request, new, new_key = (self.folder / part for part in ("request", "new", "new.key"))
        extensions = self.folder / "extensions"
        extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                new_key, "-out", request, "-subj", f"/CN={name}")
        # A negative number of days ends it before it began.
        openssl("x509", "-req", "-in", request, "-CA", self.ca_file, "-CAkey", self.key,
                "-CAcreateserial", "-out", new, "-days", "-1" if expired else "1", "-extfile",
                extensions)
        for made, target in ((new_key, key), (new, certificate)):
            made.chmod(0o644)  # the gateway of tests has a user of its own
            os.replace(made, target)
