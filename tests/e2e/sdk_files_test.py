"""The Python client's files against a real gateway."""

import asyncio
import hashlib
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import sandbox_gateway
from deployment import ROOT

# What a program inside can make for whoever downloads it.
HOSTILE = """
mkdir -p /hostile/d; cd /hostile
echo inside > d/file
ln -s /etc/passwd absolute; ln -s ../../../../tmp up; ln -s d/../.. roundabout
ln -s d inside; mkfifo pipe
printf x > "$(printf 'new\\nline')"; printf y > "$(printf 'latin\\351')"
"""


@pytest.mark.parametrize("size", [5, 100_000, 5_000_000])
def test_a_refused_upload_does_not_disturb_what_follows(sandbox, size):
    for turn in range(20):
        with pytest.raises(sandbox_gateway.Conflict) as caught:
            sandbox.fs.upload(b"x" * size, "/etc")
        assert caught.value.code == "is_a_directory"
        assert sandbox.exec(f"echo {turn}").stdout == f"{turn}\n"


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "tree"
    (folder / "sub/empty").mkdir(parents=True)
    (folder / "sub/script").write_text("#!/bin/sh\necho ran\n")
    (folder / "sub/script").chmod(0o750)
    (folder / "big").write_bytes(os.urandom(9_000_001))
    os.link(folder / "big", folder / "same")
    (folder / "link").symlink_to("sub/script")
    (folder / os.fsdecode(b"latin\xe9")).write_bytes(b"1")
    (folder / ("n" * 200)).write_bytes(b"")
    deep = folder / "/".join(["deep" * 10] * 12)
    deep.mkdir(parents=True)
    (deep / "end").write_text("ä")
    os.utime(folder / "big", (1_600_000_000, 1_600_000_000.25))
    return folder


def described(folder: Path) -> dict:
    """What of a tree must come back the same."""
    found = {}
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        entry = [stat.filemode(info.st_mode)]
        if path.is_symlink():
            entry = ["link", os.readlink(path)]
        elif path.is_file():
            entry += [hashlib.sha256(path.read_bytes()).hexdigest(), info.st_mtime, info.st_nlink]
        found[str(path.relative_to(folder))] = entry
    return found


@pytest.mark.parametrize("compress", [False, True])
def test_a_folder_there_and_back(sandbox, tree, tmp_path, compress):
    sandbox.exec("rm -rf /up")
    answer = sandbox.fs.upload_dir(tree, "/up/here", compress=compress)
    assert answer["bytes"] >= 9_000_001
    assert sandbox.run("/up/here/link").stdout == "ran\n"
    assert sandbox.run("stat -c %h /up/here/same").stdout == "2\n"
    sandbox.fs.download_dir("/up/here", tmp_path / "back", compress=compress)
    assert described(tmp_path / "back") == described(tree)


def test_folders_merge_both_ways(sandbox, tmp_path):
    sandbox.run("rm -rf /m; mkdir -p /m/d; cd /m; echo kept > d/kept; echo old > d/new;"
                "chmod 700 .")
    (tmp_path / "in/d").mkdir(parents=True)
    (tmp_path / "in/d/new").write_text("new")
    (tmp_path / "in/skipped.pyc").write_text("x")
    sandbox.fs.upload_dir(tmp_path / "in", "/m", exclude=["*.pyc"])
    assert sandbox.run("cd /m; cat d/kept d/new; ls; stat -c %a .").stdout == "kept\nnewd\n700\n"
    (tmp_path / "out/d").mkdir(parents=True)
    (tmp_path / "out/d/mine").write_text("mine")
    sandbox.fs.download_dir("/m", tmp_path / "out")
    assert sorted(os.listdir(tmp_path / "out/d")) == ["kept", "mine", "new"]


def test_an_empty_folder_and_many_small_files(sandbox, tmp_path):
    (tmp_path / "empty").mkdir()
    sandbox.fs.upload_dir(tmp_path / "empty", "/made/empty")
    assert sandbox.fs.list("/made/empty") == []
    for i in range(3000):
        path = tmp_path / "many" / str(i % 30) / str(i)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(i))
    sandbox.fs.upload_dir(tmp_path / "many", "/many")
    assert sandbox.run("find /many -type f | wc -l").stdout == "3000\n"
    sandbox.fs.download_dir("/many", tmp_path / "back")
    assert described(tmp_path / "back") == described(tmp_path / "many")


def test_a_hostile_folder_stays_in_its_target(sandbox, tmp_path):
    sandbox.run(HOSTILE)
    with pytest.raises(sandbox_gateway.UnsafeArchive):
        sandbox.fs.download_dir("/hostile", tmp_path / "first")
    sandbox.fs.download_dir("/hostile", tmp_path / "second", skip_unsafe=True)
    here = tmp_path / "second"
    assert {path.name for path in here.iterdir()} == {"d", "inside", "new\nline",
                                                      os.fsdecode(b"latin\xe9")}
    assert (here / "inside/file").read_text() == "inside\n"
    assert {path.name for path in tmp_path.iterdir()} == {"first", "second"}


