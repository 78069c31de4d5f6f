"""One name for one thing: on pages, in text, in exports and in the documentation."""

import re

import pytest
from factories import TREE

from render_agent.analysis.diagnosis.model import Cause
from render_agent.analysis.report.plots import palette
from render_agent.analysis.report.words import (
    CAUSE_WORDS,
    STATUS_WORDS,
    TYPE_WORDS,
    causes_meant,
)
from render_agent.dialogue.state import Status
from render_agent.score.means import DIRECTION
from render_agent.score.official import TYPES

GONE = re.compile(r"Every mean in use|To be known|[>\"']protocol[<\"']|ran out of turns: its")
"""What the same things were called before."""


def test_every_cause_status_and_type_has_its_words_in_one_table():
    assert set(CAUSE_WORDS) == set(Cause) - {Cause.RIGHT}
    assert set(STATUS_WORDS) == set(Status)
    assert set(TYPE_WORDS) == {*TYPES, DIRECTION}
    assert len(set(TYPE_WORDS.values())) == len(TYPE_WORDS)
    for status, words in STATUS_WORDS.items():
        assert words.startswith("not finished" if status is Status.ACTIVE else status)


@pytest.mark.parametrize("cause", Cause)
def test_a_cause_has_one_name_in_plots_tables_and_documentation(cause):
    assert cause in palette.CAUSES
    assert causes_meant([cause]).startswith("" if cause is Cause.RIGHT else cause.capitalize())
    page = (TREE / "docs/how-to/diagnose.md").read_text()
    assert re.search(rf"\| {cause} \||\*{cause}\*", page) or cause in ("right", "error", "open")


def test_no_page_and_no_text_says_it_otherwise():
    folder = TREE / "render_agent"
    files = [
        *folder.rglob("*.html"),
        *(folder / "web").rglob("*.js"),
        *folder.glob("analysis/**/*.py"),
    ]
    files += [
        *folder.glob("cli/**/*.py"),
        *folder.glob("score/*.py"),
        *(TREE / "docs").rglob("*.md"),
    ]
    found = [(file.name, GONE.findall(file.read_text("utf-8"))) for file in files]
    assert len(files) > 100
    assert not [entry for entry in found if entry[1]]
