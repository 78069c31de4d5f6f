"""Views: what is shown next, by the model's choice or by a fixed policy, and what may be measured in it.

Start with `provider.py`, the base class, then `free_views.py`.
"""

TOOLSETS = {
    "none": "render_agent.views.toolsets:Toolset",
    "measure": "render_agent.views.toolsets:Measure",
    "graph": "render_agent.views.toolsets:SceneGraph",
}
"""Values of `--tools`."""
