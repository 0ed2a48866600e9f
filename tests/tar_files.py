"""Tar files by what is in them: members, and an archive of members."""

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

MTIME = 1_700_000_000

type Member = tuple[tarfile.TarInfo, bytes]


def member(name: str, data: bytes = b"", **fields) -> Member:
    """A file, unless `type` says otherwise."""
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = len(data), 0o644, MTIME
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def folder(name: str, mode: int = 0o755, **fields) -> Member:
    return member(name, type=tarfile.DIRTYPE, mode=mode, **fields)


def symlink(name: str, target: str, **fields) -> Member:
    return member(name, type=tarfile.SYMTYPE, linkname=target, **fields)


def hardlink(name: str, target: str) -> Member:
    return member(name, type=tarfile.LNKTYPE, linkname=target)


def entry(name: str, what: bytes | tuple[str, str] | None, **fields) -> Member:
    """A file of bytes, a folder for None, a link for ("->", target)."""
    if what is None:
        return folder(name, **fields)
    if isinstance(what, tuple):
        return symlink(name, what[1], **fields)
    return member(name, what, **fields)


def busybox(names: Iterable[str]) -> list[Member]:
    """/bin of nothing but busybox, which has these names too."""
    program = Path("/bin/busybox").read_bytes()  # static
    return [folder("bin"), member("bin/busybox", program, mode=0o755),
            *(symlink(f"bin/{name}", "busybox") for name in names)]


def archive(*members: Member, dialect: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=dialect) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data) if info.isreg() else None)
    return out.getvalue()
