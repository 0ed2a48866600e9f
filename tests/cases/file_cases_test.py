"""Files: faults that other systems had (area FI). With SANDBOX_LONG=1 the races run longer."""

import contextlib
import io
import os
import subprocess
import tarfile
import threading
import time
from pathlib import Path
from urllib.parse import quote, quote_from_bytes

import httpx
import pytest

import archives
import tar_files
from deployment import error_of, eventually

LONG = os.environ.get("SANDBOX_LONG") == "1"
CANARY = Path("/etc/sandbox-gateway-host-canary")


def files(box: str, path: str | bytes, **query) -> str:
    """The route with the path percent-encoded byte by byte."""
    encoded = quote_from_bytes(path, "") if isinstance(path, bytes) else quote(path, "")
    more = "".join(f"&{name}={value}" for name, value in query.items())
    return f"/sandboxes/{box}/files?path={encoded}{more}"


def put(api, box, path, data=b"", **query):
    return api.http.put(files(box, path, **query), content=data)


def get(api, box, path, **query):
    return api.http.get(files(box, path, **query))


def put_tar(api, box, path, data: bytes, **query):
    return put(api, box, path, data, tar=1, **query)


@pytest.fixture
def canary():
    CANARY.write_text("host secret")
    yield CANARY
    CANARY.unlink()


def test_paths_resolve_inside(api, box, canary):
    """FI-01"""
    api.output(box, "ln -s /tmp /t1; ln -s /etc/hostname /t2; ln -s ../../../../../../etc /t3; "
               "ln -s /proc/1/root /t4; ln -s self /t5; ln -s loop2 /loop1; ln -s loop1 /loop2; "
               "ln -s self /self")
    assert put(api, box, "/t1/a", b"a").status_code in (200, 201)
    assert api.output(box, "cat /tmp/a") == "a" and not Path("/tmp/a").exists()
    assert put(api, box, "/t2", b"name").status_code in (200, 201)
    assert api.output(box, "cat /etc/hostname; readlink /t2") == "name/etc/hostname"
    assert put(api, box, "/t3/b", b"b").status_code in (200, 201)
    assert api.output(box, "cat /etc/b") == "b" and not Path("/etc/b").exists()
    for path in (f"/t3/{canary.name}", f"/t4{canary}", f"/../../..{canary}"):
        answer = get(api, box, path)
        assert answer.status_code >= 400 and b"host secret" not in answer.content, path
    for path in ("/t4/c", "/loop1", "/self", "/loop1/x"):
        assert 400 <= put(api, box, path, b"c").status_code < 500, path
        assert 400 <= get(api, box, path).status_code < 500, path
    assert not Path("/c").exists()


