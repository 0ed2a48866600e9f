"""The samples of docs/integrations.md do what they say."""

import pytest

from documents import run_sample, samples


@pytest.mark.parametrize("sample", samples("integrations.md"))
def test_a_sample_runs(deployed, agent_image, tmp_path, monkeypatch, capsys, sample):
    run_sample(sample, deployed, agent_image, tmp_path, monkeypatch)
    if "SandboxGatewayBackend" in sample:
        assert capsys.readouterr().out.startswith("2\n\n[{'path': '/data/notes.txt'")
