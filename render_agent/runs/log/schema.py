"""The schema of a run folder: its format number, and the fields of `config.json` and `results.json` that are read."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from render_agent.dialogue.state import Tokens
from render_agent.errors import RunLogError
from render_agent.text.reasons import short_repr, shortened
from render_agent.text.safe_parse import Count, NotNegative, Number

FORMAT = 1
"""The number of the form that is written; `config.json` holds it.

Raised whenever an earlier version could not read a folder, or would take it for something else; what
that version wrote is kept in tests/upgrades/formats, and read on.
"""

READABLE_FORMATS = (FORMAT,)
"""The numbers of the forms that are read."""


def check_format(path: Path, record: Any) -> None:
    """Raise RunLogError where a run folder has a form that this version does not read.

    record: what its `config.json` holds.
    """
    fields = record if isinstance(record, dict) else {}
    known = fields.get("format")
    if type(known) is int and known in READABLE_FORMATS:
        return
    if type(known) is not int or known < 1:
        raise RunLogError(
            f"{path} has format {short_repr(known, 40)}, which no version wrote: restore its config.json"
        )
    writer = f"render_agent {shortened(fields.get('program', 'of another version'), 40)}"
    own = f"this is render_agent {version('render_agent')}, which reads format"
    if known > FORMAT:
        raise RunLogError(
            f"{path} has format {known}, written by {writer}, and {own} {FORMAT} at the most: install"
            " that version, or a newer one"
        )
    raise RunLogError(
        f"{path} has format {known}, written by {writer}, and {own} {min(READABLE_FORMATS)} on: use the version"
        " that wrote it"
    )


Score = Number | None
Interval = tuple[Score, Score] | None


class _Engine(TypedDict):
    name: str
    model: str | None
    note: NotRequired[str | None]


class _Choosing(TypedDict):
    note: NotRequired[str | None]


class _Hashes(TypedDict):
    questions: dict[str, str]
    scans: dict[str, str | None]
    annotations: NotRequired[dict[str, str]]
    verifiers: NotRequired[dict[str, str]]


class Record(TypedDict):
    """`config.json`; the options in it are read by `RunConfig.from_json`."""

    fingerprint: str
    config: dict[str, Any]
    engine: _Engine
    program: str
    commit: NotRequired[str | None]
    pictures: NotRequired[int]
    choosing: NotRequired[_Choosing]
    notes: NotRequired[list[str]]
    sha256: _Hashes


class _TypeScore(TypedDict):
    score: Score
    n: Count


class _Error(TypedDict):
    error: Score
    freedom: NotNegative
    scenes: Count


class _Part(TypedDict):
    n: Count
    without_order: Score
    micro: Score
    mean_of_types: Score
    tasks: dict[str, Score]
    types: dict[str, _TypeScore]
    intervals: dict[str, Interval]
    errors: NotRequired[dict[str, _Error]]


class _Overall(_Part):
    official: Score


class _Metric(TypedDict):
    score: Score
    interval: Interval
    n: Count


class _ParserScores(TypedDict):
    macro: Score
    micro: Score


class _Chance(TypedDict):
    random: dict[str, Score]
    frequency: dict[str, Score]


class _Counts(TypedDict):
    active: Count
    answered: Count
    exhausted: Count
    failed: Count
    missing: Count
    questions: Count
    repairs: Count
    repaired: Count


class _Turned(TypedDict):
    share: Score
    interval: Interval


class _TurnedSides(TypedDict):
    n: Count
    mirrored: _Turned
    original: _Turned


class _Mirrored(TypedDict):
    n: Count
    mirrored: _Part
    original: _Part
    turned: _TurnedSides


class _Work(TypedDict):
    turns: NotNegative
    renders: NotNegative
    tokens_in: NotNegative
    tokens_out: NotNegative
    calls: NotRequired[NotNegative]


class _Figure(TypedDict):
    value: Number
    interval: Interval
    n: Count
    scenes: Count


class _Beliefs(TypedDict):
    radius_metres: NotNegative
    questions: Count
    without_truth: Count
    last: dict[str, _Figure]
    turns: list[dict[str, Any]]
    types: dict[str, dict[str, _Figure]]
    calibration: list[dict[str, Number]]
    changes: NotRequired[dict[str, dict[str, _Figure]]]
    revision: NotRequired[dict[str, _Figure]]
    note: NotRequired[str]


class _Probes(TypedDict):
    asked: Count
    unreadable: Count
    failed: Count
    calls: Count
    tokens: Tokens
    seconds: NotNegative


class _Totals(TypedDict):
    turns: Count
    calls: Count
    renders: Count
    tokens: Tokens
    seconds: dict[str, NotNegative]
    per_question: NotRequired[_Work | None]
    probes: NotRequired[_Probes]


class Row(TypedDict):
    """The row of a question; its names are the columns of `results.csv`."""

    question_id: str
    type: str
    dataset: str
    scene: str
    status: str
    answer_text: str | None
    answer: str | None
    truth: str | None
    score: Score
    turns: Count
    renders: NotRequired[Count]
    tokens_in: NotRequired[Count]
    tokens_out: NotRequired[Count]
    change: NotRequired[str]


class _Share(TypedDict):
    share: Score
    n: Count
    interval: Interval


class _Difference(TypedDict):
    points: Score
    interval: Interval
    p: Score
    p_holm: NotRequired[Score]


class _CausalPart(TypedDict):
    n: Count
    must: Count
    unanswered: Count
    both_right: _Share
    follows: _Share
    keeps: _Share
    stays: _Share
    strays: _Share
    revised: NotRequired[_Share]
    clung: NotRequired[_Share]
    original: Score
    changed: Score
    difference: _Difference


class _Causal(_CausalPart):
    changes: dict[str, _CausalPart]
    types: dict[str, _CausalPart]
    left_out: dict[str, dict[str, Count]]


class Results(_Overall):
    """`results.json`."""

    status: str
    notes: list[str]
    parser: Literal["official"]
    datasets: dict[str, _Overall]
    debiased: _Overall | None
    official_over_scored: _TypeScore
    official_missing_as_zero: Score
    official_raw: NotRequired[Score]
    parsers: dict[str, _ParserScores]
    chance: _Chance
    beliefs: NotRequired[_Beliefs]
    counts: _Counts
    metrics: NotRequired[dict[str, _Metric]]
    mirrored: NotRequired[_Mirrored]
    causal: NotRequired[_Causal]
    reuse: NotRequired[str]
    totals: _Totals
    questions: list[Row]
