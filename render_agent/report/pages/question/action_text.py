"""What a reply asked for, in words."""

from __future__ import annotations

from render_agent.dialogue.reply import Action, Malformed, Place


def action_words(action: Action | Malformed) -> list[str]:
    """Return what a reply asked for, a clause each, in the order in which it is carried out."""
    if isinstance(action, Malformed):
        return [f"nothing that could be read: {action.reason}"]
    clauses = [*_turns(action), *_moves(action)]
    if isinstance(action.view, int):
        clauses.append(f"show view {action.view} again")
    elif action.view is not None:
        clauses.append(f"show {'a map' if action.view == 'top' else action.view}")
    if action.measure:
        clauses.append(f"measure at {', '.join(map(_place_text, action.measure))}")
    if action.answer is not None:
        clauses.append(f"{'answer' if action.done else 'answer so far'}: {action.answer}")
    elif action.answer_text is not None:
        clauses.append(f"an answer that could not be read: {action.answer_text}")
    if action.done:
        clauses.append("done")
    return clauses


def _place_text(place: Place) -> str:
    if place.view is not None:
        return f"pixel ({place.x:g}, {place.y:g}) of view {place.view}"
    return f"({', '.join(f'{v:g}' for v in (place.x, place.y, place.z) if v is not None)})"


def _turns(action: Action) -> list[str]:
    clauses = []
    if action.look_at is not None:
        clauses.append(f"look at ({', '.join(f'{value:g}' for value in action.look_at)})")
    if action.rotation:
        clauses.append(
            f"turn {abs(action.rotation):g}° {'left' if action.rotation > 0 else 'right'}"
        )
    if action.pitch:
        clauses.append(f"tilt {abs(action.pitch):g}° {'up' if action.pitch > 0 else 'down'}")
    return clauses


def _moves(action: Action) -> list[str]:
    ways = (
        (action.forward, "forward", "back"),
        (action.left, "to the left", "to the right"),
        (action.up, "up", "down"),
    )
    return [
        f"move {abs(metres):g} m {forth if metres > 0 else back}"
        for metres, forth, back in ways
        if metres
    ]