def test_errors_of_folders(sandbox, tmp_path):
    with pytest.raises(sandbox_gateway.NotFound) as missing:
        sandbox.fs.download_dir("/none", tmp_path / "x")
    assert missing.value.code == "file_not_found" and not (tmp_path / "x").exists()
    with pytest.raises(sandbox_gateway.Conflict):
        sandbox.fs.download_dir("/etc/passwd", tmp_path / "x")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/f").write_bytes(b"x" * 1000)
    with pytest.raises(sandbox_gateway.Conflict):
        sandbox.fs.upload_dir(tmp_path / "in", "/etc/passwd")
    with pytest.raises(sandbox_gateway.Forbidden):
        sandbox.fs.upload_dir(tmp_path / "in", "/root/x", user="1000")
    assert sandbox.run("echo fine").stdout == "fine\n"


def test_the_other_calls(sandbox):
    fs = sandbox.fs
    assert fs.mkdir("/c/d/e", mode=0o700).type == "directory"
    fs.write_text("/c/d/e/f", "text")
    assert [entry.path for entry in fs.list("/c", depth=5)] == ["/c/d", "/c/d/e", "/c/d/e/f"]
    assert (fs.stat("/c/d/e/f").size, fs.stat("/c/d/e").mode) == (4, "0700")
    assert fs.move("/c/d/e/f", "/c/new/g").path == "/c/new/g"
    fs.write_text("/c/h", "other")
    with pytest.raises(sandbox_gateway.Conflict) as there:
        fs.move("/c/h", "/c/new/g")
    assert there.value.code == "file_exists"
    fs.move("/c/h", "/c/new/g", overwrite=True)
    assert fs.read_text("/c/new/g") == "other"
    fs.chmod("/c/new", 0o711, owner="1000:1000", recursive=True)
    assert sandbox.run("stat -c '%a %u' /c/new/g").stdout == "711 1000\n"
    with pytest.raises(sandbox_gateway.Conflict):
        fs.remove("/c")
    fs.remove("/c", recursive=True)
    with pytest.raises(sandbox_gateway.NotFound):
        fs.stat("/c")


def test_changes_are_watched(sandbox):
    sandbox.run("mkdir -p /watched/sub")
    changes = sandbox.fs.watch("/watched", recursive=True)
    assert next(changes).type == "ready"
    sandbox.run("echo 1 > /watched/sub/a; mv /watched/sub/a /watched/b; rm -r /watched")
    seen = [(change.type, change.path) for change in changes]
    assert ("created", "/watched/sub/a") in seen and seen[-1][0] == "gone"
    assert any(kind == "moved" and path == "/watched/b" for kind, path in seen)


def test_a_folder_streams_through_little_memory(sandbox, deployed, tmp_path):
    """Neither way does the client hold what it carries."""
    (tmp_path / "in").mkdir()
    with (tmp_path / "in/large").open("wb") as file:
        for _ in range(40):
            file.write(os.urandom(1 << 20) * 8)
    program = (f"import sys, resource; sys.path.insert(0, {str(ROOT / 'clients/python')!r})\n"
               "import sandbox_gateway\n"
               f"fs = sandbox_gateway.Gateway().get({sandbox.id!r}).fs\n"
               "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
               f"fs.upload_dir({str(tmp_path / 'in')!r}, '/large')\n"
               f"fs.download_dir('/large', {str(tmp_path / 'out')!r})\n"
               "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n")
    done = subprocess.run(
        [sys.executable, "-B", "-c", program],
        env={"SANDBOX_GATEWAY_URL": deployed.url, "SANDBOX_GATEWAY_TOKEN": deployed.token},
        capture_output=True, text=True, check=True)
    assert int(done.stdout) < 64 << 10  # KiB, of 320 MiB each way
    assert described(tmp_path / "out") == described(tmp_path / "in")
    sandbox.fs.remove("/large", recursive=True)


def test_asynchronous_folders(deployed, sandbox, tree, tmp_path):
    async def main() -> None:
        async with sandbox_gateway.AsyncGateway(deployed.url, deployed.token) as gateway:
            same = await gateway.get(sandbox.id)
            await asyncio.gather(*(same.fs.upload_dir(tree, f"/async/{i}") for i in range(4)))
            await asyncio.gather(*(same.fs.download_dir(f"/async/{i}", tmp_path / f"back{i}")
                                   for i in range(4)))
            changes = same.fs.watch("/async")
            assert (await anext(changes)).type == "ready"
            await same.fs.remove("/async/0", recursive=True)
            async for change in changes:
                if change.type == "deleted":
                    break
            await changes.aclose()

    asyncio.run(main())
    assert all(described(tmp_path / f"back{i}") == described(tree) for i in range(4))


def test_an_upload_that_a_cut_connection_ends_is_not_taken_for_whole(sandbox, tmp_path):
    def pieces():
        yield b"x" * 100_000
        raise OSError("the source broke")

    sandbox.fs.write_text("/whole", "old")
    with pytest.raises(OSError, match="broke"):
        sandbox.fs.upload(pieces(), "/whole")
    assert sandbox.fs.read_text("/whole") == "old"
    threads = [threading.Thread(target=sandbox.fs.upload, args=(b"%d" % i * 100_000, "/whole"))
               for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(sandbox.fs.read_text("/whole"))) == 1
