"""The questions of runs that an export writes."""

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
    """Return the runs with the chosen questions only; of runs with the same name the later ones get ~2, ~3, …

    Args:
        runs: The runs.
        ids: Question ids; all if empty.
        types: Question types; all if empty.
        least_score: Minimum score, 0 to 1, in the room as it was shown, which may be mirrored.

    Raises:
        UsageError: An id or a type is in none of the runs.
        RunLogError: A log is damaged.
    """
    rows = [row for run in runs for row in run.rows.values()]
    for wanted, known, noun in (
        (ids, {row.question_id for row in rows}, "question with the id"),
        (types, {row.type for row in rows}, "question of the type"),
    ):
        if unknown := [name for name in wanted if name not in known]:
            names = ", ".join(_distinct_names(runs))
            raise UsageError(f"there is no {noun} {unknown[0]!r} in {names}")
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


def _reaches(score: float | None, least: float) -> bool:
    return score is not None and score >= least


def _distinct_names(runs: Sequence[RunData]) -> list[str]:
    """Return a name for every run; runs of several output folders may have begun in the same second."""
    taken: Counter[str] = Counter()
    names = []
    for run in runs:
        taken[run.name] += 1
        names.append(run.name + (f"~{taken[run.name]}" if taken[run.name] > 1 else ""))
    return names
