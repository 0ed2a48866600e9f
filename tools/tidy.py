#!/usr/bin/env python3
"""Checks what style rules a machine can check. Usage: tidy.py [ROOT]; prints file:line: message.

Include direction (from the folder() lines of CMakeLists.txt), banned names, sizes, own header
first, calls that belong to one folder, to-do forms, and that the documents name what exists.
"""

import re
import subprocess
import sys
from pathlib import Path

COLUMNS_MAX = 100
SOURCE_LINES_MAX = 600
TEST_LINES_MAX = 1000
FUNCTION_LINES_MAX = 70
HEAD_LINES = 25  # where a longer file states its reason
REASON = "Longer than"  # how that sentence begins

BANNED_NAMES = re.compile(r"(^|[_.-])(utils?|common|helpers?|misc|managers?)([_.-]|$)")
CODE_SUFFIXES = (".cc", ".h", ".c")
TEXT_SUFFIXES = (*CODE_SUFFIXES, ".py", ".md", ".cmake", ".txt", ".yaml", ".yml", ".json", ".sql",
                 ".sh", ".toml", "")
# Where a call may stand (tests aside): pattern, allowed folders of src/, what to say.
PLACES = (
    (re.compile(r"(?<![\w.])(?:::)?v?fork\("), ("jail",), "fork only in jail/"),
    (re.compile(r"#include <boost/"), ("wire",), "Boost only in wire/"),
    (re.compile(r"#include <(?:iostream|sstream|fstream|regex)>"), (),
     "no iostream, no std::regex"),
    (re.compile(r"\bassert\("), (), "no assert: return an error, or abort with a reason"),
)
# A lower-case word in front of a TODO's colon names its kind.
TODO = re.compile(r"TODO(?!\((?:security|perf|cleanup|test)\): )")
# Spelt in pieces, so that this file passes its own check.
MACHINE_PATHS = re.compile("|".join(("/wor" + "k/", "/ro" + "ot/\\.")))
INCLUDE = re.compile(r'#include "([^"]+)"')
FOLDER_LINE = re.compile(r"^folder\(([a-z0-9_ ]+)\)", re.MULTILINE)
MACRO_BODY = re.compile(r"\\$")


