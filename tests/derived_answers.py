"""What a derivation of the expert says, read as a person would read it."""

import re


def answer_of(question, derived):
    """Return the answer that a derivation leads to; None where it leads to none."""
    kind = question.type
    if "direction" in kind:
        degrees, side = re.search(r": (\d+) (\w+)$", derived).groups()
        if kind.endswith("hard"):
            return f"{'front' if int(degrees) < 90 else 'back'}-{side}"
        return "back" if kind.endswith("medium") and int(degrees) >= 135 else side
    if kind == "object_rel_distance":
        parts = [
            part.rsplit(" ", 3) for part in derived.split(", ")
        ]  # name, along x, along y, apart
        metres = {name: float(apart) for name, _, _, apart in parts}
        order = sorted(metres, key=metres.__getitem__)
        assert metres[order[0]] < metres[order[1]]
        return order[0]
    if kind == "route_planning":
        return ", ".join(f"Turn {part.split()[-1].capitalize()}" for part in derived.split("; "))
    return derived.removesuffix(" seen") if kind == "object_counting" else None
