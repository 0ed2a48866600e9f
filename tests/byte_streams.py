"""Plain byte streams into a sandbox (docs/streams.md) for tests: as a socket, and as a program that
joins its standard input and output to one, for `sftp -D` and `scp -S`."""

import json
import os
import select
import socket
import sys
import urllib.parse


class Refused(Exception):
    def __init__(self, status: int, body: bytes):
        super().__init__(f"{status}: {body!r}")
        self.status = status
        self.error = json.loads(body)["error"]


def open_stream(url: str, token: str, target: str, body: dict | None = None) -> socket.socket:
    """`target` like "/sandboxes/ID/streams/tcp?port=80"; a body makes it a POST."""
    parts = urllib.parse.urlsplit(url)
    content = b"" if body is None else json.dumps(body).encode()
    head = (f"{'GET' if body is None else 'POST'} {target} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            f"Authorization: Bearer {token}\r\nConnection: Upgrade\r\n"
            f"Upgrade: sandbox-stream\r\n")
    head += "" if body is None else f"Content-Length: {len(content)}\r\n"
    link = socket.create_connection((parts.hostname, parts.port), timeout=60)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.sendall(head.encode() + b"\r\n" + content)
    answer = b""
    while b"\r\n\r\n" not in answer:  # a byte at a time: what follows is the stream's
        piece = link.recv(1)
        assert piece, answer
        answer += piece
    status = int(answer.split()[1])
    if status == 101:
        return link
    length = next(int(line.split(b":")[1]) for line in answer.lower().split(b"\r\n")
                  if line.startswith(b"content-length:"))
    rest = b""
    while len(rest) < length:
        rest += link.recv(length - len(rest))
    link.close()
    raise Refused(status, rest)


def join(link: socket.socket, source: int, target: int) -> None:
    """Until the stream has ended; the end of `source` is passed on."""
    link.settimeout(None)
    sources = [link.fileno(), source]
    while True:
        ready, _, _ = select.select(sources, [], [])
        if source in ready:
            data = os.read(source, 1 << 18)
            if data:
                link.sendall(data)
            else:
                sources.remove(source)
                link.shutdown(socket.SHUT_WR)
        if link.fileno() in ready:
            data = link.recv(1 << 18)
            if not data:
                return
            while data:
                data = data[os.write(target, data):]


def program(folder, api, target: str, body: dict) -> str:
    """The path of a program that is such a stream. Its last argument, in place of `body`'s argv, is
    a command line as scp gives it to ssh."""
    path = folder / f"stream-{len(list(folder.glob('stream-*')))}"
    path.write_text("#!/bin/sh\nfor last; do :; done\n"
                    f"exec '{sys.executable}' -B '{__file__}' '{api.instance.url}' "
                    f"'{target}' '{json.dumps(body)}' \"$last\"\n")
    path.chmod(0o755)
    return str(path)


if __name__ == "__main__":
    wanted = json.loads(sys.argv[3])
    if wanted["helper"] == "scp":
        wanted["argv"] = sys.argv[4].split(" ")[1:]
    join(open_stream(sys.argv[1], os.environ["SANDBOX_GATEWAY_TOKEN"], sys.argv[2], wanted), 0, 1)
