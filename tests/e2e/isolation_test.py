"""Isolation probes. Each names its row of the security checklist (D.3) in its docstring."""

import os
import re
import socket
from pathlib import Path

import pytest

from deployment import IMAGE, eventually

# The capabilities a container usually has (Docker's default set) at most.
USUAL_CAPABILITIES = 0x00000000A80425FB
REFUSED = {"EPERM", "ENOSYS", "EACCES", "ENOSPC", "EAFNOSUPPORT", "EINVAL", "EROFS", "EBUSY",
           "ENOENT", "ENODEV", "ENOTTY", "ESRCH", "KILLED"}


@pytest.fixture(scope="module")
def probed(api, shared_box, probe):
    """The shared sandbox with the probe in it; a call gives {name: errno name or "OK"}."""
    assert api.upload(shared_box, "/tmp/probe", probe, mode="755").status_code in (200, 201)

    def call(*argv: str, **fields) -> dict[str, str]:
        result = api.run(shared_box, "/tmp/probe", *argv, **fields)
        assert result["exit_code"] == 0, result
        return dict(line.split() for line in result["stdout"].splitlines())
    return call


@pytest.mark.parametrize("user", ["root", "user"])
def test_dangerous_system_calls(probed, user):
    """27, 29, 30, 31, 34, 36: every call is refused, for root inside too."""
    found = probed("calls", user=user)
    assert len(found) >= 30
    assert {name: e for name, e in found.items() if e not in REFUSED} == {}


def test_chroot_does_not_lead_out(probed):
    """10"""
    assert probed("chroot")["chroot"] in ("INSIDE", "EPERM")


def test_proc_and_sys_cannot_be_written(api, shared_box):
    """16"""
    paths = ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger",
             "/proc/sys/vm/overcommit_memory", "/proc/irq/default_smp_affinity",
             "/proc/sys/kernel/hostname", "/sys/kernel/uevent_helper", "/sys/power/state",
             "/proc/sys/fs/binfmt_misc/register", "/sys/kernel/profiling",
             "/proc/sys/net/ipv4/ip_forward"]
    before = Path("/proc/sys/kernel/core_pattern").read_text()
    for path in paths:
        assert api.shell(shared_box, f"echo 1 >{path}")["exit_code"] != 0, path
    assert Path("/proc/sys/kernel/core_pattern").read_text() == before


def test_host_facts_are_masked(api, shared_box):
    """17"""
    for path in ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug",
                 "/proc/latency_stats", "/proc/interrupts", "/proc/kallsyms",
                 "/sys/devices/virtual/powercap/x"):
        found = api.shell(shared_box, f"head -c 100 {path} | tr -d '0 \\n' | head -c 20")["stdout"]
        assert path == "/proc/kallsyms" or found == "", path
    assert api.output(shared_box, "ls -A /sys/firmware /proc/acpi /proc/scsi 2>/dev/null"
                                  " | grep -v : | tr -d '\\n'") == ""


def test_only_own_processes_are_seen(api, shared_box):
    """18"""
    listed = api.output(shared_box, "ps -eo pid,comm --no-headers")
    assert len(listed.splitlines()) < 10
    assert not Path(f"/proc/{os.getpid()}").samefile("/") and "pytest" not in listed
    for name in ("environ", "mem", "root/etc", "fd/3", "exe"):
        assert api.shell(shared_box, f"head -c 1 /proc/1/{name}", user="user")["exit_code"] != 0


def test_agent_is_out_of_reach(api, deployed, shared_box):
    """19, 20: its memory cannot be written nor its program overwritten, by root inside either."""
    before = (deployed.bin / "sandbox-agent").read_bytes()
    assert api.shell(shared_box, "echo x | dd of=/proc/1/mem bs=1 seek=4194304 conv=notrunc")[
        "exit_code"] != 0
    assert api.shell(shared_box, "echo x >/proc/1/exe")["exit_code"] != 0
    assert api.shell(shared_box, "cp /bin/true /proc/1/exe")["exit_code"] != 0
    api.shell(shared_box, "kill -9 1; kill -STOP 1")
    assert api.run(shared_box, "true")["exit_code"] == 0
    assert (deployed.bin / "sandbox-agent").read_bytes() == before


