"""The fields of `config.json` and `results.json` that readers rely on, and the format number of run folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NotRequired, TypedDict

from render_agent import __version__
from render_agent.engines.prices import Price
from render_agent.engines.sight_check import Finding, SightRecord
from render_agent.errors import RunLogError
from render_agent.runs.log.row import Row, Score
from render_agent.util.reasons import short_repr, truncate
from render_agent.util.safe_parse import Count, Number

FORMAT = 1  # increased when older versions cannot read a run folder or would misread it

Interval = tuple[Score, Score] | None


def check_format(path: Path, record: Any) -> None:
    """Raise RunLogError if this version cannot read a run folder."""
    fields = record if isinstance(record, dict) else {}
    number, program = fields.get("format"), truncate(str(fields.get("program")), 40)
    if type(number) is not int:
        raise RunLogError(
            f"{path} is not a run folder: its config.json has the format {short_repr(number, 40)}",
            "not a run",
        )
    # 0.1.0 used format 1 for something else
    if number == FORMAT and not program.startswith("0.1."):
        return
    if number > FORMAT:
        age, remedy = "newer", "Upgrade render_agent to read it."
    else:
        age, remedy = "older", "Use the version that wrote it, or start a new run."
    raise RunLogError(
        f"{path} was written by render_agent {program} in {age} format {short_repr(number, 40)}; render_agent"
        f" {__version__} reads only format {FORMAT} of 0.2.0 and later. {remedy}",
        f"{age} format",
    )


class EngineRecord(TypedDict):
    """The engine of a run. Engines may add fields."""

    name: str
    model: str | None
    note: NotRequired[str | None]


class WordingRecord(TypedDict):
    """The texts that the model reads. `model` is the model with its own wording; None for the general wording."""

    model: str | None
    version: NotRequired[str]
    sha256: str


Digests = dict[str, str | None]

# SHA-256 of the inputs of a run, by path or name within each section. Older runs lack some.
InputDigests = TypedDict(
    "InputDigests",
    {
        "prompt": NotRequired[str],
        "questions.jsonl": NotRequired[str],
        "questions": NotRequired[Digests],
        "annotations": NotRequired[Digests],
        "scans": NotRequired[Digests],
        "verifiers": NotRequired[Digests],
        "models": NotRequired[Digests],
        "policies": NotRequired[Digests],
    },
)


class StartCheckRecord(TypedDict):
    """The result of the check that precedes a run of a local model."""

    difference: Number
    tolerance: Number
    complete: bool
    caveats: list[str]
    device: dict[str, Any] | None


class Record(TypedDict):
    """Content of `config.json`; `RunConfig.from_json` reads the options in it."""

    program: str
    commit: str | None
    fingerprint: str
    config: dict[str, Any]
    engine: EngineRecord
    wording: WordingRecord
    choosing: dict[str, Any]
    notes: list[str]
    packages: NotRequired[dict[str, str]]
    sha256: InputDigests
    scan_parts: NotRequired[dict[str, list[str]]]  # of older runs
    selection: NotRequired[list[str]]
    questions_withheld: NotRequired[bool]
    price: NotRequired[Price | None]
    sight_checks: NotRequired[list[SightRecord]]
    start_checks: NotRequired[list[StartCheckRecord]]


class TypeScore(TypedDict):
    score: Score
    n: Count


class Counts(TypedDict):
    """Number of questions by status, of unreadable replies, and of restated answers."""

    active: Count
    answered: Count
    exhausted: Count
    failed: Count
    missing: Count
    questions: Count
    repairs: Count
    repaired: Count
    restated: NotRequired[Count]


class Totals(TypedDict):
    turns: Count
    calls: Count
    renders: Count
    tokens: dict[str, Count | None]
    seconds: dict[str, Number]


class Results(TypedDict):
    """Content of `results.json`."""

    status: str
    notes: list[str]
    official: Score
    official_raw: Score
    not_in_form: NotRequired[Count]
    without_order: Score
    micro: Score
    official_over_scored: TypeScore
    types: dict[str, TypeScore]
    intervals: dict[str, Interval]
    answering: NotRequired[dict[str, Any]]
    instruments: NotRequired[dict[str, Any]]
    adapted: NotRequired[dict[str, Any]]
    sight_check: NotRequired[Finding]
    datasets: dict[str, Any]
    score_by_images: NotRequired[list[dict[str, Any]]]
    views: NotRequired[dict[str, Any]]
    chance: dict[str, dict[str, Score]]
    baselines: NotRequired[dict[str, str]]
    counts: Counts
    totals: Totals
    cost_usd: NotRequired[Number | None]
    reproducible: NotRequired[bool]
    questions: list[Row]
