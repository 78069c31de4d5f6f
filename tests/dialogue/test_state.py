"""The state of a question: status, answer and dialogue after its turns."""

import pytest
from factories.states import HERE, question, state, turn

from render_agent.dialogue.reply import Action, Malformed
from render_agent.dialogue.state import QuestionState, Status


def test_done_with_an_answer_is_answered():
    assert state(Action(answer="4", answer_text="4", done=True)).status is Status.ANSWERED


def test_done_without_an_answer_stays_active():
    question_state = state(Action(done=True))
    assert question_state.status is Status.ACTIVE
    assert question_state.answer is None


def test_done_uses_an_earlier_answer():
    question_state = state(Action(answer="4", answer_text="four"), Action(done=True))
    assert question_state.status is Status.ANSWERED
    assert (question_state.answer, question_state.answer_text) == ("4", "four")


def test_last_answer_counts_when_out_of_turns():
    question_state = state(
        Action(answer="4", answer_text="4"),
        Action(answer="5", answer_text="5 of them"),
        Malformed("?"),
    )
    assert question_state.status is Status.EXHAUSTED
    assert (question_state.answer, question_state.answer_text) == ("5", "5 of them")


def test_out_of_turns_without_an_answer_is_exhausted():
    question_state = state(Malformed("?"), Action(answer_text="AB"), Action(forward=1.0))
    assert question_state.status is Status.EXHAUSTED
    assert (question_state.answer, question_state.answer_text) == (None, "AB")
    assert question_state.repairs == 1


def test_answered_question_takes_no_turn():
    question_state = state(Action(answer="4", answer_text="4", done=True))
    with pytest.raises(ValueError, match="answered"):
        question_state.take(turn(1, Action(forward=1.0)))


def test_turns_must_be_in_order():
    with pytest.raises(ValueError, match="turn 1"):
        state().take(turn(1, Action(forward=1.0)))


def test_failed_question_can_be_retried_and_missing_scan_is_a_status():
    question_state = state(Action(forward=1.0))
    question_state.fail("broken")
    assert question_state.status is Status.FAILED
    question_state.retry()
    assert question_state.active
    assert state(scan=None).status is Status.MISSING


def test_dialogue_is_append_only():
    question_state = state(Action(forward=1.0))
    before = question_state.dialogue
    question_state.take(turn(1, Action(forward=1.0)))
    assert question_state.dialogue[: len(before)] == before
    assert [entry["role"] for entry in question_state.dialogue] == ["user", "assistant"] * 2


def test_trail_lists_the_poses_of_all_turns():
    question_state = QuestionState(question(), scenes=None, max_turns=3)
    second, third = HERE.at((2, 2, 1.6)), HERE.at((3, 2, 1.6))
    question_state.take(turn(0, Action(forward=1.0), HERE, second))
    question_state.take(turn(1, Action(forward=1.0), second, third))
    assert question_state.trail == [HERE, second, third]
