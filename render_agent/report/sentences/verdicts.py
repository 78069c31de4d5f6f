"""The verdict of a comparison, and what differs between its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from render_agent.report.sentences.facts import FACT_OPTIONS, facts_line, option_label, option_value
from render_agent.score.intervals import MIN_SCENES, SIGNIFICANT
from render_agent.score.means import WITHOUT_ORDER
from render_agent.score.summary import MEAN_NAMES, OFFICIAL_RAW, VSI_BENCH_SCORE, row_names
from render_agent.score.tables import format_signed, p_value_phrase
from render_agent.util.display import count_noun

Pair = Mapping[str, Any]

ABSENT = "–"  # value of a fact that does not apply to a run


def direction(entry: Mapping[str, Any]) -> str:
    """Return `better` or `worse` if a difference is significant after Holm's correction, otherwise an empty string."""
    p = entry["p_holm"]
    if p is None or p > SIGNIFICANT or not entry["difference"]:
        return ""
    return "better" if entry["difference"] > 0 else "worse"


def verdict(pair: Pair, a: str, b: str, *, of_several: bool = False) -> str:
    """Return a sentence with the verdict: whether run b is better or worse than run a."""
    entry = pair["differences"][OFFICIAL_RAW]
    points, name = entry["difference"], row_names(pair["differences"])[OFFICIAL_RAW]
    if entry["p_holm"] is None:
        return (
            f"No difference between {a} and {b} can be tested: {b} − {a} is {format_signed(points)} points in {name}, over"
            f" {count_noun(entry['scenes'], 'scene')}; at least {MIN_SCENES} are needed."
        )
    p = f"{'Holm-corrected ' if of_several else ''}{p_value_phrase(entry['p_holm'])}"
    low, high = entry["interval"]
    if side := direction(entry):
        low, high = (low, high) if points > 0 else (-high, -low)
        side_word = "above" if side == "better" else "below"
        return f"{b} is {abs(points):.1f} points {side_word} {a} (95 % CI {low:.1f} to {high:.1f}, {p}) in {name}."
    return (
        f"No difference between {a} and {b} can be shown in {name}: {b} − {a} is {format_signed(points)} points (95 % CI"
        f" {low:+.1f} to {high:+.1f}, {p}){_resolution(pair)}."
    )


def other_verdicts(pair: Pair, a: str, b: str) -> list[str]:
    """Return a sentence for each other aggregate score by which the verdict differs."""
    differences = pair["differences"]
    side, names = direction(differences[OFFICIAL_RAW]), row_names(differences)
    entries = {
        label: differences[name] for name, label in MEAN_NAMES.items() if name in differences
    }
    if names[OFFICIAL_RAW] != VSI_BENCH_SCORE:
        entries.pop(MEAN_NAMES[WITHOUT_ORDER], None)
    entries |= {f"parsed by {name}": entry for name, entry in pair.get("parsers", {}).items()}
    words = {"": "no difference can be shown", "better": f"{b} is better", "worse": f"{b} is worse"}
    return [
        f"The verdict differs for another aggregate score, {label}: {words[direction(entry)]}"
        f" ({b} − {a}: {format_signed(entry['difference'])} points)."
        for label, entry in entries.items()
        if entry["difference"] is not None and direction(entry) != side
    ]


def _resolution(pair: Pair) -> str:
    """Return the end of a sentence with the number of scenes needed; empty if it cannot be estimated."""
    plan = pair.get("power")
    if plan is None:
        return "; there are too few scenes to estimate how many would be needed"
    num_scenes, scenes = plan["needs"][0]["scenes"], plan["scenes"]
    power, points = f"{100 * plan['power']:.0f} % power", f"{plan['difference']:g} points"
    if num_scenes is None:
        return f"; no number of scenes would detect {points} with {power}"
    if num_scenes > scenes:
        ends = (
            "more" if end is None else f"{end:,}" for end in plan["needs"][0]["scenes_interval"]
        )
        interval_text = f"95 % CI {' to '.join(ends)}"
        return (
            f"; about {num_scenes:,} scenes ({interval_text}) would be needed to detect {points} with {power}, and there are"
            f" {scenes:,}"
        )
    detectable = plan["needs"][0]["seen"]
    return f"; with {count_noun(scenes, 'scene')}, {detectable:.1f} points would be detected with {power}"


def difference_lines(pair: Pair) -> list[str]:
    """Return the facts and options that differ between the runs of a comparison, those that they share, and the
    caveats.
    """
    partial = [side for side, status in pair["status"].items() if status != "complete"]
    differing = [
        f"{name}: a {value_a}, b {value_b}"
        for name, (value_a, value_b) in differences(pair).items()
    ]
    common_facts = {
        name: value
        for name, value in pair["facts"]["a"].items()
        if pair["facts"]["b"].get(name) == value
    }
    return [
        *([f"PARTIAL: {', '.join(partial)}"] if partial else []),
        *(differing or ["same options"]),
        *([f"a, b: {facts_line(common_facts)}"] if common_facts else []),
        *by_sides(pair["notes"]),
    ]


def differences(pair: Pair) -> dict[str, tuple[str, str]]:
    """Return the facts and options that differ between two runs, with the values of a and b."""
    facts = pair["facts"]
    names = [*facts["a"], *(name for name in facts["b"] if name not in facts["a"])]
    values_by_name = {
        name: (facts["a"].get(name, ABSENT), facts["b"].get(name, ABSENT)) for name in names
    }
    options = {
        option_label(name): (option_value(name, value_a), option_value(name, value_b))
        for name, (value_a, value_b) in pair["options"].items()
        if name not in FACT_OPTIONS
    }
    return options | {
        name: values for name, values in values_by_name.items() if values[0] != values[1]
    }


def by_sides(texts: Mapping[str, Sequence[str]]) -> list[str]:
    """Merge equal texts of several runs and prefix each with the names of its runs."""
    names: dict[str, list[str]] = {}
    for name, run_texts in texts.items():
        for text in run_texts:
            names.setdefault(text, []).append(name)
    return [f"{', '.join(runs)}: {text}" for text, runs in names.items()]
