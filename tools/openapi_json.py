#!/usr/bin/env python3
"""Turns api/openapi.yaml into pieces of its JSON for C++: openapi_json.py IN.yaml OUT.inc"""

import json
import sys

import yaml

PIECE_BYTES = 8000  # compilers limit the length of one literal


def pieces(data: bytes) -> str:
    lines = []
    for start in range(0, len(data), PIECE_BYTES):
        piece = data[start : start + PIECE_BYTES]
        text = "".join(
            chr(byte) if 0x20 <= byte < 0x7F and chr(byte) not in '"\\?' else f"\\{byte:03o}"
            for byte in piece
        )
        lines.append(f'std::string_view("{text}", {len(piece)}),')
    return "\n".join(lines) + "\n"


def main() -> None:
    source, target = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        document = json.dumps(yaml.safe_load(file), separators=(",", ":"), default=str)
    with open(target, "w", encoding="utf-8") as file:
        file.write(pieces(document.encode()))


if __name__ == "__main__":
    main()
