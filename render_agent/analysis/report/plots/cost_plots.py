"""Plots of what a run cost: time, tokens, the size of its batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from render_agent.analysis.report.data import ReportData
from render_agent.analysis.report.plots import palette
from render_agent.analysis.report.plots.vector_plot import Plot, above, draw, from_zero
from render_agent.dialogue.state import QuestionState, Tokens

MOST_BARS = 300
"""So many marks a curve over the whole log has at the most."""


@dataclass(frozen=True, slots=True)
class TurnCost:
    """What all questions spent in the turn of one number: seconds, tokens, and how many took it.

    tried: pictures drawn to choose a move. shown: the others that were drawn.
    """

    turn: int
    questions: int
    rendering: float
    waiting: float
    generating: float
    read: int
    cached: int
    written: int
    shown: int
    tried: int


def cost_plots(report: ReportData) -> list[Plot]:
    """Return the plots of what the run cost."""
    by_turn = cost_by_turn(report)
    plots = (seconds(by_turn), tokens(by_turn), pictures(by_turn), batches(report))
    return [plot for plot in plots if plot is not None]


def seconds(costs: Sequence[TurnCost]) -> Plot | None:
    """Where the time of all turns went."""
    return _by_turn(
        "time",
        "Where the time went, by turn",
        "s",
        costs,
        {
            "rendering": (palette.GREEN, [cost.rendering for cost in costs]),
            "waiting": (palette.PALE, [cost.waiting for cost in costs]),
            "generating": (palette.BLUE, [cost.generating for cost in costs]),
        },
        "Summed over questions, so more than the time on the clock where they ran side by side. A turn"
        " has its share of the time of its batch.",
    )


def tokens(costs: Sequence[TurnCost]) -> Plot | None:
    """Which tokens were read, known already, and written."""
    return _by_turn(
        "tokens",
        "Tokens, by turn",
        "tokens",
        costs,
        {
            "read anew": (palette.ORANGE, [cost.read for cost in costs]),
            "known already": (palette.PALE, [cost.cached for cost in costs]),
            "written": (palette.BLUE, [cost.written for cost in costs]),
        },
        "Summed over questions. Known already: what the engine kept of earlier turns.",
    )


def pictures(costs: Sequence[TurnCost]) -> Plot | None:
    """Which pictures were drawn; None where none was drawn to choose a move."""
    if not any(cost.tried for cost in costs):
        return None
    return _by_turn(
        "pictures",
        "Pictures drawn, by turn",
        "pictures",
        costs,
        {
            "to be shown": (palette.BLUE, [cost.shown for cost in costs]),
            "to choose a move": (palette.ORANGE, [cost.tried for cost in costs]),
        },
        "Summed over questions; each picture of a question once. What was drawn to choose the move that"
        " was made is shown in the turn after it, and not drawn again.",
    )


def batches(report: ReportData) -> Plot | None:
    """How large the batches were over the run."""
    pieces = batches_over_time(report)
    if not pieces or max(size for _, _, size in pieces) <= 1:
        return None
    colours = {"batched": palette.BLUE, "finishing": palette.ORANGE}

    def paint(axes: Any) -> None:
        for phase, colour in colours.items():
            edges, sizes = [0], [0.0]
            for piece_phase, end, size in pieces:
                edges.append(end)
                sizes.append(size if piece_phase == phase else 0.0)
            if any(sizes):
                axes.stairs(sizes[1:], edges, fill=True, color=colour, label=f"{phase} phase")
        axes.set_xlim(0, pieces[-1][1])
        axes.set_xlabel("turns of all questions, in the order of the log")
        axes.set_ylabel("questions in a batch")
        above(axes)

    phases = {phase: [b for p, b in report.batches if p == phase] for phase in colours}
    return draw(
        "batches",
        "Size of the batch that each turn was in",
        "A stepped area over the turns in the order of the log: how many questions their batch held.",
        paint,
        ("phase", "turns", "calls of the model", "mean batch of a turn", "largest"),
        [
            (phase, len(all_), round(sum(1 / b for b in all_)), round(sum(all_) / len(all_), 1), max(all_))
            for phase, all_ in phases.items()
            if all_
        ],
        note="Batched: a turn of all active questions together. Finishing: each at its own pace.",
    )  # fmt: skip


def _by_turn(
    name: str,
    title: str,
    unit: str,
    costs: Sequence[TurnCost],
    parts: dict[str, tuple[str, Sequence[float]]],
    note: str,
) -> Plot | None:
    """Return stacked bars of what the turns cost, None where nothing was counted."""
    totals = {part: sum(values) for part, (_, values) in parts.items()}
    if not any(totals.values()):
        return None

    def paint(axes: Any) -> None:
        turns, bottom = [cost.turn + 1 for cost in costs], [0.0] * len(costs)
        for part, (colour, values) in parts.items():
            axes.bar(
                turns, values, bottom=bottom, color=colour, width=0.72,
                label=f"{part} {amount(totals[part])}{' s' if unit == 's' else ''}",
            )  # fmt: skip
            bottom = [a + b for a, b in zip(bottom, values, strict=True)]
        axes.set_xticks(turns)
        from_zero(axes, 0.08)
        axes.yaxis.set_major_formatter(lambda value, _: amount(value))
        axes.set_xlabel("turn")
        axes.set_ylabel("seconds" if unit == "s" else unit)
        above(axes)

    digits = 2 if unit == "s" else None
    return draw(
        name,
        title,
        f"Stacked bars, one a turn: {', '.join(parts)}, in {unit}.",
        paint,
        ("turn", "questions", *(f"{part}, {unit}" for part in parts)),
        [
            (cost.turn + 1, cost.questions, *(round(v[n], digits) for _, v in parts.values()))
            for n, cost in enumerate(costs)
        ],
        note=note,
    )


def amount(value: float) -> str:
    """Return a number as short as it can be said: 0.034, 12, 3.4, 56k, 7.8M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            scaled = value / (1e3 if unit == "k" else limit)
            return f"{scaled:.{0 if scaled >= 100 else 1}f}".removesuffix(".0") + unit
    if abs(value) < 1:
        return f"{value:.2g}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}".removesuffix(".0")


