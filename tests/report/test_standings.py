"""How the candidates of a turn stand, in words, on a terminal and in the log of a real run."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from factories.runs import make_questions, play
from factories.samples import mixed_engine, options_of

from render_agent.cli.main import cli
from render_agent.dialogue.evidence import Ballot, Candidate, Evidence, Judgement
from render_agent.dialogue.reply import Action, Malformed
from render_agent.report.standings import how_chosen, members, standings
from render_agent.runs.progress import choice_summary, turn_summary
from render_agent.runs.read import RunData
from render_agent.scans.camera import Camera

HERE = Camera((0.0, 0.0, 1.6))


def candidate(number, action=None, **more):
    return Candidate(
        number, f"reply {number}", action or Action(forward=1.0), "Moved.", HERE, **more
    )


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
"""Four replies of which two go on."""

BAD = Malformed("?")


def test_every_score_stands_with_its_candidate_and_its_member():
    assert [member.label for member in members(WEIGHED)] == [
        "geometry surface",
        "geometry named",
        "random",
    ]
    found = {one.candidate.number: one for one in standings(WEIGHED)}
    assert [one.candidate.number for one in standings(WEIGHED)] == [0, 1, 2, 3]
    assert found[2].scores == (0.2, None, 0.6)
    assert found[2].reasons == (("geometry", "a wall"),)
    assert [found[n].fused for n in range(4)] == [0.25, None, 1.0, None]
    assert [n for n in found if found[n].chosen] == [2]
    assert [n for n in found if found[n].why] == [1, 3]
    assert (found[1].scores, found[3].scores) == ((), ())
    assert "could not be read" in found[1].why
    assert "done" in found[3].why


@pytest.mark.parametrize(
    ("evidence", "told"),
    [
        (WEIGHED, "geometry and random chose number 3"),
        (replace(WEIGHED, weighed=(), judgements=(), fused=(), chosen=3), "Number 4 of 4 replies"),
        (Evidence("best:2", (candidate(0, BAD), candidate(1, BAD)), 0), "None of 2 replies"),
        (Evidence("best:2", (candidate(0), candidate(1, BAD)), 0), "One of 2 replies"),
        (Evidence("best:2", (candidate(0), candidate(1)), 0), "last turn"),
        (replace(WEIGHED, fused=()), "nobody (geometry and random)"),
        (Evidence("vote:1", (candidate(0),), 0, ballot=Ballot(("A",), "A", 1.0, 1.0)), "answer A"),
    ],
)
def test_how_a_turn_was_chosen_is_told(evidence, told):
    assert told in how_chosen(evidence)


def test_short_words_name_the_candidate_and_the_score_that_it_leads_to():
    assert choice_summary(WEIGHED) == "took 3 of 4, score 1.00"
    voted = Evidence("vote:1", (candidate(0),), 0, ballot=Ballot(("A", "B"), "A", 0.5, 0.5))
    assert choice_summary(voted) == "took 1 of 1, 50 % agree on A"


def test_the_command_shows_the_candidates_of_a_real_run(tmp_path):
    asked = make_questions(tmp_path, 1)
    path, _ = play(tmp_path, asked, mixed_engine(), **options_of("lookahead:3"))
    (state,) = RunData(path).states
    told = CliRunner().invoke(cli, ["show", str(path), "0"], catch_exceptions=False).output
    for turn in state.turns:
        line = turn_summary(state, turn)
        assert line.endswith(f"({choice_summary(turn.evidence)})")
        for standing in standings(turn.evidence):
            mark = " > " if standing.chosen else "   "
            assert f"\n{mark}{standing.name}: " in told
            if standing.candidate.view:
                assert str(path / standing.candidate.view.file) in told
    logged = json.loads(CliRunner().invoke(cli, ["show", str(path), "0", "--json"]).output)
    assert [line["evidence"]["chosen"] for line in logged] == [
        turn.evidence.chosen for turn in state.turns
    ]
