"""The figures of `training.measure` as Markdown: for its own page, and for the model card."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from render_agent.analysis.report.words import type_words
from render_agent.score.means import MEAN_OF_TYPES, MICRO
from render_agent.score.summary import OFFICIAL
from render_agent.score.tables import figure, probability
from training.grid import FREE, NO_GUIDE, RANDOM
from training.outcomes import no_better, percent, points

Record = Mapping[str, Any]
Cells = Sequence[str]

_MEANS = (
    "Scores in percent by VSI-Bench's official definitions. Overall: the mean of its tasks, the three kinds"
    " of relative direction averaged first to one. {intervals}"
    " Differences are paired by question, in points. `free` begins with the map and a first view and then"
    " moves by its replies; `blind` is shown nothing; the others are shown what they are called, at once. `frequency` gives the commonest answer to each type,"
    " fitted on the truths of the very rooms that it is asked about: no blind guess, but its upper bound."
)


_INTERVALS = {
    "jackknife": "In brackets 95 % intervals by jackknife over scenes.",
    None: (
        "Without intervals: those of before were of the percentile bootstrap, which is too narrow, and these runs are"
        " not kept; below are the runs about the bundled rooms that were made again, with intervals by jackknife over scenes."
    ),
}


def means_words(record: Record) -> str:
    """Return what the figures are, and how their intervals were made."""
    return _MEANS.format(intervals=_INTERVALS[record["intervals"]])


def again_lines(record: Record) -> list[str]:
    """Return the runs that were made again, with intervals; nothing of a record that has its own."""
    if (again := record.get("again")) is None:
        return []
    return [
        f"{again['questions']} questions about {again['arms'][FREE]['scenes']} scenes, with 95 % intervals by jackknife over scenes:",
        "",
        *arm_lines(again),
        "",
        *type_lines(again, [label for label in again["arms"] if label != RANDOM]),
        "",
        *difference_lines(again),
        "",
        *margin_lines(again),
        "",
        *cannot_lines(again),
        "",
        f"    {again['command']}",
        "",
        *machine_lines(again),
        "",
    ]  # fmt: skip


def table(record: Record) -> str:
    """Return all figures as Markdown, the command first."""
    free = record["arms"][FREE]
    lines = [
        f"# How good the small model is{' (PARTIAL)' if record['limit'] else ''}",
        "",
        f"    {record['command']}",
        "",
        f"{record['questions']:,} questions about {free['scenes']} scenes: {rooms_words(record)}. Views of"
        " 320x240 pixels, float32, at most 9 turns, greedy.",
        "",
        *(verdict_lines(record) if "verdicts" in record else ["Only the runs that are finished."]),
        "",
        "## Scores",
        "",
        means_words(record),
        "",
        *arm_lines(record),
        "",
        "## By type",
        "",
        *type_lines(record),
        "",
        "## Differences",
        "",
        *difference_lines(record),
        "",
        *margin_lines(record),
        "",
        *cannot_lines(record),
        "",
        *(["## Made again, with intervals", "", *again_lines(record)] if "again" in record else []),
        *(
            ["## Mirrored rooms", "", *mirrored_lines(record), ""]
            if "left_and_right" in record
            else []
        ),
        *(
            ["## Replies without a guide", "", *well_formed_lines(record), ""]
            if NO_GUIDE in record["arms"]
            else []
        ),
        *machine_lines(record),
    ]
    return "\n".join(lines) + "\n"


def rooms_words(record: Record) -> str:
    """Return which rooms were asked about."""
    return "; ".join(
        f"{entry['name']} ({entry['questions']:,} about {entry['scenes']} scenes)"
        for entry in record["rooms"]
    )


def verdict_lines(record: Record) -> list[str]:
    """Return what was to be reached, and whether it was."""
    rows = [
        ({True: "PASS", False: "FAIL", None: "–"}[entry["passed"]], entry["line"], entry["figures"])
        for entry in record["verdicts"]
    ]
    return grid_lines(("", "what was to be reached", "measured"), rows, "")


def arm_lines(record: Record) -> list[str]:
    """Return the scores of every arm, and what a question took."""
    rows = []
    for label, arm in record["arms"].items():
        means, work = arm["means"], arm["work"]
        rows.append(
            (
                f"{label}",
                typed(arm["options"]),
                *(
                    percent(means[name]["score"], means[name]["interval"])
                    for name in (OFFICIAL, MICRO, MEAN_OF_TYPES)
                ),
                figure(arm["well_formed"]["share"]),
                figure(work.get("turns")),
                figure(work.get("pictures")),
                *(f"{work.get(name, 0):,.0f}" for name in ("tokens_in", "tokens_out")),
                f"{work.get('seconds', 0):.2f}",
            )
        )
    head = ("", "options", "overall", "mean of questions", "mean of types", "well-formed, %", "turns",
            "pictures", "tokens read", "written", "seconds")  # fmt: skip
    told = "Turns, pictures shown, tokens, and seconds of drawing and generating are those of a question."
    lacking = [
        f"{label}: {number} questions {words}."
        for label, arm in record["arms"].items()
        for name, words in (("failed", "failed and are not scored"), ("active", "are unfinished"))
        if (number := arm["counts"][name])
    ]
    return [*grid_lines(head, rows, "ll"), "", " ".join([told, *lacking])]


def type_lines(record: Record, labels: Sequence[str] | None = None) -> list[str]:
    """Return the score of every type in every arm, or in some."""
    arms = {label: record["arms"][label] for label in labels or record["arms"]}
    rows = [
        (
            type_words(name),
            f"{entry['n']:,}",
            *(
                percent(arm["types"][name]["score"], arm["types"][name]["interval"])
                for arm in arms.values()
            ),
        )
        for name, entry in record["arms"][FREE]["types"].items()
    ]
    return grid_lines(("type", "n", *arms), rows, "l")


def difference_lines(record: Record) -> list[str]:
    """Return every paired difference, overall and by type."""
    types = list(record["arms"][FREE]["types"])
    rows = [
        (
            f"{entry['more']} − {entry['less']}",
            f"{entry['n']:,}",
            points(entry["overall"]),
            probability(entry["overall"].get("p")),
            *(points(entry["types"].get(name, {})) for name in types),
        )
        for entry in record["differences"]
    ]
    return grid_lines(("", "n", "overall", "p", *map(type_words, types)), rows, "l")


def margin_lines(record: Record) -> list[str]:
    """Return by how much looking beats the better of blind and frequency, type by type."""
    found = record["margin"]
    rows = [
        ("overall", found["overall"]["over"], points(found["overall"])),
        *(
            (type_words(name), entry["over"], points(entry))
            for name, entry in found["types"].items()
        ),
    ]
    return [
        "Above the better of blind and frequency, chosen overall and for every type by itself:",
        "",
        *grid_lines(("", "better of the two", "margin"), rows, "ll"),
    ]


def cannot_lines(record: Record) -> list[str]:
    """Return the types of which nothing shows that the model answers them better than without looking."""
    types = record["margin"]["types"]
    found = no_better(record["margin"])
    if record["intervals"] is None:
        return []
    if not found:
        return [
            "Every type is answered better than by blind and frequency, no interval reaching down to 0."
        ]
    told = [
        f"- {type_words(name)}: {points(types[name])} above {types[name]['over']}, of"
        f" {record['arms'][FREE]['types'][name]['n']:,} questions"
        for name in found
    ]
    return [
        "Not shown to be answered better than without looking (the interval reaches down to 0):",
        "",
        *told,
    ]


def mirrored_lines(record: Record) -> list[str]:
    """Return what mirrored rooms do to answers of left and right."""
    found = record["left_and_right"]
    figures = found["figures"]
    lines = [
        f"{figures['n']:,} questions whose options name left or right"
        f" ({figures['excluded']} more are left out: what is right in the mirrored room is not known or not"
        " among the options). Mean of questions:",
        "",
        f"- mirrored, against what is right in the mirrored room: {_micro(figures['mirrored'])};"
        f" {points(found['scores'])} against the real rooms",
        f"- mirrored, against what is right in the real room: {_micro(figures['original'])};"
        f" it follows the mirrored room by {points(found['follows'])}",
        f"- answers that are right in the mirrored room, of the {figures['turned']['n']:,} whose right answer"
        f" changes: {_share(figures['turned']['mirrored'])}; that stayed with the real one:"
        f" {_share(figures['turned']['original'])}",
        "",
        "How often an answer changes sides with the room, in percent of questions answered in both (an answer"
        " that ignores the pictures never does; one drawn anew does in half of the easy ones):",
        "",
    ]
    rows = []
    for name, groups in found["flips"].items():
        should, stays, right = groups["should"], groups["stays"], groups["right"]
        rows.append(
            (
                type_words(name),
                f"{should['n']:,}",
                percent(should["flipped"], should["interval"]),
                figure(should["same"]),
                percent(right["flipped"], right["interval"]) + f" of {right['n']:,}",
                f"{stays['n']:,}",
                figure(stays["same"]),
            )
        )
    head = ("", "n that should", "flipped", "the same", "flipped, of those right in the real room",
            "n that should not", "the same")  # fmt: skip
    return [*lines, *grid_lines(head, rows, "l")]


def _micro(found: Record) -> str:
    return percent(found[MICRO], found["intervals"].get(MICRO))


def _share(found: Record) -> str:
    return percent(found["share"], found["interval"])


def well_formed_lines(record: Record) -> list[str]:
    """Return how many replies could be read without a guide, and what was wrong with the others."""
    formed = record["arms"][NO_GUIDE]["well_formed"]
    lines = [
        f"{percent(formed['share'], formed['interval'])} % of {formed['replies']:,} replies could be read;"
        f" {figure(formed['bare'])} % are one JSON object of the protocol's fields and nothing else;"
        f" {formed['cut_off']} were cut off by the limit of 512 tokens.",
    ]
    told = [f"- {number} times: {reason}" for reason, number in formed["reasons"].items()]
    return [*lines, *(["", *told] if told else [])]


def machine_lines(record: Record) -> list[str]:
    """Return on what it was measured."""
    commits = ", ".join(commit[:12] for commit in record["commits"])
    model = record["model"]
    digest = (
        f"Model {model['name']}, SHA-256 of its files {model['digest'][:16]}…; "
        if model["digest"]
        else ""
    )
    return [
        f"{digest}{'; '.join([*record['machines'], *record['versions']])}; commit {commits};"
        f" {record['when'][:10]}."
    ]


def typed(options: Mapping[str, Any]) -> str:
    """Return options as they are typed."""
    flags = (
        f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}")
        for name, value in options.items()
    )
    return f"`{' '.join(flags)}`"


def grid_lines(head: Cells, rows: Sequence[Cells], left: str) -> list[str]:
    """Return a table of Markdown; left: a letter for each column that is set to the left; "" sets all so."""
    many = len(left) or len(head)
    marks = ["---" if place < many else "--:" for place in range(len(head))]
    line: Callable[[Cells], str] = lambda cells: f"| {' | '.join(cells)} |"  # noqa: E731
    return [line(head), f"|{'|'.join(marks)}|", *map(line, rows)]
