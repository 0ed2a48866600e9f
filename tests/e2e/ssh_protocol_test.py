"""SSH as other clients speak it (asyncssh, paramiko), and what the stock one never sends."""

import asyncio
import contextlib

import asyncssh
import paramiko
import pytest

import ssh_client
from deployment import eventually
from ssh_client import api_fixture, box_fixture, paramiko_client, ssh_fixture  # noqa: F401


@pytest.fixture(scope="module", name="deployed")
def deployed_fixture():
    one = ssh_client.make_instance("shp", "10.223.0.0/16", 3_500_000)
    with ssh_client.running(one):
        yield one


def test_asyncssh(ssh):
    told = ssh.session()

    async def talk():
        async with asyncssh.connect(told["host"], told["port"], username=told["token"],
                                    known_hosts=str(ssh.known_hosts), config=None) as connection:
            done = await connection.run("cat; exit 3", input="hello", check=False)
            assert (done.exit_status, done.stdout) == (3, "hello")
            killed = await connection.run("kill -KILL $$", check=False)
            assert killed.exit_signal[0] == "KILL"
            many = await asyncio.gather(*[connection.run(f"exit {i}", check=False)
                                          for i in range(20)])
            assert [one.exit_status for one in many] == list(range(20))
            process = await connection.create_process("sleep 100")
            process.send_signal("TERM")
            await process.wait(check=False)
            assert process.exit_signal[0] == "TERM"
            process = await connection.create_process(term_type="xterm", term_size=(91, 27))
            process.stdin.write("stty size; exit 6\n")
            out = await process.stdout.read()
            assert "27 91" in out
            await process.wait(check=False)
            assert process.exit_status == 6
    asyncio.run(talk())


def test_the_order_of_a_channels_messages(ssh):
    """Data, end, status, close."""
    told = ssh.session()
    order = []
    with paramiko_client(ssh, told, password="") as client:
        transport = client.get_transport()
        names = {96: "end", 97: "close", 98: "status"}  # RFC 4254
        for number, name in names.items():
            def note(channel, message, name=name, real=transport._channel_handler_table[number]):
                order.append(name)
                return real(channel, message)
            transport._channel_handler_table = {**transport._channel_handler_table, number: note}
        channel = transport.open_session()
        channel.exec_command("echo a; exit 9")
        assert channel.recv(10) == b"a\n" and channel.recv_exit_status() == 9
        eventually(lambda: "close" in order)
    assert order == ["end", "status", "close"]


def test_unknown_requests_and_channels_are_refused_at_once(ssh):
    told = ssh.session()
    with paramiko_client(ssh, told, password="") as client:
        transport = client.get_transport()
        assert transport.global_request("nonsense@example.com", wait=True) is None
        transport.global_request("nonsense@example.com", wait=False)
        with pytest.raises(paramiko.ChannelException):
            transport.open_channel("nonsense")
        channel = transport.open_session()
        with pytest.raises(paramiko.SSHException):
            channel.invoke_subsystem("nosuch")
        channel = transport.open_session()
        channel.get_pty(width=0, height=0)
        channel.exec_command("stty size")
        assert channel.makefile().read().strip() == b"24 80"
        channel = transport.open_session()
        channel.get_pty(width=2**31, height=2**32 - 1)
        channel.exec_command("true")
        assert channel.recv_exit_status() == 0
        with pytest.raises(paramiko.SSHException):
            transport.open_session().request_x11()


def test_signals_without_a_name_that_is_known_mean_nothing(ssh):
    told = ssh.session()
    with paramiko_client(ssh, told, password="") as client:
        for names in (["FOO"], ["", "9", "x" * 3000], ["FOO", "USR1"]):
            channel = client.get_transport().open_session()
            channel.exec_command('trap "echo got" USR1; echo on; '
                                 'until read word; do :; done; echo $word')
            assert channel.recv(3) == b"on\n"
            for name in names:
                message = paramiko.Message()
                message.add_byte(bytes([98]))  # a request on a channel (RFC 4254)
                message.add_int(channel.remote_chanid)
                message.add_string("signal")
                message.add_boolean(False)
                message.add_string(name)
                client.get_transport()._send_user_message(message)
            if "USR1" in names:
                assert channel.recv(4) == b"got\n"
            channel.sendall(b"word\n")
            assert channel.makefile().read() == b"word\n" and channel.recv_exit_status() == 0


def test_ports_to_listen_on_are_answered_in_their_order(ssh):
    told = ssh.session()
    with paramiko_client(ssh, told, password="") as client:
        transport = client.get_transport()
        answers = []
        success, failure = 81, 82  # RFC 4254
        table = transport._handler_table
        transport._handler_table = {
            **table, success: lambda message: answers.append(True),
            failure: lambda message: answers.append(False)}

        def ask(name: str, *fields) -> None:
            message = paramiko.Message()
            message.add_byte(bytes([80]))
            message.add_string(name)
            message.add_boolean(True)
            for field in fields:
                (message.add_int if isinstance(field, int) else message.add_string)(field)
            transport._send_user_message(message)

        expected = []
        for port in range(8081, 8089):
            # Where it listens takes a while, what is refused does not.
            for name, fields, answer in [
                    ("tcpip-forward", ("localhost", port), True),
                    ("cancel-tcpip-forward", ("localhost", 1), False),
                    ("cancel-tcpip-forward", ("localhost", port), True)]:
                ask(name, *fields)
                expected.append(answer)
        eventually(lambda: len(answers) == len(expected))
        assert answers == expected


class HeldSocket:
    """Keeps what is sent, so that it can go at once."""

    def __init__(self, real):
        self.real, self.held = real, b""

    def send(self, data: bytes) -> int:
        self.held += data
        return len(data)

    def __getattr__(self, name: str):
        return getattr(self.real, name)


def test_a_crowd_of_requests_for_the_connection_is_ended(ssh):
    told = ssh.session()
    with paramiko_client(ssh, told, password="") as client:
        transport = client.get_transport()
        held = HeldSocket(transport.sock)
        transport.packetizer._Packetizer__socket = held
        for _ in range(1000):
            message = paramiko.Message()
            message.add_byte(bytes([80]))
            message.add_string("tcpip-forward")
            message.add_boolean(True)
            message.add_string("localhost")
            message.add_int(0)
            transport._send_user_message(message)
        with contextlib.suppress(OSError):
            transport.sock.sendall(held.held)
        eventually(lambda: not transport.is_active())
    assert ssh.run("true").returncode == 0


def test_what_cannot_be_a_command_is_said(ssh):
    done = ssh.run(b"echo caf\xe9".decode(errors="surrogateescape"))
    assert (done.returncode, done.stdout) == (255, b"") and b"UTF-8" in done.stderr


def test_a_variables_name_that_is_none_is_refused_and_the_command_runs(ssh):
    told = ssh.session()
    with paramiko_client(ssh, told, password="") as client:
        channel = client.get_transport().open_session()
        with pytest.raises(paramiko.SSHException):
            channel.set_environment_variable("LC_A=B", "x")
            message = paramiko.Message()
            message.add_byte(bytes([98]))
            message.add_int(channel.remote_chanid)
            message.add_string("env")
            message.add_boolean(True)
            message.add_string("LC_A=B")
            message.add_string("x")
            client.get_transport()._send_user_message(message)
            channel.event.clear()
            channel._wait_for_event()
        channel = client.get_transport().open_session()
        channel.set_environment_variable("LC_A=B", "x")
        channel.exec_command("env; exit 3")
        assert b"LC_A" not in channel.makefile().read() and channel.recv_exit_status() == 3
