"""What a derivation of the expert says, read as a person would read it: its end, and that what it says leads there."""

import re

NUMBER = r"-?\d+\.\d"
WAY = rf"{NUMBER} {NUMBER} {NUMBER} {NUMBER} {NUMBER} {NUMBER}"
"""Along x from one place, to the other, metres between; the same along y."""


def answer_of(question, derived):
    """Return the answer that a derivation ends in, which its numbers lead to; None where it leads to none."""
    kind = question.type
    if "direction" in kind:
        ahead, there, word = re.fullmatch(
            rf".+ {WAY} (\d+), .+ {WAY} (\d+): ([a-z-]+)", derived
        ).groups()
        assert word == turned(kind, (int(there) - int(ahead) + 180) % 360 - 180)
        return word
    if kind == "object_rel_distance":
        said, nearest = derived.rsplit(": ", 1)
        parts = [
            re.fullmatch(rf"(.+) {WAY} ({NUMBER})", part).groups() for part in said.split(", ")
        ]
        metres = {name: float(apart) for name, apart in parts}
        assert metres[nearest] < min(far for name, far in metres.items() if name != nearest)
        return nearest
    if kind == "route_planning":
        turns, words = derived.rsplit(". ", 1)
        said = [f"Turn {turn.rsplit(': ', 1)[1].capitalize()}" for turn in turns.split("; ")]
        assert words == ", ".join(said)
        return words
    return derived.removesuffix(" seen") if kind == "object_counting" else None


def turned(kind, degrees):
    """Return what a kind of question calls a turn of -180 … 179 degrees, left positive."""
    side = "left" if degrees > 0 else "right"
    if kind.endswith("hard"):
        return f"{'front' if abs(degrees) < 90 else 'back'}-{side}"
    return "back" if kind.endswith("medium") and abs(degrees) >= 135 else side
