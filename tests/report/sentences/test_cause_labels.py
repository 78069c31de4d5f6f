"""Tests of the labels of causes, statuses and types."""

from render_agent.dialogue.state import STATUS_LABELS, Status
from render_agent.report.diagnosis.model import Cause
from render_agent.report.sentences.labels import CAUSE_EXPLANATIONS
from render_agent.tasks.question_types import BUILT_IN, TASK_LABELS


def test_every_cause_status_and_type_has_a_label():
    assert set(CAUSE_EXPLANATIONS) == set(Cause) - {Cause.RIGHT}
    assert set(STATUS_LABELS) == set(Status)
    labels = [*(record.label for record in BUILT_IN.values()), *TASK_LABELS.values()]
    assert len(set(labels)) == len(labels)
    assert len(set(STATUS_LABELS.values())) == len(STATUS_LABELS)
