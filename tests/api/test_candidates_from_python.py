"""Candidates of turns, from Python."""

import pytest
from factories.runs import make_questions, play, walking

import render_agent


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A run of rooms that chooses among three moves, by chance."""
    return render_agent.run(
        benchmark="rooms",
        engine="scripted",
        model="wanderer",
        agent="lookahead:3",
        verifier=["random"],
        temperature=1.0,
        max_turns=3,
        limit=2,
        image_size=(96, 72),
        output=tmp_path_factory.mktemp("runs"),
    )


def test_a_turn_has_its_evidence_and_how_its_candidates_stood(results):
    turns = [turn for dialogue in results.dialogues() for turn in dialogue.turns]
    assert len(turns) == 2 * 3
    for turn in turns:
        assert turn.evidence.agent == "lookahead:3"
        (taken,) = [one for one in turn.candidates if one.chosen]
        assert (taken.candidate.reply, taken.candidate.camera) == (turn.reply, turn.logged.camera)
        assert [one.fused for one in turn.candidates if one.scores] == list(turn.evidence.fused)
    assert "✓ taken" in results.dialogue("0")._repr_html_()


def test_a_run_with_one_reply_a_turn_has_no_candidates(tmp_path):
    path, _ = play(tmp_path, make_questions(tmp_path, 1), walking(1), max_turns=2)
    results = render_agent.load_run(path)
    turn = results.dialogue("0").turns[0]
    assert (turn.evidence, turn.candidates) == (None, [])
