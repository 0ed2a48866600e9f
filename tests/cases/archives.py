"""Tar files for the file cases: hostile ones, long names, and a tree worth keeping exactly."""

import tarfile

from tar_files import folder, hardlink, member, symlink

LONG_NAMES = ["n" * length for length in (99, 100, 101, 155, 255)]
DEEP = "/".join(["d" * 50] * 6) + "/leaf.txt"  # over 256 bytes in all
HARD_TARGET = "t" * 100  # fills the link field: no NUL behind it

# Each trick in an archive of its own, so that one refusal does not hide the next.
HOSTILE = {
    "dotdot": [member("../escape.txt", b"x"), member("ok.txt", b"ok")],
    "absolute": [member("/escape-abs.txt", b"x"), member("ok.txt", b"ok")],
    "middle": [member("a/../../escape-mid.txt", b"x")],
    "via-symlink": [symlink("d", "/etc"), member("d/escape-link.txt", b"x")],
    "two-links": [symlink("p", "."), symlink("p/q", "../.."), member("p/q/escape-two.txt", b"x")],
    "hard-abs": [hardlink("h", "/etc/hostname")],
    "hard-up": [hardlink("h2", "../../etc/hostname")],
    "hard-via-link": [symlink("d", "/etc"), hardlink("h3", "d/hostname")],
    "device": [member("kmsg", type=tarfile.CHRTYPE, devmajor=1, devminor=11)],
    "fifo": [member("pipe", type=tarfile.FIFOTYPE)],
    "replace-folder": [folder("x/"), member("x/f", b"1"), symlink("x", "/tmp"),
                       member("x/f2", b"2")],
}


def long_names() -> list:
    made = [member(name, str(len(name)).encode()) for name in LONG_NAMES]
    return made + [member(DEEP, b"deep"), member(HARD_TARGET, b"target"),
                   hardlink("hard-to-100", HARD_TARGET), symlink("soft-to-300", "s" * 300),
                   member("naïve-\u732b.txt", b"utf8")]


def with_checksum(header: bytearray) -> bytes:
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


def raw(name: bytes, data: bytes, size_field: bytes | None = None) -> bytes:
    """One member whose name and size field are these very bytes."""
    info, _ = member("x", data)
    header = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    header[0:len(name) + 1] = name + b"\0"
    if size_field is not None:
        header[124:136] = size_field
    return with_checksum(header) + data + b"\0" * (-len(data) % 512)


END = b"\0" * 1024
NOT_UTF8 = raw(b"\xff\xfeA", b"bytes") + END
BASE_256_SIZE = raw(b"five.txt", b"12345", b"\x80" + (5).to_bytes(11, "big")) + \
    raw(b"after.txt", b"after") + END
TREE = [
    folder("t/"), folder("t/empty/", 0o700),
    member("t/run.sh", b"#!/bin/sh\necho hi\n", mode=0o755),
    member("t/zero"), member("t/ro", b"r", mode=0o444), folder("t/real/"), member("t/real/f", b"f"),
    symlink("t/dirlink", "real"), symlink("t/filelink", "real/f"),
    symlink("t/dangling", "no/such"), symlink("t/abs", "/etc/hostname"),
    hardlink("t/hard", "t/run.sh"), member("t/owned", b"o", uid=12345, gid=54321)]
