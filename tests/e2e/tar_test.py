"""Folders as tar archives, up and down, with what tar programs make and what attackers would."""

import io
import os
import subprocess
import tarfile
import threading

import pytest

from deployment import error_of
from tar_files import archive, folder, hardlink, member, symlink


def put(api, box, path, data, **query):
    return api.upload(box, path, data, tar="1", **query)


def get(api, box, path, **query):
    answer = api.download(box, path, tar="1", **query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-tar"
    return answer.content


@pytest.fixture
def tree(tmp_path):
    """What archives find hard."""
    top = tmp_path / "tree"
    (top / "sub" / "empty").mkdir(parents=True)
    (top / "sub" / "run.sh").write_bytes(b"#!/bin/sh\necho hi\n")
    (top / "sub" / "run.sh").chmod(0o751)
    os.link(top / "sub" / "run.sh", top / "hard")
    (top / "dangling").symlink_to("s" * 300)
    (top / ("n" * 255)).write_bytes(b"255")
    deep = top.joinpath(*["d" * 50] * 6)
    deep.mkdir(parents=True)
    (deep / "leaf").write_bytes(b"deep")
    (top / "naïve-猫").write_bytes(b"utf8")
    with open(os.fsencode(top) + b"/\xff\xfeA", "wb") as odd:
        odd.write(b"bytes")
    with (top / "hole").open("wb") as hole:
        hole.seek(7_000_000)
        hole.write(b"mid")
        hole.truncate(20_000_000)
    for path in (top / "sub" / "run.sh", top / "sub"):
        os.utime(path, ns=(1_700_000_000_123_456_789,) * 2)
    return top


PACKERS = {
    "gnu-pax": ["tar", "--format=pax", "-S", "-cf", "-", "."],
    "gnu-gnu": ["tar", "--format=gnu", "-S", "-cf", "-", "."],
    "bsdtar": ["bsdtar", "--format=pax", "-cf", "-", "."],
}
UNPACKERS = {"gnu": ["tar", "-xf", "-"], "bsdtar": ["bsdtar", "-xf", "-"], "python": None}


def same(left, right) -> None:
    done = subprocess.run(["diff", "-r", "--no-dereference", left, right], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("packer", PACKERS)
def test_round_trip_with_tar_programs(api, box, tree, tmp_path, packer):
    packed = subprocess.run(PACKERS[packer], cwd=tree, capture_output=True, check=True,
                            env={**os.environ, "LC_ALL": "C.UTF-8"}).stdout
    answer = put(api, box, "/data/in", packed)
    assert answer.status_code == 200, answer.text
    assert answer.json()["files"] == 6 and answer.json()["links"] == 2
    assert api.output(box, "cd /data/in && stat -c '%a %h %Y' sub/run.sh hard") == \
        "751 2 1700000000\n751 2 1700000000"
    assert int(api.output(box, "stat -c %b /data/in/hole")) < 1000
    assert api.output(box, "ls -A /data") == "in"
    got = get(api, box, "/data/in")
    for name, command in UNPACKERS.items():
        out = tmp_path / f"out-{name}"
        out.mkdir()
        if command is None:
            with tarfile.open(fileobj=io.BytesIO(got)) as tar:
                tar.extractall(out, filter="fully_trusted")
        else:
            subprocess.run(command, cwd=out, input=got, check=True,
                           env={**os.environ, "LC_ALL": "C.UTF-8"})
        same(tree, out)
        assert (out / "sub" / "run.sh").stat().st_ino == (out / "hard").stat().st_ino
        assert (out / "sub" / "run.sh").stat().st_mode & 0o7777 == 0o751
    assert (tmp_path / "out-gnu" / "sub" / "run.sh").stat().st_mtime_ns == \
        1_700_000_000_123_456_789 or packer == "gnu-gnu"


HOSTILE = {
    "dotdot": [member("../escape", b"x")],
    "absolute": [member("/escape", b"x")],
    "middle": [member("a/../../escape", b"x")],
    "via-symlink": [symlink("d", "/etc"), member("d/escape", b"x")],
    "via-relative-symlink": [symlink("d", "../../etc"), member("d/escape", b"x")],
    "two-links": [symlink("p", "."), symlink("p/q", "../.."), member("p/q/escape", b"x")],
    "folder-via-symlink": [symlink("d", "/etc"), folder("d/escape")],
    "hard-absolute": [hardlink("h", "/etc/passwd")],
    "hard-up": [hardlink("h", "../../etc/passwd")],
    "hard-via-symlink": [symlink("d", "/etc"), hardlink("h", "d/passwd")],
    "device": [member("kmsg", type=tarfile.CHRTYPE, devmajor=1, devminor=11)],
    "block-device": [member("disk", type=tarfile.BLKTYPE, devmajor=8, devminor=0)],
    "pipe": [member("pipe", type=tarfile.FIFOTYPE)],
    "long-part": [member("n" * 256, b"x")],
}


@pytest.mark.parametrize("trick", HOSTILE)
def test_hostile_member_fails_the_upload_and_is_named(api, shared_box, trick):
    before = api.output(shared_box, "find / -xdev -newer /proc/1 -name 'escape*' | wc -l; "
                                    "stat -c %Z%h /etc/passwd")
    answer = put(api, shared_box, f"/data/{trick}/in",
                 archive(member("ok", b"ok"), *HOSTILE[trick], member("later", b"x")))
    assert error_of(answer) == (422, "archive_invalid"), answer.text
    details = answer.json()["error"]["details"]
    assert details["member"] == HOSTILE[trick][-1][0].name
    assert "ok" in details["written"].splitlines()
    assert api.output(shared_box, f"cat /data/{trick}/in/ok") == "ok"
    assert api.output(shared_box, f"ls /data/{trick}/in | grep -c later || true") == "0"
    assert api.output(shared_box, "find / -xdev -newer /proc/1 -name 'escape*' | wc -l; "
                                  "stat -c %Z%h /etc/passwd") == before


def test_a_folder_is_not_replaced_by_a_link(api, box):
    answer = put(api, box, "/data/in", archive(
        folder("x"), member("x/f", b"1"), symlink("x", "/tmp"), member("x/f2", b"2")))
    assert error_of(answer) == (409, "is_a_directory")
    assert api.output(box, "cat /data/in/x/f; ls /tmp | wc -l") == "1" "0"


def test_broken_archives(api, box):
    whole = archive(member("f", b"x" * 100_000))
    for broken in (b"", b"no archive", whole[:50_000], whole[:512], b"\0" * 100 + whole):
        assert error_of(put(api, box, "/data/broken", broken)) == (422, "archive_invalid")
        assert api.output(box, "ls -A /data 2>/dev/null | wc -l") == "0"
    # A second archive behind the first would be lost without a word.
    assert error_of(put(api, box, "/data/broken", whole + whole)) == (422, "archive_invalid")
    assert api.output(box, "ls -A /data/broken") == "f"


def test_uploads_belong_to_the_acting_user(api, box):
    api.output(box, "mkdir -p /home/u && chown 1000:1000 /home/u")
    data = archive(folder("d"), member("d/f", b"x", uid=77, gid=77, mode=0o4755))
    assert put(api, box, "/home/u/in", data, user="1000:1000").status_code == 200
    assert api.output(box, "cd /home/u/in; stat -c '%u:%g %a' . d d/f") == \
        "1000:1000 755\n1000:1000 755\n1000:1000 755"
    assert error_of(put(api, box, "/home/u/x", data, user="1000", preserve_owner="1")) == \
        (403, "permission_denied")
    assert put(api, box, "/root/own", data, preserve_owner="1").status_code == 200
    assert api.output(box, "stat -c '%u:%g %a' /root/own/d/f") == "77:77 4755"
    huge = archive(member("f", b"x", uid=4_000_000_000))
    assert error_of(put(api, box, "/root/huge", huge, preserve_owner="1")) == \
        (422, "archive_invalid")


def test_disk_full_keeps_what_was_there(api):
    box = api.create(storage_mb=64)["id"]
    try:
        assert api.upload(box, "/data/keep", b"old" * 100_000).status_code == 200
        big = archive(member("first", b"1"), member("keep", os.urandom(100_000_000)))
        answer = put(api, box, "/data", big)
        assert error_of(answer) == (507, "disk_full")
        assert api.download(box, "/data/keep").content == b"old" * 100_000
        assert api.output(box, "ls -A /data") == "first\nkeep"
    finally:
        api.remove(box)


def test_a_tree_that_changes_while_it_is_sent(api, box):
    """FI-06: a whole archive whatever happens, and the connection goes on."""
    api.shell(box, "mkdir -p /live/many; head -c 30000000 /dev/zero > /live/cut; : > /live/log; "
                   "(while :; do echo more >> /live/log; rm -f /live/many/*; "
                   "for i in 1 2 3 4 5 6 7 8; do echo $i > /live/many/$i; done; "
                   ": > /live/cut; head -c 30000000 /dev/zero > /live/cut; done) "
                   ">/dev/null 2>&1 &")
    for _ in range(10):
        with tarfile.open(fileobj=io.BytesIO(get(api, box, "/live"))) as tar:
            assert {"./log", "./cut"} <= set(tar.getnames())
        assert api.download(box, "/etc/hostname").status_code == 200


def test_a_folder_swapped_with_a_link_leads_nowhere_else(api, box):
    """FI-01, for archives: a process of the sandbox exchanges a folder and a link to /."""
    api.output(box, "mkdir -p /race/in/x /canary")
    api.shell(box, "cd /race/in; ln -s /canary y; (while :; do mv x z; mv y x; mv x y; mv z x; "
                   "done) >/dev/null 2>&1 &")
    data = archive(*(member(f"x/f{i}", b"x") for i in range(20)))
    for _ in range(30):
        answer = put(api, box, "/race/in", data)
        assert answer.status_code in (200, 404, 409, 422), answer.text
    assert api.output(box, "ls -A /canary | wc -l") == "0"


def test_attributes_of_users_go_up_and_come_down(api, box):
    value = "v\n=\u00e4" * 20
    up = archive(member("f", b"x", pax_headers={"SCHILY.xattr.user.note": value}),
                 folder("d", pax_headers={"SCHILY.xattr.user.of": "folder"}),
                 member("plain", b"y", pax_headers={"SCHILY.xattr.trusted.x": "no",
                                                    "SCHILY.xattr.security.capability": "no"}))
    assert put(api, box, "/data", up).status_code == 200
    api.output(box, "mv /data /moved")  # what comes down is the disk's, not the upload's
    with tarfile.open(fileobj=io.BytesIO(get(api, box, "/moved"))) as tar:
        told = {entry.name.removeprefix("./"): {key.removeprefix("SCHILY.xattr."): text
                for key, text in entry.pax_headers.items() if key.startswith("SCHILY.xattr.")}
                for entry in tar}
    assert told["f"] == {"user.note": value}
    assert told["d"] == {"user.of": "folder"}
    assert told["plain"] == {}


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_a_compressed_download(api, box, coding):
    api.upload(box, "/data/f", b"zeros" * 1_000_000)
    plain = api.http.get(f"/sandboxes/{box}/files", params={"path": "/data", "tar": "1"},
                         headers={"Accept-Encoding": "identity"})
    packed = api.http.get(f"/sandboxes/{box}/files", params={"path": "/data", "tar": "1"},
                          headers={"Accept-Encoding": f"br, {coding};q=0.5"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == coding
    assert int(packed.num_bytes_downloaded) < 1_000_000
    assert packed.content == plain.content and len(plain.content) > 5_000_000


def test_many_files_and_parallel_uploads(api, box):
    data = archive(*(member(f"d{i % 50}/f{i}", b"%d" % i) for i in range(5000)))
    answers = [None] * 4

    def up(number):
        answers[number] = put(api, box, f"/p/{number % 2}", data)

    threads = [threading.Thread(target=up, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Two upload into each folder at the same time: they become one.
    assert [answer.status_code for answer in answers] == [200] * 4, [a.text for a in answers]
    assert api.output(box, "for p in 0 1; do find /p/$p -type f | wc -l; done") == "5000\n5000"
    assert api.output(box, "ls -A /p") == "0\n1"
    with tarfile.open(fileobj=io.BytesIO(get(api, box, "/p/0"))) as tar:
        assert sum(info.isfile() for info in tar) == 5000
