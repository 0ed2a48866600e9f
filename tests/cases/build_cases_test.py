"""Image builds: cases IM-01, IM-02, IM-03, IM-05, IM-15 and IM-16."""

import pytest

from deployment import eventually
from image_builds import (bb, build, clean, failed, log_of, needs_builder,  # noqa: F401
                          output, post, root_of_builder, tar_of)
from tar_files import MTIME, archive, member

pytestmark = needs_builder


def lines(api, row: dict, command: str, **fields) -> list[str]:
    return output(api, row["image"], command, **fields).split("\n")


def test_arguments_and_their_scope(api, bb, registry):
    """IM-01"""
    text = (f"ARG TAG={bb}\nARG ONLY\nFROM $TAG AS one\nRUN echo \"1[$TAG]\" > /o\nARG TAG\n"
            "RUN echo \"2[$TAG]\" >> /o\nFROM one\nARG TAG=two\nRUN echo \"3[$TAG]\" >> /o\n")
    assert lines(api, build(api, text), "cat /o") == ["1[]", f"2[{bb}]", "3[two]"]
    given = build(api, text, arg=f"TAG={bb}:idx")
    assert lines(api, given, "cat /o") == ["1[]", f"2[{bb}:idx]", f"3[{bb}:idx]"]
    # An argument of a stage is not seen by a later FROM.
    seen = build(api, f"FROM {bb} AS a\nARG V=none-such\nFROM ${{V:-{bb}}}\nRUN echo b > /b\n")
    assert lines(api, seen, "cat /b") == ["b"]
    bad = failed(api, f"FROM {registry.host}/t/bb:${{NOPE}}\nRUN echo never\n")
    assert bad["reason"] == "dockerfile_invalid" and "line 1" in bad["message"], bad
    assert "[2/2] RUN" not in log_of(api, bad), "no step was run"
    undeclared = build(api, f"FROM {bb}\nRUN echo \"[$NOBODY]\" > /n\n", arg="NOBODY=1")
    assert lines(api, undeclared, "cat /n") == ["[]"]
    over = build(api, f"FROM {bb}\nARG X=arg\nENV X=env\nRUN echo $X > /x\n", arg="X=given")
    assert lines(api, over, "cat /x") == ["env"]


def test_here_documents(api, bb):
    """IM-02"""
    row = build(api, f"""FROM {bb}
ARG W=world
RUN <<EOF
echo "a $W" > /r1
echo 'b $W' >> /r1
EOF
RUN <<'EOF'
echo "c $HOME" > /r2
EOF
RUN sh -s one <<'X'
echo "d $1" > /r3
X
COPY <<EOF /c1
hello ${{W}} \\${{W}}
EOF
COPY <<'EOF' /c2
hello ${{W}}
EOF
COPY <<A <<B /dir/
1
A
2
B
RUN <<-EOF
\t\techo tabs > /tabs
\tEOF
RUN <<EOF
#!/bin/busybox sh
echo "$0" > /shebang
EOF
""")
    assert lines(api, row, "cat /r1 /r2 /r3 /c1 /c2 /dir/A /dir/B /tabs") == [
        "a world", "b $W", "c /", "d one", "hello world ${W}", "hello ${W}", "1", "2", "tabs"]
    assert lines(api, row, "test -s /shebang && echo run") == ["run"]
    for before, line in (("", 2), ("RUN true\n", 3)):
        bad = failed(api, f"FROM {bb}\n{before}RUN <<EOF\nset -e\nfalse\ntrue\nEOF\n")
        assert bad["reason"] == "step_failed" and f"line {line}" in bad["message"], bad


TREE = {name: b"x" for name in ("a.py", "n.txt", "sub/b.py", "sub/deep/c.py", "sub/n.txt",
                                "dir/file1", "dir/file2", "dir/file3", ".git/x")}
ALWAYS = {"Dockerfile", ".dockerignore"}