def test_links_swapped_meanwhile(api, box, canary):
    """FI-01: only the sandbox's content or clean errors, however the race ends"""
    api.output(box, "mkdir /race /keep && echo inside >/race/x && ln -s /etc /link")
    name = f"/race/{canary.name}"
    path = f"/sandboxes/{box}/sessions"
    seconds = 60 if LONG else 5
    started = api.post(path, {"command": "while :; do mv /race /keep/d; mv -T /link /race; "
                              "mv -T /race /link; mv /keep/d /race; done"})
    assert started.status_code == 201, started.text
    end, seen = time.monotonic() + seconds, []

    def hammer():
        with api.client(api.instance.token) as http:
            while time.monotonic() < end:
                for answer in (http.put(files(box, name), content=b"inside"),
                               http.get(files(box, name))):
                    seen.append(answer.status_code)
                    assert b"host secret" not in answer.content

    threads = [threading.Thread(target=hammer) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen and all(status < 500 for status in seen)
    assert canary.read_text() == "host secret"


@pytest.mark.parametrize("trick", archives.HOSTILE)
def test_hostile_members_cannot_leave_the_target(api, box, trick):
    """FI-02"""
    api.output(box, "mkdir -p /data/in; touch /tmp/mark")
    answer = put_tar(api, box, "/data/in", tar_files.archive(*archives.HOSTILE[trick]))
    # A link where the archive itself made a folder is a conflict like any other.
    expected = (409, "is_a_directory") if trick == "replace-folder" else (422, "archive_invalid")
    assert error_of(answer) == expected, answer.text
    assert answer.json()["error"]["details"]["member"]
    outside = "find / -xdev \\( -name 'escape*' -o -path /tmp/f2 \\) -not -path '/proc/*'"
    assert api.output(box, outside) == ""
    assert api.output(box, "find /data -type c -o -type b -o -type p") == ""
    for host in ("/escape.txt", "/escape-abs.txt", "/etc/escape-link.txt", "/tmp/f2"):
        assert not Path(host).exists()
    assert api.output(box, "cat /etc/hostname | wc -l") == "1"


@pytest.mark.parametrize("dialect", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_long_names_up_and_down(api, box, tmp_path, dialect):
    """FI-04"""
    answer = put_tar(api, box, "/data/p",
                     tar_files.archive(*archives.long_names(), dialect=dialect))
    assert answer.status_code in (200, 201), answer.text
    for name in archives.LONG_NAMES:
        assert api.output(box, f"cat /data/p/{name}") == str(len(name))
    assert api.output(box, f"cat /data/p/{archives.DEEP}") == "deep"
    assert api.output(box, "stat -c %h /data/p/hard-to-100") == "2"
    assert api.output(box, "readlink /data/p/soft-to-300") == "s" * 300
    assert api.output(box, "cat /data/p/naïve-猫.txt") == "utf8"
    down = get(api, box, "/data/p", tar=1)
    assert down.status_code == 200
    with tarfile.open(fileobj=io.BytesIO(down.content)) as tar:
        names = {name.removeprefix("./") for name in tar.getnames()}
    assert names >= {*archives.LONG_NAMES, archives.DEEP, "hard-to-100", "soft-to-300"}
    for tool in (["tar"], ["bsdtar"]):
        target = tmp_path / tool[0]
        target.mkdir()
        try:
            subprocess.run([*tool, "-xf", "-", "-C", target], input=down.content, check=True)
        except FileNotFoundError:
            continue
        assert (target / archives.DEEP).read_bytes() == b"deep"
        assert (target / "hard-to-100").stat().st_nlink == 2
        assert os.readlink(target / "soft-to-300") == "s" * 300


def test_a_name_that_is_too_long(api, box):
    """FI-04"""
    assert put(api, box, "/data/" + "n" * 255, b"x").status_code in (200, 201)
    assert error_of(put(api, box, "/data/" + "n" * 256, b"x")) == (422, "path_invalid")
    assert 400 <= get(api, box, "/data/" + "n" * 256).status_code < 500


def test_odd_size_fields(api, box):
    """FI-04"""
    assert put_tar(api, box, "/data/s", archives.BASE_256_SIZE).status_code in (200, 201)
    assert api.output(box, "cat /data/s/five.txt /data/s/after.txt") == "12345after"


@pytest.mark.parametrize("change", ["while :; do head -c 100000 /dev/zero >>/data/f; done",
                                    "while :; do rm -rf /data/many; mkdir /data/many; "
                                    "for i in 1 2 3 4 5 6; do echo $i >/data/many/$i; done; done"])
def test_files_that_change_during_a_download(api, box, change):
    """FI-06: the stream stays right and so does the connection behind it"""
    api.output(box, "mkdir -p /data/many; head -c 3000000 /dev/zero >/data/f; echo small >/small")
    session = api.post(f"/sandboxes/{box}/sessions", {"command": change})
    assert session.status_code == 201, session.text
    for _ in range(10 if LONG else 3):
        one = get(api, box, "/data/f")
        assert len(one.content) == int(one.headers["content-length"])
        tar = get(api, box, "/data", tar=1)
        assert tar.status_code == 200
        with tarfile.open(fileobj=io.BytesIO(tar.content)) as archive:
            assert any(name.removeprefix("./") == "f" for name in archive.getnames())
        assert tar.content.endswith(archives.END)
        assert get(api, box, "/small").content == b"small\n"


def test_a_file_that_shrinks_never_looks_whole(api, box):
    """FI-06"""
    api.output(box, "mkdir -p /data; head -c 200000000 /dev/zero >/data/cut")
    with contextlib.suppress(httpx.TransportError), \
            api.http.stream("GET", files(box, "/data/cut")) as answer:
        got = 0
        for chunk in answer.iter_raw():
            if got == 0:
                api.output(box, "truncate -s 1000 /data/cut")
            got += len(chunk)
        assert got == int(answer.headers["content-length"])  # padded, or the call above raised
    assert get(api, box, "/etc/hostname").status_code == 200


def test_disk_full_keeps_the_old_file(api):
    """FI-08"""
    box = api.create(storage_mb=64)["id"]
    assert put(api, box, "/small/keep", b"k" * 2**20).status_code in (200, 201)
    big = os.urandom(100 * 2**20)
    for path in ("/small/keep", "/small/new"):
        assert error_of(put(api, box, path, big)) == (507, "disk_full")
    one = tar_files.archive(tar_files.member("in-tar", big))
    assert error_of(put_tar(api, box, "/small", one)) == (507, "disk_full")
    assert get(api, box, "/small/keep").content == b"k" * 2**20
    assert api.output(box, "ls -A /small") == "keep"
    assert put(api, box, "/small/again", bytes(20 * 2**20)).status_code in (200, 201)
    api.remove(box)


def test_a_cut_upload_keeps_the_old_file(api, box):
    """FI-08"""
    assert put(api, box, "/data/keep", b"old").status_code in (200, 201)

    def cut():
        yield bytes(2**20)
        raise OSError("the client dies")
    for query in ({}, {"tar": 1}):
        with contextlib.suppress(OSError, httpx.TransportError), \
                api.client(api.instance.token) as http:
            http.put(files(box, "/data/keep" if not query else "/data", **query), content=cut(),
                     headers={"content-length": str(10 * 2**20)})
    eventually(lambda: api.output(box, "ls -A /data") == "keep", what="nothing left behind")
    assert get(api, box, "/data/keep").content == b"old"


def test_owner_and_mode_of_uploads(api):
    """FI-09"""
    box = api.create(user="1000")["id"]
    api.output(box, "mkdir -p /home/u && chown 1000:1000 /home/u && mkdir -m 700 /only-root",
               user="root")
    assert put(api, box, "/home/u/new/a/b.txt", b"b").status_code in (200, 201)
    assert api.output(box, "cd /home/u; stat -c '%u %a' new new/a new/a/b.txt") == \
        "1000 755\n1000 755\n1000 644"
    api.output(box, "echo x >> /home/u/new/a/b.txt; rm -r /home/u/new")
    api.output(box, "cd /home/u; echo >s; chmod 755 s; echo >p; chmod 600 p")
    for name, mode in (("s", "755"), ("p", "600")):
        assert put(api, box, f"/home/u/{name}", b"new").status_code in (200, 201)
        assert api.output(box, f"stat -c '%u %a' /home/u/{name}") == f"1000 {mode}"
    for path in ("/etc/x", "/only-root/x"):
        assert error_of(put(api, box, path, b"x")) == (403, "permission_denied")
    for mode, stored in (("0755", "755"), ("755", "755")):
        assert put(api, box, "/home/u/m", b"", mode=mode).status_code in (200, 201)
        assert api.output(box, "stat -c %a /home/u/m") == stored
    assert error_of(put(api, box, "/home/u/m", b"", mode="abc")) == (422, "invalid_field")
    api.remove(box)


NAMES = [b"a b", b"a+b", b"a%20b", b"100%", b"a#b?c&d=e", b"\"q'", "näme-猫".encode(), b"new\nline",
         b"-rf", b"..hidden", b"tab\tx", b"\xff\xfeA"]


@pytest.mark.parametrize("name", NAMES)
def test_odd_characters_in_a_path(api, box, name):
    """FI-11"""
    path = b"/odd/" + name
    assert put(api, box, path, b"content of " + name).status_code in (200, 201)
    answer = get(api, box, path)
    assert answer.content == b"content of " + name
    assert all("\n" not in value and value.isascii() for value in answer.headers.values())
    tar = get(api, box, "/odd", tar=1)
    with tarfile.open(fileobj=io.BytesIO(tar.content)) as archive:
        names = [item.removeprefix("./") for item in archive.getnames()]
    assert os.fsdecode(name) in names
    assert api.output(box, "cd /odd && ls -A | wc -l") in ("1", "2")  # ls shows a newline as one
    listed = api.get(files(box, "/odd", list=1)).json()["items"]
    assert len(listed) == 1
    assert api.http.delete(files(box, path)).status_code in (200, 204)
    assert api.output(box, "ls -A /odd") == ""


def test_a_tar_keeps_bytes_that_are_not_utf8(api, box):
    """FI-11"""
    assert put_tar(api, box, "/odd", archives.NOT_UTF8).status_code in (200, 201)
    assert get(api, box, b"/odd/\xff\xfeA").content == b"bytes"


def test_a_tree_is_kept_exactly(api, box):
    """FI-02, FI-09: modes, links, times, empty folders"""
    assert put_tar(api, box, "/data", tar_files.archive(*archives.TREE)).status_code in (200, 201)
    told = api.output(box, "cd /data/t; stat -c '%n %a %h' empty run.sh zero ro; readlink dirlink "
                      "filelink dangling abs; stat -c %Y run.sh; stat -c %u owned; ls real")
    empty, *rest = told.split("\n")
    assert empty.startswith("empty 700")
    assert rest == ["run.sh 755 2", "zero 644 1", "ro 444 1", "real", "real/f",
                                "no/such", "/etc/hostname", str(tar_files.MTIME), "0", "f"]
    assert put_tar(api, box, "/data", tar_files.archive(*archives.TREE),
                   preserve_owner=1).status_code in (200, 201)
    assert api.output(box, "stat -c '%u %g' /data/t/owned") == "12345 54321"


def test_file_folder_missing_forbidden(api, box):
    """FI-12: one clear answer each"""
    api.output(box, "mkdir -p /data/d; echo x >/data/f; : >/data/empty; echo s >/data/secret; "
               "chmod 0 /data/secret")
    wanted = {"/data/none": (404, "file_not_found"), "/data/f/x": (409, "not_a_directory"),
              "/data/d": (409, "is_a_directory"), "/data/d/": (409, "is_a_directory"),
              "/data/f/": (409, "not_a_directory")}
    for path, expected in wanted.items():
        assert error_of(get(api, box, path)) == expected, path
    assert error_of(get(api, box, "/data/f", tar=1)) == (409, "not_a_directory")
    assert error_of(get(api, box, "/data/none", tar=1)) == (404, "file_not_found")
    for path in ("/data/d", "/data/d/"):
        assert error_of(put(api, box, path, b"x")) == (409, "is_a_directory")
    assert error_of(put(api, box, "/data/f/x", b"x")) == (409, "not_a_directory")
    assert error_of(put(api, box, "", b"x")) == (422, "path_invalid")
    one = tar_files.archive(tar_files.folder("a/"), tar_files.member("a/b", b"1"))
    assert error_of(put_tar(api, box, "/data/f", one)) == (409, "not_a_directory")
    for _ in range(2):
        assert put_tar(api, box, "/data/d", one).status_code in (200, 201)
    assert api.output(box, "find /data/d | sort") == "/data/d\n/data/d/a\n/data/d/a/b"
    assert error_of(get(api, box, "/data/secret", user="1000")) == (403, "permission_denied")
    assert get(api, box, "/data/empty").content == b""
    assert get(api, box, "/data/empty").headers["content-length"] == "0"
    assert error_of(api.get(f"/sandboxes/{box}/files")) == (422, "missing_field")
    assert api.get(f"/sandboxes/{box}/files?path=/a&path=/b").status_code == 400
