"""Tests of the display names of causes, statuses and types."""

from render_agent.dialogue.state import Status
from render_agent.report.diagnosis.model import Cause
from render_agent.report.pages.words import CAUSE_WORDS, STATUS_WORDS, TYPE_WORDS
from render_agent.tasks.question_types import DIRECTION, TYPES


def test_every_cause_status_and_type_has_words():
    assert set(CAUSE_WORDS) == set(Cause) - {Cause.RIGHT}
    assert set(STATUS_WORDS) == set(Status)
    assert set(TYPE_WORDS) == {*TYPES, DIRECTION}
    assert len(set(TYPE_WORDS.values())) == len(TYPE_WORDS)
    assert len(set(STATUS_WORDS.values())) == len(STATUS_WORDS)
