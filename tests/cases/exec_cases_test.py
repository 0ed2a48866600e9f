"""Commands and their output: faults that other systems had, on every form of a command.

Each test names its case (area EX). With SANDBOX_LONG=1 the rounds are as many as the case asks.
"""

import hashlib
import json
import os
import threading
import time

import pytest

import command_forms as forms
from deployment import error_of, eventually, gateway_memory

LONG = os.environ.get("SANDBOX_LONG") == "1"
SEQ_SIZE, SEQ_MD5 = 14_888_896, "6736d7273b6d064962343221daf13702"  # of `seq 1 2000000`


def gateway_descriptors(api) -> int:
    return len(os.listdir(f"/proc/{api.instance.gateway.pid()}/fd"))


def count(api, box, pattern: str) -> int:
    """Processes in the sandbox whose command line holds `pattern`."""
    return int(api.output(box, f"pgrep -fc '{pattern}' || true"))


@pytest.mark.parametrize("form", forms.NAMES)
@pytest.mark.parametrize("child", ["sleep 600 &", "setsid sleep 600 &"])
def test_background_child_does_not_hold_the_command(api, box, form, child):
    """EX-01"""
    forms.command(form, api, box, "true")
    before = gateway_descriptors(api)
    rounds = 20 if LONG else 3
    for _ in range(rounds):
        told = forms.command(form, api, box, f"echo started; {child} exit 3", timeout=30)
        assert (told.code, told.out, told.timed_out) == (3, b"started\n", False)
    assert count(api, box, "[s]leep 600") == rounds
    eventually(lambda: abs(gateway_descriptors(api) - before) <= 5, what="descriptors given back")


@pytest.mark.parametrize("form", forms.NAMES)
def test_timeout_ends_the_whole_tree_and_nothing_else(api, box, form):
    """EX-02"""
    loop = "while :; do date >> /tmp/{}; sleep 0.2; done"
    api.shell(box, f"setsid sh -c '{loop.format('old')}' & exit 0")
    told = forms.command(
        form, api, box, f"sh -c '{loop.format('a')}' & setsid sh -c '{loop.format('b')}' & "
        "(trap '' TERM; sleep 300) & wait", timeout=1)
    assert told.timed_out and told.code == 124
    sizes = "stat -c %s /tmp/a /tmp/b"
    first, old = api.output(box, sizes), int(api.output(box, "stat -c %s /tmp/old"))
    eventually(lambda: int(api.output(box, "stat -c %s /tmp/old")) > old, what="the server lives")
    assert api.output(box, sizes) == first
    assert count(api, box, "[s]leep 300") == 0


@pytest.mark.parametrize("form", forms.NAMES)
def test_the_tail_of_a_big_output_is_there(api, box, form):
    """EX-04, a reader at full speed"""
    for _ in range(30 if LONG else 2):
        told = forms.command(form, api, box, "seq 1 2000000")
        assert told.code == 0
        assert (len(told.out), hashlib.md5(told.out).hexdigest()) == (SEQ_SIZE, SEQ_MD5)


@pytest.mark.parametrize("path", ["exec", "stream", "session"])
def test_the_tail_is_there_for_a_late_reader(api, box, path):
    """EX-04, a reader that sleeps before its first read"""
    if path == "session":
        made = api.post(f"/sandboxes/{box}/sessions", {"command": "seq 1 2000000"}).json()
        request = ("GET", f"/sandboxes/{box}/sessions/{made['id']}/logs?follow=true", {})
    elif path == "exec":
        request = ("POST", f"/sandboxes/{box}/exec",
                   {"content": b'{"command":"seq 1 2000000"}\n'})
    else:
        request = ("POST", f"/api/v1/sandboxes/{box}/exec",
                   {"json": {"command": "printf A; seq 1 2000000 | md5sum; seq 1 1000000"}})
    with api.http.stream(request[0], request[1], **request[2]) as answer:
        time.sleep(2)  # the reader is late: this is the case, not a wait for something
        body = b"".join(answer.iter_bytes())
    if path == "stream":
        assert SEQ_MD5.encode() in body and b"1000000\\n" in body and b'"exitCode":0' in body
    else:
        assert hashlib.md5(body).hexdigest() == SEQ_MD5


@pytest.mark.parametrize("form", ["stream", "session"])
@pytest.mark.parametrize("redirect", ["", " >&2"])
def test_a_character_cut_between_writes_stays_whole(api, box, form, redirect):
    """EX-06"""
    cut = r"(printf '\342'; sleep 0.2; printf '\202'; sleep 0.2; printf '\254\n'; " \
          r"printf '\360\237'; sleep 0.2; printf '\231\202')"
    told = forms.command(form, api, box, cut + redirect)
    assert (told.err if redirect else told.out).decode() == "€\n🙂"


