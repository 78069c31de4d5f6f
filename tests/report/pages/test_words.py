"""Every cause, status and type has words of its own."""

from render_agent.dialogue.state import Status
from render_agent.report.diagnosis.model import Cause
from render_agent.report.pages.words import (
    CAUSE_WORDS,
    STATUS_WORDS,
    TYPE_WORDS,
)
from render_agent.tasks.question_types import DIRECTION, TYPES


def test_every_cause_status_and_type_has_its_words_in_one_table():
    assert set(CAUSE_WORDS) == set(Cause) - {Cause.RIGHT}
    assert set(STATUS_WORDS) == set(Status)
    assert set(TYPE_WORDS) == {*TYPES, DIRECTION}
    assert len(set(TYPE_WORDS.values())) == len(TYPE_WORDS)
    for status, words in STATUS_WORDS.items():
        assert words.startswith("not finished" if status is Status.ACTIVE else status)
