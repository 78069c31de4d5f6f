"""The views that the model sees next, and measurements in them. Start with `provider.py`, the base class."""

# values of `--tools`
TOOLSETS = {
    "none": "render_agent.views.toolsets:Toolset",
    "measure": "render_agent.views.toolsets:Measure",
    "graph": "render_agent.views.toolsets:SceneGraph",
}
