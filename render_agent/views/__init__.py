"""The views that the model sees next, chosen by the model or by a fixed policy, and measurements in them.

Start with `provider.py`, the base class, then `free_views.py`.
"""

# values of `--tools`
TOOLSETS = {
    "none": "render_agent.views.toolsets:Toolset",
    "measure": "render_agent.views.toolsets:Measure",
    "graph": "render_agent.views.toolsets:SceneGraph",
}
