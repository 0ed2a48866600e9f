"""Manual pages in roff: of the daemons from their tables of options, of the command line from what
its --help prints."""

import re
import subprocess
from pathlib import Path

ENTRY = re.compile(r"^  (\S.*?)(?: {2,}(.*))?$")
FILES = {
    "sandbox-gateway": [("/etc/sandbox-gateway/gateway.conf", "the configuration"),
                        ("/var/lib/sandbox-gateway/gateway", "the data; admin.token in it is the "
                         "first token, to be copied and deleted")],
    "sandbox-node": [("/etc/sandbox-gateway/node.conf", "the configuration"),
                     ("/run/sandbox-gateway", "sockets, and records of what runs"),
                     ("/var/lib/sandbox-gateway/lib", "images and the sandboxes' disks")],
    "sandbox-ssh": [("/etc/sandbox-gateway/ssh.conf", "the configuration"),
                    ("/run/sandbox-gateway-ssh", "the gateway's socket")],
}
SEE_ALSO = ("sandbox(1)", "sandbox-gateway(8)", "sandbox-node(8)", "sandbox-ssh(8)")


def roff(text: str) -> str:
    """Text as it stands: no escapes, no requests, hyphens that can be copied."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join("\\&" + line if line.startswith((".", "'")) else line
                     for line in text.splitlines())


def heading(name: str, section: int, date: str, version: str, summary: str) -> list[str]:
    return [f'.TH {name.upper()} {section} "{date}" "{version}" "Sandbox Gateway"', ".SH NAME",
            f"{roff(name)} \\- {roff(summary)}"]


def see_also(name: str) -> list[str]:
    others = [f".BR {roff(page.split('(')[0])} ({page[-2]})" for page in SEE_ALSO
              if not page.startswith(f"{name}(")]
    return [".SH SEE ALSO", " ,\n".join(others)]


def daemon_page(table: dict, date: str, version: str) -> str:
    name = table["program"]
    lines = heading(name, 8, date, version, table["summary"])
    lines += [".SH SYNOPSIS", f".B {roff(name)}",
              "[\\fICOMMAND\\fR] [\\fB\\-\\-\\fIOPTION VALUE\\fR]...", ".SH COMMANDS",
              "Without one it serves."]
    for command in table["commands"]:
        lines += [".TP", f".B {roff(command['name'])}", roff(command["help"])]
    lines += [".TP", ".B config check", "says whether file, variables and flags are right",
              ".TP", ".B config show", "prints every value and where it came from",
              ".TP", ".B config default", "prints a file with every key, commented out",
              ".SH OPTIONS",
              "Each is a flag, a variable (\\fB" + roff(table["variable_prefix"]) + "\\fR and the "
              "name in capitals, with _ for \\-) and a key of the configuration file, in this "
              "order of precedence. The file has lines \"key = value\" and comments that begin "
              "with #.",
              ".TP", ".BI \\-\\-config\\~ FILE",
              f"the configuration; {roff(table['file'])} where it exists and no other is named"]
    for option in table["options"]:
        if option["section"]:
            lines.append(f".SS {roff(option['section'])}")
        values = f" ({option['choices']})" if option["choices"] else ""
        standard = f"; default {option['default']}" if option["default"] else ""
        lines += [".TP", f".BI \\-\\-{roff(option['name'])}\\~ {roff(option['value'])}",
                  roff(option["help"] + values + standard)]
    lines.append(".SH FILES")
    for path, meaning in FILES[name]:
        lines += [".TP", f".I {roff(path)}", roff(meaning)]
    return "\n".join(lines + see_also(name)) + "\n"


def help_of(cli: Path, *words: str) -> str:
    """What --help prints, an entry whose name fills its column on one line with its text."""
    text = subprocess.run([cli, *words, "--help"], capture_output=True, text=True,
                          check=True).stdout
    return re.sub(r"(?m)^(  \S.*)\n {20,}(?=\S)", r"\1  ", text)


def commands_of(text: str) -> list[str]:
    """The names under "Subcommands:"."""
    names, inside = [], False
    for line in text.splitlines():
        if not line.startswith(" "):
            inside = line == "Subcommands:"
        elif inside and (found := ENTRY.match(line)):
            names.append(found.group(1).split(",")[0])
    return names


def help_lines(text: str, skipped: frozenset[str]) -> list[str]:
    """A help text as roff, without the entries that are `skipped`."""
    lines: list[str] = []
    for line in text.splitlines():
        found = ENTRY.match(line)
        if found and found.group(2):
            if found.group(1) not in skipped:
                lines += [".TP", f".B {roff(found.group(1))}", roff(found.group(2))]
        elif line.startswith("Usage: "):
            lines += [".PP", f".B {roff(line.removeprefix('Usage: '))}"]
        elif line.endswith(":") and not line.startswith(" "):
            continue  # what an entry is shows in its form
        elif line:
            lines += [".PP", roff(line.strip())]
    return lines


def entries(text: str) -> frozenset[str]:
    return frozenset(found.group(1) for line in text.splitlines()
                     if (found := ENTRY.match(line)) and found.group(2))


def cli_page(cli: Path, date: str, version: str) -> str:
    root = help_of(cli)
    # Options of every command are described once.
    everywhere = entries(root) & entries(help_of(cli, "list"))
    lines = heading("sandbox", 1, date, version, root.splitlines()[0])
    lines += [".SH SYNOPSIS", ".B sandbox", "\\fICOMMAND\\fR [\\fIOPTIONS\\fR]", ".SH OPTIONS"]
    lines += help_lines("\n".join(root.splitlines()[2:]), frozenset())
    lines.append(".SH COMMANDS")
    for command in commands_of(root):
        text = help_of(cli, command)
        for words in [[command], *([command, below] for below in commands_of(text))]:
            lines.append(f".SS {roff(' '.join(words))}")
            lines += help_lines(help_of(cli, *words), everywhere)
    lines += [".SH ENVIRONMENT",
              ".BR SANDBOX_GATEWAY_URL , ", ".BR SANDBOX_GATEWAY_TOKEN , ",
              ".B SANDBOX_GATEWAY_CA_FILE", ".SH FILES",
              ".I $XDG_CONFIG_HOME/sandbox/config.json", "(else under ~/.config): what login saved"]
    return "\n".join(lines + see_also("sandbox")) + "\n"