def cost_by_turn(report: ReportData) -> list[TurnCost]:
    """Return the cost of all questions by turn; a turn has its share of its batch's time."""
    longest = max((len(state.turns) for state in report.states), default=0)
    drawn = [pictures_by_turn(state) for state in report.states]
    costs = []
    for number in range(longest):
        turns = [state.turns[number] for state in report.states if len(state.turns) > number]
        spent = Tokens.total(turn.tokens for turn in turns)
        costs.append(
            TurnCost(
                number,
                len(turns),
                sum(turn.seconds.rendering for turn in turns),
                sum(turn.seconds.waiting for turn in turns),
                sum(turn.seconds.generating / turn.batch_size for turn in turns),
                spent.prompt - spent.cached,
                spent.cached,
                spent.reply,
                sum(counts[number][0] for counts in drawn if len(counts) > number),
                sum(counts[number][1] for counts in drawn if len(counts) > number),
            )
        )
    return costs


def pictures_by_turn(state: QuestionState) -> list[tuple[int, int]]:
    """Return the numbers of pictures that every turn of a question drew: to be shown, and to choose a move."""
    known: set[str] = set()
    numbers = []
    for turn in state.turns:
        shown = {view.file for view in turn.views} - known
        tried = turn.drawn - known - shown
        known |= turn.drawn
        numbers.append((len(shown), len(tried)))
    return numbers


def batches_over_time(report: ReportData) -> list[tuple[str, int, float]]:
    """Return phase, place in the log of the last turn, and mean size of batch of consecutive turns.

    A run of turns of one phase becomes so many pieces that there are at most MOST_BARS and a few.
    """
    piece = max(1, -(-len(report.batches) // MOST_BARS))
    pieces: list[tuple[str, int, float]] = []
    sizes: list[int] = []
    for end, (phase, size) in enumerate(report.batches, start=1):
        sizes.append(size)
        after = report.batches[end][0] if end < len(report.batches) else None
        if len(sizes) == piece or after != phase:
            pieces.append((phase, end, sum(sizes) / len(sizes)))
            sizes = []
    return pieces
