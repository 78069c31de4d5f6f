"""The plots of the index: which there are for a run, and what each shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from render_agent.report import counts, palette
from render_agent.report.counts import Mean
from render_agent.report.data import ReportData
from render_agent.report.plots import Plot, above, draw
from render_agent.report.words import type_words


def behaviour(report: ReportData) -> list[Plot]:
    """Return the plots of what the questions did: turns used, what was seen, why they failed."""
    return _those(report, turns_used, coverage, causes, seen)


def costs(report: ReportData) -> list[Plot]:
    """Return the plots of what the run cost."""
    return _those(report, seconds, tokens, batches)


def _those(report: ReportData, *figures: Callable[[ReportData], Plot | None]) -> list[Plot]:
    return [plot for figure in figures if (plot := figure(report)) is not None]


def turns_used(report: ReportData) -> Plot | None:
    """Right and wrong questions by the turns they used."""
    found = counts.by_turns_used(report)
    if not found:
        return None
    turns = list(found)
    shares = [counts.wilson(c["right"], c.total()) for c in found.values()]

    def paint(axes: Any) -> None:
        right = [c["right"] for c in found.values()]
        wrong = [c["wrong"] for c in found.values()]
        axes.bar(turns, right, color=palette.RIGHT, label="right", width=0.72)
        axes.bar(turns, wrong, bottom=right, color=palette.WRONG, label="wrong", width=0.72)
        for turn, share, height in zip(
            turns, shares, map(sum, zip(right, wrong, strict=True)), strict=True
        ):
            axes.annotate(
                f"{share.value:.0%}", (turn, height), (0, 3), textcoords="offset points",
                ha="center", fontsize=8.5,
            )  # fmt: skip
        axes.set_xticks(turns)
        axes.margins(y=0.12)
        axes.set_xlabel("turns used")
        axes.set_ylabel("questions")
        above(axes)

    return draw(
        "turns",
        "Right and wrong by turns used",
        "Bars of the number of questions by turns used, right ones below wrong ones.",
        paint,
        ("turns", "right", "wrong", "right, %", "95 % interval, %"),
        [
            (turn, c["right"], c["wrong"], _percent(share.value), _range(share))
            for (turn, c), share in zip(found.items(), shares, strict=True)
        ],
        note="Above each bar the share that is right: a score of at least 50 %. Its interval in the"
        " table is Wilson's over questions.",
    )


def coverage(report: ReportData) -> Plot | None:
    """What share of the room's surface was seen after every turn, right against wrong."""
    found = counts.coverage_by_turn(report)
    if not found:
        return None
    colours = {"right": palette.RIGHT, "wrong": palette.WRONG}

    def paint(axes: Any) -> None:
        for side, means in found.items():
            turns = range(1, len(means) + 1)
            colour = colours[side]
            axes.plot(
                turns, [100 * m.value for m in means], color=colour,
                marker="o" if side == "right" else "s", ms=3.5,
                ls="-" if side == "right" else "--", label=f"{side} (n = {means[0].n})",
            )  # fmt: skip
            if means[0].low is not None:
                low, high = ([100 * (getattr(m, e) or 0) for m in means] for e in ("low", "high"))
                axes.fill_between(turns, low, high, color=colour, alpha=0.18, lw=0)
        axes.set_ylim(0, None)
        axes.grid(axis="y")
        axes.set_xlabel("turn")
        axes.set_ylabel("surface seen so far, %")
        axes.xaxis.get_major_locator().set_params(integer=True)
        above(axes)

    return draw(
        "coverage",
        "Share of the room's visible surface seen, by turn",
        "Two rising curves of the mean share of the surface seen, for right and for wrong questions.",
        paint,
        ("turn", *(f"{side}, %" for side in found), *(f"{side}, 95 % interval" for side in found)),
        [
            (
                turn + 1,
                *(_percent(means[turn].value) for means in found.values()),
                *(_range(means[turn]) for means in found.values()),
            )
            for turn in range(max(map(len, found.values())))
        ],
        note="Means over questions with 95 % intervals. A question that has ended keeps what it had"
        " seen, so that every point is over the same questions.",
    )


def causes(report: ReportData) -> Plot | None:
    """Why questions went as they did, by type."""
    found = counts.causes_by_type(report)
    met = [cause for cause in palette.CAUSES if any(c[cause] for c in found.values())]
    if set(met) <= {"open"}:
        return None

    def paint(axes: Any) -> None:
        places = range(len(found))
        left = [0.0] * len(found)
        for cause in met:
            shares = [100 * c[cause] / c.total() for c in found.values()]
            axes.barh(
                places, shares, left=left, color=palette.CAUSES[cause], label=cause, height=0.72
            )
            left = [a + b for a, b in zip(left, shares, strict=True)]
        axes.set_yticks(
            places, [f"{type_words(kind)} (n = {c.total()})" for kind, c in found.items()]
        )
        axes.invert_yaxis()
        axes.set_xlim(0, 100)
        axes.set_xlabel("questions, %")
        above(axes, 4)

    return draw(
        "causes",
        "Why: causes by type of question",
        "Stacked bars, one a type, of the share of questions with each cause.",
        paint,
        ("type", "n", *met),
        [(type_words(kind), c.total(), *(c[cause] for cause in met)) for kind, c in found.items()],
        height=1.3 + 0.27 * len(found),
        note="Never looked: it used its turns and something that the question names was never seen"
        " well. Stopped early: the same, with turns left. Misjudged: all of it was seen well, and the"
        " answer is wrong. Protocol: no answer could be read.",
    )