def test_commands_inherit_nothing(api, shared_box):
    """21, 26: descriptors, signal mask, umask, groups."""
    assert api.output(shared_box, "ls /proc/self/fd | sort | head -c 20 | tr '\\n' ' '") in (
        "0 1 2 3", "0 1 2 3 ")  # 3 is ls's own
    status = api.output(shared_box, "cat /proc/self/status; umask")
    assert "SigBlk:\t0000000000000000" in status and "SigIgn:\t0000000000000000" in status
    assert status.endswith("0022")
    assert re.search(r"^Groups:\s*(0 )?$", status, re.MULTILINE)
    out = api.output(shared_box, "cat /proc/self/status", user="user")
    assert re.search(r"^Groups:\s*(1000 )?$", out, re.MULTILINE)


@pytest.mark.parametrize("user", ["root", "user"])
def test_capabilities_and_seccomp_of_commands(api, shared_box, user):
    """24, 25"""
    status = api.output(shared_box, "cat /proc/self/status", user=user)
    sets = {name: int(value, 16) for name, value in
            re.findall(r"^(Cap\w+):\s*([0-9a-f]+)$", status, re.MULTILINE)}
    assert sets["CapInh"] == 0 and sets["CapAmb"] == 0
    assert sets["CapBnd"] & ~USUAL_CAPABILITIES == 0
    assert sets["CapEff"] & ~USUAL_CAPABILITIES == 0
    assert user == "root" or sets["CapEff"] == 0
    assert re.search(r"^Seccomp:\s*2$", status, re.MULTILINE)


def test_no_new_privileges_reaches_commands(api):
    """25"""
    made = api.create(no_new_privileges=True)["id"]
    assert "NoNewPrivs:\t1" in api.output(made, "cat /proc/self/status")
    api.remove(made)


def test_ids_inside_are_a_private_range(api, deployed, shared_box):
    inside, outside, count = api.output(shared_box, "cat /proc/self/uid_map").split()
    assert (inside, count) == ("0", "65536")
    assert int(outside) >= deployed.settings.id_base


def test_cgroups_are_closed(api, shared_box):
    """28"""
    files = ("memory.max", "cgroup.procs", "*/tasks", "*/memory.limit_in_bytes", "*/release_agent")
    listed = " ".join(f"/sys/fs/cgroup/{name}" for name in files)
    found = api.shell(shared_box, f"for f in {listed}; do [ -e $f ] && echo 1 >$f &&"
                                  " echo wrote $f; done; true")
    assert "wrote" not in found["stdout"]


