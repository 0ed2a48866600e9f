"""Network: out through NAT, and nothing else: no other sandbox, no host, no link-local."""

import socket
import subprocess
import sys

import pytest

import world
from deployment import eventually
from world import ip

OUTSIDE_NAME = "sgtest-outside"  # a network namespace that plays the world
OUTSIDE_HOST, OUTSIDE_PEER = "198.51.100.1", "198.51.100.2"
PORT = 18099
REFUSED = {"TIMEOUT", "ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH", "EPERM", "EACCES"}


@pytest.fixture(scope="module")
def outside():
    """A host beyond ours, with a TCP server; reached by routing through this machine."""
    with world.running(OUTSIDE_NAME, "tst-out", OUTSIDE_HOST, [OUTSIDE_PEER], PORT):
        yield OUTSIDE_PEER


@pytest.fixture(scope="module")
def connect(api, probe):
    """connect(box, host, port): the outcome of one TCP connection from inside."""
    loaded = set()

    def call(box: str, host: str, port: int) -> str:
        if box not in loaded:
            assert api.upload(box, "/tmp/probe", probe, mode="755").status_code in (200, 201)
            loaded.add(box)
        return api.output(box, f"/tmp/probe tcp {host} {port}").split()[1]
    return call


def test_reaches_the_outside_by_nat(api, shared_box, outside, connect):
    assert connect(shared_box, outside, PORT) == "OK"
    command = f"exec 3<>/dev/tcp/{outside}/{PORT}; cat <&3"
    seen = api.run(shared_box, "bash", "-c", command)["stdout"]
    assert seen == OUTSIDE_HOST


def test_answers_only_to_what_it_asked(api, shared_box, outside):
    """Nothing outside can open a connection into a sandbox."""
    address = api.output(shared_box, "hostname -I").split()[0]
    assert not reachable_from_outside(address)


def reachable_from_outside(address: str) -> bool:
    program = (f"import socket\nsocket.create_connection(('{address}', 22), 1)")
    ip("-n", OUTSIDE_NAME, "route", "replace", f"{address}/32", "via", OUTSIDE_HOST)
    done = subprocess.run(["ip", "netns", "exec", OUTSIDE_NAME, sys.executable, "-c", program],
                          capture_output=True, text=True, check=False)
    return done.returncode == 0 or "refused" in done.stderr


def test_no_sandbox_reaches_another(api, shared_box, probe, connect):
    """55"""
    other = api.create()["id"]
    assert api.upload(other, "/tmp/probe", probe, mode="755").status_code in (200, 201)
    api.output(other, "/tmp/probe serve 8000")
    address = api.output(other, "hostname -I").split()[0]
    assert connect(other, address, 8000) == "OK"
    assert connect(other, "127.0.0.1", 8000) == "OK"
    assert connect(shared_box, address, 8000) in REFUSED
    api.remove(other)


def test_host_is_out_of_reach(api, deployed, shared_box, outside, connect):
    """55: every address of the host, the gateway's port, metadata and link-local."""
    with socket.create_server(("0.0.0.0", 0)) as listener:
        port = listener.getsockname()[1]
        hosts = {OUTSIDE_HOST, "169.254.169.254", "169.254.1.1"}
        text = subprocess.run(["ip", "-4", "-o", "addr"], capture_output=True, text=True,
                              check=True).stdout
        hosts |= {line.split()[3].split("/")[0] for line in text.splitlines()[:6]} - {"127.0.0.1"}
        for host in sorted(hosts):
            assert connect(shared_box, host, port) in REFUSED, host
            assert connect(shared_box, host, deployed.settings.port) in REFUSED, host


def test_network_none_and_back(api, outside, connect):
    made = api.create(network={"mode": "none"})["id"]
    assert connect(made, outside, PORT) == "ENETUNREACH", "at once, not in silence"
    looked_up = api.shell(made, "timeout 30 getent hosts name.example.com")
    assert looked_up["exit_code"] not in (0, 124, 127), looked_up  # names fail at once, too
    answer = api.http.patch(f"/sandboxes/{made}", json={"network": {"mode": "open"}})
    assert answer.status_code == 200 and answer.json()["network"]["mode"] == "open"
    assert connect(made, outside, PORT) == "OK"
    api.http.patch(f"/sandboxes/{made}", json={"network": {"mode": "none"}})
    eventually(lambda: connect(made, outside, PORT) == "ENETUNREACH")
    api.remove(made)


def test_root_inside_can_serve_port_80(api, probe):
    made = api.create()["id"]
    assert api.upload(made, "/tmp/probe", probe, mode="755").status_code in (200, 201)
    assert api.output(made, "/tmp/probe serve 80") == "bind OK"
    api.remove(made)


