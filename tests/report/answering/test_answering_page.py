"""The page *Answers over turns*, and its figures in a comparison."""

import json

from factories.reports import build_index
from factories.runs import play

from render_agent.engines.scripted import ScriptedEngine
from render_agent.report.answering.evidence import compare_evidence
from render_agent.report.comparison.compare_runs import compare_runs
from render_agent.report.pages.comparison.comparison_page import write_comparison
from render_agent.runs.read import RunData


class Committed:
    """Answers A or 1 in turn `first`, half sure, and turns by 120° until the last turn."""

    def __init__(self, first):
        self.first = first

    def reply(self, request):
        answers = request.turn >= self.first
        letter = "options" in json.dumps(request.messages).lower()
        said = {"answer": "A" if letter else 1, "confidence": 50} if answers else {}
        done = request.is_last_turn
        return json.dumps(said | ({"done": True} if done else {"rotation_angle_degrees": 120}))


def run_committed(folder, first, **options):
    options = {"scene": ("room05",), "limit": 6, "max_turns": 3, "confidence": "on"} | options
    return RunData(play(folder, "rooms", ScriptedEngine(Committed(first)), **options)[0])


def test_page_has_the_figures_of_the_run(tmp_path):
    run = run_committed(tmp_path, 0)
    index = build_index(run).read_text()
    page = (run.path / "report" / "answering.html").read_text()
    assert "answering.html" in index
    assert 'mean confidence (%)</th><td class="number">50.0' in page
    assert "The mean confidence is 50.0 %" in page
    assert "too few scenes" in page  # for a test
    assert "views after an answer that could refute it (%)" in page
    for plot in ("answering", "reliability"):
        assert f"plots/{plot}.svg" in page
        assert (run.path / "report" / "plots" / f"{plot}.svg").is_file()


def test_run_of_single_turns_has_no_page(tmp_path):
    run = run_committed(tmp_path, 0, max_turns=1, confidence="off")
    build_index(run)
    assert not (run.path / "report" / "answering.html").exists()


def test_instrument_that_errs_has_the_page(tmp_path):
    run = run_committed(tmp_path, 0, max_turns=1, confidence="off", tools="graph:wrong=50%")
    build_index(run)
    page = (run.path / "report" / "answering.html").read_text()
    assert 'any wrong reading (%)</th><td class="number">100.0' in page


def test_comparison_has_evidence_and_the_cost_of_premature_answers(tmp_path):
    runs = [run_committed(tmp_path / str(first), first) for first in (0, 2)]
    pairs = compare_runs(runs, anyway_option="")
    page = write_comparison(runs, pairs, tmp_path / "pages").read_text()
    entry = pairs[0]["answering"]["premature"]
    number = entry["n"]
    assert entry["a"] > entry["b"] == 0  # an answer in the last turn is not premature
    assert "Answers over turns" in page
    runs[1].dialogues[0].fail("the server is lost")
    compare_evidence(runs, pairs)
    assert pairs[0]["answering"]["premature"]["n"] == number - 1  # both runs without it
    assert (
        "On questions that only one of A and B answered before all named objects were seen" in page
    )