@pytest.mark.parametrize("form", ["stream", "session"])
def test_each_stream_has_its_own_cut_character(api, box, form):
    """EX-06"""
    told = forms.command(form, api, box, r"printf '\342'; printf '\360\237' >&2; sleep 0.2; "
                         r"printf '\202\254'; printf '\231\202' >&2")
    assert (told.out.decode(), told.err.decode()) == ("€", "🙂")


@pytest.mark.parametrize("form", ["run", "stream", "session"])
def test_odd_blocks_and_an_unfinished_end(api, box, form):
    """EX-06"""
    made = r"""awk 'BEGIN{for(i=0;i<1000000;i++)printf "\342\224\200"}' | dd obs=4095 2>/dev/null"""
    if form == "run":
        text = api.shell(box, made)["stdout"]
    else:
        text = forms.command(form, api, box, made).out.decode()
    assert text == "─" * 1_000_000
    if form == "run":
        assert api.shell(box, r"printf 'x\342\202'")["stdout"] == "x\ufffd"
    else:
        assert forms.command(form, api, box, r"printf 'x\342\202'").out.decode() == "x\ufffd"


@pytest.mark.parametrize("form", ["stream", "session"])
def test_a_long_line_costs_bounded_memory(api, box, form):
    """EX-08"""
    size = 2**30 if LONG else 2**27
    text = f"head -c {size} /dev/zero | tr '\\0' x"
    if form == "session":
        made = api.post(f"/sandboxes/{box}/sessions", {"command": text}).json()
        request = ("GET", f"/sandboxes/{box}/sessions/{made['id']}/logs?follow=true", {})
    else:
        request = ("POST", f"/api/v1/sandboxes/{box}/exec", {"json": {"command": text}})
    before = gateway_memory(api)
    with api.http.stream(request[0], request[1], **request[2]) as answer:
        chunks = answer.iter_bytes(65536)
        got = next(chunks).count(b"x")
        time.sleep(2)  # a reader that stands still
        assert gateway_memory(api) - before < 64 * 2**20
        assert api.output(box, "echo other") == "other"
        got += sum(chunk.count(b"x") for chunk in chunks)
    assert gateway_memory(api) - before < 64 * 2**20
    assert got >= size  # the frames of NDJSON hold an x or two as well


SIGNALS = [("kill -9 $$", 137, "KILL"), ("kill -SEGV $$", 139, "SEGV"),
           ("kill -TERM $$", 143, "TERM"), ("exit 300", 44, None), ("exit 255", 255, None)]


@pytest.mark.parametrize("form", forms.NAMES)
@pytest.mark.parametrize("text,code,signal", SIGNALS)
def test_death_by_signal_is_not_success(api, shared_box, form, text, code, signal):
    """EX-09"""
    told = forms.command(form, api, shared_box, text)
    assert (told.code, told.signal) == (code, signal)


@pytest.mark.parametrize("form", forms.NAMES)
def test_killed_from_another_command(api, box, form):
    """EX-09"""
    def kill():
        eventually(lambda: count(api, box, "[s]leep 100") > 0)
        api.shell(box, "pkill sleep")
    killer = threading.Thread(target=kill)
    killer.start()
    told = forms.command(form, api, box, "exec sleep 100")
    killer.join()
    assert (told.code, told.signal) == (143, "TERM")


@pytest.mark.parametrize("form", ["run", "exec", "stream"])
def test_no_input_is_the_end_of_input(api, shared_box, form):
    """EX-11"""
    for text, out in (("cat; echo rc=$?", b"rc=0\n"), ("read x; echo rc=$?", b"rc=1\n"),
                      ("wc -c", b"0\n"), ("[ -t 0 ] && echo tty || echo notty", b"notty\n")):
        told = forms.command(form, api, shared_box, text, http_timeout=20)
        assert told.out == out, text


def test_small_inputs_arrive_each_time(api, shared_box):
    """EX-11"""
    for _ in range(100 if LONG else 20):
        assert forms.exec_with_input(api, shared_box, "cat", b"").out == b""
        assert forms.exec_with_input(api, shared_box, "cat", b"a").out == b"a"


def test_binary_input_arrives_whole(api, box):
    """EX-12"""
    data = os.urandom(64 * 2**20)
    told = forms.exec_with_input(api, box, "sha256sum", data)
    assert told.out.split()[0].decode() == hashlib.sha256(data).hexdigest()
    told = forms.exec_with_input(api, box, "sha256sum", b"")
    assert told.out.split()[0].decode() == hashlib.sha256(b"").hexdigest()


@pytest.mark.parametrize("text,code", [("head -c 10 >/dev/null; exit 4", 4),
                                       ("sleep 1; exit 5", 5), ("exec 0<&-; exit 6", 6)])
def test_a_reader_that_stops_early_does_not_hang_the_call(api, box, text, code):
    """EX-12"""
    data = bytes(64 * 2**20)
    told = forms.exec_with_input(api, box, text, data, http_timeout=30)
    assert told.code == code
    assert api.output(box, "echo next") == "next"


