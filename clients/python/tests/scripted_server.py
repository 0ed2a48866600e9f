"""A small real HTTP server whose answers a test scripts."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import json


@dataclass
class Seen:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    def json(self):
        return json.loads(self.body)


@dataclass
class Answer:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    drop: bool = False  # closes the connection instead of answering
    cut: int | None = None  # sends that much of the body, then closes
    hold: threading.Event | None = None  # set when it has come; no answer while the client stays
    after: threading.Event | None = None  # answers when it is set

    @staticmethod
    def json(value, status: int = 200, **headers: str) -> "Answer":
        return Answer(status, json.dumps(value).encode(),
                      {name.replace("_", "-"): text for name, text in headers.items()})

    @staticmethod
    def error(status: int, code: str, message: str = "no", **details) -> "Answer":
        return Answer.json({"error": {"code": code, "message": message,
                                      "details": {"request_id": "r-1", **details}}}, status)


class ScriptedServer:
    """Answers come from `script` in order, or from `respond` when that is set."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.script: deque[Answer] = deque()
        self.respond: Callable[[Seen], Answer] | None = None
        self.connections = 0
        self.closed_by_client = threading.Event()
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                with outer._lock:
                    outer.connections += 1

            def log_message(self, *_):
                pass

            def read_body(self) -> bytes:
                if self.headers.get("Transfer-Encoding") == "chunked":
                    body = b""
                    while size := int(self.rfile.readline(), 16):
                        body += self.rfile.read(size)
                        self.rfile.readline()
                    self.rfile.readline()
                    return body
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))

            def handle_any(self):
                seen = Seen(self.command, self.path,
                            {k.lower(): v for k, v in self.headers.items()}, self.read_body())
                with outer._lock:
                    outer.seen.append(seen)
                    answer = outer.respond(seen) if outer.respond else outer.script.popleft()
                if answer.hold is not None:
                    self.wait_for_end(answer.hold)
                    return
                if answer.after is not None:
                    answer.after.wait(10)
                if answer.drop:
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body[: answer.cut])
                self.close_connection = answer.cut is not None or self.close_connection

            def wait_for_end(self, hold: threading.Event):
                """Says when the client goes away."""
                hold.set()
                self.connection.settimeout(10)
                if self.connection.recv(1) == b"":
                    outer.closed_by_client.set()
                self.close_connection = True

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = handle_any

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def add(self, *answers: Answer) -> None:
        self.script.extend(answers)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
