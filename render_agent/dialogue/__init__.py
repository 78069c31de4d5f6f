"""The dialogue about one question: its state, its turns, the prompt, the reply protocol, and the feedback.

Imports cameras, free space and the scene model; nothing about how views are drawn or replies generated.
Start with `state`, then `reply` and `feedback`.
"""

VIEW_KINDS = {
    "ego": "render_agent.dialogue.view_kinds:Ego",
    "top": "render_agent.dialogue.view_kinds:Top",
    "around": "render_agent.dialogue.view_kinds:Around",
}
"""Values of `--kinds`."""

PROBES = {
    "map": "render_agent.dialogue.probe:Map",
    "counts": "render_agent.dialogue.probe:Counts",
    "pose": "render_agent.dialogue.probe:Pose",
    "seen": "render_agent.dialogue.probe:Seen",
}
"""Values of `--probe`."""
