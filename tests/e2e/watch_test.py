"""GET /files/watch: changes as Server-Sent Events."""

import contextlib
import json
import socket
import threading

import httpx
import pytest

from deployment import error_of, eventually


class Watch:
    """One open stream, read on a thread of its own."""

    def __init__(self, api, box, **query):
        self.events: list[dict] = []
        self.ended = threading.Event()
        self.ready = threading.Event()
        self.client = api.client(api.instance.token)
        self.thread = threading.Thread(target=self.follow, args=(box, query), daemon=True)
        self.thread.start()
        assert self.ready.wait(30), "not ready"

    def follow(self, box, query):
        try:
            with self.client.stream("GET", f"/sandboxes/{box}/files/watch", params=query,
                                    timeout=60) as answer:
                assert answer.status_code == 200, answer.read()
                self.socket = answer.extensions["network_stream"].get_extra_info("socket")
                assert answer.headers["content-type"] == "text/event-stream"
                kind = ""
                for line in answer.iter_lines():
                    if line.startswith("event: "):
                        kind = line[7:]
                    elif line.startswith("data: ") and kind == "ready":
                        self.ready.set()
                    elif line.startswith("data: "):
                        self.events.append(json.loads(line[6:]))
        except httpx.TransportError:
            pass
        self.ended.set()

    def saw(self, kind, path, **more):
        def found():
            return any(event["type"] == kind and event["path"] == path and
                       all(event.get(key) == value for key, value in more.items())
                       for event in list(self.events))
        eventually(found, what=f"{kind} {path} in {self.events}")

    def close(self):
        """At once, which closing alone is not while the thread reads."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.client.close()


@pytest.fixture
def watch(api, box):
    made = []

    def start(**query):
        made.append(Watch(api, box, **query))
        return made[-1]

    yield start
    for one in made:
        one.close()


def test_changes_of_a_folder(api, box, watch):
    api.output(box, "mkdir -p /w/sub; echo x > /w/old")
    seen = watch(path="/w")
    api.output(box, "echo 1 > /w/new; echo 2 >> /w/old; chmod 600 /w/old; mv /w/new /w/moved; "
                    "rm /w/old; mkdir /w/dir; echo x > /w/sub/unseen; mv /w/moved /root/out; "
                    "mv /root/out /w/in")
    seen.saw("created", "/w/new")
    seen.saw("modified", "/w/old")
    seen.saw("attributes", "/w/old")
    seen.saw("moved", "/w/moved", **{"from": "/w/new"})
    seen.saw("deleted", "/w/old")
    seen.saw("created", "/w/dir", is_directory=True)
    seen.saw("deleted", "/w/moved")
    seen.saw("created", "/w/in")
    assert not any(event["path"].startswith("/w/sub") for event in seen.events)


def test_a_tree_and_its_new_folders(api, box, watch):
    api.output(box, "mkdir -p /w/a/b")
    seen = watch(path="/w", recursive="1")
    api.output(box, "echo 1 > /w/a/b/deep; mkdir -p /w/new/x/y; echo 1 > /w/new/x/y/f")
    seen.saw("created", "/w/a/b/deep")
    seen.saw("created", "/w/new")
    seen.saw("created", "/w/new/x/y/f")
    api.output(box, "mv /w/new /w/other; echo 2 >> /w/other/x/y/f")
    seen.saw("moved", "/w/other", **{"from": "/w/new"})
    seen.saw("modified", "/w/other/x/y/f")
    api.output(box, "mv /w/other /root/gone; echo 3 >> /root/gone/x/y/f; echo 4 > /w/last")
    seen.saw("created", "/w/last")
    assert seen.events[-1]["path"] == "/w/last" or seen.events[-2]["path"] == "/w/last"
    api.output(box, "rm -r /w")
    seen.saw("gone", "/w")
    assert seen.ended.wait(30)


def test_a_file_that_is_replaced_goes_on_being_watched(api, box, watch):
    api.upload(box, "/w/f", b"1")
    seen = watch(path="/w/f")
    for number in range(3):
        before = len(seen.events)
        api.upload(box, "/w/f", b"%d" % number)
        api.upload(box, "/w/other", b"x")
        eventually(lambda n=before: len(seen.events) > n)
    assert {event["path"] for event in seen.events} == {"/w/f"}


def test_uploads_show_under_their_name_only_once_whole(api, box, watch):
    api.output(box, "mkdir /w")
    seen = watch(path="/w")
    api.upload(box, "/w/file", b"x" * 1_000_000)
    seen.saw("moved", "/w/file")


def test_what_cannot_be_watched(api, box, watch):
    def refused(**query):
        return error_of(api.get(f"/sandboxes/{box}/files/watch", params=query))

    assert refused(path="/none") == (404, "file_not_found")
    assert refused() == (422, "missing_field")
    assert refused(path="/root", depth="2") == (422, "unknown_field")
    api.output(box, "mkdir -m 700 /closed")
    assert refused(path="/closed", user="1000") == (403, "permission_denied")
    api.output(box, "mkdir /big; cd /big; seq 1 8300 | xargs mkdir")
    assert refused(path="/big", recursive="1") == (422, "invalid_field")
    for _ in range(8):
        watch(path="/root")
    assert refused(path="/root") == (429, "overloaded")


def test_watches_end_with_their_client_and_their_sandbox(api, box, watch):
    for _ in range(20):
        seen = Watch(api, box, path="/root")
        seen.close()
        eventually(lambda: error_of_or_open(api, box))
    seen = watch(path="/root")
    api.remove(box)
    assert seen.ended.wait(30)


def error_of_or_open(api, box) -> bool:
    """Whether one more watch can be had."""
    with api.http.stream("GET", f"/sandboxes/{box}/files/watch", params={"path": "/root"}) as one:
        return one.status_code == 200


def test_a_flood_is_told_as_overflow(api, box, watch):
    api.output(box, "mkdir /w")
    seen = watch(path="/w")
    api.output(box, "cd /w; for i in $(seq 1 40); do seq 1 2000 | xargs touch; "
                    "seq 1 2000 | xargs rm; done; echo end > /w/end", timeout_sec=100)
    eventually(lambda: any(event["type"] == "overflow" or event["path"] == "/w/end"
                           for event in list(seen.events)), 60)
