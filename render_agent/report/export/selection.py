"""Selection of the questions to export."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from render_agent.errors import UsageError
from render_agent.runs.read import RunData


def select_questions(
    runs: Sequence[RunData],
    ids: Collection[str] = (),
    types: Collection[str] = (),
    least_score: float | None = None,
) -> list[RunData]:
    """Return the runs, restricted to the selected questions. Duplicate run names get a suffix ~2, ~3, …"""
    rows = [row for run in runs for row in run.rows.values()]
    for wanted_values, known_values, noun in (
        (ids, {row.question_id for row in rows}, "question with id"),
        (types, {row.type for row in rows}, "question of type"),
    ):
        if unknown := [name for name in wanted_values if name not in known_values]:
            names = ", ".join(_distinct_names(runs))
            raise UsageError(f"no {noun} {unknown[0]!r} in {names}")
    return [
        run.select(
            [
                question_id
                for question_id, row in run.rows.items()
                if (not ids or question_id in ids)
                and (not types or row.type in types)
                and (least_score is None or _reaches(row.score_as_shown, least_score))
            ],
            name,
        )
        for name, run in zip(_distinct_names(runs), runs, strict=True)
    ]


def _reaches(score: float | None, minimum: float) -> bool:
    return score is not None and score >= minimum


def _distinct_names(runs: Sequence[RunData]) -> list[str]:
    """Return unique names; runs in different output folders can have the same name."""
    count: Counter[str] = Counter()
    names = []
    for run in runs:
        count[run.name] += 1
        names.append(run.name + (f"~{count[run.name]}" if count[run.name] > 1 else ""))
    return names