class Tidy:
    def __init__(self, root: Path):
        self.root = root
        self.problems: list[str] = []
        text = (root / "CMakeLists.txt").read_text()
        self.folders = {words[0]: words[1:] for words in map(str.split, FOLDER_LINE.findall(text))}

    def report(self, path: Path, line: int, message: str) -> None:
        self.problems.append(f"{path.relative_to(self.root)}:{line}: {message}")

    def check(self, paths: list[Path]) -> list[str]:
        for path in paths:
            self.check_name(path)
            if path.suffix not in TEXT_SUFFIXES or not path.is_file():
                continue
            lines = path.read_text(errors="replace").splitlines()
            self.check_text(path, lines)
            if path.suffix in CODE_SUFFIXES:
                self.check_code(path, lines)
        self.check_folder_table()
        self.check_documents()
        return self.problems

    # --- any file --------------------------------------------------------------------------
    def check_name(self, path: Path) -> None:
        for part in path.relative_to(self.root).parts:
            if BANNED_NAMES.search(part.lower()):
                self.report(path, 1, f"'{part}' says nothing about what is in it")

    def check_text(self, path: Path, lines: list[str]) -> None:
        is_code = path.suffix in (*CODE_SUFFIXES, ".py") or path.name == "dev"
        for number, line in enumerate(lines, 1):
            if MACHINE_PATHS.search(line):
                self.report(path, number, "path of one machine")
            if not is_code:
                continue
            if len(line) > COLUMNS_MAX and "http" not in line:
                self.report(path, number, f"{len(line)} columns, at most {COLUMNS_MAX}")
            if TODO.search(line) and path.name not in ("tidy.py", "tidy_test.py"):
                self.report(path, number, "write TODO(security|perf|cleanup|test): ...")
        if is_code:
            self.check_size(path, lines)

    def check_size(self, path: Path, lines: list[str]) -> None:
        is_test = "_test" in path.stem or "tests" in path.relative_to(self.root).parts
        bound = TEST_LINES_MAX if is_test else SOURCE_LINES_MAX
        if len(lines) > bound and not any(REASON in line for line in lines[:HEAD_LINES]):
            self.report(path, 1, f"{len(lines)} lines, at most {bound} without a reason in its "
                                 f"head ('{REASON} {bound} lines because ...')")

    # --- C++ -------------------------------------------------------------------------------
    def check_code(self, path: Path, lines: list[str]) -> None:
        parts = path.relative_to(self.root).parts
        folder = parts[1] if parts[0] == "src" and len(parts) > 2 else ""
        is_test = re.search(r"_test(?:ing)?$", path.stem) is not None
        for number, line in enumerate(lines, 1):
            code = line.split("//", 1)[0]
            for pattern, allowed, message in PLACES:
                if folder and not is_test and folder not in allowed and pattern.search(code):
                    self.report(path, number, message)
            found = INCLUDE.match(code)
            if found and folder:
                self.check_include(path, number, folder, found.group(1), is_test)
        if folder and path.suffix == ".cc":
            self.check_own_header(path, lines)
        if path.suffix == ".h":
            self.check_header_head(path, lines)
        self.check_function_sizes(path, lines)

    def check_include(self, path: Path, number: int, folder: str, included: str,
                      is_test: bool) -> None:
        """A test may also use what stands behind the folders that its own is built on."""
        if included.endswith(".inc"):
            return  # made by the build
        target = included.split("/", 1)[0]
        behind = self.folders.get(folder, [])
        if is_test:
            behind = behind + [name for below in behind for name in self.folders.get(below, [])]
        if not (self.root / "src" / included).exists():
            self.report(path, number, f"no such header: {included} (paths start at src/)")
        elif folder == "main" or target == folder:
            return
        elif target not in behind:
            self.report(path, number, f"{folder}/ may not include {target}/ (CMakeLists.txt)")

    def check_own_header(self, path: Path, lines: list[str]) -> None:
        stem = re.sub(r"(_test|_testing)$", "", path.stem)
        own = path.with_name(f"{stem}.h")
        if not own.exists():
            return
        includes = [line for line in lines if line.startswith("#include")]
        wanted = f'#include "{own.relative_to(self.root / "src")}"'
        if wanted in includes and includes[0] != wanted:
            self.report(path, 1, f"own header first: {wanted}")

    def check_header_head(self, path: Path, lines: list[str]) -> None:
        if not lines or not lines[0].startswith("//"):
            self.report(path, 1, "a header opens with what it is, owner, thread, bounds, failure")
        if "#pragma once" not in lines:
            self.report(path, 1, "#pragma once is missing")

    def check_function_sizes(self, path: Path, lines: list[str]) -> None:
        """A function starts at a line that ends with ") {" (or const {, ...) at the left margin
        or in a class, and ends at the closing brace of the same indentation."""
        opening = re.compile(r"^(\s{0,4})[A-Za-z~].*\)(?: (?:const|noexcept|override|final))* \{$")
        keyword = re.compile(r"^\s*(?:if|for|while|switch|else|do|namespace|class|struct|enum)\b")
        number = 0
        while number < len(lines):
            found = opening.match(lines[number])
            if not found or keyword.match(lines[number]):
                number += 1
                continue
            closing = f"{found.group(1)}}}"
            end = next((i for i in range(number + 1, len(lines))
                        if lines[i].rstrip(";") == closing), number)
            if end - number + 1 > FUNCTION_LINES_MAX:
                self.report(path, number + 1, f"function of {end - number + 1} lines, at most "
                                              f"{FUNCTION_LINES_MAX}")
            number = max(end, number) + 1

    # --- documents ---------------------------------------------------------------------------
    def check_folder_table(self) -> None:
        """The table is a directed graph without a cycle and names real folders only."""
        known = set(self.folders)
        table = self.root / "CMakeLists.txt"
        seen: set[str] = set()
        for folder, targets in self.folders.items():  # listed after what they use: no cycle
            for target in targets:
                if target not in seen:
                    reason = "comes later" if target in known else "is no folder"
                    self.report(table, 1, f"folder({folder} ...): {target} {reason}")
            seen.add(folder)
        for path in sorted((self.root / "src").iterdir()):
            if path.is_dir() and path.name not in known | {"main"}:
                self.report(table, 1, f"src/{path.name} is not in the folder table")

    def check_documents(self) -> None:
        architecture = self.root / "ARCHITECTURE.md"
        if architecture.exists():
            text = architecture.read_text()
            for path in sorted((self.root / "src").iterdir()):
                if path.is_dir() and f"{path.name}/" not in text:
                    self.report(architecture, 1, f"does not name src/{path.name}/")
        security = self.root / "SECURITY.md"
        if security.exists():
            self.check_named_tests(security)
        for document in sorted(self.root.glob("*.md")) + sorted((self.root / "docs").glob("*.md")):
            self.check_links(document)

    def check_named_tests(self, document: Path) -> None:
        """`Suite.test_name` (GTest) and `file.py::test_name` (pytest) exist."""
        tests = self.all_tests()
        for number, line in enumerate(document.read_text().splitlines(), 1):
            for name in re.findall(r"`([A-Z]\w+\.[a-z]\w+|\w+\.py::\w+)`", line):
                if name not in tests:
                    self.report(document, number, f"no such test: {name}")

    def all_tests(self) -> set[str]:
        tests = set()
        for path in (self.root / "src").rglob("*_test*.cc"):
            for suite, name in re.findall(r"TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\s*\)",
                                          path.read_text()):
                tests.add(f"{suite}.{name}")
        folders = (self.root / "tests", self.root / "clients", self.root / "tools")
        for folder in folders:
            for path in folder.rglob("*.py"):
                for name in re.findall(r"def (test_\w+)\(", path.read_text()):
                    tests.add(f"{path.name}::{name}")
        return tests

    def check_links(self, document: Path) -> None:
        for number, line in enumerate(document.read_text().splitlines(), 1):
            for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", line):
                if "://" not in target and not (document.parent / target).exists():
                    self.report(document, number, f"dead link: {target}")


def project_files(root: Path) -> list[Path]:
    """What git tracks or would track: no build output."""
    out = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"],
                         cwd=root, capture_output=True, text=True, check=True).stdout
    return sorted(root / name for name in out.splitlines() if (root / name).exists())


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    problems = Tidy(root).check(project_files(root))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
