"""Tutorials that need no model work as shown, one command after the other."""

import shlex

import pytest
from factories.documentation import TREE, commands_in

from render_agent.runs.read import list_runs

# Limit of questions per run, unless the tutorial has its own.
FEW = "4"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["first-run", "read-a-report", "compare-two-models"])
def test_tutorial_works(monkeypatch, type_in, tmp_path, name):
    monkeypatch.setenv("RENDER_AGENT_LIMIT", FEW)
    (tmp_path / "scenes").symlink_to(TREE / "scenes")
    lines = commands_in(f"tutorials/{name}.md")
    assert len(lines) > 3
    for line in lines:
        runs = [run.name for run in list_runs(tmp_path / "experiment_logs")]
        names = {"RUN_A": runs[0], "RUN_B": runs[-1]} if runs else {}
        arguments = [names.get(word, word) for word in shlex.split(line, comments=True)[1:]]
        code, out, err = type_in(*arguments, folder=tmp_path)
        assert code == 0, f"{line}: {err}"
        assert out or err, line
