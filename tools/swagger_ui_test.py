"""Tests of tools/swagger_ui.py; no network."""

import hashlib
import io
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
import swagger_ui  # noqa: E402


def package() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in (*swagger_ui.FILES, "../outside"):
            archive.writestr(f"flask_swagger_ui/dist/{name}", f"of {name}")
    return out.getvalue()


class SwaggerUiTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory())) / "files"

    def ensure(self, data: bytes, sha512: str) -> mock.Mock:
        with (mock.patch.object(swagger_ui, "SHA512", sha512),
              mock.patch.object(swagger_ui, "fetch", return_value=data) as fetch):
            swagger_ui.ensure(self.folder)
        return fetch

    def test_another_package_than_the_pinned_one_is_refused(self):
        with self.assertRaises(swagger_ui.FetchError):
            self.ensure(package(), hashlib.sha512(b"another").hexdigest())
        self.assertFalse(self.folder.exists())

    def test_the_files_are_fetched_once_and_nothing_else_is_written(self):
        data = package()
        sha512 = hashlib.sha512(data).hexdigest()
        self.assertEqual(self.ensure(data, sha512).call_count, 1)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()),
                         sorted([*swagger_ui.FILES.values(), swagger_ui.STAMP]))
        self.assertEqual((self.folder / "swagger-ui.LICENSE.txt").read_text(), "of LICENSE")
        self.assertEqual(self.ensure(data, sha512).call_count, 0)

    def test_another_version_is_fetched_again(self):
        data = package()
        sha512 = hashlib.sha512(data).hexdigest()
        self.ensure(data, sha512)
        (self.folder / swagger_ui.STAMP).write_text("0.0.1")
        self.assertEqual(self.ensure(data, sha512).call_count, 1)


if __name__ == "__main__":
    unittest.main()