@pytest.mark.parametrize("ignored, kept", [
    ("*\n!**/*.py\n", {"a.py", "sub/b.py", "sub/deep/c.py"}),
    ("dir\n!dir*/file1\n!dir/file2\n", set(TREE) - {"dir/file3"} | ALWAYS),
    ("**\n!sub\nsub/n.txt\n", {"sub/b.py", "sub/deep/c.py"}),
    ("/sub/\n# note\n\n  dir/file1  \r\n",
     set(TREE) - {"sub/b.py", "sub/deep/c.py", "sub/n.txt", "dir/file1"} | ALWAYS),
    ("Dockerfile\n.dockerignore\n", set(TREE)),
    ("!dir\ndir\n", {name for name in TREE if not name.startswith("dir/")} | ALWAYS)])
def test_ignore_files(api, bb, ignored, kept):
    """IM-03"""
    row = build(api, f"FROM {bb}\nCOPY . /x\n", {**TREE, ".dockerignore": ignored.encode()})
    assert {name[2:] for name in lines(api, row, "cd /x; find . -type f")} == kept


def test_an_ignore_file_of_one_dockerfile_wins(api, bb):
    """IM-03"""
    row = build(api, f"FROM {bb}\nCOPY . /x\n", {
        **TREE, ".dockerignore": b"*.py\n", "Dockerfile.dockerignore": b"*\n!a.py\n"})
    assert lines(api, row, "cd /x; find . -type f") == ["./a.py"]


def test_folders_made_under_a_user_and_touched_parents(api, bb):
    """IM-05"""
    first = build(api, f"""FROM {bb}
USER 1000
WORKDIR /w/a/b
RUN touch f
WORKDIR c
WORKDIR $NOPE
RUN pwd > /tmp/pwd
ENV P=/w
WORKDIR ${{P}}/z
""")
    folders = "/w /w/a /w/a/b /w/a/b/c /w/z"
    assert lines(api, first, f"pwd; cat /tmp/pwd; stat -c %u {folders}") == [
        "/w/z", "/w/a/b/c", *["1000"] * 5]
    second = build(api, f"FROM {first['image']}\nUSER root\nRUN touch /w/a/b/f /w/a/b/g\n")
    assert lines(api, second, f"stat -c %u {folders} /w/a/b/f") == ["1000"] * 6


def test_the_cache_looks_at_content_and_mode(api, bb):
    """IM-15"""
    text = f"FROM {bb}\nARG UNUSED\nCOPY run.sh sub* /c/\nRUN /c/run.sh > /r || echo noexec > /r\n"
    script = b"#!/bin/sh\necho one\n"

    def result(files: dict, modes: dict | None = None, **options) -> tuple[str, bool]:
        """What the step made, and whether it was taken from the cache."""
        row = build(api, text, files, modes, **options)
        log = log_of(api, row)
        step = log[log.index("RUN /c/run.sh"):]
        return output(api, row["image"], "cat /r"), row["cached"] or "CACHED" in step

    assert result({"run.sh": script}) == ("noexec", False)
    # Times are no content.
    touched = post(api, archive(
        member("run.sh", script, mtime=MTIME + 1), member("Dockerfile", text.encode(), mtime=0)))
    assert touched.status_code == 200 and touched.json()["cached"]
    assert result({"run.sh": script, "ignored": b"1", ".dockerignore": b"ignored\n"}) == (
        "noexec", True)
    assert result({"run.sh": script}, arg="UNUSED=2")[0] == "noexec"
    executable = {"run.sh": 0o755}
    assert result({"run.sh": script}, executable) == ("one", False)
    assert result({"run.sh": script.replace(b"one", b"two")}, executable) == ("two", False)
    assert result({"run.sh": script, "sub": None}, executable)[0] == "one"


def test_what_a_step_leaves_running(api, bb, deployed):
    """IM-16"""
    for number in range(3):
        row = build(api, f"""FROM {bb}
RUN sh -c 'while :; do echo x >> /l; done & exit 0'
RUN a=$(wc -c < /l); sleep 1; test $a = $(wc -c < /l) && echo {number} > /n
RUN setsid sleep 1000 & exit 0
RUN mkfifo /p
""")
        assert lines(api, row, "ls -l /p | grep -c ^p; cat /n") == ["1", str(number)]
    root = root_of_builder(deployed)

    def commands() -> list[bytes]:
        found = []
        for process in (root / "proc").glob("[0-9]*"):
            try:
                found.append((process / "cmdline").read_bytes())
            except OSError:
                pass
        return found

    assert commands(), "the builder's own are there"
    eventually(lambda: not any(one.startswith(b"sleep\0") for one in commands()))
