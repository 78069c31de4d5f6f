"""`questions.js`: a compact row a question, for the table and the way from page to page."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from render_agent.analysis.report.data import ReportData
from render_agent.analysis.report.words import outcome
from render_agent.observation.picture_store import safe_name

COLUMNS = (
    "id", "page", "type", "dataset", "scene", "status", "outcome", "cause", "answer", "truth", "score",
    "turns", "coverage", "text",
)  # fmt: skip
"""The columns of a row. page: the file in questions/, without .html. score, coverage: percent."""

LISTED = ("type", "dataset", "scene", "status", "outcome", "cause")
"""Those of them of which few different texts are met: a row holds the text's place in a list."""


def question_rows(report: ReportData) -> list[dict[str, Any]]:
    """Return a row a question by COLUMNS, in the order of the run; None where nothing is known."""
    return [_row(report, state.id, state.question.text) for state in report.states]


def script(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str] = COLUMNS,
    listed: Collection[str] = LISTED,
) -> bytes:
    """Return `questions.js`, which sets window.REPORT; it is ASCII, whatever the texts hold.

    listed: the columns whose texts stand in a list, of which a row holds the place.
    """
    values = {name: sorted({row[name] for row in rows if row[name]}) for name in listed}
    places = {name: {text: n for n, text in enumerate(texts)} for name, texts in values.items()}
    compact = [
        [places[name].get(row[name]) if name in places else row[name] for name in columns]
        for row in rows
    ]
    data = {"columns": columns, "values": values, "rows": compact}
    return b"window.REPORT = " + json.dumps(data, separators=(",", ":")).encode() + b";\n"


def _row(report: ReportData, question_id: str, text: str) -> dict[str, Any]:
    row = report.rows[question_id]
    found = report.diagnoses.get(question_id)
    coverage = found.coverage if found else None
    return {
        "id": question_id,
        "page": safe_name(question_id),
        "type": row["type"],
        "dataset": row["dataset"],
        "scene": row["scene"],
        "status": row["status"],
        "outcome": outcome(row),
        "cause": str(found.cause) if found else None,
        "answer": row["answer"],
        "truth": row["truth"],
        "score": None if row["score"] is None else round(100 * row["score"], 1),
        "turns": row["turns"],
        "coverage": None if coverage is None else round(100 * coverage, 1),
        "text": text,
    }