def seen(report: ReportData) -> Plot | None:
    """Whether questions were right where what they name was seen well, and where not."""
    found = counts.right_when_seen(report)
    if not found:
        return None
    sides = (
        ("all of it seen well", palette.BLUE, "o", -0.16),
        ("something never seen well", palette.ORANGE, "s", 0.16),
    )

    def paint(axes: Any) -> None:
        for side, (label, colour, mark, shift) in enumerate(sides):
            points = [(y + shift, both[side]) for y, both in enumerate(found.values())]
            known = [(y, point) for y, point in points if point.n]
            for y, point in known:
                ends = [100 * (point.low or 0), 100 * (point.high or 0)]
                axes.plot(ends, [y, y], color=colour, lw=1.5, solid_capstyle="butt")
            axes.plot(
                [100 * point.value for _, point in known], [y for y, _ in known], mark,
                color=colour, ms=4.5, label=label, clip_on=False,
            )  # fmt: skip
        names = [f"{type_words(kind)} (n = {a.n + b.n})" for kind, (a, b) in found.items()]
        axes.set_yticks(range(len(found)), names)
        axes.set_ylim(len(found) - 0.4, -0.6)
        axes.set_xlim(0, 100)
        axes.grid(axis="x")
        axes.set_xlabel("right, %")
        above(axes, 2)

    return draw(
        "seen",
        "Right where what is named was seen, and where not",
        "Two dots a type with intervals: the share right of questions whose named objects were all seen"
        " well, and of those where something was not.",
        paint,
        (
            "type",
            "seen: n",
            "right, %",
            "95 % interval",
            "not seen: n",
            "right, %",
            "95 % interval",
        ),
        [
            (
                type_words(kind),
                *(
                    cell
                    for side in both
                    for cell in (side.n, _percent(side.value) if side.n else "–", _range(side))
                ),
            )
            for kind, both in found.items()
        ],
        height=1.3 + 0.27 * len(found),
        note="Wilson's intervals over questions. Different questions fall on either side, so a difference"
        " is a hint, not a proof.",
    )


def seconds(report: ReportData) -> Plot | None:
    """Where the time of all turns went."""
    found = counts.cost_by_turn(report)
    return _by_turn(
        "time",
        "Where the time went, by turn",
        "s",
        found,
        {
            "rendering": (palette.GREEN, [cost.rendering for cost in found]),
            "waiting": (palette.PALE, [cost.waiting for cost in found]),
            "generating": (palette.BLUE, [cost.generating for cost in found]),
        },
        "Summed over questions, so more than the time on the clock where they ran side by side. A turn"
        " has its share of the time of its batch.",
    )


def tokens(report: ReportData) -> Plot | None:
    """Which tokens were read, known already, and written."""
    found = counts.cost_by_turn(report)
    return _by_turn(
        "tokens",
        "Tokens, by turn",
        "tokens",
        found,
        {
            "read anew": (palette.ORANGE, [cost.read for cost in found]),
            "known already": (palette.PALE, [cost.cached for cost in found]),
            "written": (palette.BLUE, [cost.written for cost in found]),
        },
        "Summed over questions. Known already: what the engine kept of earlier turns.",
    )


def batches(report: ReportData) -> Plot | None:
    """How large the batches were over the run."""
    found = counts.batches_over_time(report)
    if not found or max(size for _, _, size in found) <= 1:
        return None
    colours = {"batched": palette.BLUE, "finishing": palette.ORANGE}

    def paint(axes: Any) -> None:
        for phase, colour in colours.items():
            edges, sizes = [0], [0.0]
            for met, place, size in found:
                edges.append(place)
                sizes.append(size if met == phase else 0.0)
            if any(sizes):
                axes.stairs(sizes[1:], edges, fill=True, color=colour, label=f"{phase} phase")
        axes.set_xlim(0, found[-1][1])
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
    found: Sequence[counts.TurnCost],
    parts: dict[str, tuple[str, Sequence[float]]],
    note: str,
) -> Plot | None:
    """Return stacked bars of what the turns cost, None where nothing was counted."""
    totals = {part: sum(values) for part, (_, values) in parts.items()}
    if not any(totals.values()):
        return None

    def paint(axes: Any) -> None:
        turns, bottom = [cost.turn + 1 for cost in found], [0.0] * len(found)
        for part, (colour, values) in parts.items():
            axes.bar(
                turns, values, bottom=bottom, color=colour, width=0.72,
                label=f"{part} {amount(totals[part])}{' s' if unit == 's' else ''}",
            )  # fmt: skip
            bottom = [a + b for a, b in zip(bottom, values, strict=True)]
        axes.set_xticks(turns)
        axes.margins(y=0.08)
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
            for n, cost in enumerate(found)
        ],
        note=note,
    )


def amount(value: float) -> str:
    """Return a number as short as it can be said: 12, 3.4, 56k, 7.8M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            scaled = value / (1e3 if unit == "k" else limit)
            return f"{scaled:.{0 if scaled >= 100 else 1}f}".removesuffix(".0") + unit
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}".removesuffix(".0")


def _percent(share: float) -> float:
    return round(100 * share, 1)


def _range(found: Mean) -> str:
    if found.low is None or found.high is None:
        return "–"
    return f"{100 * found.low:.1f} … {100 * found.high:.1f}"
