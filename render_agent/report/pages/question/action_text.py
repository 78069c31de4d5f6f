"""What a reply asked for, in words."""

from __future__ import annotations

from render_agent.dialogue.reply import Action, Malformed, describe_action


def action_words(action: Action | Malformed) -> list[str]:
    """Return what a reply asked for, a clause each, in the order in which it is carried out."""
    if isinstance(action, Malformed):
        return [f"nothing that could be read: {action.reason}"]
    return describe_action(action)