ODD = {"A": "x\ny", "B": " sp ", "C": "$HOME \"q\" 'x' \\ `id`", "D": "äß猫🙂", "E": "",
       "F": "a=b=c", "G": "g" * 100_000}


@pytest.mark.parametrize("where", ["create", "run", "session"])
def test_environment_values_are_bytes(api, where):
    """EX-13"""
    made = api.create(env=ODD if where == "create" else {})["id"]
    text = 'for n in A B C D E F G; do eval "printf %s \\"\\$$n\\"" | sha256sum | cut -c1-64; done'
    if where == "session":
        answer = api.post(f"/sandboxes/{made}/sessions", {"command": text, "env": ODD})
        assert answer.status_code == 201, answer.text
        path = f"/sandboxes/{made}/sessions/{answer.json()['id']}/logs"
        told = api.get(path, params={"follow": "true"}).text
    else:
        told = api.output(made, text, **({"env": ODD} if where == "run" else {}))
    assert told.split() == [hashlib.sha256(value.encode()).hexdigest() for value in ODD.values()]
    if where != "create":
        assert api.output(made, "echo ${G:-gone}") == "gone"
    api.remove(made)


@pytest.mark.parametrize("route", ["run", "sessions"])
def test_bad_environment_names_are_refused(api, shared_box, route):
    """EX-13"""
    for env in ({"": "x"}, {"A=B": "x"}, {"A\0": "x"}, {"A": "x\0y"}):
        answer = api.post(f"/sandboxes/{shared_box}/{route}", {"argv": ["true"], "env": env})
        assert error_of(answer) == (422, "invalid_field"), env
        assert answer.json()["error"]["details"]["field"].startswith("env")
    answer = api.post(f"/sandboxes/{shared_box}/{route}",
                      {"argv": ["true"], "env": {"A;touch /tmp/pwn": "x", "1X": "y"}})
    assert answer.status_code in (200, 201, 422)
    assert api.shell(shared_box, "test -e /tmp/pwn")["exit_code"] == 1


@pytest.mark.parametrize("route", ["run", "sessions", "exec"])
def test_missing_folder_has_its_own_error(api, box, route):
    """EX-14"""
    def call(**fields):
        if route == "exec":
            return api.http.post(f"/sandboxes/{box}/exec",
                                 content=json.dumps({"argv": ["pwd"], **fields}) + "\n")
        return api.post(f"/sandboxes/{box}/{route}", {"argv": ["pwd"], **fields})

    api.output(box, "mkdir -p /root/x && chmod 700 /root")
    for fields in ({"cwd": "/nope"}, {"cwd": "/etc/passwd"}, {"cwd": "relative/dir"},
                   {"cwd": "/root/x", "user": "1000"}):
        answer = call(**fields)
        assert error_of(answer) == (422, "cwd_invalid"), fields
        assert fields["cwd"] in answer.json()["error"]["message"]
    assert api.shell(box, "test -e /nope || test -e relative")["exit_code"] == 1


def test_workdir_that_was_removed(api):
    """EX-14"""
    made = api.create(workdir="/usr/games")["id"]
    assert api.output(made, "rm -rf /usr/games; mkdir /usr/games; pwd", cwd="/") == "/"
    assert api.output(made, "pwd") == "/usr/games"
    api.output(made, "rm -rf /usr/games", cwd="/")
    answer = api.post(f"/sandboxes/{made}/run", {"argv": ["pwd"]})
    assert error_of(answer) == (422, "cwd_invalid")
    assert api.output(made, "pwd", cwd="/") == "/"
    api.remove(made)


def test_long_arguments(api, box):
    """EX-16"""
    assert api.run(box, "echo", "x" * 131071)["exit_code"] == 0
    for argv in (["echo", "x" * 131072], ["true"] + ["y" * 1000] * 3000):
        answer = api.post(f"/sandboxes/{box}/run", {"argv": argv})
        assert error_of(answer) == (422, "invalid_field")
        assert "argument list too long" in answer.json()["error"]["message"]


@pytest.mark.parametrize("form", forms.NAMES)
def test_a_command_of_a_megabyte(api, box, form):
    """EX-16"""
    line = "0123456789abcde\n"
    text = f"cat > /tmp/f <<'EOF'\n{line * 65536}EOF\nwc -c < /tmp/f"
    if form == "exec":
        pytest.skip("the JSON line of binary exec is at most 1 MiB; larger input is its stdin")
    assert forms.command(form, api, box, text).out.strip() == b"1048576"


def test_orphans_are_reaped(api, box):
    """EX-18"""
    for _ in range(20 if LONG else 5):
        assert api.shell(box, "for i in $(seq 1 300); do (sleep 0.01 &); done")["exit_code"] == 0
    zombies = "grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l"
    eventually(lambda: int(api.output(box, zombies)) <= 3, 5, "the dead are reaped")
    assert api.output(box, "echo $((1+1))") == "2"
