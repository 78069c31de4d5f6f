"""Answers over the turns of a dialogue, and the confidence stated with them (`--confidence on`)."""

import json

import numpy as np
import pytest
from factories.replies import parse_reply
from factories.runs import (
    comparable_results,
    make_questions,
    play,
    resume,
    transcripts,
    truncate_log,
)
from factories.states import state, turn

from render_agent.dialogue.prompt import Prompt
from render_agent.dialogue.reply import Action
from render_agent.dialogue.state import QuestionState
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.errors import UsageError
from render_agent.options import RunConfig
from render_agent.report.comparison.compare_runs import compare_runs
from render_agent.runs.build import build
from render_agent.runs.read import RunData
from render_agent.score.dialogues.answering import (
    answering_figures,
    answers_by_turn,
    compare_answering,
)
from render_agent.score.terms import MAX_BINS, Term, compare_terms, equal_mass_bins, summarize_terms

CHOICE = {
    "answer_form": "letter",
    "options": ("A. left", "B. right"),
    "type": "t",
    "metric": "accuracy",
}


def answering(*answers, scene="s", name="7", max_turns=4):
    """Return the state of a question with ground truth A, answered with (letter or None, confidence) in every turn."""
    made = state(max_turns=max_turns, ground_truth="A", scene=scene, **CHOICE)
    for number, (answer, confidence) in enumerate(answers):
        done = number == len(answers) - 1
        said = Action(answer=answer, answer_text=answer, confidence=confidence, done=done)
        made.take(turn(number, said))
    question = type(made.question)(
        **{f: getattr(made.question, f) for f in made.question.__slots__} | {"id": name}
    )
    return QuestionState(question, None, max_turns, turns=made.turns)


# first, second and third question: becomes right, becomes wrong, never changes
COURSES = (
    [(None, None), ("B", 40), ("A", 90)],
    [("A", 80), ("B", 60)],
    [("A", 100)],
)


def three_questions(copies=1):
    return [
        answering(*course, scene=f"scene {copy}", name=f"{copy} {number}")
        for copy in range(copies)
        for number, course in enumerate(COURSES)
    ]


def value(figures, name):
    return round(figures[name]["value"], 3), figures[name]["n"]


def test_figures_are_those_of_arithmetic():
    figures = answering_figures(three_questions())
    by_turn = [[0, 1, 1], [0, 0, 1], [1, 0, 1], [1, 0, 1]]  # right after each turn, by question
    assert [value(t, "score") for t in figures["turns"]] == [
        (round(100 * sum(right) / 3, 3), 3) for right in by_turn
    ]
    assert value(figures, "area") == (round(100 * np.mean(by_turn), 3), 3)
    assert value(figures, "became_right") == value(figures, "became_wrong") == (50, 2)
    assert value(figures, "confidence") == (round((90 + 60 + 100) / 3, 3), 3)
    assert value(figures, "right") == (round(200 / 3, 3), 3)
    # three answers are three bins: |0.9 - 1| + |0.6 - 0| + |1 - 1|
    assert value(figures, "ece") == (round(70 / 3, 3), 3)
    assert [t["answered"] for t in figures["turns"]] == [2, 3, 3, 3]
    assert [value(t, "confidence") for t in figures["turns"]][:2] == [
        (90, 2),
        (round(200 / 3, 3), 3),
    ]
    points = [(p["confidence"]["value"], p["right"]["value"]) for p in figures["calibration"]]
    assert points == [(60, 0), (90, 100), (100, 100)]


def test_intervals_are_over_scenes():
    figures = answering_figures(three_questions(copies=7))
    assert figures["area"]["scenes"] == figures["ece"]["scenes"] == 7
    assert figures["became_right"]["interval"] is not None
    assert answering_figures(three_questions(copies=2))["area"]["interval"] is None


def test_answers_in_the_first_turn_have_no_figures():
    assert answering_figures([answering(("A", None))]) is None
    assert answering_figures([answering(("A", 50))])["confidence"]["n"] == 1


def test_comparison_is_paired_and_antisymmetric():
    a = three_questions(copies=6)
    b = [
        answering(*course[-1:], scene=s.question.scene, name=s.id)
        for s, course in zip(a, COURSES * 6, strict=True)
    ]
    forward, backward = compare_answering(a, b), compare_answering(b, a)
    assert forward["area"]["difference"] == pytest.approx(-backward["area"]["difference"])
    assert forward["area"]["b"] == pytest.approx(200 / 3)
    assert "became_right" not in forward  # b never changes an answer


