"""`sandbox cp -r` and `sandbox files`."""

import io
import json
import os
import signal
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest
from deployment import eventually
from tar_files import archive, member


@pytest.fixture
def tree(tmp_path) -> Path:
    """A folder with everything that a copy has to keep."""
    root = tmp_path / "tree"
    (root / "sub" / "empty").mkdir(parents=True)
    (root / "sub" / "file").write_bytes(os.urandom(300_000))
    (root / "tool").write_text("#!/bin/sh\necho ran\n")
    (root / "tool").chmod(0o755)
    (root / "private").write_bytes(b"secret")
    (root / "private").chmod(0o600)
    (root / "link").symlink_to("sub/file")
    (root / "broken").symlink_to("/nowhere/at/all")
    os.link(root / "tool", root / "twin")
    with open(os.fsencode(root) + b"/not-utf8-\xff", "wb") as file:
        file.write(b"bytes")
    (root / ("long-" + "n" * 180)).write_bytes(b"")
    (root / "sub" / "empty").chmod(0o750)
    os.utime(root / "tool", (1_600_000_000, 1_600_000_000))
    return root


def listing(root: Path) -> dict:
    """Everything of a tree that a copy keeps, by name."""
    found = {}
    top = os.fsencode(root)
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            content = b""
            if stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    content = file.read()
            elif stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            mode = 0 if stat.S_ISLNK(status.st_mode) else stat.S_IMODE(status.st_mode)
            found[os.path.relpath(path, top)] = (stat.S_IFMT(status.st_mode), mode, content)
    return found


def test_there_and_back(api, sandbox_cli, box, tree, tmp_path):
    up = sandbox_cli("cp", "-r", str(tree), f"{box}:/root/copy")
    assert (up.returncode, up.stdout, up.stderr) == (0, b"", b"")
    assert api.output(box, "/root/copy/tool; stat -c %Y /root/copy/tool; readlink /root/copy/link; "
                           "stat -c %a /root/copy/sub/empty; stat -c %h /root/copy/twin") == (
        "ran\n1600000000\nsub/file\n750\n2")
    down = sandbox_cli("cp", "-r", f"{box}:/root/copy", str(tmp_path / "back"))
    assert (down.returncode, down.stdout, down.stderr) == (0, b"", b"")
    assert listing(tmp_path / "back") == listing(tree)
    assert (tmp_path / "back" / "tool").stat().st_mtime == 1_600_000_000
    assert (tmp_path / "back" / "tool").samefile(tmp_path / "back" / "twin")


def test_where_a_copy_goes(api, sandbox_cli, box, tree, tmp_path):
    for source, target, wanted in ((str(tree), ":/a/", "/a/tree/tool"),
                                   (str(tree) + "/.", ":/b", "/b/tool"),
                                   (str(tree / "tool"), ":/c/", "/c/tool")):
        assert sandbox_cli("cp", "-r", source, box + target).returncode == 0
        assert api.output(box, f"test -f {wanted} && echo there") == "there"
    here = tmp_path / "here"
    here.mkdir()
    for source, wanted in ((":/a/tree", here / "tree" / "tool"), (":/a/tree/.", here / "tool"),
                           (":/c/tool", here / "tool")):
        assert sandbox_cli("cp", "-r", box + source, str(here)).returncode == 0
        assert wanted.is_file()
    merged = sandbox_cli("cp", "-r", str(tree / "sub"), f"{box}:/a/tree")
    assert merged.returncode == 0
    assert api.output(box, "ls /a/tree/tool /a/tree/file | wc -l") == "2"


def test_pipes_carry_archives(sandbox_cli, box):
    packed = archive(member("in/file", b"piped"))
    assert sandbox_cli("cp", "-r", "-", f"{box}:/t", stdin=packed).returncode == 0
    got = sandbox_cli("cp", "-r", f"{box}:/t", "-")
    assert got.returncode == 0, got.stderr
    with tarfile.open(fileobj=io.BytesIO(got.stdout)) as tar:
        names = {os.path.normpath(name): name for name in tar.getnames()}
        assert tar.extractfile(names["in/file"]).read() == b"piped"


