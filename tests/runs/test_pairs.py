"""Runs with counterparts: which policies follow a change, how rooms change, and how it is reported."""

import json
import re

import numpy as np
import pytest
from conftest import mostly_slow
from factories.changes import changeable_room
from factories.reports import question_html
from factories.runs import finish_run, make_config, play

from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.parts.counterfactual.counterparts import causal_table
from render_agent.report.diagnosis.diagnose import diagnose_run
from render_agent.report.diagnosis.model import Cause
from render_agent.report.diagnosis.summary import summarize_diagnoses
from render_agent.report.pages.index.index_page import write_index
from render_agent.report.pages.index.pairs_page import VERDICTS
from render_agent.report.pages.page import frame
from render_agent.report.pages.question.question_view import QuestionView
from render_agent.runs.log.row import score_of
from render_agent.runs.loggers import scalars
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run
from render_agent.score.comparison import Side, incomparable
from render_agent.util.console import plain_console

ROOM = "remove add move move:other swap swap:other".split()
WORDS = "order names".split()
BOXES_TELL = [
    "object_counting", "object_size_estimation", "object_abs_distance", "object_rel_distance",
    "object_rel_direction_easy", "room_size_estimation",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    changeable_room(folder)
    return folder


def run_all(folder, output, **options):
    """Run the questions of the room to completion; return the run folder and the results."""
    common = {"output": str(output), "type": tuple(BOXES_TELL)} | options
    run = start_run(make_config(folder, folder / "questions.jsonl", **common))
    return run.path, finish_run(run)


@pytest.mark.parametrize(
    "model", mostly_slow(["oracle", "frequency", "random"], "oracle", "frequency")
)
def test_oracle_follows_changes_and_blind_policies_do_not(folder, tmp_path, model):  # fmt: skip
    options = {"views": "none", "model": model, "max_turns": 2}
    _, results = run_all(folder, tmp_path / "room", change=tuple(ROOM), **options)
    causal = results["causal"]
    assert causal["follows"]["n"] >= 7
    assert causal["stays"]["n"] >= 20
    assert causal["follows"]["share"] == (100 if model == "oracle" else 0)
    assert causal["keeps"]["share"] == (0 if model == "oracle" else 100)
    assert causal["stays"]["share"] == 100
    if model == "oracle":
        assert causal["both_right"]["share"] == 100 == results["official"]
        _, results = run_all(folder, tmp_path / "words", change=tuple(WORDS), **options)
        assert results["causal"]["stays"] == {"share": 100, "n": 4, "interval": None}
        assert results["causal"]["both_right"]["share"] == 100


def test_score_excludes_counterparts(folder, tmp_path):
    options = {"views": "none", "model": "random", "max_turns": 1}
    alone, results = run_all(folder, tmp_path / "alone", **options)
    paired, with_pairs = run_all(
        folder, tmp_path / "paired", change=("remove:lamp", "order"), **options
    )
    for name in ("official", "official_raw", "types", "intervals", "micro", "chance", "parsers"):
        assert with_pairs[name] == results[name]
    rows = {row["question_id"]: row for row in with_pairs["questions"]}
    assert rows["count-remove-lamp"]["score"] is None
    assert rows["count-remove-lamp"]["change"] == "remove:lamp"
    assert with_pairs["counts"]["questions"] == 6 + 3 + 2
    tables = [(path / "results.csv").read_text().splitlines() for path in (alone, paired)]
    assert tables[1][0] == f"{tables[0][0]},change"
    assert "change" not in (alone / "questions.jsonl").read_text()
    assert "causal" not in results
    assert not incomparable(Side("alone", results), Side("paired", with_pairs))
    assert "left_out" in (paired / "questions.jsonl").read_text()
    # progress during the run covers the same questions
    states = RunData(paired).dialogues
    score = scalars(states)["score"]
    assert score == pytest.approx(with_pairs["official_over_scored"]["score"])
    assert {state.id for state in states if score_of(state) is not None} == {
        state.id for state in RunData(alone).states
    }


def test_counterparts_are_diagnosed_in_the_changed_room(folder, tmp_path, type_in):
    reply = json.dumps({"rotation_angle_degrees": 60})
    last = json.dumps({"answer": "B", "done": True})
    options = {
        "change": ("move:lamp", "remove:chair", "names"), "max_turns": 3, "probe": ("map",),
        "type": ("object_counting", "object_abs_distance", "object_rel_distance"), "image_size": (64, 48),
    }  # fmt: skip
    objects = [{"category": "lamp", "position": [4.45, 3.35], "sure": 90}]
    engine = ScriptedEngine(ReplayPolicy({"*": [reply, reply, last]}))
    engine.policy.believe = lambda request: json.dumps({"objects": objects})
    path, results = play(
        folder, folder / "questions.jsonl", engine, output=str(tmp_path), **options
    )
    states = {state.id: state for state in RunData(path).dialogues}
    result = diagnose_run(RunData(path), 1)
    assert result.keys() == states.keys()
    assert all(not state.question.is_counterpart for state in RunData(path).states)
    assert {s.id for s in (*RunData(path).states, *RunData(path).counterparts)} == states.keys()

    lamps = {name: next(box.centre for box in result[name].boxes if box.category == "lamp") for name in ("far", "far-move-lamp")}  # fmt: skip
    (edit,) = states["far-move-lamp"].question.change.edits
    assert np.subtract(*lamps.values()) == pytest.approx(-np.array(edit.shift), abs=1e-3)
    categories = {name: {result[name].boxes[s.box].category for turn in result[name].turns[:1] for s in turn.sightings} for name in lamps}  # fmt: skip
    assert categories["far"] == {"sofa", "lamp"}
    numbers = [box.number for box in result["count-remove-chair"].boxes]
    assert (len(result["count"].boxes), numbers) == (2, [0])
    assert result["near"].cause is result["near-names"].cause is Cause.RIGHT

    # its belief is compared with its own room
    beliefs = {name: result[name].parts["beliefs"].probes for name in lamps}
    assert [probes[-1].score.found for probes in beliefs.values()] == [1, 0]
    assert results["beliefs"]["questions"] == 3

    summary = summarize_diagnoses(RunData(path).states, result, (640, 480))
    assert summary["all"]["questions"] == 3
    code, out, _ = type_in("show", path, "far-move-lamp", folder=tmp_path)
    assert code == 0
    assert "cause: " in out
    assert "lamp at (4.45, 3.35), confidence 90 %: invented" in out
    assert "sofa 1: missing" in out
    before = (path / "results.json").read_bytes()
    assert type_in("rescore", path, folder=tmp_path)[0] == 0
    assert (path / "results.json").read_bytes() == before


def test_pair_shares_its_start_and_is_reported_side_by_side(folder, tmp_path):
    options = {"change": ("move:other", "remove:lamp", "order"), "model": "frequency"}
    types = ("object_rel_direction_easy", "object_counting")
    path, results = run_all(folder, tmp_path, **options, type=types, max_turns=1)
    lines = {line["question_id"]: line for line in RunData(path).lines()}
    cameras = {name: line["stood"] for name, line in lines.items()}
    assert cameras["count-remove-lamp"] == cameras["count"] == cameras["side-order"]
    heights = {pose["position"][2] for pose in cameras.values()}
    assert max(heights) - min(heights) < 1e-6

    run = RunData(path)
    write_index(run, {}, tmp_path)
    page = (tmp_path / "pairs.html").read_text()
    for name in ("count-move-other", "side-order", "count-remove-lamp"):
        assert f'href="questions/{name}.html"' in page
    assert lines["count-remove-lamp"]["views"][0]["file"] in page
    assert 'href="pairs.html"' in (tmp_path / "index.html").read_text()
    state = next(state for state in run.dialogues if state.id == "count-remove-lamp")
    part = QuestionView(state, run.rows[state.id], None, None, run.parts)
    assert "one lamp is removed" in question_html(frame(run), part)
    with (console := plain_console()).capture() as printed:
        console.print(causal_table(results["causal"]))
    rows = [" ".join(line.split()) for line in printed.get().splitlines()]
    assert "should not change, and did not 4 100.0 < 6 scenes" in rows


def test_page_of_pairs_is_a_plot_and_tables(folder, tmp_path):
    options = {"change": ("move:other", "order"), "model": "frequency", "views": "none"}
    path, results = run_all(folder, tmp_path, **options, max_turns=1)
    write_index(RunData(path), {}, tmp_path)
    page = (tmp_path / "pairs.html").read_text()
    assert page.count("<img") == page.count("plots/pairs.svg") == 1
    assert (tmp_path / "plots" / "pairs.svg").is_file()
    rows = re.findall(r'<th scope="row">([^<]*)</th><td class="number">([\d,]+)</td>', page)
    causal = results["causal"]
    by_change = {name: part["n"] for name, part in causal["changes"].items()}
    counts = {name: int(number) for name, number in rows}
    assert counts.items() >= {"all changes": causal["n"], **by_change}.items()
    assert page.count('<tr>\n<th scope="row" data-value') == causal["n"]


def test_failures_come_first_in_the_table_of_pairs(folder, tmp_path):
    path, _ = run_all(
        folder, tmp_path, change=("order",), model="frequency", views="none", max_turns=1
    )
    write_index(RunData(path), {}, tmp_path)
    page = (tmp_path / "pairs.html").read_text().partition("sortable")[2]
    texts = [text for _, text in VERDICTS.values()]
    marks = [
        texts.index(text)
        for text in re.findall(r'<span class="mark \w*">([^<]+)</span></td>\s*</tr>', page)
    ]
    assert marks == sorted(marks)
    assert marks
