"""Toolsets, changes and loggers of a package: the kinds whose parts no page shows whole."""

from factories.packages import install

from render_agent.runs.log.folder import RunFolder, list_runs

PROJECT = """
[project]
name = "four-parts"
version = "1.0"
[project.entry-points."render_agent.toolsets"]
whisper = "four_parts:Whisper"
[project.entry-points."render_agent.changes"]
please = "four_parts:Please"
[project.entry-points."render_agent.loggers"]
notebook = "four_parts:Notebook"
"""

SOURCE = '''
from dataclasses import replace
from pathlib import Path

from render_agent.observation.toolsets import Toolset
from render_agent.questions.counterfactual.wordings import Rewording, WordingPlan

class Whisper(Toolset):
    """Nothing, and its runs say so."""
    note = "tools: something was whispered"

class Please(WordingPlan):
    """The question is asked politely."""
    name = "please"
    forms = ("please",)

    def reworded(self, question, seed):
        return Rewording(replace(question, text=f"Please: {question.text}"), "it is asked politely")

class Notebook:
    """A logger that writes lines."""
    seen_by = ""

    def __init__(self, folder, *, anew):
        self.file = Path(folder.path, "notebook.txt").open("w")

    def log(self, figures, step):
        self.file.write(f"{figures['final/questions/questions']}\\n" if "final/score" in figures else "")

    def close(self):
        self.file.close()
'''


def test_a_toolset_a_change_and_a_logger_of_a_package_make_a_run(monkeypatch, tmp_path, type_in):
    install(monkeypatch, tmp_path, PROJECT, {"four_parts": SOURCE})
    asked = (
        "--batch --benchmark rooms --engine scripted --type object_counting --limit 1 --max-turns 2"
    )
    parts = "--image-size 64x48 --tools whisper --change please --log-to notebook"
    code, _, printed = type_in(*asked.split(), *parts.split(), folder=tmp_path)
    assert code == 0, printed
    (path,) = list_runs(tmp_path / "experiment_logs")
    run = RunFolder(path)
    assert run.record["packages"] == dict.fromkeys(
        ("toolset whisper", "change please"), "four-parts 1.0"
    )
    assert "tools: something was whispered" in run.results()["notes"]
    question, counterpart = run.questions()
    assert counterpart.text == f"Please: {question.text}"
    assert counterpart.change.said == "it is asked politely"
    assert (path / "notebook.txt").read_text("utf-8").splitlines() == ["2.0"]
