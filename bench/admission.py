"""Measures of the queue: many creates at once under a quota, and what others notice of it."""

import http.client
import json
import socket
import threading
import time

from table import percentile

CREATES, ADMITTED_AT_ONCE = 500, 50
OTHERS_BOUND_MS = 50
PATIENCE_SECONDS = 300


class Others:
    """Somebody else's requests, one after the other, until stopped."""

    def __init__(self, bench, sandbox: str):
        self.times: list[float] = []
        self.bench, self.sandbox = bench, sandbox
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.ask)
        self.thread.start()

    def ask(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.bench.one.settings.port)
        headers = {"Authorization": f"Bearer {self.bench.one.token}"}
        while not self.done.is_set():
            started = time.monotonic()
            connection.request("GET", f"/sandboxes/{self.sandbox}", headers=headers)
            answer = connection.getresponse()
            answer.read()
            self.times.append((time.monotonic() - started) * 1000)
            if answer.status != 200:
                raise SystemExit(f"another's request: {answer.status}")

    def stop(self) -> float:
        """Their p99 in milliseconds."""
        self.done.set()
        self.thread.join()
        return percentile(self.times, 0.99)


def send_all(bench) -> list[str]:
    """The ids of as many creates, all sent before the first answer is read, as they were made."""
    body = json.dumps({"image": bench.image, "cpus": 0.1, "memory_mb": 32,
                       "storage_mb": 16}).encode()
    request = (f"POST /sandboxes HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer "
               f"{bench.one.token}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
               ).encode() + body
    clients = [socket.create_connection(("127.0.0.1", bench.one.settings.port))
               for _ in range(CREATES)]
    for client in clients:
        client.sendall(request)
    ids = []
    for client in clients:
        answer = http.client.HTTPResponse(client)
        answer.begin()
        if answer.status != 201:
            raise SystemExit(f"create: {answer.status} {answer.read()[:300]}")
        ids.append(json.loads(answer.read())["id"])
        client.close()
    return ids


def admit_all(bench, ids: list[str]) -> list[dict]:
    """Ends what is ready until every one has been; their rows."""
    waiting, rows = set(ids), []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while waiting:
        _, page = bench.one.request("GET", "/sandboxes?state=ready&limit=1000")
        for row in page["items"]:
            if row["id"] in waiting:
                waiting.remove(row["id"])
                rows.append(row)
                bench.one.request("DELETE", f"/sandboxes/{row['id']}")
        if time.monotonic() > deadline:
            raise SystemExit(f"{len(waiting)} of {CREATES} were never admitted")
    return rows


def admission(bench) -> None:
    bench.one.settings.gateway_options = {"total-sandboxes": str(ADMITTED_AT_ONCE)}
    bench.one.gateway.kill()
    bench.one.start_gateway()
    others = Others(bench, bench.make(cpus=0.1, memory_mb=32))
    started = time.monotonic()
    ids = send_all(bench)
    accepted = time.monotonic() - started
    rows = admit_all(bench, ids)
    took = time.monotonic() - started
    worst = others.stop()
    rows.sort(key=lambda row: (row["admitted_at"], row["created_at"]))
    created = [row["created_at"] for row in rows]
    bench.table.add(f"{CREATES} creates at once, {ADMITTED_AT_ONCE} admitted at a time",
                    f"accepted in {accepted:.2f} s, all ready in {took:.1f} s", "in order",
                    created == sorted(created) and len(rows) == CREATES)
    bench.table.add("others' requests meanwhile, p99", f"{worst:.1f} ms",
                    f"<= {OTHERS_BOUND_MS} ms", worst <= OTHERS_BOUND_MS)
    bench.one.settings.gateway_options = {}
    bench.remove_all()
