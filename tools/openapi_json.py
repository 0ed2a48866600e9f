#!/usr/bin/env python3
"""Turns api/openapi.yaml into C++ string literals of its JSON: openapi_json.py IN.yaml OUT.inc"""

import json
import sys

import yaml

PIECE_BYTES = 8000  # compilers limit the length of one literal


def literals(document: str) -> str:
    data = document.encode()
    lines = []
    for start in range(0, len(data), PIECE_BYTES):
        piece = data[start : start + PIECE_BYTES]
        text = "".join(
            chr(byte) if 0x20 <= byte < 0x7F and chr(byte) not in '"\\?' else f"\\{byte:03o}"
            for byte in piece
        )
        lines.append(f'"{text}"')
    return "\n".join(lines) + "\n"


def main() -> None:
    source, target = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        document = json.dumps(yaml.safe_load(file), separators=(",", ":"), default=str)
    with open(target, "w", encoding="utf-8") as file:
        file.write(literals(document))


if __name__ == "__main__":
    main()
