"""The file routes besides plain GET and PUT, in a real sandbox."""

import gzip
import hashlib
import os

import pytest

from deployment import error_of, eventually


def files(api, box, method, route="", **query):
    return api.http.request(method, f"/sandboxes/{box}/files{route}", params=query)


def test_make_move_change_and_remove(api, box):
    made = files(api, box, "POST", "/mkdir", path="/data/a/b", mode="750")
    assert made.status_code == 200, made.text
    assert made.json()["mode"] == "0750" and made.json()["type"] == "directory"
    assert files(api, box, "POST", "/mkdir", path="/data/a/b").status_code == 200
    assert api.upload(box, "/data/a/b/f", b"x").status_code == 200
    moved = files(api, box, "POST", "/move", path="/data/a", to="/data/new/deep")
    assert moved.status_code == 200 and moved.json()["path"] == "/data/new/deep"
    assert api.download(box, "/data/new/deep/b/f").content == b"x"
    changed = files(api, box, "POST", "/chmod", path="/data/new", mode="711", owner="1000:1000",
                    recursive="1")
    assert changed.status_code == 200 and changed.json()["uid"] == 1000
    assert api.output(box, "stat -c '%u %a' /data/new/deep/b/f") == "1000 711"
    assert error_of(files(api, box, "DELETE", path="/data")) == (409, "is_a_directory")
    assert files(api, box, "DELETE", path="/data", recursive="1").status_code == 204
    assert error_of(files(api, box, "DELETE", path="/data")) == (404, "file_not_found")
    assert error_of(files(api, box, "GET", path="/data", stat="1")) == (404, "file_not_found")


def test_a_folder_of_the_image_can_be_moved(api, box):
    """overlayfs cannot rename it: it is copied, with all that is in it."""
    before = api.output(box, "cd /etc && find . | sort | sha256sum")
    moved = files(api, box, "POST", "/move", path="/etc", to="/etc.moved")
    assert moved.status_code == 200, moved.text
    assert api.output(box, "cd /etc.moved && find . | sort | sha256sum") == before


def test_stat_shows_the_link_and_odd_names_have_an_encoding(api, box):
    api.output(box, "ln -s nowhere /root/link; printf x > \"/root/$(printf '\\377\\376A')\"")
    item = files(api, box, "GET", path="/root/link", stat="1").json()
    assert (item["type"], item["link_target"]) == ("symlink", "nowhere")
    listing = files(api, box, "GET", path="/root", list="1").json()["items"]
    odd = next(item for item in listing if "path_encoded" in item)
    got = api.get(f"/sandboxes/{box}/files?path={odd['path_encoded']}")
    assert got.content == b"x"
    gone = api.delete(f"/sandboxes/{box}/files?path={odd['path_encoded']}")
    assert gone.status_code == 204


def test_a_huge_folder_is_listed(api, box):
    api.output(box, "mkdir /many && cd /many && seq 1 30000 | xargs touch")
    items = files(api, box, "GET", path="/many", list="1").json()["items"]
    assert {item["name"] for item in items} == {str(i) for i in range(1, 30001)}
    assert files(api, box, "DELETE", path="/many", recursive="1").status_code == 204


def test_each_failure_has_its_code(api, box):
    api.output(box, "mkdir -p /d/sub; mkfifo /d/pipe; printf x > /d/f; chmod 600 /d/f;"
                    "mkdir -m 700 /closed; chmod 755 /d")
    as_user = {"user": "1000"}
    assert error_of(api.download(box, "/d")) == (409, "is_a_directory")
    assert error_of(api.download(box, "/d/f", tar="1")) == (409, "not_a_directory")
    for special in ("/d/pipe", "/dev/zero", "/dev/null"):
        # A pipe nobody writes to holds nothing up.
        assert error_of(api.download(box, special)) == (409, "not_a_file")
    assert error_of(api.download(box, "/d/f", **as_user)) == (403, "permission_denied")
    assert error_of(api.download(box, "/d", tar="1", **as_user)) == (403, "permission_denied")
    assert error_of(api.upload(box, "/d/new", b"x", **as_user)) == (403, "permission_denied")
    assert error_of(files(api, box, "DELETE", path="/d/f", **as_user)) == (403,
                                                                          "permission_denied")
    assert error_of(files(api, box, "POST", "/mkdir", path="/closed/x", **as_user)) == (
        403, "permission_denied")
    assert error_of(api.upload(box, "/sys/kernel/x", b"x"))[0] == 403
    assert error_of(files(api, box, "DELETE", path="/proc", recursive="1"))[0] in (403, 409)
    assert error_of(files(api, box, "GET", path="/d/f", tar="1", list="1")) == (422,
                                                                               "invalid_field")
    assert error_of(files(api, box, "POST", "/move", path="/d/f")) == (422, "missing_field")
    assert error_of(api.download(box, "/d/f", user="nobody-such")) == (422, "user_unknown")
    assert error_of(files(api, box, "POST", "/chmod", path="/d/f", mode="9")) == (422,
                                                                                 "invalid_field")
    assert api.output(box, "echo fine") == "fine"


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_compressed_uploads(api, box, coding, tmp_path):
    plain = os.urandom(300_000) + bytes(5_000_000)
    if coding == "gzip":
        packed = gzip.compress(plain)
    else:
        zstandard = pytest.importorskip("zstandard")
        packed = zstandard.compress(plain)
    answer = api.http.put(f"/sandboxes/{box}/files", params={"path": "/root/big"}, content=packed,
                          headers={"Content-Encoding": coding})
    assert answer.status_code == 200, answer.text
    assert answer.json()["size"] == len(plain)
    assert answer.json()["sha256"] == hashlib.sha256(plain).hexdigest()
    for broken in (packed[:-20], packed + b"more", b"no such coding at all"):
        bad = api.http.put(f"/sandboxes/{box}/files", params={"path": "/root/big"}, content=broken,
                           headers={"Content-Encoding": coding})
        assert error_of(bad) == (400, "malformed")
    assert api.download(box, "/root/big").content == plain  # the old one, whole
    assert api.output(box, "ls -A /root | grep -c upload || true") == "0"


def test_a_bomb_meets_the_storage_limit(api):
    box = api.create(storage_mb=64)["id"]
    try:
        bomb = gzip.compress(bytes(200_000_000))
        answer = api.http.put(f"/sandboxes/{box}/files", params={"path": "/b/bomb"},
                              content=bomb, headers={"Content-Encoding": "gzip"})
        assert error_of(answer) == (507, "disk_full")
        assert api.output(box, "ls -A /b | wc -l") == "0"
        assert eventually(lambda: api.upload(box, "/root/ok", bytes(1_000_000)).status_code == 200)
    finally:
        api.remove(box)