def test_comparison_of_single_turns_has_only_the_confidence():
    sure, unsure, silent = (
        [answering(("A", confidence), scene=str(n), name=str(n)) for n in range(6)]
        for confidence in (90, 60, None)
    )
    entries = compare_answering(sure, unsure)
    assert entries.keys() == {"confidence", "right", "ece"}
    assert entries["ece"]["difference"] == pytest.approx(30)
    assert compare_answering(sure, silent) == {}


def test_bins_have_equal_mass_and_keep_ties_together():
    bins = equal_mass_bins(list(np.linspace(0, 1, 100)))
    assert sorted(np.bincount(bins)) == [100 // MAX_BINS] * MAX_BINS
    assert len(set(equal_mass_bins([0.9] * 30 + [1.0] * 30))) == 2
    assert equal_mass_bins([]) == []


def test_calibration_error_cancels_within_bins_only():
    terms = [Term(n % 6, 0.5 if n % 2 else -0.5, bin=0) for n in range(12)]
    assert summarize_terms(terms)["value"] == 0
    apart = [Term(t.scene, t.top, bin=n % 2) for n, t in enumerate(terms)]
    assert summarize_terms(apart)["value"] == 50
    assert compare_terms(terms, apart)["difference"] == 50


@pytest.mark.parametrize(
    ("said", "confidence", "notes"),
    [(80, 80, 0), ("80 %", 80, 0), (0, 0, 0), (None, None, 0), (101, None, 1), ("high", None, 1)],
)
def test_confidence_is_parsed_and_never_spoils_a_reply(said, confidence, notes):
    prompt = Prompt(9, 75.0, asks_confidence=True)
    question = state(**CHOICE).question
    action = prompt.parse_reply(json.dumps({"answer": "A", "confidence": said}), question)
    assert (action.answer, action.confidence, len(action.notes)) == ("A", confidence, notes)
    only = prompt.parse_reply(json.dumps({"confidence": said}), question)
    assert "requests nothing" in only.reason
    several = prompt.parse_reply('{"answer": "A", "confidence": 70} {"answer": "A"}', question)
    assert several.answer == "A"
    assert "confidence" in parse_reply('{"answer": "4", "confidence": 80}').notes[0]  # off: unknown


@pytest.mark.parametrize("protocol", ["json", "tools"])
@pytest.mark.parametrize("views", ["free", "four", "none"])
def test_prompt_and_schema_ask_for_it_only_if_on(protocol, views):
    options = {"batch": True, "reply_protocol": protocol, "views": views}
    off, on = (build(RunConfig(**options, confidence=value)).prompt for value in ("off", "on"))
    assert "confidence" not in json.dumps([off.instructions, off.schema(), off.tools()])
    assert "confidence" in json.dumps([on.instructions, on.schema(), on.tools()])
    form = on.schema() or next(
        t["function"]["parameters"] for t in on.tools() if t["function"]["name"] == "answer"
    )
    assert "confidence" in form["required"]


def test_model_without_confidence_is_refused():
    with pytest.raises(UsageError, match="--confidence on"):
        build(RunConfig(batch=True, model="small", confidence="on"))


def test_killed_run_resumes_with_the_same_figures(tmp_path):
    questions = make_questions(tmp_path, 4)
    replies = [
        {"answer": None, "confidence": None, "rotation_angle_degrees": 30},
        {"answer": "A", "confidence": 30, "forward_meters": 0.2},
        {"answer": "B", "confidence": 95, "done": True},
    ]
    numbers = [r | {"answer": r["answer"] and ord(r["answer"]) - 62} for r in replies]
    policy = ReplayPolicy(
        {str(n): list(map(json.dumps, (numbers, replies)[n % 2])) for n in range(4)}
    )
    path, results = play(tmp_path, questions, ScriptedEngine(policy), confidence="on")
    before, figures = transcripts(path), results["answering"]
    assert value(figures, "confidence") == (95, 4)
    assert value(figures, "became_right") == (50, 4)  # the letters: A to B; counts: 3 to 4
    truncate_log(path, 5)
    resume(path, ScriptedEngine(policy))
    assert transcripts(path) == before
    assert comparable_results(path)["answering"] == figures
    run = RunData(path)
    assert answers_by_turn(run.states)["1"][1].confidence == 0.3
    assert [turn.action.confidence for turn in run.states[0].turns] == [None, 30, 95]
    (pair,) = compare_runs([run, RunData(path)], anyway_option="")
    assert pair["answering"]["ece"]["difference"] == 0
