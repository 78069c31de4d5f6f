"""Checks of the expert's derivations: parse the stated numbers and recompute the answer."""

import re

NUMBER = r"-?\d+\.\d"
# Start and end along x and the distance in metres; the same along y.
WAY = rf"{NUMBER} {NUMBER} {NUMBER} {NUMBER} {NUMBER} {NUMBER}"


def answer_of(question, derivation):
    """Return the answer that follows from the numbers of a derivation, or None if it has no answer."""
    kind = question.type
    if "direction" in kind:
        ahead, bearing, turn, word = re.fullmatch(
            rf".+ {WAY} ({NUMBER}), .+ {WAY} ({NUMBER}), turn ({NUMBER} {NUMBER} {NUMBER}): ([a-z-]+)",
            derivation,
        ).groups()
        assert turn == turn_text(ahead, bearing)
        assert word == direction_name(kind, ahead, bearing)
        return word
    if kind == "object_rel_distance":
        separations, nearest = derivation.rsplit(": ", 1)
        parts = [
            re.fullmatch(rf"(.+) {WAY} ({NUMBER})", part).groups()
            for part in separations.split(", ")
        ]
        distances = {name: float(separation) for name, separation in parts}
        assert distances[nearest] < min(
            metres for name, metres in distances.items() if name != nearest
        )
        return nearest
    if kind == "route_planning":
        turns, words = derivation.rsplit(". ", 1)
        expected = [f"Turn {turn.rsplit(': ', 1)[1].capitalize()}" for turn in turns.split("; ")]
        assert words == ", ".join(expected)
        return words
    return derivation.removesuffix(" seen") if kind == "object_counting" else None


def turn_text(ahead, bearing):
    """Return the expected wording of the difference between two bearings."""
    return f"{ahead} {bearing} {float(bearing) - float(ahead):.1f}".replace("-0.0", "0.0")


def direction_name(kind, ahead, there):
    """Return a question type's word for the direction at bearing `there`, seen along bearing `ahead`.

    Bearings are in units of 36 degrees.
    """
    degrees = (round(36 * (float(there) - float(ahead)), 1) + 180) % 360 - 180
    side = "left" if degrees > 0 else "right"
    if kind.endswith("hard"):
        return f"{'front' if abs(degrees) < 90 else 'back'}-{side}"
    return "back" if not kind.endswith("easy") and abs(degrees) >= 135 else side
