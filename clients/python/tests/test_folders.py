"""Whole folders up and down: what is sent, and that nothing hostile leaves the target."""

import asyncio
import gzip
import io
import json
import os
import stat
import sys
import tarfile

import pytest
import zstandard

import sandbox_gateway as sdk
from scripted_server import Answer


def member(name: str, data: bytes | None = None, **fields) -> tuple[tarfile.TarInfo, bytes | None]:
    info = tarfile.TarInfo(name)
    info.mode, info.mtime = 0o644, 1_700_000_000
    info.size = len(data or b"")
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE):
    return member(name, type=kind, linkname=target)


def tar(*members, format: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format, encoding="utf-8",
                      errors="surrogateescape") as archive:
        for info, data in members:
            archive.addfile(info, None if data is None else io.BytesIO(data))
    return out.getvalue()


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    (folder / "sub/empty").mkdir(parents=True)
    (folder / "sub/script").write_bytes(b"#!/bin/sh\n")
    (folder / "sub/script").chmod(0o750)
    (folder / "big").write_bytes(os.urandom(3_000_001))
    os.link(folder / "big", folder / "same")
    (folder / "link").symlink_to("/etc/passwd")
    (folder / os.fsdecode(b"latin\xe9")).write_bytes(b"1")
    (folder / ("long" * 50)).write_bytes(b"2")
    (folder / "node_modules").mkdir()
    (folder / "node_modules/x").write_bytes(b"3")
    os.mkfifo(folder / "pipe")
    return folder


CODINGS = {"gzip": gzip.decompress,
           "zstd": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data)}


@pytest.mark.parametrize("coding", [None, "gzip", "zstd"])
def test_a_folder_goes_up_as_a_tar(box, server, source, coding, monkeypatch):
    if coding == "gzip":
        monkeypatch.setitem(sys.modules, "zstandard", None)  # as where it is not installed
    server.add(Answer.json({"files": 5, "bytes": 3}))
    answer = box.fs.upload_dir(source, "/data/x y", exclude=["node_modules", "sub/none"],
                               compress=coding is not None, user="u")
    assert answer["files"] == 5
    asked = server.seen[0]
    assert (asked.method, asked.target) == (
        "PUT", "/sandboxes/sbx-1/files?path=%2Fdata%2Fx%20y&tar=1&user=u")
    body = CODINGS[coding](asked.body) if coding else asked.body
    assert asked.headers.get("content-encoding") == coding
    with tarfile.open(fileobj=io.BytesIO(body), encoding="utf-8",
                      errors="surrogateescape") as archive:
        found = {entry.name: entry for entry in archive}
        assert set(found) == {"sub", "sub/empty", "sub/script", "big", "same", "link",
                              os.fsdecode(b"latin\xe9"), "long" * 50}
        assert archive.extractfile("big").read() == (source / "big").read_bytes()
        assert found["same"].islnk() and found["same"].linkname == "big"
        assert found["link"].linkname == "/etc/passwd"
        assert stat.filemode(found["sub/script"].mode) == "?rwxr-x---"
        assert not found["big"].uname


def test_a_file_that_shrinks_on_the_way_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"12345")
    pieces = sdk._tar_of(tmp_path, ())
    next(pieces)
    (tmp_path / "file").write_bytes(b"1")
    with pytest.raises(OSError, match="shorter"):
        list(pieces)


