"""Figures as a person reads them on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from render_agent.score.means import DIRECTION, MACRO
from render_agent.score.official import DIRECTION_TYPES, ORDER
from render_agent.score.summary import OFFICIAL

COUNTED = (
    "answered",
    "exhausted",
    "failed",
    "missing",
    "active",
    "repaired",
    "predictions",
    "empty",
)
"""The counts that a caption shows, in this order."""

ALWAYS = ("answered", "failed")
"""Those of them that are shown when they are 0."""

SHOWN = 20
"""So many changed questions are listed."""


def score_table(found: Mapping[str, Any]) -> Table:
    """Return the scores by type, with every named mean below and what they are in the caption."""
    parser = found.get("parser", OFFICIAL)
    by = "VSI-Bench's definitions" if parser == OFFICIAL else f"answers read as {parser} does"
    table = _table(f"Score by {by}{'' if found['status'] == 'complete' else ' (PARTIAL)'}")
    for name in ("question type", "n", "score", "95 % interval", "random", "frequent"):
        table.add_column(name, justify="left" if name == "question type" else "right")
    within = found["intervals"]
    chance = found.get("chance", {})
    for name, (score, number) in _by_type(found).items():
        if name == ORDER:
            table.add_section()
        label = f"  {name}" if name in DIRECTION_TYPES else name
        levels = (chance.get(baseline, {}).get(name) for baseline in ("random", "frequency"))
        bounds = interval(within.get(name))
        table.add_row(label, str(number), figure(score), bounds, *map(figure, levels))
    table.add_section()
    for label, score, bounds in _overall(found):
        table.add_row(label, "", figure(score), interval(bounds))
    table.caption = _caption(found)
    return table


def comparison_table(found: Mapping[str, Any]) -> Table:
    """Return both scores, their difference, its interval and both tests, by mean and type."""
    table = _table(f"{found['b']} against {found['a']}, {found['n']} questions")
    for name in ("", "a", "b", "b − a", "95 % interval", "p", "McNemar"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    tests = found["mcnemar"]
    for name, entry in found["differences"].items():
        test = tests.get("choices" if name == OFFICIAL else name)
        counts = f"{test['only_a']}:{test['only_b']} p={test['p']:.3f}" if test else ""
        table.add_row(
            name,
            figure(entry["a"]),
            figure(entry["b"]),
            figure(entry["difference"]),
            interval(entry["interval"]),
            "–" if entry["p"] is None else f"{entry['p']:.3f}",
            counts,
        )
    table.caption = (
        "interval and p: bootstrap over scenes · McNemar: choices right in one run only (a:b), exact;"
        " in the row official all choices together"
    )
    return table


def changed_table(found: Mapping[str, Any]) -> Table:
    """Return the first of the questions that are right in one run and wrong in the other."""
    changed = found["changed"]
    gained = sum(entry["b"]["score"] > entry["a"]["score"] for entry in changed)
    table = _table(
        f"{len(changed)} questions changed sides: {gained} won, {len(changed) - gained} lost"
    )
    for name in ("question", "type", "scene", "truth", "a", "b"):
        table.add_column(name)
    for entry in changed[:SHOWN]:
        answers = [str(entry[side]["answer"] or "–") for side in ("a", "b")]
        table.add_row(
            entry["question_id"], entry["type"], entry["scene"], str(entry["truth"]), *answers
        )
    if len(changed) > SHOWN:
        table.caption = f"and {len(changed) - SHOWN} more (--json has all)"
    return table


def figure(score: float | None) -> str:
    """Return a figure with one decimal, a dash for none."""
    return "–" if score is None else f"{score:.1f}"


def interval(bounds: list[float] | None) -> str:
    """Return an interval with one decimal, nothing for none."""
    return "" if bounds is None else f"{bounds[0]:.1f} … {bounds[1]:.1f}"


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", caption_justify="left")


def _by_type(found: Mapping[str, Any]) -> dict[str, tuple[float | None, int]]:
    """Return score and number of every type, the kinds of direction below their task, order last."""
    counts = found["counts"].get("types", {})
    types = {
        name: (entry["score"], entry["n"]) if isinstance(entry, Mapping) else (entry, counts[name])
        for name, entry in found["types"].items()
    }
    rows: dict[str, tuple[float | None, int]] = {}
    directions = {name: types[name] for name in DIRECTION_TYPES if name in types}
    for name, entry in types.items():
        if name in directions and DIRECTION not in rows:
            number = sum(n for _, n in directions.values())
            rows |= {DIRECTION: (found["tasks"][DIRECTION], number), **directions}
        elif name != ORDER:
            rows[name] = entry
    return rows | {name: types[name] for name in (ORDER,) if name in types}


def _overall(found: Mapping[str, Any]) -> list[tuple[str, float | None, list[float] | None]]:
    """Return a label, a figure and its interval for every overall figure."""
    within = found["intervals"]
    macro = OFFICIAL if found.get("parser", OFFICIAL) == OFFICIAL else MACRO
    over = found.get("official_over_scored", {"score": found[OFFICIAL]})
    rows = [("official (mean of the tasks)", over["score"], within.get(OFFICIAL))]
    if found[OFFICIAL] is None and over["score"] is not None:
        rows = [
            ("official, over the scored questions only", over["score"], within.get(OFFICIAL)),
            ("official, the others as 0", found["official_missing_as_zero"], None),
        ]
    if macro == MACRO:
        rows.append((f"mean of the tasks, {found['parser']}", found[MACRO], within.get(MACRO)))
    if "official_raw" in found:
        rows.append(("official parser on the raw answers", found["official_raw"], None))
    for name, label in (
        ("without_order", "mean of the tasks but appearance order"),
        ("micro", "micro (mean over questions)"),
        ("mean_of_types", "mean of the types"),
    ):
        rows.append((label, found[name], within.get(name)))
    debiased = found.get("debiased")
    if debiased and debiased["n"] < found["n"]:
        label = f"debiased, {debiased['n']} questions"
        rows.append((label, debiased[macro], debiased["intervals"].get(macro)))
    for name, one in found["datasets"].items():
        if len(found["datasets"]) > 1:
            rows.append((f"{name}, {one['n']} questions", one[macro], one["intervals"].get(macro)))
    for name, other in found["parsers"].items():
        if name != found.get("parser"):
            rows.append((f"mean of the tasks, {name}'s parser", other[MACRO], None))
    return rows


def _caption(found: Mapping[str, Any]) -> str:
    counts = found["counts"]
    told = [f"{name} {counts[name]}" for name in COUNTED if counts.get(name)]
    told += [f"{name} 0" for name in ALWAYS if counts.get(name) == 0]
    return "\n".join([" · ".join(told), *found.get("notes", [])])
