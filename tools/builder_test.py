#!/usr/bin/env python3
"""Tests of builder.py: when a builder is made anew, and what it says when it cannot be."""

import shutil
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import builder


class BuilderTest(unittest.TestCase):
    def test_the_fingerprint_is_of_all_sources(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "builder"
            shutil.copytree(builder.SOURCE, copy)
            with mock.patch.object(builder, "SOURCE", copy):
                first = builder.fingerprint()
                self.assertEqual(first, builder.fingerprint())
                (copy / "go.sum").write_text("")
                self.assertNotEqual(first, builder.fingerprint())

    def test_without_go_it_says_so_and_leaves_nothing(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.dict("os.environ", {"SANDBOX_BUILDER_CACHE": folder}), \
                mock.patch.object(builder.shutil, "which", return_value=None), \
                mock.patch.object(builder.Path, "exists", return_value=False):
            with self.assertRaisesRegex(builder.BuildError, "no Go"):
                builder.ensure(lambda _text: None)
            self.assertEqual(list(Path(folder).iterdir()), [])

    def test_a_kept_one_is_not_made_again(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.dict("os.environ", {"SANDBOX_BUILDER_CACHE": folder}), \
                mock.patch.object(builder, "make") as make:
            builder.kept_folder().mkdir()
            self.assertEqual(builder.ensure(lambda _text: None), builder.kept_folder())
            make.assert_not_called()
            self.assertFalse(builder.kept_folder(with_buildah=True).exists())

    def test_without_buildah_it_says_what_to_install(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(builder.shutil, "which", return_value=None):
            with self.assertRaisesRegex(builder.BuildError, "apt-get install buildah"):
                builder.copy_program("buildah", Path(folder))


if __name__ == "__main__":
    unittest.main()
