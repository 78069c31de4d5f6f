"""What a question is shown in its next turn: the views that the model asked for, a policy's, or none.

Imports scenes, renderers and dialogues, and no engine or agent.
Start with `base` and its `ViewProvider`; `free_views` draws what the model asks for.
"""

TOOLSETS = {
    "none": "render_agent.views.toolsets:Toolset",
    "measure": "render_agent.views.toolsets:Measure",
    "graph": "render_agent.views.toolsets:SceneGraph",
}
"""Values of `--tools`."""
