"""The score that a judge gives a picture, as rows for other programs and as a table for people."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from rich.table import Table
from rich.text import Text

from render_agent.agents.verifiers.judge.rubric import Mode
from render_agent.dialogue.state import Tokens
from render_agent.engines.base import Reply, Scores
from render_agent.errors import SetupError, os_errors
from render_agent.text.console import plain_table


class Fault(Enum):
    """Where the reason lies that a picture has no score; alone: no other is there to be compared with."""

    PICTURE = "picture"
    REPLY = "reply"
    ENGINE = "engine"
    ALONE = "alone"


Answer = TypeVar("Answer", Reply, Scores)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why an answer of the engine says nothing."""

    reason: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What a picture is found to be by one criterion: 0 to 1, and why."""

    value: float
    reason: str


@dataclass(frozen=True, slots=True)
class Score:
    """How well one picture helps, 0 to 1; None, never a number, where that could not be found out.

    reason: why there is no value; empty where there is one. fault: where that lies. criteria: by
    name, in mode json. support: what the value rests on: in mode yes the probability that a reply
    begins with yes or no at all, in mode pairwise the share of its comparisons in which both orders
    say the same. tokens: of all requests of which it is made; those of a comparison are shared by
    its two pictures. seconds: its share of their batches' time.
    """

    value: float | None
    reason: str = ""
    fault: Fault | None = None
    criteria: Mapping[str, Finding] = field(default_factory=dict)
    support: float | None = None
    tokens: Tokens = Tokens()
    seconds: float = 0.0


def score_of(answer: Answer, read: Callable[[Answer], Score | Unreadable]) -> Score:
    """Return the score that `read` takes from an engine's answer, with tokens and seconds; a fault where it has none."""
    if answer.error is not None:
        score = Score(None, answer.error, Fault.ENGINE)
    elif isinstance(read_score := read(answer), Unreadable):
        score = Score(None, read_score.reason, Fault.REPLY)
    else:
        score = read_score
    return replace(score, tokens=answer.tokens, seconds=answer.seconds / answer.batch_size)


def counts(scores: Iterable[Score]) -> dict[str, int]:
    """Return the number of judged pictures, and of the others by fault."""
    numbers = {"judged": 0, **{fault.value: 0 for fault in Fault}}
    for score in scores:
        numbers["judged" if score.fault is None else score.fault.value] += 1
    return numbers


SUPPORT = {"yes": "P(yes or no)", "pairwise": "orders agree"}
"""What a score's support is called, by mode; json has none."""


def rows_of(
    names: Sequence[str], scores: Sequence[Score], criteria: Sequence[str]
) -> list[dict[str, Any]]:
    """Return a row a picture: its score, what it rests on, every criterion with its reason, what it took.

    Entries that there are none of are None. criteria: the names of all, so that rows are alike.
    """
    rows = []
    for name, score in zip(names, scores, strict=True):
        row: dict[str, Any] = {
            "picture": name,
            "score": score.value,
            "support": score.support,
            "fault": score.fault and score.fault.value,
            "why_not": score.reason or None,
        }
        for criterion in criteria:
            finding = score.criteria.get(criterion)
            row[f"criteria.{criterion}"] = finding.value if finding else None
            row[f"criteria.{criterion}.reason"] = finding.reason if finding else None
        row |= {
            "tokens_in": score.tokens.prompt,
            "tokens_out": score.tokens.reply,
            "seconds": round(score.seconds, 6),
        }
        rows.append(row)
    return rows


def totals(scores: Sequence[Score]) -> dict[str, Any]:
    """Return the counts of judged pictures and faults, and the tokens and seconds of all."""
    return {
        **counts(scores),
        "tokens_in": sum(score.tokens.prompt for score in scores),
        "tokens_out": sum(score.tokens.reply for score in scores),
        "seconds": round(sum(score.seconds for score in scores), 6),
    }


def check_writable(path: Path) -> None:
    """SetupError where a file cannot be written; tried before a model works for long."""
    with os_errors(SetupError, f"write {path}"), path.open("a", encoding="utf-8"):
        pass


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows with a line of names above them. SetupError where that fails."""
    with (
        os_errors(SetupError, f"write {path}"),
        path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
    ):
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def judge_table(
    rows: Sequence[Mapping[str, Any]],
    figures: Mapping[str, Any],
    criteria: Sequence[str],
    mode: Mode,
    title: str,
) -> Table:
    """Return rows as `rows_of` has them, with the reason where there is no score; figures: their `totals`."""
    table = plain_table(Text(title))
    wrong = any(row["fault"] for row in rows)
    columns = {"score": "score", **({SUPPORT[mode]: "support"} if mode in SUPPORT else {})}
    columns |= {name: f"criteria.{name}" for name in criteria}
    table.add_column("picture", overflow="fold")
    for name in columns:
        table.add_column(name, justify="right")
    if wrong:
        table.add_column("why there is none", overflow="fold")
    for row in rows:
        cells = ["–" if row[name] is None else f"{row[name]:.3f}" for name in columns.values()]
        # File names and reasons may hold what a terminal, or rich, would take for commands.
        reason = [Text(row["why_not"] or "")] if wrong else []
        table.add_row(Text(row["picture"]), *cells, *reason)
    table.caption = Text(_caption(len(rows), figures))
    return table


def _caption(count: int, figures: Mapping[str, Any]) -> str:
    parts = [f"judged {figures['judged']} of {count}"]
    parts += [
        f"{words} {figures[name]}"
        for name, words in (
            ("picture", "pictures that cannot be read"),
            ("reply", "replies that cannot be read"),
            ("engine", "failed"),
            ("alone", "nothing to compare with"),
        )
        if figures[name]
    ]
    parts.append(f"tokens in {figures['tokens_in']:,}, out {figures['tokens_out']:,}")
    parts.append(f"{figures['seconds']:.1f} s of the engine")
    return " · ".join(parts)
