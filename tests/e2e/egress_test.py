"""Allow-lists: what they let through, by address, range and name, and nothing else.

An instance of its own, whose names are asked of a name server of this test; the world is a network
namespace with a server on several addresses.
"""

import os
import signal
import socket
import socketserver
import struct
import subprocess
import threading

import pytest

import deployment
import world
from deployment import LANE, eventually

NET = 16 * LANE  # of 203.0.113.0/24, /28 a lane
HOST = f"203.0.113.{NET + 1}"
ONE, TWO, THREE, FOUR = (f"203.0.113.{NET + last}" for last in range(2, 6))
PORT = 18098
A, CNAME = 1, 5
TRIES = 10
TIMED_OUT = 124

# An echo that says where it is first.
SERVER = """
import contextlib, socket, threading
def serve(peer):
    with contextlib.suppress(OSError):  # those who are cut
        peer.sendall(peer.getsockname()[0].encode() + b"\\n")
        while (data := peer.recv(100)):
            peer.sendall(data)
listener = socket.create_server(("0.0.0.0", {port}))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


@pytest.fixture(scope="module", autouse=True)
def the_world():
    with world.running(f"sgtest-world-{LANE}", f"tstw{LANE}", HOST, [ONE, TWO, THREE, FOUR], PORT,
                       SERVER):
        yield


class Names:
    """The name server that the node asks, over UDP and TCP on one port."""

    def __init__(self):
        self.records: dict[str, list[tuple[int, str]]] = {}  # name -> (type, value)
        self.ttl = 60
        self.asked: list[str] = []
        self.truncate = False
        names = self

        class Datagram(socketserver.BaseRequestHandler):
            def handle(self):
                data, replying = self.request
                replying.sendto(names.answer(data, names.truncate), self.client_address)

        class Stream(socketserver.StreamRequestHandler):
            def handle(self):
                (size,) = struct.unpack(">H", self.rfile.read(2))
                answer = names.answer(self.rfile.read(size), False)
                self.wfile.write(struct.pack(">H", len(answer)) + answer)

        self.tcp = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Stream)
        self.port = self.tcp.server_address[1]
        self.udp = socketserver.ThreadingUDPServer(("127.0.0.1", self.port), Datagram)
        for server in (self.tcp, self.udp):
            threading.Thread(target=server.serve_forever, daemon=True).start()

    def answer(self, data: bytes, truncate: bool) -> bytes:
        name, end = read_name(data, 12)
        (kind,) = struct.unpack(">H", data[end:end + 2])
        self.asked.append(name)
        records = self.records.get(name)
        flags = 0x8180 | (0x0200 if truncate else 0) | (3 if records is None else 0)
        answers = b""
        count = 0
        for each, value in [] if truncate else records or []:
            if each in (kind, CNAME):
                rest = wire_name(value) if each == CNAME else socket.inet_aton(value)
                answers += (wire_name(name) + struct.pack(">HHIH", each, 1, self.ttl, len(rest)) +
                            rest)
                count += 1
                if each == CNAME:
                    name = value
                    more = [one for one in self.records.get(value, []) if one[0] == kind]
                    for _, address in more:
                        answers += (wire_name(value) + struct.pack(">HHIH", kind, 1, self.ttl, 4) +
                                    socket.inet_aton(address))
                        count += 1
        return (data[:2] + struct.pack(">HHHHH", flags, 1, count, 0, 0) + data[12:end + 4] +
                answers)

    def close(self):
        for server in (self.tcp, self.udp):
            server.shutdown()
            server.server_close()


def read_name(data: bytes, at: int) -> tuple[str, int]:
    labels = []
    while data[at]:
        labels.append(data[at + 1:at + 1 + data[at]].decode().lower())
        at += 1 + data[at]
    return ".".join(labels), at + 1


def wire_name(name: str) -> bytes:
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"


@pytest.fixture(scope="module")
def names():
    made = Names()
    made.records = {
        "one.test": [(A, ONE)],
        "api.wild.test": [(A, TWO)],
        "alias.test": [(CNAME, "target.elsewhere")],
        "target.elsewhere": [(A, THREE)],
        "bind.test": [(A, "127.0.0.1"), (A, "169.254.169.254"), (A, "10.0.0.1")],
        "mixed.test": [(A, "127.0.0.1"), (A, FOUR)],
        "host.test": [(A, HOST)],
        "denied.test": [(A, FOUR)],
    }
    yield made
    made.close()


@pytest.fixture(scope="module")
def deployed(names):
    one = deployment.make_instance("sgy", "10.206.0.0/16", 2_650_000_000, shells=2)
    one.settings.node_options |= {"dns-servers": f"127.0.0.1:{names.port}"}
    with deployment.running(one):
        yield one


@pytest.fixture(scope="module")
def api(deployed):
    return deployment.Api(deployed)


@pytest.fixture
def make(api):
    """make(entry, ...): the id of a sandbox with that allow-list."""
    made = []

    def call(*allow: str) -> str:
        made.append(api.create(network={"mode": "allow", "allow": list(allow)})["id"])
        return made[-1]

    yield call
    for one in made:
        api.remove(one)


def reach(api, box: str, host: str, port: int = PORT) -> str:
    """The address that answered; empty if it was refused. A packet that is lost on the way is sent
    anew, from another port: the kernel may remember a connection of an earlier run's from this
    one."""
    for _ in range(TRIES):
        done = api.run(box, "timeout", "4", "bash", "-c",
                       f"exec 3<>/dev/tcp/{host}/{port} && head -n 1 <&3")
        if done["exit_code"] != TIMED_OUT:
            break
    return done["stdout"].strip() if done["exit_code"] == 0 else ""


def is_silent(api, box: str, host: str, port: int = PORT) -> bool:
    """Whether nothing comes back, as of a packet that was dropped."""
    done = api.run(box, "timeout", "1", "bash", "-c",
                   f"exec 3<>/dev/tcp/{host}/{port} && head -n 1 <&3")
    return done["exit_code"] != 0 and not done["stdout"]


def fails_at_once(api, box: str, host: str) -> bool:
    """Refused or unknown, and not for want of an answer."""
    done = api.run(box, "timeout", "30", "bash", "-c", f"exec 3<>/dev/tcp/{host}/{PORT}")
    return done["exit_code"] == 1


def change(api, box: str, network: dict) -> None:
    answer = api.http.patch(f"/sandboxes/{box}", json={"network": network})
    assert answer.status_code == 200, answer.text
    assert answer.json()["network"] == network


def test_addresses_and_ranges(api, make):
    box = make(ONE, f"203.0.113.{NET + 4}/31")
    assert reach(api, box, ONE) == ONE
    assert reach(api, box, THREE) == THREE and reach(api, box, FOUR) == FOUR
    assert fails_at_once(api, box, TWO)
    shown = api.get(f"/sandboxes/{box}").json()["network"]
    assert shown == {"mode": "allow", "allow": [ONE, f"203.0.113.{NET + 4}/31"]}


def test_an_empty_list_is_nothing(api, make):
    box = make()
    assert fails_at_once(api, box, ONE) and fails_at_once(api, box, "one.test")


def test_a_name_opens_what_it_resolves_to(api, make, names):
    box = make("one.test")
    assert fails_at_once(api, box, ONE), "before anything was resolved"
    assert reach(api, box, "one.test") == ONE
    assert reach(api, box, "ONE.test.") == ONE
    assert reach(api, box, ONE) == ONE
    assert fails_at_once(api, box, TWO)
    assert fails_at_once(api, box, "denied.test")
    assert "denied.test" not in names.asked, "a question must not carry anything out"


def test_names_below_and_aliases(api, make):
    box = make("*.wild.test", "alias.test")
    assert reach(api, box, "api.wild.test") == TWO
    assert reach(api, box, "alias.test") == THREE
    assert fails_at_once(api, box, "wild.test")
    assert fails_at_once(api, box, "target.elsewhere")


def test_a_name_opens_for_its_sandbox_only(api, make):
    first, second = make("one.test"), make("api.wild.test")
    assert reach(api, first, "one.test") == ONE
    assert fails_at_once(api, second, ONE)


def test_names_do_not_lead_to_the_host_or_private_networks(api, make, deployed):
    box = make("bind.test", "mixed.test", "host.test")
    assert api.run(box, "getent", "ahostsv4", "bind.test")["exit_code"] != 0
    found = api.output(box, "getent ahostsv4 mixed.test")
    assert FOUR in found and "127.0.0.1" not in found
    assert reach(api, box, "mixed.test") == FOUR
    with socket.create_server(("0.0.0.0", 0)) as listener:
        port = listener.getsockname()[1]
        assert is_silent(api, box, "host.test", port)
        assert is_silent(api, box, "host.test", deployed.settings.port)


def test_a_private_address_that_is_named_is_told(api, make):
    box = make("bind.test", "10.0.0.0/8")
    found = api.output(box, "getent ahostsv4 bind.test")
    assert "10.0.0.1" in found and "127.0.0.1" not in found and "169.254" not in found


def test_whatever_name_server_is_asked_ours_answers(api, make):
    box = make("one.test")
    api.output(box, "echo nameserver 192.0.2.53 > /etc/resolv.conf")
    assert reach(api, box, "one.test") == ONE


def test_a_long_answer_comes_by_tcp(api, make, names):
    box = make("one.test")
    api.output(box, "echo options use-vc >> /etc/resolv.conf")
    names.truncate = True
    try:
        assert reach(api, box, "one.test") == ONE
    finally:
        names.truncate = False


def test_an_answer_ends_and_its_connection_goes_on(api, make, names):
    box = make("one.test")
    names.ttl = 1
    try:
        started = api.post(f"/sandboxes/{box}/sessions", {
            "name": "line", "argv": ["bash", "-c", f"exec 3<>/dev/tcp/one.test/{PORT}; "
                                     "head -n 1 <&3; read go; echo on >&3; head -n 1 <&3"]})
        assert started.status_code == 201, started.text
        log = f"/sandboxes/{box}/sessions/line/logs"
        eventually(lambda: ONE in api.get(log).text, what="the connection")
    finally:
        names.ttl = 60
    eventually(lambda: fails_at_once(api, box, ONE), what="the end of the answer")
    assert api.http.post(f"/sandboxes/{box}/sessions/line/stdin",
                         content=b"go\n").status_code in (200, 204)
    eventually(lambda: "on" in api.get(log).text, what="an answer over the old connection")


def test_changes_while_it_runs(api, make):
    box = make("one.test")
    assert reach(api, box, "one.test") == ONE
    change(api, box, {"mode": "allow", "allow": [TWO]})
    assert reach(api, box, TWO) == TWO
    assert fails_at_once(api, box, ONE) and fails_at_once(api, box, "one.test")
    change(api, box, {"mode": "open"})
    assert reach(api, box, FOUR) == FOUR
    change(api, box, {"mode": "none"})
    assert fails_at_once(api, box, TWO) and fails_at_once(api, box, "one.test")
    change(api, box, {"mode": "allow", "allow": ["one.test"]})
    assert reach(api, box, "one.test") == ONE
    assert fails_at_once(api, box, TWO)


def test_a_change_cuts_what_it_does_not_allow(api, make):
    box = make(ONE, TWO)
    for name, address in (("cut", ONE), ("kept", TWO)):
        command = (f"exec 3<>/dev/tcp/{address}/{PORT}; head -n 1 <&3; read go; echo on >&3; "
                   "head -n 1 <&3 || echo cut; echo end")
        started = api.post(f"/sandboxes/{box}/sessions", {"name": name,
                                                          "argv": ["bash", "-c", command]})
        assert started.status_code == 201, started.text
    logs = {name: f"/sandboxes/{box}/sessions/{name}/logs" for name in ("cut", "kept")}
    for name, address in (("cut", ONE), ("kept", TWO)):
        eventually(lambda: address in api.get(logs[name]).text, what=name)
    change(api, box, {"mode": "allow", "allow": [TWO]})
    for name in logs:
        api.http.post(f"/sandboxes/{box}/sessions/{name}/stdin", content=b"go\n")
        eventually(lambda: "end" in api.get(logs[name]).text, what=name)
    assert "on" in api.get(logs["kept"]).text
    assert "on\n" not in api.get(logs["cut"]).text


def test_the_node_is_killed_and_the_list_holds(api, make, deployed):
    box = make("one.test", TWO)
    assert reach(api, box, "one.test") == ONE
    os.kill(deployed.node.pid(), signal.SIGKILL)
    eventually(lambda: deployed.node.pid() is None, what="the end of the node")
    assert reach(api, box, TWO) == TWO and reach(api, box, ONE) == ONE
    assert fails_at_once(api, box, THREE)
    deployed.start_node()
    assert reach(api, box, TWO) == TWO and reach(api, box, ONE) == ONE
    assert fails_at_once(api, box, THREE)
    eventually(lambda: reach(api, box, "one.test") == ONE, what="names, answered again")


def dns_process(deployed) -> int | None:
    found = subprocess.run(["pgrep", "-x", "-P", str(deployed.node.pid()), "sandbox-dns"],
                           capture_output=True, text=True, check=False).stdout.split()
    return int(found[0]) if found else None


def test_the_name_server_is_confined_and_comes_again(api, make, deployed):
    box = make("one.test")
    pid = eventually(lambda: dns_process(deployed), what="sandbox-dns")
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    assert status["Uid"].split() == [str(deployed.settings.id_base - 1)] * 4
    assert int(status["CapEff"], 16) == 0 and status["Seccomp"] == "2"
    assert status["NoNewPrivs"] == "1"
    assert os.listdir(f"/proc/{pid}/root") == []
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: dns_process(deployed) not in (None, pid), what="another sandbox-dns")
    assert reach(api, box, "one.test") == ONE


def refusals(api, box: str) -> list[tuple[str, str]]:
    return [(event["reason"], event["message"])
            for event in api.get(f"/sandboxes/{box}/events").json()["items"]
            if event["type"] == "policy_denied"]


def has_refusal(api, box: str, reason: str, start: str) -> bool:
    return any(each == reason and message.startswith(start)
               for each, message in refusals(api, box))


def test_what_is_refused_is_an_event(api, make):
    box = make(ONE, "bind.test")
    assert fails_at_once(api, box, TWO) and fails_at_once(api, box, "denied.test")
    assert api.run(box, "getent", "ahostsv4", "bind.test")["exit_code"] != 0
    assert reach(api, box, ONE) == ONE
    for reason, start in (("address_refused", f"{TWO} port {PORT} (tcp)"),
                          ("name_refused", "denied.test "), ("name_refused", "bind.test ")):
        eventually(lambda: has_refusal(api, box, reason, start), what=start)
    assert len(refusals(api, box)) == 3, "each once, and nothing of what is allowed"
    change(api, box, {"mode": "none"})
    assert fails_at_once(api, box, ONE)
    eventually(lambda: has_refusal(api, box, "no_network", ""), what="the network that is off")


def test_a_flood_of_refusals_is_a_few_events(api, make):
    box = make()
    api.run(box, "bash", "-c", "for i in $(seq 200); do getent ahostsv4 n$i.test; done")
    eventually(lambda: len(refusals(api, box)) == 20, what="the first of them")
    assert fails_at_once(api, box, "last.test")
    assert len(refusals(api, box)) <= 22, "one more a minute"


def test_an_open_network_tells_of_the_metadata_service(api):
    made = api.create()["id"]
    assert is_silent(api, made, "169.254.169.254", 80)
    eventually(lambda: has_refusal(api, made, "address_refused", "169.254.169.254 port 80 (tcp)"),
               what="the event")
    api.remove(made)


def test_open_mode_is_as_it_was(api):
    made = api.create()
    assert made["network"] == {"mode": "open"}
    assert reach(api, made["id"], FOUR) == FOUR
    api.remove(made["id"])


def test_a_list_is_a_teams_default(api):
    policy = {"mode": "allow", "allow": ["*.wild.test", TWO]}
    old = api.get("/teams/default").json()["network"]
    assert api.http.patch("/teams/default", json={"network": policy}).json()["network"] == policy
    try:
        made = api.create()
        assert made["network"] == policy
        assert reach(api, made["id"], TWO) == TWO and fails_at_once(api, made["id"], ONE)
        api.remove(made["id"])
    finally:
        api.http.patch("/teams/default", json={"network": old})


@pytest.mark.parametrize("network, code, field", [
    ({"mode": "allow"}, "missing_field", "network.allow"),
    ({"mode": "open", "allow": []}, "invalid_field", "network.allow"),
    ({"mode": "allow", "allow": ["https://a.test"]}, "invalid_field", "network.allow"),
    ({"mode": "allow", "allow": ["a.test:443"]}, "invalid_field", "network.allow"),
    ({"mode": "allow", "allow": ["bücher.test"]}, "invalid_field", "network.allow"),
    ({"mode": "allow", "allow": ["::1"]}, "invalid_field", "network.allow"),
    ({"mode": "allow", "allow": ["169.254.169.254"]}, "invalid_field", "network.allow"),
    ({"mode": "allow", "allow": ["a.test"] * 257}, "invalid_field", "network.allow"),
])
def test_wrong_lists_are_refused(api, network, code, field):
    answer = api.post("/sandboxes", {"image": deployment.IMAGE, "cpus": 1, "memory_mb": 64,
                                     "network": network})
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == code
    assert answer.json()["error"]["details"]["field"] == field


def test_command_line(api, sandbox_cli):
    def cli(*argv: str) -> str:
        done = sandbox_cli(*argv)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().strip()

    box = cli("create", deployment.IMAGE, "--allow", ONE, "--allow", "*.wild.test")
    assert cli("network", box, "-o", "table") == f"allow: {ONE}, *.wild.test"
    assert reach(api, box, ONE) == ONE
    cli("network", box, "allow", "--allow", TWO)
    assert reach(api, box, TWO) == TWO and fails_at_once(api, box, ONE)
    cli("network", box, "open")
    assert reach(api, box, ONE) == ONE
    cli("rm", box)