def test_what_is_no_folder_is_not_sent(box, server, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        box.fs.upload_dir(tmp_path / "file", "/x")
    assert server.seen == []


GOOD = (member("./", type=tarfile.DIRTYPE, mode=0o700),
        member("./a/b", b"text", mode=0o4751),
        member("a/empty", type=tarfile.DIRTYPE, mode=0o2700),
        link("a/here", "b"), link("a/hard", "a/b", tarfile.LNKTYPE),
        member(os.fsdecode(b"latin\xe9"), b"x"), member("long/" * 60 + "name", b"y"))


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_a_folder_comes_down(box, server, tmp_path, format):
    server.add(Answer(200, tar(*GOOD, format=format)))
    target = tmp_path / "new/target"
    box.fs.download_dir("/w", target)
    assert server.seen[0].target == "/sandboxes/sbx-1/files?path=%2Fw&tar=1"
    assert (target / "a/here").read_bytes() == b"text"
    assert (target / "a/b").stat().st_ino == (target / "a/hard").stat().st_ino
    assert stat.S_IMODE((target / "a/b").stat().st_mode) == 0o751  # not setuid
    assert stat.S_IMODE((target / "a/empty").stat().st_mode) == 0o700
    assert (target / "a/b").stat().st_mtime == 1_700_000_000
    assert (target / os.fsdecode(b"latin\xe9")).read_bytes() == b"x"
    assert (target / ("long/" * 60) / "name").read_bytes() == b"y"


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_a_folder_comes_down_packed(box, server, tmp_path, coding, monkeypatch):
    pack = gzip.compress if coding == "gzip" else zstandard.compress
    if coding == "gzip":
        monkeypatch.setitem(sys.modules, "zstandard", None)
    server.add(Answer(200, pack(tar(*GOOD)), {"Content-Encoding": coding}))
    box.fs.download_dir("/w", tmp_path, compress=True)
    assert server.seen[0].headers["accept-encoding"].startswith(coding)
    assert (tmp_path / "a/b").read_bytes() == b"text"


def test_a_download_replaces_and_keeps_the_rest(box, server, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b").write_bytes(b"old")
    (tmp_path / "a/kept").write_bytes(b"kept")
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.write_bytes(b"outside")
    (tmp_path / "a/hard").symlink_to(outside)  # replaced, not written through
    server.add(Answer(200, tar(*GOOD)[:-700], cut=600), Answer(200, gzip.compress(tar(*GOOD)),
                                                               {"Content-Encoding": "gzip"}))
    box.fs.download_dir("/w", tmp_path, compress=True)
    assert (tmp_path / "a/b").read_bytes() == (tmp_path / "a/hard").read_bytes() == b"text"
    assert (tmp_path / "a/kept").read_bytes() == b"kept"
    assert outside.read_bytes() == b"outside"


HOSTILE = {
    "absolute": [member("/tmp/evil", b"x")],
    "up": [member("../evil", b"x")],
    "up within": [member("a/../../evil", b"x")],
    "link out": [link("out", "..")],
    "absolute link": [link("out", "/tmp")],
    "through a link": [link("out", "."), member("out/evil", b"x")],
    "through a file": [member("a", b"1"), member("a/evil", b"x")],
    "hard link out": [link("evil", "../outside", tarfile.LNKTYPE)],
    "hard link to nothing": [link("evil", "nothing", tarfile.LNKTYPE)],
    "hard link to a folder": [member("d", type=tarfile.DIRTYPE), link("e", "d", tarfile.LNKTYPE)],
    "device": [member("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)],
    "pipe": [member("pipe", type=tarfile.FIFOTYPE)],
    "file in a folder's place": [member("d", type=tarfile.DIRTYPE), member("d", b"x")],
    "the folder itself": [member(".", b"x")],
    "links that lead out together": [link("x", "a/.."), link("a", ".")],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_member_raises_and_stays_inside(box, server, tmp_path, name):
    target = tmp_path / "target"
    (tmp_path / "outside").write_bytes(b"outside")
    members = [member("before", b"ok"), *HOSTILE[name], member("after", b"ok")]
    server.respond = lambda _: Answer(200, tar(*members))
    with pytest.raises(sdk.UnsafeArchive) as caught:
        box.fs.download_dir("/w", target)
    assert caught.value.code == "archive_invalid"
    box.fs.download_dir("/w", target, skip_unsafe=True)
    assert (target / "after").read_bytes() == b"ok"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside", "target"]
    assert (tmp_path / "outside").read_bytes() == b"outside"
    assert (tmp_path / "outside").stat().st_nlink == 1
    for path in target.rglob("*"):
        assert path.resolve().is_relative_to(target)
    assert not os.path.lexists("/tmp/evil")


def test_an_existing_link_of_ours_is_not_followed(box, server, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    target = tmp_path / "target"
    target.mkdir()
    (target / "a").symlink_to(outside)
    server.add(Answer(200, tar(member("a/b", b"x"))))
    with pytest.raises(sdk.UnsafeArchive):
        box.fs.download_dir("/w", target)
    assert list(outside.iterdir()) == []


def test_a_folder_has_a_bound(box, server, tmp_path):
    server.add(Answer(200, tar(member("a", b"x" * 6000))))
    with pytest.raises(sdk.StorageFull):
        box.fs.download_dir("/w", tmp_path, bytes_max=5999)


def test_an_extended_header_has_a_bound(box, server, tmp_path):
    info = tarfile.TarInfo("././@PaxHeader")
    info.type, info.size = tarfile.XHDTYPE, 1 << 32
    server.add(Answer(200, info.tobuf(tarfile.USTAR_FORMAT) + bytes(4096)))
    with pytest.raises(sdk.UnsafeArchive, match="header"):
        box.fs.download_dir("/w", tmp_path)


@pytest.mark.parametrize("body", [b"not a tar" * 200, tar(*GOOD)[:700], tar(*GOOD)[:1024], b""],
                         ids=["no tar", "cut in a header", "cut behind one", "empty"])
def test_a_broken_archive_is_an_error(box, server, tmp_path, body):
    server.add(Answer(200, body))
    with pytest.raises(sdk.InternalError, match="broken"):
        box.fs.download_dir("/w", tmp_path)


def test_holes_stay_holes(box, server, tmp_path):
    # GNU's old form: one real block at 512 KiB of a file of 1 MiB.
    info = tarfile.TarInfo("sparse")
    info.type, info.size, info.mode = tarfile.GNUTYPE_SPARSE, 512, 0o644
    head = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    head[386:410] = b"%011o\0%011o\0" % (512 << 10, 512)
    head[483:495] = b"%011o\0" % (1 << 20)
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    server.add(Answer(200, bytes(head) + b"d" * 512 + bytes(1024)))
    box.fs.download_dir("/w", tmp_path)
    data = (tmp_path / "sparse").read_bytes()
    assert len(data) == 1 << 20 and data.strip(b"\0") == b"d" * 512


def test_the_rest_of_the_file_calls(box, server):
    entry = {"name": "a", "path": "/a", "type": "file", "size": 1, "mode": "0644"}
    server.add(*[Answer.json(entry)] * 3, Answer(204), Answer.json(entry))
    assert box.fs.stat("/a").mode == "0644"
    assert box.fs.mkdir("/d/e", mode=0o700, owner="u").path == "/a"
    box.fs.move("/a", "/b", overwrite=True)
    box.fs.remove("/b", recursive=True)
    box.fs.chmod("/c", 0o600, recursive=True)
    assert [(seen.method, seen.target.removeprefix("/sandboxes/sbx-1/files"))
            for seen in server.seen] == [
        ("GET", "?path=%2Fa&stat=1"), ("POST", "/mkdir?path=%2Fd%2Fe&mode=0700&owner=u"),
        ("POST", "/move?path=%2Fa&to=%2Fb&overwrite=1"), ("DELETE", "?path=%2Fb&recursive=1"),
        ("POST", "/chmod?path=%2Fc&mode=0600&recursive=1")]


def changes(*rows: dict) -> Answer:
    lines = ["event: ready\ndata: {}\n\n: still here\n\n"]
    lines += [f"event: change\ndata: {json.dumps(row)}\n\n" for row in rows]
    return Answer(200, "".join(lines).encode())


def test_changes_are_watched_and_what_was_missed_is_told(box, server):
    server.add(changes({"type": "moved", "path": "/w/b", "from": "/w/a", "is_directory": True}),
               changes({"type": "gone", "path": "/w"}))
    seen = list(box.fs.watch("/w", recursive=True))
    assert [change.type for change in seen] == ["ready", "moved", "overflow", "gone"]
    assert (seen[1].path, seen[1].source, seen[1].is_directory) == ("/w/b", "/w/a", True)
    assert server.seen[0].target.endswith("/files/watch?path=%2Fw&recursive=1")


def test_a_file_of_ours_goes_on_where_it_broke_off(box, server, tmp_path):
    tag = {"ETag": '"1"'}
    server.add(Answer(200, b"abcdef", tag, cut=3), Answer(206, b"def", tag, cut=1),
               Answer(206, b"ef", tag), Answer(200, b"abc", tag, cut=2), Answer(200, b"new", tag))
    box.fs.download("/f", tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == b"abcdef"
    assert [seen.headers.get("range") for seen in server.seen] == [None, "bytes=3-", "bytes=4-"]
    assert server.seen[1].headers["if-range"] == '"1"'
    assert box.fs.download("/f") == b"new"  # it changed meanwhile


def test_async_folders(server, source, tmp_path):
    async def main():
        async with sdk.AsyncGateway(server.url, "t") as gateway:
            server.add(Answer.json({"id": "sbx-1", "state": "ready"}),
                       Answer.json({"files": 1}), Answer(200, tar(*GOOD)),
                       Answer(200, tar(member("../evil", b""))))
            sbx = await gateway.get("sbx-1")
            await sbx.fs.upload_dir(source, "/w")
            await sbx.fs.download_dir("/w", tmp_path / "down")
            with pytest.raises(sdk.UnsafeArchive):
                await sbx.fs.download_dir("/w", tmp_path / "down")

    asyncio.run(main())
    assert (tmp_path / "down/a/b").read_bytes() == b"text"