def test_links_in_a_sandbox_lead_nowhere_here(api, sandbox_cli, box, tmp_path):
    """A tree full of ways out lands as it is, and what lies beside the target stays untouched."""
    (tmp_path / "victim").write_bytes(b"untouched")
    api.output(box, "mkdir -p /h/d && cd /h && ln -s ../victim up && ln -s / d/root && "
                    "ln -s .. d/parent && chmod 4755 . && echo x >suid && "
                    "chmod 6755 suid && mkfifo pipe")
    done = sandbox_cli("cp", "-r", f"{box}:/h", str(tmp_path / "got"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "got" / "up").is_symlink() and (tmp_path / "got" / "d" / "root").is_symlink()
    assert stat.S_IMODE((tmp_path / "got" / "suid").stat().st_mode) & 0o7000 == 0
    assert not (tmp_path / "got" / "pipe").exists()
    # Once more over it: its own links are replaced, not followed.
    api.output(box, "cd /h && rm up && echo new >up")
    again = sandbox_cli("cp", "-r", f"{box}:/h/.", str(tmp_path / "got"))
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "victim").read_bytes() == b"untouched"
    assert (tmp_path / "got" / "up").read_bytes() == b"new\n"


def test_refusals(sandbox_cli, box, tree, tmp_path):
    plain = sandbox_cli("cp", str(tree), f"{box}:/x")
    assert plain.returncode == 125 and b"cp -r" in plain.stderr
    folder = sandbox_cli("cp", f"{box}:/etc", str(tmp_path / "etc"))
    assert folder.returncode == 125 and b"cp -r" in folder.stderr
    missing = sandbox_cli("cp", "-r", f"{box}:/none", str(tmp_path / "none"))
    assert missing.returncode == 125 and b"file_not_found" in missing.stderr
    assert not (tmp_path / "none").exists()
    broken = sandbox_cli("cp", "-r", "-", f"{box}:/x", stdin=b"no archive at all" * 100)
    assert broken.returncode == 125 and b"archive_invalid" in broken.stderr
    closed = sandbox_cli("cp", "-r", str(tree), f"{box}:/etc/passwd")
    assert closed.returncode == 125


def test_files_commands(api, sandbox_cli, box):
    def files(*argv: str) -> str:
        done = sandbox_cli("files", argv[0], box, *argv[1:])
        assert (done.returncode, done.stderr) == (0, b""), argv
        return done.stdout.decode()

    files("mkdir", "/f/a/b", "--mode", "0700")
    api.upload(box, "/f/a/one", b"1")
    files("mv", "/f/a/one", "/f/a/two")
    files("chmod", "0640", "/f/a/two")
    assert files("ls", "/f/a", "-q").split() == ["/f/a/b", "/f/a/two"]
    item = json.loads(files("stat", "/f/a/two", "-o", "json"))
    assert (item["type"], item["mode"], item["size"]) == ("file", "0640", 1)
    api.upload(box, "/f/a/three", b"3")
    kept = sandbox_cli("files", "mv", "-n", box, "/f/a/two", "/f/a/three")
    assert kept.returncode == 125 and b"file_exists" in kept.stderr
    refused = sandbox_cli("files", "rm", box, "/f/a")
    assert refused.returncode == 125
    files("rm", "-r", "/f/a")
    assert files("ls", "/f", "-q") == ""
    assert sandbox_cli("files", "stat", box, "/f/a").returncode == 125


def test_watch_shows_changes(api, sandbox_cli, box):
    api.output(box, "mkdir /watched")
    watching = subprocess.Popen([sandbox_cli.program, "files", "watch", "-o", "json", box,
                                 "/watched"], env=sandbox_cli.environment, stdout=subprocess.PIPE)
    seen = []
    os.set_blocking(watching.stdout.fileno(), False)

    def has_come() -> bool:
        api.output(box, "echo x >/watched/name")
        seen.append(watching.stdout.read() or b"")
        return b"/watched/name" in b"".join(seen)

    eventually(has_come)
    watching.send_signal(signal.SIGINT)
    assert watching.wait(timeout=30) == 130
