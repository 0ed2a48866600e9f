"""A TCP proxy on loopback that makes the server behind it slow."""

import socket
import threading
import time

PIECE_BYTES = 65_536


class SlowProxy:
    """Every piece that the server sends arrives `delay` seconds later; hold() keeps all of them
    until go_on()."""

    def __init__(self, server_port: int):
        self.server_port = server_port
        self.delay = 0.0
        self.moving = threading.Event()
        self.moving.set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.connections: list[socket.socket] = []

    def __enter__(self) -> "SlowProxy":
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_) -> None:
        self.go_on()
        self.listener.close()
        for connection in self.connections:
            connection.close()

    def hold(self) -> None:
        self.moving.clear()

    def go_on(self) -> None:
        self.moving.set()

    def accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.server_port))
            except OSError:  # closed
                return
            self.connections += [client, server]
            threading.Thread(target=self.move, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self.move, args=(server, client, True), daemon=True).start()

    def move(self, source: socket.socket, target: socket.socket, slowly: bool) -> None:
        try:
            while piece := source.recv(PIECE_BYTES):
                if slowly:
                    time.sleep(self.delay)
                    self.moving.wait()
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)
        except OSError:  # either end went
            for end in (source, target):
                end.close()
