"""A network namespace that plays the world: hosts beyond this one, with a TCP server."""

import contextlib
import socket
import subprocess
import sys

from deployment import eventually

BITS = 28
# Tells everyone who connects from which address.
PROGRAM = """
import socket
listener = socket.create_server(("0.0.0.0", {port}))
while True:
    peer, address = listener.accept()
    peer.sendall(address[0].encode())
    peer.close()
"""


def ip(*argv: str, check: bool = True) -> None:
    subprocess.run(["ip", *argv], check=check, capture_output=not check)


def reachable(host: str, port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection((host, port), 1).close()
        return True
    return False


@contextlib.contextmanager
def running(name: str, link: str, host: str, peers: list[str], port: int,
            program: str = PROGRAM):
    """`host` is this machine's address towards it, `peers` are its own, where `program` serves.
    Reached by routing through this machine."""
    ip("link", "delete", link, check=False)  # a namespace takes its own time to go
    ip("netns", "delete", name, check=False)
    ip("netns", "add", name)
    ip("link", "add", link, "type", "veth", "peer", "inner", "netns", name)
    ip("addr", "add", f"{host}/{BITS}", "dev", link)
    ip("link", "set", link, "up")
    for address in peers:
        ip("-n", name, "addr", "add", f"{address}/{BITS}", "dev", "inner")
    ip("-n", name, "link", "set", "inner", "up")
    server = subprocess.Popen(["ip", "netns", "exec", name, sys.executable, "-c",
                               program.format(port=port)])
    try:
        eventually(lambda: reachable(peers[0], port), what="the server outside")
        yield
    finally:
        server.kill()
        server.wait()
        ip("link", "delete", link)
        ip("netns", "delete", name)