def test_devices(api, shared_box):
    """13, 34"""
    names = set(api.output(shared_box, "ls -1 /dev").split())
    assert {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm"} <= names
    assert names <= {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm",
                     "fd", "stdin", "stdout", "stderr", "mqueue", "console", "core"}
    assert api.shell(shared_box, "mknod /tmp/sda b 8 0 && head -c1 /tmp/sda")["exit_code"] != 0


def test_root_is_not_the_host(api, deployed, shared_box):
    """9, 12: no host path is told, nothing can be mounted, layers stay as they are."""
    mounts = api.output(shared_box, "cat /proc/self/mountinfo")
    assert str(deployed.state) not in mounts
    assert api.shell(shared_box, "mount -t tmpfs none /mnt")["exit_code"] != 0
    host = Path("/proc/self/mountinfo").read_text()
    assert api.shell(shared_box, "mount --make-rshared /")["exit_code"] != 0
    assert Path("/proc/self/mountinfo").read_text().count("\n") == host.count("\n")


def test_changes_do_not_reach_another_sandbox(api, shared_box):
    """39: files, shm and host names are of one sandbox."""
    other = api.create()["id"]
    api.output(shared_box, "echo secret >/etc/changed; echo secret >/dev/shm/changed; rm /bin/tac")
    assert api.shell(other, "cat /etc/changed /dev/shm/changed")["exit_code"] != 0
    assert api.shell(other, "ls /bin/tac")["exit_code"] == 0
    assert api.output(other, "hostname") != api.output(shared_box, "hostname")
    api.remove(other)


def test_abstract_sockets_of_the_host(probed):
    """35"""
    name = f"sandbox-e2e-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        assert probed("abstract", name)["connect"] == "ECONNREFUSED"


def test_delete_follows_no_link(api):
    """15"""
    before = Path("/etc/passwd").read_bytes()
    made = api.create()["id"]
    api.output(made, "ln -s /etc /a; ln -s / /b; mkdir -p /c/d; ln -s ../../../../../etc /c/d/e")
    api.remove(made)
    assert Path("/etc/passwd").read_bytes() == before


def test_hostile_names_in_the_image_config(api, registry, demo_layer):
    """21, 62: a working directory that is a link out, and labels that a runtime would read."""
    config = {"WorkingDir": "/proc/self/fd/5", "Labels": {"run.oci.handler": "/bin/sh"}}
    registry.push("test/hostile-config:1", [demo_layer], config)
    row = api.post("/sandboxes?wait=60", {"image": f"{registry.host}/test/hostile-config:1",
                                          "cpus": 1, "memory_mb": 64}).json()
    if row["state"] == "ready":
        answer = api.post(f"/sandboxes/{row['id']}/run", {"argv": ["pwd"]})
        assert answer.status_code == 422 or "unreachable" not in answer.json()["stdout"]
    api.remove(row["id"])


@pytest.mark.parametrize("link", ["dev", "proc", "etc/resolv.conf", "sys"])
def test_image_with_links_at_mount_points(api, registry, demo_layer, tmp_path, link):
    """4, 7: what is mounted never lands where the image's link points."""
    import io
    import tarfile
    target = tmp_path / "target"
    target.mkdir()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in (f"{os.path.dirname(link)}/.wh.{os.path.basename(link)}".lstrip("/"),):
            tar.addfile(tarfile.TarInfo(name))
        member = tarfile.TarInfo(link)
        member.type, member.linkname = tarfile.SYMTYPE, "../" * 8 + str(target).lstrip("/")
        tar.addfile(member)
    tag = f"test/link-{link.replace('/', '-').replace('.', '-')}:1"
    registry.push(tag, [demo_layer, out.getvalue()], {})
    row = api.post("/sandboxes?wait=60", {"image": f"{registry.host}/{tag}", "cpus": 1,
                                          "memory_mb": 64}).json()
    assert row["state"] in ("ready", "failed")
    api.remove(row["id"])
    assert list(target.iterdir()) == []


def test_environment_values_are_in_no_log(api, deployed):
    """84"""
    canary = "canary-value-of-a-secret"
    made = api.create(IMAGE, env={"SECRET": canary})["id"]
    assert api.output(made, "echo $SECRET") == canary
    assert canary not in api.get(f"/sandboxes/{made}").text
    api.run(made, "true", env={"OTHER": canary})
    api.post(f"/sandboxes/{made}/run", {"argv": ["true"], "env": {"A": canary}, "bad": 1})
    api.remove(made)
    eventually(lambda: api.state(made) == "absent")
    for path in (deployed.state / "log").iterdir():
        assert canary.encode() not in path.read_bytes(), path.name
    for path in (deployed.state / "gateway").iterdir():
        if path.is_file():
            assert canary.encode() not in path.read_bytes(), path.name
    assert deployed.token not in (deployed.state / "log/sandbox-gateway.log").read_text()
    assert deployed.token.encode() not in (deployed.state / "gateway/gateway.db").read_bytes()
