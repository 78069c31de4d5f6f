"""Key findings are correct, and only significant ones are reported."""

from dataclasses import replace

import pytest
from factories.reports import build_index, run_rooms

from render_agent.dialogue.question import Question
from render_agent.report.diagnosis.diagnose import diagnose_run
from render_agent.report.diagnosis.model import Cause, Diagnosis
from render_agent.report.sentences.causes import explain_wrong_answer
from render_agent.report.sentences.findings import (
    compare_score_with_baseline,
    compare_types_with_baseline,
    findings,
)
from render_agent.score.chance import baseline_gains, frequent_answers
from render_agent.score.intervals import holm
from render_agent.score.questions import score_answer


def gains(**tasks):
    """Return gains over the baseline: (difference in points, corrected p, number of questions) by task."""
    return {
        name: {"difference": points, "p": p, "p_holm": p, "n": number}
        for name, (points, p, number) in tasks.items()
    }


@pytest.mark.parametrize(
    ("tasks", "text"),
    [
        (
            {"object_counting": (23, 0.01, 9), "object_rel_distance": (2, 0.4, 9)},
            ["Object count is 23 points above", "relative distance does not differ"],
        ),
        (
            {
                "object_counting": (-10, 0.04, 9),
                "route_planning": (11, 0.001, 9),
                "room_size_estimation": (7, 0.05, 9),
            },
            ["Route plan is 11 points above", "room size is above", "object count is below"],
        ),
        ({"object_counting": (2, 0.3, 9), "route_planning": (50, None, 9)}, None),
        ({"object_counting": (30, 0.051, 9)}, None),
        ({}, None),
    ],
)
def test_types_compared_with_the_baseline(tasks, text):
    finding = compare_types_with_baseline(gains(**tasks))
    assert (finding is None) == (text is None)
    assert all(part in finding for part in text or ())


def scored_questions(low, high, scenes=12, types=("object_counting", "room_size_estimation")):
    """Return scored counting and room-size questions; the scenes' scores are `low` and `high` in turn."""
    question = Question(
        id="",
        benchmark="rooms",
        dataset="d",
        scene="s",
        type=types[0],
        text="",
        answer_form="number",
        ground_truth="2",
    )
    return [
        (
            replace(
                question,
                id=f"{kind} {n} {k}",
                scene=f"s{n}",
                type=kind,
                ground_truth=str(2 + n + k),
            ),
            (low, high)[n % 2],
        )
        for kind in types
        for n in range(scenes)
        for k in range(3)
    ]


def test_gains_are_paired_by_question_and_corrected_over_the_tasks():
    all_gains = baseline_gains(scored_questions(0.95, 1.0))
    assert all_gains.keys() == {"macro", "object_counting", "room_size_estimation"}
    assert all_gains["macro"]["difference"] > 30
    assert all_gains["macro"]["n"] == 2 * all_gains["object_counting"]["n"] == 72
    assert all_gains["macro"]["p_holm"] == all_gains["macro"]["p"] < 0.01
    tasks = [all_gains["object_counting"], all_gains["room_size_estimation"]]
    assert [task["p_holm"] for task in tasks] == holm([task["p"] for task in tasks])
    assert "above" in compare_score_with_baseline(all_gains)


def test_too_few_scenes_support_no_finding():
    all_gains = baseline_gains(scored_questions(0.95, 1.0, scenes=5))
    assert compare_score_with_baseline(all_gains) is None
    assert compare_types_with_baseline(all_gains) is None


def test_a_guess_is_not_above_the_baseline():
    """Scores that equal the baseline's on the mean, but vary by scene."""
    scored = scored_questions(0, 0)
    answers = frequent_answers([question for question, _ in scored])
    level = [score_answer(question, answers[question.id]) for question, _ in scored]
    mean = sum(level) / len(level)
    noisy = [(q, mean + (0.2 if int(q.scene[1:]) % 2 else -0.2)) for q, _ in scored]
    assert compare_score_with_baseline(baseline_gains(noisy)) is None


def test_most_frequent_answers_are_no_better_than_the_baseline(tmp_path):
    run = run_rooms(tmp_path, views="none", max_turns=2)
    all_findings = findings(run, diagnose_run(run, 1))
    assert not any("baseline" in finding.sentence for finding in all_findings)
    page = build_index(run).read_text("utf-8")
    assert all(f"<li>{finding.sentence}" in page for finding in all_findings)


def test_overfitted_baseline_is_not_reported():
    few_gains = gains(
        macro=(-66, 0.001, 4), object_counting=(-80, 0.001, 2), route_planning=(50, 0.001, 2)
    )
    assert "object count does not differ" in compare_types_with_baseline(few_gains)
    assert compare_score_with_baseline(few_gains) is None
    for row in few_gains.values():
        row["n"] = 8
    assert "66 points below" in compare_score_with_baseline(few_gains)
    assert "object count is below it" in compare_types_with_baseline(few_gains)


@pytest.mark.parametrize("cause", list(Cause))
def test_only_wrong_answers_have_a_headline(cause):
    diagnosis = Diagnosis("1", cause, ("lamp",), (), (), {"lamp": None, "tv": None, "sofa": 0})
    headline = explain_wrong_answer(diagnosis, (640, 480))
    wrong = (Cause.STOPPED_EARLY, Cause.NEVER_LOOKED, Cause.MISJUDGED, Cause.FORM, Cause.NO_ANSWER)
    assert (headline is not None) == (cause in wrong)
    if cause in wrong[:2]:
        assert "lamp and tv" in headline
