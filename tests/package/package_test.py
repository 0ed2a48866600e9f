"""The Debian package: what is in it, that it is the same each time, and that what it installs into
a clean root runs."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests"), str(ROOT / "images" / "agent")]
import build as image_recipe  # noqa: E402
import builder  # noqa: E402
import demo_image  # noqa: E402
import deployment  # noqa: E402
import instance  # noqa: E402
import kernel_objects  # noqa: E402
import package  # noqa: E402

BUILD = Path(os.environ.get("SANDBOX_BUILD", ROOT / "build" / "release")).resolve()
HERE = Path(__file__).resolve().parent
GATEWAY_EXPOSURE_MAX = 20  # of systemd-analyze security, in tenths: "OK" begins at 50
RELEASE = "bookworm"
PREFIX = f"p{chr(ord('a') + deployment.LANE)}"
SUBNET = f"10.{240 + deployment.LANE}.0.0/16"


def run(*argv, **options) -> str:
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{argv}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    return package.make(ROOT, BUILD, tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="session")
def content(made, tmp_path_factory) -> Path:
    """The package unpacked."""
    folder = tmp_path_factory.mktemp("content")
    run("dpkg-deb", "-R", made, folder)
    return folder


@pytest.mark.skipif(not builder.kept_folder().exists(), reason="no image builder here")
def test_the_builder_is_a_package_beside_it(made):
    name, version, architecture = made.stem.split("_")
    beside = made.with_name(f"{name}-builder_{version}_{architecture}.deb")
    listed = run("dpkg-deb", "-c", beside).split()
    for program in ("buildkitd", "runc", "sandbox-builder"):
        assert f"./usr/lib/sandbox-gateway/builder/bin/{program}" in listed
    assert run("dpkg-deb", "-f", beside, "Depends").strip() == "sandbox-gateway"
    members = run("dpkg-deb", "-c", beside).splitlines()
    assert all(line.split()[1] == "root/root" for line in members)


@pytest.fixture(scope="session")
def clean_root(made, tmp_path_factory):
    """A small Debian with the package installed by apt; nothing else of ours."""
    root = Path("/var/lib") / f"sandbox-gateway-test-root-{PREFIX}"
    run("rm", "-rf", "--one-file-system", root)
    options = [word for word in image_recipe.mmdebstrap_arguments(RELEASE, (), None, root)
               if word.startswith("--aptopt=")]
    run("mmdebstrap", "--mode=root", "--variant=apt", "--format=directory", *options,
        "--include=systemd,systemd-sysv",
        f"--customize-hook=copy-in {made} /tmp",
        "--customize-hook=chroot \"$1\" env DEBIAN_FRONTEND=noninteractive apt-get install -y "
        f"--no-install-recommends /tmp/{made.name}",
        RELEASE, root, *image_recipe.apt_sources())
    yield root
    kernel_objects.kill_processes_of_cgroups(PREFIX)
    kernel_objects.remove_network(PREFIX, SUBNET)
    kernel_objects.remove_cgroups(PREFIX)
    run("rm", "-rf", "--one-file-system", root)


# --- content -----------------------------------------------------------------------------------

def test_lintian_finds_no_error_and_no_warning(made):
    done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", made],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_same_sources_give_the_same_bytes(made, tmp_path):
    again = package.make(ROOT, BUILD, tmp_path / "another" / "folder")
    assert again.name == made.name
    digests = [hashlib.sha256(one.read_bytes()).hexdigest() for one in (made, again)]
    assert digests[0] == digests[1]


def test_programs_are_stripped_and_name_no_folder_of_the_build(content):
    for folder, names in package.PROGRAMS.items():
        for name in names:
            program = content / folder / name
            assert program.stat().st_mode & 0o7777 == 0o755
            assert "no symbols" in subprocess.run(["nm", program], capture_output=True,
                                                  text=True).stderr
            assert str(ROOT).encode() not in program.read_bytes()


def test_configuration_is_kept_on_upgrade_and_right(content):
    names = {f"/etc/sandbox-gateway/{file}" for file in package.CONFIGURATIONS.values()}
    assert set((content / "DEBIAN" / "conffiles").read_text().split()) == names
    for program, file in package.CONFIGURATIONS.items():
        assert run(BUILD / program, "config", "check", "--config",
                   content / "etc/sandbox-gateway" / file) == "ok\n"
    # The command line works inside from the start (docs/identity.md).
    conf = (content / "etc/sandbox-gateway/gateway.conf").read_text().splitlines()
    assert [line for line in conf if line and not line.startswith("#")] == ["credentials = sandbox"]


@pytest.mark.parametrize("page", ["man1/sandbox.1", "man8/sandbox-gateway.8",
                                  "man8/sandbox-node.8", "man8/sandbox-ssh.8"])
def test_manual_pages_are_without_a_warning(content, page):
    file = content / "usr/share/man" / f"{page}.gz"
    done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", file],
                          capture_output=True, text=True,
                          env={**os.environ, "MANWIDTH": "90", "LC_ALL": "C.UTF-8"})
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert done.stdout.startswith("SANDBOX")


def test_manual_pages_have_every_option_and_command(content):
    for program in package.CONFIGURATIONS:
        text = run("man", "-l", content / f"usr/share/man/man8/{program}.8.gz")
        for option in package.option_documents.read_table(BUILD, program)["options"]:
            assert f"--{option['name']}" in text
    text = run("man", "-l", content / "usr/share/man/man1/sandbox.1.gz")
    for command in package.man_pages.commands_of(package.man_pages.help_of(BUILD / "sandbox")):
        assert re.search(rf"^ +{command}\b", text, re.M), command


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_are_scripts_of_their_shell(content, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not here")
    run(shell, "-n", content / package.COMPLETIONS[shell])


# --- installed ----------------------------------------------------------------------------------

def unit(root: Path, name: str) -> dict[str, list[str]]:
    settings: dict[str, list[str]] = {}
    for line in (root / "lib/systemd/system" / f"{name}.service").read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, value = line.split("=", 1)
            settings.setdefault(key, []).append(value)
    return settings


def test_installing_makes_user_and_folders(clean_root):
    passwd = (clean_root / "etc/passwd").read_text()
    line = next(line for line in passwd.splitlines() if line.startswith("sandbox-gateway:"))
    uid = int(line.split(":")[2])
    assert line.endswith(":/nonexistent:/usr/sbin/nologin")
    data = (clean_root / "var/lib/sandbox-gateway/gateway").stat()
    assert (data.st_uid, data.st_mode & 0o777) == (uid, 0o700)
    assert (clean_root / "var/lib/sandbox-gateway").stat().st_mode & 0o777 == 0o755
    for name in ("gateway.conf", "node.conf", "ssh.conf"):
        assert (clean_root / "etc/sandbox-gateway" / name).stat().st_uid == 0
    run("chroot", clean_root, "sandbox", "--version")


@pytest.mark.parametrize("name", ["sandbox-gateway", "sandbox-node", "sandbox-ssh"])
def test_units_are_verified(clean_root, name):
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", f"--root={clean_root}",
                           f"{name}.service"], capture_output=True, text=True)
    ours = [line for line in (done.stdout + done.stderr).splitlines() if "sandbox" in line]
    assert not ours


def test_the_gateways_unit_is_hardened(clean_root):
    run("systemd-analyze", "security", "--offline=yes", f"--root={clean_root}",
        f"--threshold={GATEWAY_EXPOSURE_MAX}", "--no-pager", "sandbox-gateway.service")


@pytest.fixture(scope="session")
def configured_root(clean_root):
    """With what tells this node and gateway from others on the machine; the URL is `.url`."""
    ports = instance.free_port(), instance.free_port()
    etc = clean_root / "etc/sandbox-gateway"
    with (etc / "gateway.conf").open("a") as file:
        file.write(f"listen = 127.0.0.1:{ports[0]}\nmetrics-listen = 127.0.0.1:{ports[1]}\n")
    with (etc / "node.conf").open("a") as file:
        file.write(f"name-prefix = {PREFIX}\nsubnet = {SUBNET}\n"
                   f"id-base = {900_000_000 + deployment.LANE * 1_000_000}\n"
                   "storage-driver = tmpfs\nshells = 2\n")
    return clean_root, f"http://127.0.0.1:{ports[0]}"


def test_the_units_commands_make_a_sandbox(configured_root):
    clean_root, url = configured_root
    for script in ("first_steps.sh", "enter_root.sh"):
        shutil.copy(HERE / script, clean_root / "tmp")
    shutil.copy(demo_image.make_tar(ROOT / "build" / "demo-image"), clean_root / "tmp/image.tar")
    node, gateway = unit(clean_root, "sandbox-node"), unit(clean_root, "sandbox-gateway")
    dropped = [name for value in node["CapabilityBoundingSet"]
               for name in value.removeprefix("~").split()]
    said = run("unshare", "--mount", "--propagation", "private", "--fork", "--kill-child", "sh",
               HERE / "enter_root.sh", clean_root, "sh", "/tmp/first_steps.sh",
               node["ExecStart"][0], gateway["ExecStart"][0],
               ",".join(f"-{name.removeprefix('CAP_').lower()}" for name in dropped),
               env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
                    "SANDBOX_GATEWAY_URL": url}, timeout=300)
    assert said.splitlines()[-3:] == ["it works as 0", "gateway ended with 0", "node ended with 0"]


# Of a machine, not of a container; or slow, and nothing here waits for them.
MASKED = ("systemd-udevd", "systemd-modules-load", "systemd-sysctl", "systemd-tmpfiles-setup-dev",
          "systemd-logind", "systemd-remount-fs", "systemd-random-seed", "systemd-update-utmp",
          "console-getty", "getty@tty1", "dev-hugepages.mount", "dev-mqueue.mount",
          "sys-kernel-debug.mount", "sys-kernel-tracing.mount", "sys-fs-fuse-connections.mount",
          "proc-sys-fs-binfmt_misc.automount")
CGROUP = Path("/sys/fs/cgroup/systemd")


def test_systemd_starts_it_by_one_line_and_sandboxes_outlive_both(configured_root):
    clean_root, url = configured_root
    if not CGROUP.exists():
        pytest.skip("the host has no cgroup v1 hierarchy that a second systemd could use")
    run("systemctl", f"--root={clean_root}", "mask", *MASKED)
    (clean_root / "etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    shutil.copy(demo_image.make_tar(ROOT / "build" / "demo-image"), clean_root / "opt/image.tar")
    shutil.copy(HERE / "first_start.sh", clean_root / "opt")
    service = clean_root / "etc/systemd/system/first-start.service"
    service.write_text("[Unit]\nAfter=basic.target\n[Service]\n"
                       "ExecStart=/bin/sh /opt/first_start.sh\n"
                       f"Environment=SANDBOX_GATEWAY_URL={url}\n")
    wants = clean_root / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(exist_ok=True)
    (wants / service.name).symlink_to("../first-start.service")
    group = CGROUP / f"sandbox-gateway-test-{PREFIX}"
    group.mkdir(exist_ok=True)
    try:
        # The second systemd gets a branch of its own, which its namespace shows it as the root.
        subprocess.run(["sh", "-c", f"echo $$ > {group}/cgroup.procs; exec unshare --pid --fork "
                        "--kill-child --mount --uts --ipc --cgroup --propagation private "
                        f"sh {HERE}/boot_root.sh {clean_root}"], timeout=300, check=False,
                       capture_output=True)
        said = (clean_root / "var/said").read_text()
    finally:
        for folder in sorted(group.rglob("*"), reverse=True):
            if folder.is_dir():
                folder.rmdir()
        group.rmdir()
    lines = said.splitlines()
    assert "all done" in lines, said
    assert "it outlives both" in lines
    assert "CapBnd:\t0000000000000000" in lines
    assert "NoNewPrivs:\t1" in lines and "Seccomp:\t2" in lines
    assert "ssh: with an entry" in lines
    assert lines.count("Result=success") == 3


def test_it_can_be_purged(clean_root):
    run("chroot", clean_root, "dpkg", "--purge", "sandbox-gateway")
    for left in ("etc/sandbox-gateway", "var/lib/sandbox-gateway", "usr/sbin/sandbox-node",
                 "usr/lib/sandbox-gateway", "usr/share/sandbox-gateway"):
        assert not (clean_root / left).exists(), left
