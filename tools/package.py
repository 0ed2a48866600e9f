"""The Debian package of a release build: gathers its content and lets debhelper make it.

The same sources give the same bytes: times are those of the last commit (or SOURCE_DATE_EPOCH).
"""

import datetime
import email.utils
import os
import re
import shutil
import subprocess
from pathlib import Path

import builder
import man_pages
import option_documents

NAME = "sandbox-gateway"
MAINTAINER = "Sandbox Gateway <maintainers@sandbox-gateway.example.org>"  # as in control
SHARE = f"usr/share/{NAME}"
# Of a build, by where they go.
PROGRAMS = {
    "usr/sbin": ("sandbox-gateway", "sandbox-node", "sandbox-ssh"),
    "usr/bin": ("sandbox",),
    f"usr/lib/{NAME}": ("sandbox-agent", "sandbox-image", "sandbox-dns"),
}
CONFIGURATIONS = {"sandbox-gateway": "gateway.conf", "sandbox-node": "node.conf",
                  "sandbox-ssh": "ssh.conf"}
# What a new installation has beyond the programs' own defaults.
SWITCHED_ON = {"sandbox-gateway": {"credentials": "sandbox"}}
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/sandbox",
    "zsh": "usr/share/zsh/vendor-completions/_sandbox",
    "fish": "usr/share/fish/vendor_completions.d/sandbox.fish",
}


def output_of(*argv) -> str:
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True,
                          check=True).stdout


def source_date(root: Path) -> int:
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    return int(output_of("git", "-C", root, "log", "-1", "--format=%ct"))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def configuration(build: Path, program: str) -> str:
    """Every key commented out, but for those that SWITCHED_ON gives a value."""
    text = output_of(build / program, "config", "default")
    for key, value in SWITCHED_ON.get(program, {}).items():
        if f"\n#{key} =" not in text:
            raise SystemExit(f"{program} has no key {key}")
        text = re.sub(rf"(?m)^#{key} =.*$", f"{key} = {value}", text)
    return text


def gather(root: Path, build: Path, target: Path, version: str, date: str) -> None:
    """The package's content under `target`."""
    for folder, names in PROGRAMS.items():
        (target / folder).mkdir(parents=True, exist_ok=True)
        for name in names:
            shutil.copyfile(build / name, target / folder / name)
            (target / folder / name).chmod(0o755)
    cli = build / "sandbox"
    for shell, path in COMPLETIONS.items():
        write(target / path, output_of(cli, "completion", shell))
    write(target / "usr/share/man/man1/sandbox.1", man_pages.cli_page(cli, date, version))
    for program, file in CONFIGURATIONS.items():
        write(target / "etc" / NAME / file, configuration(build, program))
        table = option_documents.read_table(build, program)
        write(target / f"usr/share/man/man8/{program}.8",
              man_pages.daemon_page(table, date, version))
    (target / f"var/lib/{NAME}").mkdir(parents=True)
    for unit in sorted((root / "packaging" / "systemd").glob("*.service")):
        write(target / "lib/systemd/system" / unit.name, unit.read_text())
    for client in [*(root / "clients/python").glob("*.py"), *(root / "clients/js").glob("*.js")]:
        write(target / SHARE / "clients" / client.name, client.read_text())
    shutil.copytree(root / "images/agent", target / SHARE / "images/agent")
    for document in [*root.glob("*.md"), *(root / "docs").glob("*.md")]:
        # debhelper would take a CHANGELOG.md for the one of the package.
        name = document.name.replace("CHANGELOG", "release-notes")
        write(target / "usr/share/doc" / NAME / name, document.read_text())
    shutil.copytree(root / "api", target / "usr/share/doc" / NAME / "api",
                    ignore=shutil.ignore_patterns("fixtures"))


def add_builder(tree: Path) -> None:
    """The second package, where the image builder has been made; else there is only the first."""
    control = tree / "debian" / "control"
    if builder.kept_folder().exists():
        shutil.copytree(builder.kept_folder(), tree / "builder", symlinks=True)
    else:
        stanzas = control.read_text().split("\n\n")
        control.write_text("\n\n".join(one for one in stanzas
                                       if not one.startswith(f"Package: {NAME}-builder")) + "\n")


def make(root: Path, build: Path, output: Path) -> Path:
    """OUTPUT/sandbox-gateway_VERSION_ARCHITECTURE.deb, and beside it sandbox-gateway-builder_…
    where the image builder has been made."""
    epoch = source_date(root)
    version = output_of(build / NAME, "--version").split()[1]
    day = datetime.datetime.fromtimestamp(epoch, datetime.UTC).strftime("%Y-%m-%d")
    tree = output / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    shutil.copytree(root / "packaging" / "debian", tree / "debian")
    gather(root, build, tree / "root", version, day)
    add_builder(tree)
    write(tree / "debian" / "changelog",
          f"{NAME} ({version}) unstable; urgency=medium\n\n"
          f"  * {version}: see release-notes.md beside this file.\n\n"
          f" -- {MAINTAINER}  {email.utils.formatdate(epoch)}\n")
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "LC_ALL": "C.UTF-8"}
    subprocess.run(["debian/rules", "binary"], cwd=tree, check=True, env=environment,
                   stdout=subprocess.DEVNULL)
    architecture = output_of("dpkg", "--print-architecture").strip()
    return output / f"{NAME}_{version}_{architecture}.deb"
