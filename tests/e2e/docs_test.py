"""The samples of docs/python.md do what they say."""

import pytest

from deployment import IMAGE
from documents import run_sample, samples

SAID = {  # in the order of the document
    0: ["hello from ", "1"], 1: ["Linux", "ready"], 2: ["step 3", "a\nb\n", "True 124"],
    3: ["got one\ngot two\n", "3"], 4: ["built", "2 b'\\x00\\x01'"],
    5: ["admin"],
}
SAMPLES = samples("python.md")


@pytest.mark.parametrize(("number", "sample"), [
    pytest.param(number, *row.values, id=row.id) for number, row in enumerate(SAMPLES)])
def test_a_sample_runs(deployed, tmp_path, monkeypatch, capsys, number, sample):
    run_sample(sample, deployed, IMAGE, tmp_path, monkeypatch)
    said = capsys.readouterr().out
    for text in SAID[number]:
        assert text in said
