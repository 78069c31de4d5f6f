"""Views: what the model sees next, chosen by the model or a fixed policy, and measurements in views.

Start with `provider.py`, the base class, then `free_views.py`.
"""

# Values of `--tools`.
TOOLSETS = {
    "none": "render_agent.views.toolsets:Toolset",
    "measure": "render_agent.views.toolsets:Measure",
    "graph": "render_agent.views.toolsets:SceneGraph",
}
