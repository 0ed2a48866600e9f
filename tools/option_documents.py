#!/usr/bin/env python3
"""Documents of the daemons' options, made of what `PROGRAM config options` prints.

Usage: option_documents.py BUILD_FOLDER: docs/configuration.md on standard output.
"""

import json
import subprocess
import sys
from pathlib import Path

PROGRAMS = ("sandbox-gateway", "sandbox-node", "sandbox-ssh")

HEAD = """\
# Configuration

Made by `./dev docs` from the programs' own tables (`src/config/`); a test compares.

Every option of a daemon can be given in four ways. The first that is there holds:

1. a flag: `--log-level debug` or `--log-level=debug` (of yes or no: `--allow-local-images` alone
   is yes);
2. an environment variable: `SANDBOX_GATEWAY_LOG_LEVEL`, `SANDBOX_NODE_SHELLS`;
3. a line `log-level = debug` of the configuration file: `--config FILE`, or the variable
   `…_CONFIG`, or else the standard file below where it exists (`--config ""`: none);
4. the default.

The file is UTF-8 lines `key = value`. Lines that begin with `#` are comments; the value is the
rest of the line without the blanks around it, unquoted; a key stands once. An unknown key, a
value of the wrong kind and one out of its range end the program before it does anything, and name
file, line and key.

```sh
sandbox-gateway config default > gateway.conf          # every key with its meaning, commented out
sandbox-gateway config check --config gateway.conf     # "ok", or every problem and exit 2
sandbox-gateway config show                            # what holds, and where each value came from
```

`config show` hides secrets. The file is read at the start only.
"""


def read_table(build: Path, program: str) -> dict:
    out = subprocess.run([build / program, "config", "options"], capture_output=True, text=True,
                         check=True).stdout
    return json.loads(out)


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def meaning(option: dict) -> str:
    values = f" (`{option['choices']}`)" if option["choices"] else ""
    return cell(option["help"] + values)


def program_section(table: dict) -> str:
    lines = [f"\n## {table['program']}\n\nStandard file: `{table['file']}`. Variables: "
             f"`{table['variable_prefix']}` and the name in capitals, with `_` for `-`."]
    for option in table["options"]:
        if option["section"]:
            lines.append(f"\n### {option['section']}\n\n| option | default | meaning |\n"
                         "|---|---|---|")
        value = cell(option["value"])
        standard = f"`{cell(option['default'])}`" if option["default"] else "–"
        lines.append(f"| `{option['name']} = {value}` | {standard} | {meaning(option)} |")
    return "\n".join(lines) + "\n"


def configuration_page(tables: list[dict]) -> str:
    return HEAD + "".join(map(program_section, tables))


def main() -> int:
    build = Path(sys.argv[1])
    sys.stdout.write(configuration_page([read_table(build, name) for name in PROGRAMS]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
