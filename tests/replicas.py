"""Several gateways on one PostgreSQL store, and a plain TCP balancer before them."""

import asyncio
import contextlib
import threading
import time
import urllib.error
import urllib.request

import httpx

import deployment
from deployment import eventually, instance

LOOK_SECONDS = 0.1  # between two looks of the balancer at /readyz


class Replica(instance.Instance):
    """One more gateway of an instance: a data folder of its own, the node and the store are the
    instance's."""

    def __init__(self, first: instance.Instance, name: str):
        self.first = first
        settings = instance.Settings(**{
            **vars(first.settings), "port": instance.free_port(),
            "metrics_port": instance.free_port(), "fault_point": "",
            "gateway_options": dict(first.settings.gateway_options)})
        super().__init__(first.state / name, first.programs, settings)

    @property
    def token(self) -> str:
        return self.first.token

    @property
    def node_socket(self):
        return self.first.node_socket

    def gateway_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as answer:
                return answer.status == 200
        except (OSError, urllib.error.URLError):
            return False

    def start(self) -> None:
        """With the key of the first."""
        self.prepare()
        key = self.state / "gateway" / "secret.key"
        if not key.exists():
            key.write_bytes((self.first.state / "gateway" / "secret.key").read_bytes())
            instance.os.chown(key, instance.GATEWAY_UID, instance.GATEWAY_UID)
            key.chmod(0o600)
        self.start_gateway()


class Balancer:
    """A TCP balancer: each new connection goes to the next gateway whose /readyz says 200."""

    def __init__(self, gateways: list[instance.Instance]):
        self.gateways = gateways
        self.ready = list(gateways)
        self.turn = 0
        self.stopping = threading.Event()
        self.loop = asyncio.new_event_loop()
        started = threading.Event()
        self.thread = threading.Thread(target=self.serve, args=(started,), daemon=True)
        self.thread.start()
        self.looker = threading.Thread(target=self.look, daemon=True)
        self.looker.start()
        assert started.wait(10)
        self.url = f"http://127.0.0.1:{self.port}"

    def look(self) -> None:
        while not self.stopping.wait(LOOK_SECONDS):
            self.ready = [one for one in self.gateways if one.gateway_ready()]

    def serve(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(
            asyncio.start_server(self.connect, "127.0.0.1", 0, backlog=256))
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        self.loop.run_forever()

    async def connect(self, reader, writer) -> None:
        with contextlib.suppress(OSError):
            for _ in range(len(self.gateways)):
                ready = self.ready or self.gateways
                self.turn += 1
                port = ready[self.turn % len(ready)].settings.port
                with contextlib.suppress(ConnectionRefusedError):
                    back = await asyncio.open_connection("127.0.0.1", port)
                    await asyncio.gather(self.pass_on(reader, back[1]),
                                         self.pass_on(back[0], writer))
                    break
        writer.close()

    @staticmethod
    async def pass_on(source, sink) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        with contextlib.suppress(OSError, RuntimeError):
            sink.write_eof()

    def stop(self) -> None:
        self.stopping.set()
        self.looker.join()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()


class Group:
    """`count` gateways; the first is a whole instance."""

    def __init__(self, name: str, count: int = 2, **options: str):
        self.server = deployment.postgresql.Server()
        self.balancer = None
        self.gateways: list[instance.Instance] = []
        try:
            first = deployment.make_instance(name, "10.205.0.0/16", 2_300_000_000, shells=4)
            first.settings.store = self.server.create_database("gateway")
            first.settings.gateway_options = options
            self.gateways.append(first)
            first.start()
            deployment.import_demo_image(first)
            for number in range(1, count):
                replica = Replica(first, f"replica-{number}")
                self.gateways.append(replica)
                replica.start()
            self.balancer = Balancer(self.gateways)
            self.apis = [deployment.Api(one) for one in self.gateways]
            eventually(lambda: all(len(self.others(api)) == count for api in self.apis))
        except BaseException:
            self.purge()
            raise

    @staticmethod
    def others(api) -> list[dict]:
        return api.get("/replicas").json()["items"]

    def client(self) -> httpx.Client:
        """Through the balancer, a connection for each request."""
        return httpx.Client(base_url=self.balancer.url, timeout=120,
                            headers={"Authorization": f"Bearer {self.gateways[0].token}"},
                            limits=httpx.Limits(max_keepalive_connections=0))

    def node_ids(self) -> set[str]:
        return {row["id"] for row in self.gateways[0].ask_node({"op": "list"})["sandboxes"]}

    def purge(self) -> None:
        if self.balancer:
            self.balancer.stop()
        for one in self.gateways[1:]:
            one.gateway.kill()
        if self.gateways:
            deployment.purge(self.gateways[0])
        deployment.purge_server(self.server)


def seconds_since(moment: float) -> float:
    return time.monotonic() - moment
