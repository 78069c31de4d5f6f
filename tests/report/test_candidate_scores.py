"""Tests of the scores of candidates, as text, on the terminal and in the log of a run."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from factories.runs import make_questions, play
from factories.samples import agent_options, mixed_engine

from render_agent.cli.main import cli
from render_agent.dialogue.reply import Action, Malformed
from render_agent.dialogue.turn import Ballot, Candidate, Evidence, Judgement
from render_agent.report.candidate_scores import candidate_scores, explain_choice, members
from render_agent.runs.progress import choice_summary, turn_summary
from render_agent.runs.read import RunData
from render_agent.scans.camera import Camera

HERE = Camera((0.0, 0.0, 1.6))


def candidate(number, action=None, **fields):
    return Candidate(
        number, f"reply {number}", action or Action(forward=1.0), "Moved.", HERE, **fields
    )


# four replies, two of which continue
WEIGHED = Evidence(
    agent="lookahead:4",
    candidates=(
        candidate(0),
        candidate(1, Malformed("no JSON object")),
        candidate(2),
        candidate(3, Action(answer="A", done=True)),
    ),
    chosen=2,
    weighed=(0, 2),
    judgements=(
        Judgement("geometry", ("surface", "named"), ((0.1, 0.2), (1, None)), ("", "a wall")),
        Judgement("random", ("random",), ((0.5, 0.6),), ("",) * 2),
    ),
    fused=(0.25, 1.0),
)  # fmt: skip
BAD = Malformed("?")


def test_scores_belong_to_candidates_and_members():
    assert [member.label for member in members(WEIGHED)] == [
        "geometry surface",
        "geometry named",
        "random",
    ]
    by_number = {scored.candidate.number: scored for scored in candidate_scores(WEIGHED)}
    assert list(by_number) == [0, 1, 2, 3]
    assert by_number[2].scores == (0.2, None, 0.6)
    assert by_number[2].reasons == (("geometry", "a wall"),)
    assert [by_number[n].fused for n in range(4)] == [0.25, None, 1.0, None]
    assert [n for n in by_number if by_number[n].chosen] == [2]
    assert [n for n in by_number if by_number[n].why] == [1, 3]
    assert (by_number[1].scores, by_number[3].scores) == ((), ())
    assert by_number[1].why != by_number[3].why


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (WEIGHED, "Reply 3 of 4 was chosen by geometry and random"),
        (replace(WEIGHED, weighed=(), judgements=(), fused=(), chosen=3), "Reply 4 of 4"),
        (Evidence("best:2", (candidate(0, BAD), candidate(1, BAD)), 0), "All 2 replies"),
        (Evidence("best:2", (candidate(0), candidate(1, BAD)), 0), "one of 2 replies"),
        (Evidence("best:2", (candidate(0), candidate(1)), 0), "Last turn"),
        (replace(WEIGHED, fused=()), "No scores from geometry and random"),
        (Evidence("vote:1", (candidate(0),), 0, ballot=Ballot(("A",), "A", 1.0, 1.0)), "was A"),
    ],
)
def test_sentence_on_how_a_reply_was_chosen(evidence, expected):
    assert expected in explain_choice(evidence)


def test_progress_names_the_chosen_candidate_and_its_score():
    assert choice_summary(WEIGHED) == "chose candidate 3 of 4, score 1.00"
    voted = Evidence("vote:1", (candidate(0),), 0, ballot=Ballot(("A", "B"), "A", 0.5, 0.5))
    assert choice_summary(voted) == "chose candidate 1 of 1, 50 % agree on A"


def test_show_prints_the_candidates_of_a_run(tmp_path):
    questions = make_questions(tmp_path, 1)
    path, _ = play(tmp_path, questions, mixed_engine(), **agent_options("lookahead:3"))
    (state,) = RunData(path).states
    output = CliRunner().invoke(cli, ["show", str(path), "0"], catch_exceptions=False).output
    for turn in state.turns:
        line = turn_summary(state, turn)
        assert line.endswith(f"({choice_summary(turn.evidence)})")
        for scored in candidate_scores(turn.evidence):
            mark = " > " if scored.chosen else "   "
            assert f"\n{mark}{scored.name}: " in output
            if scored.candidate.view:
                assert str(path / scored.candidate.view.file) in output
    logged = json.loads(CliRunner().invoke(cli, ["show", str(path), "0", "--json"]).output)
    assert [line["evidence"]["chosen"] for line in logged] == [
        turn.evidence.chosen for turn in state.turns
    ]