def test_names_inside(api, shared_box):
    resolvers = api.output(shared_box, "cat /etc/resolv.conf")
    assert "nameserver 127." not in resolvers and "nameserver ::1" not in resolvers
    hosts = api.output(shared_box, "cat /etc/hosts")
    assert "127.0.0.1" in hosts and api.output(shared_box, "hostname") in hosts
    assert api.output(shared_box, "cat /etc/hostname") == api.output(shared_box, "hostname")


def test_no_ipv6(api, shared_box):
    assert api.output(shared_box, "cat /proc/net/if_inet6 2>/dev/null | wc -l") == "0"


def test_system_files_can_be_replaced(api, shared_box):
    """They are ordinary files of the upper layer, not mounts."""
    assert api.upload(shared_box, "/etc/hosts", b"127.0.0.1 localhost x\n").status_code in (200,
                                                                                            201)
    assert api.output(shared_box, "cat /etc/hosts") == "127.0.0.1 localhost x"


# --- a network namespace is used again only where nothing was ever done in it

# What the kernel shows of a namespace, without making a socket.
FACTS = ("for f in dev sockstat sockstat6 unix tcp tcp6 udp udp6 icmp igmp mcfilter ip6_flowlabel "
         "snmp netstat route arp fib_trie rt_cache netlink; do echo \"# $f\"; "
         "cat /proc/net/$f 2>/dev/null; done; find /proc/sys/net -type f -readable "
         "-exec grep -H . {} + 2>/dev/null | sort")
LEFT = ["tcp", "udp", "unused_socket", "ipv6", "ping", "multicast", "flow_label"]
LEFT_BY_UNIX = ["abstract", "in_flight", "netlink"]  # end with the process, or are seen to be there


def facts_of(api, box: str) -> tuple[str, str]:
    """The sandbox's address, and all else of its network namespace."""
    address = api.output(box, "tail -n 1 /etc/hosts").split()[0]
    text = api.output(box, FACTS).replace(address, "ADDRESS")
    return address, "\n".join(line for line in text.splitlines() if varies_not(line))


def varies_not(line: str) -> bool:
    """Counters of the whole host, and memory addresses."""
    return not any(word in line for word in ("/random/", "mem ", "nf_conntrack_count"))


def one_life(api, probe: bytes | None = None, kind: str = "") -> tuple[str, str]:
    made = api.create()["id"]
    facts = facts_of(api, made)
    if probe is not None:
        assert api.upload(made, "/tmp/probe", probe, mode="755").status_code in (200, 201)
        outcome = api.output(made, f"/tmp/probe leave {kind}")
        if outcome == "leave EACCES":
            pytest.skip("group ids beyond what ping_group_range can name")
        assert outcome in ("leave OK", "leave EPERM"), kind
    api.remove(made)
    return facts


def test_namespace_that_is_used_again_looks_like_a_new_one(api):
    lives = [one_life(api) for _ in range(40)]
    addresses = [address for address, _ in lives]
    assert len(set(addresses)) < len(addresses), "none was used again: the host has no cgroup v2?"
    first = dict(reversed(lives))  # of each address, what its first sandbox saw
    for address, facts in lives:
        assert facts == first[address], address


@pytest.mark.parametrize("kind", LEFT)
def test_namespace_with_an_internet_socket_is_never_used_again(api, probe, kind):
    touched, _ = one_life(api, probe, kind)
    assert touched not in {one_life(api)[0] for _ in range(40)}


@pytest.mark.parametrize("kind", LEFT_BY_UNIX)
def test_nothing_of_other_sockets_is_left_in_the_next_sandbox(api, probe, kind):
    for _ in range(8):
        one_life(api, probe, kind)
    for _ in range(40):
        _, facts = one_life(api)
        assert "left-" not in facts
        assert "sockets: used 0" in facts


def test_namespace_that_packets_reached_is_never_used_again(api):
    made = api.create()["id"]
    address, _ = facts_of(api, made)
    with socket.socket() as asking:  # refused by the sandbox's kernel, or dropped on the way
        asking.settimeout(0.3)
        asking.connect_ex((address, 9))
    reached = "0 0 0 0" not in " ".join(api.output(made, "cat /proc/net/snmp | grep ^Ip:").split())
    api.remove(made)
    others = {one_life(api)[0] for _ in range(40)}
    assert not reached or address not in others


def test_namespace_that_was_closed_is_never_used_again(api):
    made = api.create(network={"mode": "none"})["id"]
    address, _ = facts_of(api, made)
    api.remove(made)
    assert address not in {one_life(api)[0] for _ in range(40)}
