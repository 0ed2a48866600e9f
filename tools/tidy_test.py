"""Each check of tidy.py is shown a small tree that breaks it, and one that does not."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import tidy  # noqa: E402

TABLE = "folder(base)\nfolder(wire base)\nfolder(jail base)\nfolder(net base wire)\n"
HEADER = "// What it is.\n#pragma once\n"


class TidyTest(unittest.TestCase):
    def problems(self, files: dict[str, str]) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            tree = {"CMakeLists.txt": TABLE, "src/base/fd.h": HEADER, "src/net/task.h": HEADER,
                    **files}
            for name, text in tree.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return tidy.Tidy(root).check(sorted(root / name for name in tree))

    def assert_one(self, files: dict[str, str], wanted: str) -> None:
        found = self.problems(files)
        self.assertEqual(len(found), 1, found)
        self.assertIn(wanted, found[0])

    def assert_clean(self, files: dict[str, str]) -> None:
        self.assertEqual(self.problems(files), [])

    def test_clean_tree_has_no_problem(self):
        self.assert_clean({"src/net/x.cc": '#include "net/task.h"\n#include "base/fd.h"\n'})

    def test_include_against_the_direction(self):
        self.assert_one({"src/base/x.cc": '#include "net/task.h"\n'}, "base/ may not include net/")

    def test_include_not_in_the_table(self):
        self.assert_one({"src/jail/x.cc": '#include "net/task.h"\n'}, "jail/ may not include net/")

    def test_main_may_include_everything(self):
        self.assert_clean({"src/main/x.cc": '#include "net/task.h"\n#include "base/fd.h"\n'})

    def test_include_of_nothing(self):
        self.assert_one({"src/net/x.cc": '#include "task.h"\n'}, "no such header")

    def test_folder_that_is_not_in_the_table(self):
        self.assert_one({"src/extra/x.h": HEADER}, "src/extra is not in the folder table")

    def test_table_with_a_cycle(self):
        found = self.problems({"CMakeLists.txt": "folder(base net)\nfolder(net base)\n"})
        self.assertIn("folder(base ...): net comes later", found[0])

    def test_banned_names(self):
        for name in ("util.h", "string_utils.h", "common.h", "test_helpers.h", "pool_manager.h"):
            self.assert_one({f"src/net/{name}": HEADER}, "says nothing")
        self.assert_clean({"src/net/manage_pool.h": HEADER, "src/net/commonality.h": HEADER})

    def test_source_file_that_is_too_long(self):
        self.assert_one({"src/net/x.cc": "\n" * 601}, "601 lines, at most 600")
        self.assert_clean({"src/net/x.cc": "\n" * 600, "src/net/x_test.cc": "\n" * 1000})
        self.assert_one({"src/net/x_test.cc": "\n" * 1001}, "1001 lines, at most 1000")

    def test_long_file_with_its_reason(self):
        self.assert_clean({"client.py": '"""Longer than 600 lines because it is one file.\n"""\n' +
                           "\n" * 700})

    def test_long_line(self):
        self.assert_one({"src/net/x.cc": "// " + "x" * 98 + "\n"}, "101 columns")

    def test_long_function(self):
        body = "  a();\n" * 69
        self.assert_one({"src/net/x.cc": f"void f(int a) {{\n{body}}}\n"}, "function of 71 lines")
        self.assert_clean({"src/net/x.cc": f"void f(int a) {{\n{body[7:]}}}\n"})

    def test_namespace_is_not_a_function(self):
        self.assert_clean({"src/net/x.cc": "namespace net {\n" + "int a;\n" * 200 + "}\n"})

    def test_fork_outside_jail(self):
        self.assert_one({"src/net/x.cc": "  const int pid = ::fork();\n"}, "fork only in jail/")
        self.assert_one({"src/net/x.cc": "  vfork();\n"}, "fork only in jail/")
        self.assert_clean({"src/jail/x.cc": "  fork();\n", "src/net/x.cc": "// no fork() here\n",
                           "src/net/x_test.cc": "  fork();\n"})

    def test_boost_outside_wire(self):
        self.assert_one({"src/net/x.cc": "#include <boost/json.hpp>\n"}, "Boost only in wire/")
        self.assert_clean({"src/wire/x.cc": "#include <boost/json.hpp>\n"})

    def test_iostream_and_assert(self):
        self.assert_one({"src/net/x.cc": "#include <iostream>\n"}, "no iostream")
        self.assert_one({"src/net/x.cc": "  assert(x == 1);\n"}, "no assert")
        self.assert_clean({"src/net/x.cc": "static_assert(true);\n"})

    def test_own_header_first(self):
        self.assert_one({"src/net/task.cc": '#include <a.h>\n#include "net/task.h"\n'},
                        "own header first")
        self.assert_clean({"src/net/task_test.cc": '#include "net/task.h"\n#include <a.h>\n'})

    def test_header_without_its_head(self):
        self.assert_one({"src/net/x.h": "#pragma once\n"}, "a header opens with")
        self.assert_one({"src/net/x.h": "// What it is.\n"}, "#pragma once is missing")

    def test_to_do_forms(self):
        self.assert_one({"src/net/x.cc": "// TODO: later\n"}, "write TODO(")
        self.assert_one({"src/net/x.cc": "// TODO(now): this\n"}, "write TODO(")
        self.assert_clean({"src/net/x.cc": "// TODO(perf): reuse the buffer\n"})

    def test_machine_path(self):
        self.assert_one({"docs/x.md": "see /wor" + "k/x\n"}, "path of one machine")

    def test_architecture_names_every_folder(self):
        found = self.problems({"ARCHITECTURE.md": "`base/`\n"})
        self.assertEqual(len(found), 1, found)
        self.assertIn("does not name src/net/", found[0])

    def test_security_names_tests_that_exist(self):
        tree = {"src/net/x_test.cc": "TEST(Stream, ends) {}\n",
                "tests/e2e/probe_test.py": "def test_probe(box):\n    pass\n"}
        self.assert_clean({**tree, "SECURITY.md": "`Stream.ends`, `probe_test.py::test_probe`\n"})
        self.assert_one({**tree, "SECURITY.md": "`Stream.begins`\n"}, "no such test: Stream.begins")
        self.assert_one({**tree, "SECURITY.md": "`probe_test.py::test_none`\n"}, "no such test")

    def test_dead_link(self):
        self.assert_one({"docs/a.md": "[b](b.md)\n"}, "dead link: b.md")
        self.assert_clean({"docs/a.md": "[a](a.md#part) [x](https://example.com/b)\n"})


if __name__ == "__main__":
    unittest.main()
