#!/usr/bin/env python3
"""Makes the C++ that holds files (src/server/embedded_files.h):

    embed_files.py OUT.cc FUNCTION [--gzip] [FILE...]
"""

import gzip
import hashlib
import sys
from pathlib import Path

import openapi_json

HEAD = """// Made by tools/embed_files.py.
#include "server/embedded_files.h"

namespace server {
"""
ETAG_CHARACTERS = 20  # 80 bits of a SHA-256


def main() -> None:
    target, function, *names = sys.argv[1:]
    is_gzip = names[:1] == ["--gzip"]
    files = sorted((Path(name) for name in names[is_gzip:]), key=lambda file: file.name)
    parts, rows = [], []
    for index, file in enumerate(files):
        data = file.read_bytes()
        etag = hashlib.sha256(data).hexdigest()[:ETAG_CHARACTERS]
        if is_gzip:
            data = gzip.compress(data, mtime=0)  # the same bytes make the same program
        parts.append(f"constexpr std::string_view kPieces{index}[] = {{\n"
                     f"{openapi_json.pieces(data)}}};\n")
        rows.append(f'    {{"{file.name}", "\\"{etag}\\"", kPieces{index}}},\n')
    body = "return {};"
    if files:
        parts.append(f"constexpr EmbeddedFile kFiles[] = {{\n{''.join(rows)}}};\n")
        body = "return kFiles;"
    inner = f"namespace {{\n\n{''.join(parts)}\n}}  // namespace\n\n" if parts else ""
    function = f"std::span<const EmbeddedFile> {function}() {{ {body} }}\n\n"
    Path(target).write_text(f"{HEAD}{inner}{function}}}  // namespace server\n", encoding="utf-8")


if __name__ == "__main__":
    main()
