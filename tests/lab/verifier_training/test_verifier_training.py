"""Training on logged runs, end to end: decisions, the split by scene, the card, and runs that use the verifier."""

import json
import math
import shutil
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
import torch
from factories import TREE
from factories.naive_scoring import score_one_by_one
from factories.runs import make_config, transcripts

from render_agent.agents.verifiers.score_fusion import mean_ranks
from render_agent.dialogue.question import Question
from render_agent.errors import RunLogError, SetupError, UsageError
from render_agent.options import RunConfig
from render_agent.report.diagnosis.diagnose import diagnose_run
from render_agent.runs.build import build, describe_choosing
from render_agent.runs.phase_controller import NullObserver
from render_agent.runs.read import RunData
from render_agent.runs.runner import resume_run, start_run
from render_agent.score.intervals import FEW_SCENES
from render_agent.tasks.question_types import base_question_type
from render_agent_lab.learned_verifier.checkpoint import load
from render_agent_lab.learned_verifier.encoder import EncoderInput
from render_agent_lab.learned_verifier.history import read_histories
from render_agent_lab.learned_verifier.verifier import LearnedVerifier
from render_agent_lab.verifier_training.card import comparison_sentences
from render_agent_lab.verifier_training.decision import good_moves, scene_names
from render_agent_lab.verifier_training.decisions import read_decisions
from render_agent_lab.verifier_training.fit import Settings
from render_agent_lab.verifier_training.held_out import measure_success, summarize_held_out
from render_agent_lab.verifier_training.train import TrainingOptions, choose_held_out, train

SCENES = TREE / "scenes"

SETTINGS = Settings(members=2, epochs=3, batch=8, rate=1e-3)
TOLERANCE = 1.1e-4  # a diagnosis rounds coverage to four decimals

RUN = {"model": "wanderer", "temperature": 1.0, "max_turns": 4, "image_size": (64, 48)}


