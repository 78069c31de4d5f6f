"""What the arms of the grid say when set against each other: margins, differences, left and right, verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from render_agent.dialogue.answer import letters
from render_agent.dialogue.state import Question
from render_agent.observation.stress.mirrored import (
    SIDE_WORD,
    mirrored_truth,
    names_sides,
    sides_exchanged,
)
from render_agent.score.comparison import compare
from render_agent.score.means import MACRO, MICRO, Scored
from render_agent.score.official import CHOICE_TYPES
from render_agent.score.summary import OFFICIAL, summary
from training.grid import (
    BLACK,
    BLIND,
    FOUR_VIEWS,
    FREE,
    FREQUENCY,
    MAP,
    NO_GUIDE,
    ONE_VIEW,
    RANDOM,
    RANDOM_WALK,
)
from training.pooled import Pooled

PAIRS = (
    (FREE, BLIND),
    (FREE, FREQUENCY),
    (FREE, RANDOM),
    (FREE, ONE_VIEW),
    (FREE, FOUR_VIEWS),
    (FREE, MAP),
    (FREE, RANDOM_WALK),
    (FREE, BLACK),
    (BLACK, BLIND),
    (FREE, NO_GUIDE),
)
"""Arms that are set against each other, question by question: the first less the second."""

LEAST_QUESTIONS, LEAST_MARGIN, LEAST_GAIN, LEAST_WELL_FORMED = 500, 15.0, 5.0, 95.0
MOST_WEIGHTS, MOST_BYTES = 12_000_000, 25_000_000

Entry = Mapping[str, Any]
Arms = Mapping[str, Pooled]


def differences(arms: Arms) -> list[dict[str, Any]]:
    """Return how much more each first of PAIRS scores than its second, in points: overall and by type."""
    return [_difference(arms[a], arms[b]) for a, b in PAIRS if a in arms and b in arms]


def _difference(more: Pooled, less: Pooled) -> dict[str, Any]:
    found = compare(less.side(), more.side())
    types = {name for name in found["differences"] if name in more.results["types"]}
    return {
        "more": more.label,
        "less": less.label,
        "n": found["n"],
        "overall": found["differences"].get(OFFICIAL, {}),
        "micro": found["differences"].get(MICRO, {}),
        "types": {
            name: found["differences"][name] for name in more.results["types"] if name in types
        },
    }


def margin(found: Sequence[Entry]) -> dict[str, Any]:
    """Return the margin over the better of blind and frequency, overall and for every type by itself.

    found: what `differences` returned.
    """
    against = [
        entry for entry in found if entry["more"] == FREE and entry["less"] in (BLIND, FREQUENCY)
    ]
    overall = max(against, key=lambda entry: _score(entry["overall"]))
    types = {}
    for name in overall["types"]:
        better = max(against, key=lambda entry: _score(entry["types"][name]))
        types[name] = {"over": better["less"], **better["types"][name]}
    return {"overall": {"over": overall["less"], **overall["overall"]}, "types": types}


def _score(entry: Entry) -> float:
    score = entry.get("a")
    return -1.0 if score is None else float(score)


def no_better(found: Entry) -> list[str]:
    """Return the types of which nothing shows that it answers them better than without looking.

    found: what `margin` returned. Those whose interval reaches down to 0, or that have none.
    """
    return [
        name
        for name, entry in found["types"].items()
        if entry["interval"] is None or entry["interval"][0] <= 0
    ]


def left_and_right(real: Pooled, mirrored: Pooled) -> dict[str, Any]:
    """Return what mirrored rooms do to answers, in percent and points.

    `figures`: those of the run itself. `scores`: the same questions as shown, mirrored less real.
    `follows`: of the questions of left and right, the score against what is right in the mirrored room less
    the score against what is right in the real one. `flips`: by type, see `flips`.
    """
    sided = [
        name
        for name, question in mirrored.questions.items()
        if names_sides(question) and mirrored_truth(question) is not None
    ]
    as_shown = mirrored.side("score_as_shown", sided)
    return {
        "figures": mirrored.results["mirrored"],
        "scores": compare(real.side(only=sided), as_shown)["differences"].get(MICRO, {}),
        "follows": compare(mirrored.side(only=sided), as_shown)["differences"].get(MICRO, {}),
        "flips": flips(real, mirrored),
    }


def flips(real: Pooled, mirrored: Pooled) -> dict[str, dict[str, Any]]:
    """Return by type, and of `all`, how often an answer changes sides with the room.

    Over the questions of left and right that were answered in both rooms. Of those whose right answer
    changes (`should`) and of those whose right answer stays (`stays`): their number `n`, and in percent the
    answers that named the exchanged side in the mirrored room (`flipped`) or the same thing (`same`);
    `interval`: that of `flipped`, over scenes. `right`: of those that should and were right in the real room.
    """
    other = {row["question_id"]: row for row in mirrored.rows}
    groups: dict[str, list[tuple[Question, str, str, float]]] = {}
    for row in real.rows:
        question, answer = real.questions[row["question_id"]], row["answer"]
        turned = other.get(row["question_id"], {}).get("answer")
        if names_sides(question) and answer and turned and mirrored_truth(question) is not None:
            case = (question, str(answer), str(turned), float(row["score"] or 0.0))
            groups.setdefault(question.type, []).append(case)
    everything = [case for cases in groups.values() for case in cases]
    ordered = {name: groups[name] for name in CHOICE_TYPES if name in groups}
    return {
        name: {
            "should": _flipped([case for case in cases if _changes(case[0])]),
            "stays": _flipped([case for case in cases if not _changes(case[0])]),
            "right": _flipped([case for case in cases if _changes(case[0]) and case[3] == 1]),
        }
        for name, cases in {**ordered, "all": everything}.items()
    }


def _changes(question: Question) -> bool:
    return mirrored_truth(question) != (question.truth or "").upper()


def _flipped(cases: Sequence[tuple[Question, str, str, float]]) -> dict[str, Any]:
    scored = []
    same = 0
    for question, answer, turned, _ in cases:
        options = letters(question.options)
        before, after = (options.get(letter, "").lower() for letter in (answer, turned))
        flipped = bool(SIDE_WORD.search(before)) and after == sides_exchanged(before)
        same += after == before
        scored.append(Scored(question.type, question.dataset, question.scene, float(flipped)))
    found = summary(scored, MACRO)
    return {
        "n": len(cases),
        "flipped": found[MICRO],
        "interval": found["intervals"].get(MICRO),
        "same": 100 * same / len(cases) if cases else None,
    }


def verdicts(record: Entry) -> list[dict[str, Any]]:
    """Return what the model was to reach, whether it did, and the figures; record: of `training.measure`."""
    arms = record["arms"]
    gains = {(entry["more"], entry["less"]): entry["overall"] for entry in record["differences"]}
    over = record["margin"]["overall"]
    gain, unlit, lit = gains[FREE, ONE_VIEW], gains[BLACK, BLIND], gains[FREE, BLACK]
    follows = record["left_and_right"]["follows"]
    again = record.get("again", {"differences": [], "margin": {"overall": {}}})
    sure = {(entry["more"], entry["less"]): entry["overall"] for entry in again["differences"]}

    def known(*entries: Entry) -> list[Entry] | None:
        """Return differences that have intervals, else none: those of before were too narrow, and nothing is judged by them."""
        return list(entries) if "again" not in record or all(map(_known, entries)) else None

    seen = known(sure.get((FREE, ONE_VIEW), gain))
    dark = known(sure.get((BLACK, BLIND), unlit), sure.get((FREE, BLACK), lit))
    turned = known(again.get("left_and_right", record["left_and_right"])["follows"])
    formed = arms[NO_GUIDE]["well_formed"]
    size = record["model"]
    lines = [
        (
            f"at least {LEAST_QUESTIONS} questions, all scored",
            arms[FREE]["n"] >= LEAST_QUESTIONS and arms[FREE]["n"] == record["questions"],
            f"{arms[FREE]['n']:,} of {record['questions']:,} in {arms[FREE]['scenes']} scenes",
        ),
        (
            f"overall at least {LEAST_MARGIN:.0f} points above the better of blind and frequency",
            _at_least(over, LEAST_MARGIN),
            f"{points(over)} above {over['over']}{_again(again['margin']['overall'])}",
        ),
        (
            f"at least {LEAST_GAIN:.0f} points above its own score with one view, interval without zero",
            seen and _at_least(gain, LEAST_GAIN) and _above_zero(*seen),
            f"{points(gain)}{_again(sure.get((FREE, ONE_VIEW), {}))}",
        ),
        (
            f"at least {LEAST_WELL_FORMED:.0f} % of its replies well-formed without a guide",
            formed["share"] is not None and formed["share"] >= LEAST_WELL_FORMED,
            f"{percent(formed['share'], formed['interval'])} of {formed['replies']:,}",
        ),
        (
            "black pictures: no better than blind, and worse than it sees",
            dark and _known(dark[0]) and not _above_zero(dark[0]) and _above_zero(dark[1]),
            f"black − blind {points(unlit)}{_again(sure.get((BLACK, BLIND), {}))}; free − black {points(lit)}{_again(sure.get((FREE, BLACK), {}))}",
        ),
        (
            "mirrored rooms: left and right follow the mirrored room, interval without zero",
            turned and _above_zero(*turned),
            f"{points(follows)} more against the mirrored truth than against the real one",
        ),
    ]
    if size.get("weights") is not None:
        lines.append(
            (
                f"at most {MOST_WEIGHTS / 1e6:.0f} M weights and {MOST_BYTES / 1e6:.0f} MB",
                size["weights"] <= MOST_WEIGHTS and size["bytes"] <= MOST_BYTES,
                f"{size['weights'] / 1e6:.2f} M, {size['bytes'] / 1e6:.1f} MB",
            )
        )
    return [
        {"line": line, "passed": None if passed is None else bool(passed), "figures": told}
        for line, passed, told in lines
    ]


def _again(entry: Entry) -> str:
    return f" (made again {points(entry)})" if entry else ""


def _at_least(entry: Entry, least: float) -> bool:
    found = entry.get("difference")
    return found is not None and found >= least


def _known(entry: Entry) -> bool:
    return entry.get("interval") is not None


def _above_zero(entry: Entry) -> bool:
    return _known(entry) and entry["interval"][0] > 0


def points(entry: Entry) -> str:
    """Return a difference in points with its interval, as it is written."""
    if entry.get("difference") is None:
        return "–"
    within = entry.get("interval")
    told = "" if within is None else f" ({within[0]:+.1f} … {within[1]:+.1f})"
    return f"{entry['difference']:+.1f}{told}"


def percent(share: float | None, within: Sequence[float] | None) -> str:
    """Return a share or a score in percent with its interval, as it is written."""
    if share is None:
        return "–"
    return f"{share:.1f}" + ("" if within is None else f" ({within[0]:.1f} … {within[1]:.1f})")
