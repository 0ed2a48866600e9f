"""Tests of ./dev and tools/instance.py that need neither a build nor root."""

import importlib.machinery
import importlib.util
import io
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import instance  # noqa: E402

loader = importlib.machinery.SourceFileLoader("dev", str(ROOT / "dev"))
dev = importlib.util.module_from_spec(importlib.util.spec_from_loader("dev", loader))
loader.exec_module(dev)

JUNIT = """<testsuites><testsuite>
<testcase name="a" status="run"/><testcase name="b"><failure message="x"/></testcase>
<testcase name="c"><skipped/></testcase><testcase name="d" status="notrun"/>
<testcase name="e"><error/></testcase></testsuite></testsuites>"""


class BuildingMeanwhileTest(unittest.TestCase):
    def test_all_are_built_and_none_fails_what_runs_meanwhile(self):
        built = []

        def build(preset, targets, command):
            built.append((preset, targets, command[0]))
            raise dev.Stop("no compiler")

        with unittest.mock.patch.object(dev, "build", build):
            with dev.building_meanwhile(("asan", ["a"]), ("debug", ["b"])):
                pass
        self.assertEqual(built, [("asan", ["a"], "nice"), ("debug", ["b"], "nice")])


class TallyTest(unittest.TestCase):
    def finish(self, *rows) -> tuple[int, str]:
        tally = dev.Tally()
        for row in rows:
            tally.add(*row)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = tally.finish()
        return status, out.getvalue().splitlines()[-1]

    def test_last_line_tells_the_counts(self):
        self.assertEqual(self.finish(("a", 2, 0), ("b", 3, 0)), (0, "5 passed, 0 failed"))

    def test_one_failure_fails_the_run(self):
        self.assertEqual(self.finish(("a", 2, 0), ("b", 3, 1)), (1, "5 passed, 1 failed"))

    def test_nothing_run_is_not_a_success(self):
        self.assertEqual(self.finish(("a", 0, 0))[0], 1)

    def test_skipped_is_told_and_is_not_passed(self):
        self.assertEqual(self.finish(("a", 1, 0, 2)), (0, "1 passed, 0 failed, 2 skipped"))

    def test_suite_that_cannot_start_counts_as_failed(self):
        tally = dev.Tally()
        with contextlib.redirect_stderr(io.StringIO()):
            with dev.suite(tally, "x"):
                raise dev.Stop("no compiler")
        self.assertEqual((tally.passed, tally.failed), (0, 1))


class ReportTest(unittest.TestCase):
    def test_junit_counts(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.xml"
            path.write_text(JUNIT)
            self.assertEqual(dev.read_junit(path), (1, 2, 2))

    def test_test_program_that_died_counts_as_failed(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(dev.gtest_results(Path(folder), "x", 1), (0, 1, 0))
            (Path(folder) / "y.xml").write_text('<t><testcase name="a" status="run"/></t>')
            self.assertEqual(dev.gtest_results(Path(folder), "y", 1), (1, 1, 0))
            self.assertEqual(dev.gtest_results(Path(folder), "y", 0), (1, 0, 0))


class ExportsTest(unittest.TestCase):
    def test_three_lines_that_a_shell_evaluates(self):
        class Running:
            url, token = "http://127.0.0.1:1", "secret-1"
        text = dev.exports(Running(), "debian-demo")
        self.assertEqual([line.split("=")[0] for line in text.splitlines()],
                         ["export SANDBOX_GATEWAY_URL", "export SANDBOX_GATEWAY_TOKEN",
                          "export SANDBOX_DEMO_IMAGE"])
        shown = subprocess.run(
            ["sh", "-c", 'eval "$1"; echo "$SANDBOX_GATEWAY_URL $SANDBOX_DEMO_IMAGE"', "sh", text],
            capture_output=True, text=True, check=True).stdout
        self.assertEqual(shown, "http://127.0.0.1:1 debian-demo\n")


class ArgumentsTest(unittest.TestCase):
    def test_documented_forms_parse(self):
        for line in ("setup", "build --preset asan", "test", "test net", "test --all", "check",
                     "fmt --check", "up --release --port 18080 --state /tmp/x", "down", "demo"):
            self.assertTrue(callable(dev.parse_arguments(line.split()).run), line)

    def test_unknown_command_is_refused(self):
        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
            dev.parse_arguments(["explode"])


class ProcessTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.process = instance.Process(Path(self.folder.name) / "x.pid")

    def start(self) -> None:
        self.process.start(["sleep", "60"], Path(self.folder.name) / "log")

    def test_remembers_and_stops_what_it_started(self):
        self.start()
        self.assertEqual(self.process.pid(), self.process.child.pid)
        self.process.stop()
        self.assertIsNone(self.process.pid())
        self.assertFalse(self.process.pid_file.exists())

    def test_pid_file_is_enough_for_another_run(self):
        self.start()
        other = instance.Process(self.process.pid_file)
        self.assertEqual(other.pid(), self.process.child.pid)
        self.process.kill()
        self.assertIsNone(other.pid())

    def test_reused_pid_is_not_taken_for_it(self):
        self.start()
        pid, _, boot = self.process.pid_file.read_text().split()
        self.process.pid_file.write_text(f"{pid} 1 {boot}\n")
        self.assertIsNone(self.process.pid())
        self.process.signal(9)
        self.assertIsNone(self.process.child.poll())
        self.process.child.kill()
        self.process.child.wait()

    def test_garbage_in_the_pid_file_is_nobody(self):
        self.process.pid_file.write_text("\n")
        self.assertIsNone(self.process.pid())


class InstanceTest(unittest.TestCase):
    def test_closed_parent_folder_is_refused_with_its_name(self):
        if os.geteuid() != 0:
            self.skipTest("the check comes after that for root")
        with tempfile.TemporaryDirectory() as folder:  # mode 0700
            one = instance.Instance(Path(folder) / "state", Path(folder))
            with self.assertRaisesRegex(instance.InstanceError, "closed to the gateway's user"):
                one.prepare()

    def test_fault_point_goes_to_its_process_only(self):
        one = instance.Instance(Path("/x"), Path("/x"),
                                instance.Settings(fault_point="node.create.place"))
        self.assertEqual(one.environment("node")["SANDBOX_FAULT"], "node.create.place")
        self.assertNotIn("SANDBOX_FAULT", one.environment("gateway"))

    def test_a_node_is_reached_however_long_its_path_is(self):
        for state in ("short", "long" * 50):
            with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as node:
                one = instance.Instance(Path(folder) / state, Path(folder))
                one.node_socket.parent.mkdir(parents=True)
                node.bind(f"{folder}/x")
                Path(folder, "x").rename(one.node_socket)
                node.listen()
                answering = threading.Thread(target=answer_once, args=(node,))
                answering.start()
                self.assertEqual(one.ask_node({"op": "hello"}), {"seen": "hello"})
                answering.join()
                one.node_socket.unlink()
                with self.assertRaises(FileNotFoundError):
                    one.ask_node({"op": "hello"})


def answer_once(node: socket.socket) -> None:
    connection, _ = node.accept()
    with connection, connection.makefile("rb") as lines:
        asked = json.loads(lines.readline())
        connection.sendall(json.dumps({"ok": {"seen": asked["op"]}}).encode() + b"\n")


if __name__ == "__main__":
    unittest.main()