@pytest.fixture(scope="module")
def rooms(tmp_path_factory):
    """Return a question file with six questions about each of three bundled homes."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("homes")
    selected = []
    for scene in ("room00", "room02", "room05"):
        for suffix in (".ply", ".json"):
            (folder / f"{scene}{suffix}").symlink_to(SCENES / f"{scene}{suffix}")
        rows = (SCENES / "questions.jsonl").read_text("utf-8").splitlines(keepends=True)
        selected += [row for row in rows if json.loads(row)["scene_name"] == scene][::3][:6]
    path = folder / "questions.jsonl"
    path.write_text("".join(selected), "utf-8")
    return path


def complete_run(folder, questions, **options):
    """Run the questions to completion; return the run folder."""
    run = start_run(make_config(folder, questions, **RUN | options))
    with closing(run):
        run.go(NullObserver())
    return RunData(run.path)


@pytest.fixture(scope="module")
def random_run(rooms, tmp_path_factory):
    folder = tmp_path_factory.mktemp("random")
    return complete_run(folder, rooms, agent="lookahead:4", verifier=("random",))


@pytest.fixture(scope="module")
def decisions(random_run):
    return read_decisions(random_run)


@pytest.fixture(scope="module")
def trained(random_run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "verifier"
    return folder, train([random_run], folder, TrainingOptions(settings=SETTINGS))


def test_labels_agree_with_the_diagnosis(random_run, decisions):
    diagnosed = diagnose_run(random_run, 1)
    checked = 0
    for decision in decisions:
        question, turn = decision.context.state.question, decision.context.turn
        diagnosis = diagnosed[question.id]
        before, after = (diagnosis.turns[number].coverage for number in (turn, turn + 1))
        assert decision.surface[decision.chosen] == pytest.approx(after - before, abs=TOLERANCE)
        if base_question_type(question) != "object_counting" and diagnosis.first_seen:
            now = sum(seen == turn + 1 for seen in diagnosis.first_seen.values())
            assert decision.found[decision.chosen] == now
            checked += now
    assert checked > 3
    assert len(decisions) == 3 * sum(1 for _ in random_run.questions)
    assert {len(decision.candidates) for decision in decisions} == {4}


def test_missing_image_is_named_in_the_error(decisions):
    context = decisions[0].context
    assert context.load_image(context.views[0].file).mode == "RGB"
    with pytest.raises(RunLogError, match=r"views/gone\.png"):
        context.load_image("views/gone.png")


def test_good_moves_show_named_things_or_else_most_surface():
    question = Question("1", "b", "d", "s", "object_counting", "How many?", "number")
    nan = np.full(3, np.nan)
    surface = np.array([0.02, 0.09, 0.10])

    def good(found, surface=surface, right=None):
        return good_moves(question, np.array(found, float), surface, right).tolist()

    assert good([1, 0, 2]) == [True, False, True]
    assert good([0, 0, 0]) == [False, True, True]
    assert good([0, 0, 0], surface / 10) == [False] * 3
    assert good(nan) == [False] * 3
    assert good(nan, right=0) == [True, False, False]


def precision_of_best(good, scores):
    """Return the share of good candidates among those with the highest score."""
    return np.mean(good[np.isclose(scores, max(scores))])


def test_card_and_its_figures_are_reproducible(trained, decisions, random_run):
    folder, learned = trained
    ensemble, saved = load(folder)
    assert saved == json.loads(json.dumps(learned))
    names = scene_names(decisions)
    held_out = set(learned["held_out"]["scenes"])
    assert len(held_out) == 1
    assert held_out.isdisjoint(learned["learned_from"]["scenes"])
    assert held_out | set(learned["learned_from"]["scenes"]) == set(names)
    assert learned["learned_from"]["runs"][0]["name"] == random_run.name
    testing = [d for d, name in zip(decisions, names, strict=True) if name in held_out]
    testing = [decision for decision in testing if decision.is_a_choice]
    verifier = LearnedVerifier(str(folder)).load_weights("cpu")
    scores = [verifier.score(d.context, d.candidates).scores for d in testing]
    cases = {"good": [(d.good, d, row) for d, row in zip(testing, scores, strict=True)]}
    named = [(d.finds, d, row) for d, row in zip(testing, scores, strict=True)]
    cases["named"] = [case for case in named if case[0].any() and not case[0].all()]
    for title, rows in cases.items():
        measured = learned["held_out"][title]
        expected = {
            "learned": np.mean([precision_of_best(good, mean_ranks(row)) for good, _, row in rows]),
            "member 2": np.mean([precision_of_best(good, row[1]) for good, _, row in rows]),
            "geometry": np.mean([precision_of_best(good, d.geometry) for good, d, _ in rows]),
            "new surface": np.mean([precision_of_best(good, d.surface) for good, d, _ in rows]),
            "random": np.mean([good.mean() for good, _, _ in rows]),
        }
        assert measured["decisions"] == len(rows) > 5
        for name, value in expected.items():
            row = measured["success"][name]
            assert row["mean"] == pytest.approx(value)
            assert (row["low"], row["high"]) == (None, None)  # one scene has no interval
        difference = measured["learned_minus"]["random"]["mean"]
        assert difference == pytest.approx(expected["learned"] - expected["random"])
    text = (folder / "README.md").read_text("utf-8")
    mean = learned["held_out"]["good"]["success"]["learned"]["mean"]
    assert f"| learned | {100 * mean:.1f} %" in text
    assert all(name in text for name in names)
    assert FEW_SCENES in text
    assert ensemble.members == SETTINGS.members


def test_batched_scores_match_single_ones(trained, decisions):
    verifier = LearnedVerifier(str(trained[0])).load_weights("cpu")
    decision = decisions[5]
    scores = verifier.score(decision.context, decision.candidates).scores
    assert scores.shape == (SETTINGS.members, 4)
    pair = EncoderInput.of(decision.context), decision.context.state.question
    (features,) = verifier._reader(decision.context).features([pair])
    histories = read_histories(decision.context, decision.candidates, 10)
    expected = score_one_by_one(verifier.ensemble, features, histories)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-6)
    assert np.ptp(scores, axis=1).min() > 1e-4
    single = [verifier.score(decision.context, [c]).scores for c in decision.candidates]
    np.testing.assert_allclose(scores, np.concatenate(single, axis=1), rtol=0, atol=1e-6)


def test_runs_without_candidates_use_moves_of_other_turns(rooms, tmp_path, random_run):
    folder = complete_run(tmp_path, rooms, limit=6)
    decisions = read_decisions(folder)
    assert decisions
    assert all(len(decision.candidates) == 8 for decision in decisions)
    diagnosed = diagnose_run(folder, 1)
    for decision in decisions:
        turn, diagnosis = decision.context.turn, diagnosed[decision.context.state.id]
        gained = diagnosis.turns[turn + 1].coverage - diagnosis.turns[turn].coverage
        assert decision.chosen == 0
        assert decision.surface[0] == pytest.approx(gained, abs=TOLERANCE)
    assert sum(decision.is_a_choice for decision in decisions) > len(decisions) / 2


@pytest.mark.parametrize(
    "options", [{"views": "four"}, {"views": "none"}, {"image_stress": "noise"}]
)
def test_runs_without_free_views_are_rejected(rooms, tmp_path, options):
    folder = complete_run(tmp_path, rooms, limit=1, **options)
    with pytest.raises(SetupError, match="--views free"):
        read_decisions(folder)


def test_invalid_training_requests_raise_one_line_errors(random_run, trained, tmp_path):
    with pytest.raises(SetupError, match=str(trained[0])):
        train([random_run], trained[0])
    with pytest.raises(UsageError, match="scene"):
        train([random_run], tmp_path, TrainingOptions(held_out=("room77",)))
    options = TrainingOptions(held_out=("room00", "room02"))
    with pytest.raises(SetupError, match="20") as caught:
        train([random_run], tmp_path, options, lambda line: None)
    assert "\n" not in str(caught.value)


def test_scenes_are_held_out_by_share_or_name():
    scenes = [f"room{number:02d}" for number in range(8)]
    held = choose_held_out(scenes, 0.25, 0)
    assert len(held) == 2
    assert held == choose_held_out(scenes, 0.25, 0)
    assert len({frozenset(choose_held_out(scenes, 0.25, seed)) for seed in range(9)}) > 3
    assert choose_held_out(scenes, ("room03",), 0) == {"room03"}
    with pytest.raises(SetupError, match="1 scene"):
        choose_held_out(["room00"], 0.25, 0)


def test_intervals_are_over_scenes():
    rows = {"learned": np.array([1.0, 1, 0, 0]), "random": np.full(4, 0.5), "geometry": np.ones(4)}
    rows["new surface"] = np.zeros(4)
    rows = {name: np.tile(values, 4) for name, values in rows.items()}
    by_scene = summarize_held_out(rows, list("aabbccddeeffgghh"))["success"]["learned"]
    assert by_scene["mean"] == 0.5
    assert 0.05 < by_scene["low"] < 0.2
    assert by_scene["high"] == pytest.approx(1 - by_scene["low"])
    few = summarize_held_out(rows, ["a", "b", "a", "b"] * 4)
    assert few["success"]["learned"] == {"mean": 0.5, "low": None, "high": None}
    assert few["learned_minus"]["geometry"]["mean"] == -0.5
    assert math.isclose(few["learned_minus"]["random"]["mean"], 0)


def test_nothing_is_called_significant_over_few_scenes():
    rows = {"learned": np.ones(8), "member 1": np.ones(8), "random": np.full(8, 0.2)}
    rows |= {"geometry": np.zeros(8), "new surface": np.zeros(8)}
    alone = summarize_held_out(rows, ["a"] * 8)
    assert alone["success"]["learned"] == {"mean": 1.0, "low": None, "high": None}
    single = comparison_sentences(alone)
    few, enough = (
        comparison_sentences(summarize_held_out(rows, list(names)))
        for names in ("aabbccdd", "abcdefgh")
    )
    assert all("random" in lines[0] and "+80.0" in lines[0] for lines in (single, few, enough))
    assert ["too few scenes" in lines[0] for lines in (single, few, enough)] == [True, True, False]


def test_ties_do_not_favour_the_move_that_was_made(decisions):
    tied = [
        replace(d, geometry=np.zeros(len(d.good)), surface=np.ones(len(d.good))) for d in decisions
    ]
    rows = measure_success(tied, [np.zeros((2, len(d.good))) for d in tied])
    chance = [d.good.mean() for d in tied]
    assert len(tied) > 5
    for values in rows.values():
        np.testing.assert_allclose(values, chance)


class Stopping(NullObserver):
    """Stops the run after some turns, like Ctrl-C."""

    def __init__(self, turns):
        self.remaining = turns

    def on_turn(self, state, turn):
        self.remaining -= 1
        if not self.remaining:
            raise KeyboardInterrupt


def test_interrupted_run_with_a_learned_verifier_resumes_identically(rooms, trained, tmp_path):
    options = {"agent": "lookahead:3", "verifier": (f"learned:{trained[0]}",), "limit": 4}
    whole = complete_run(tmp_path / "whole", rooms, **options)
    run = start_run(make_config(tmp_path / "interrupted", rooms, **RUN | options))
    with closing(run), pytest.raises(KeyboardInterrupt):
        run.go(Stopping(7))
    interrupted = RunData(run.path)
    assert 0 < len(interrupted.lines()) < len(whole.lines())
    resumed = resume_run(interrupted, {})
    with closing(resumed):
        resumed.go(NullObserver())
    assert transcripts(interrupted.path) == transcripts(whole.path)
    evidence = [line["evidence"] for line in whole.lines() if line["evidence"]["judgements"]]
    assert evidence
    for entry in evidence:
        (judgement,) = entry["judgements"]
        assert judgement["members"] == ["member 1", "member 2"]
        assert entry["chosen"] == entry["weighed"][int(np.argmax(entry["fused"]))]


def test_note_names_scenes_that_the_verifier_was_trained_on(random_run, trained, tmp_path):
    folder, learned = trained
    (held_out,) = learned["held_out"]["scenes"]
    config = RunConfig(batch=True, agent="best:2", temperature=1.0, verifier=(f"learned:{folder}",))
    copies = []
    for question in random_run.questions:
        scan = tmp_path / f"copy_of_{question.scan.name}"  # identified by content, not by name
        shutil.copy(question.scan, scan)
        copies.append(replace(question, scan=scan, scene=f"copy of {question.scene}"))
    note = describe_choosing(build(config), copies)["note"]
    assert str(folder) in note
    assert "2 of these 3 scenes" in note
    others = [question for question in copies if question.scene.endswith(held_out)]
    assert others
    assert describe_choosing(build(config), others)["note"] is None


def test_run_with_an_invalid_verifier_does_not_start(rooms, tmp_path):
    config = make_config(
        tmp_path, rooms, **RUN, agent="lookahead:3", verifier=(f"learned:{tmp_path}",)
    )
    with pytest.raises(SetupError, match=str(tmp_path)):
        start_run(config)
    assert not (tmp_path / "runs").exists()
