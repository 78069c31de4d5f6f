"""Renderers. Start with `renderer.py`, the protocol, then `viewer.py`, which draws every kind of view."""

# values of `--renderer`
RENDERERS = {
    "rasteriser": "render_agent.render.rasteriser.rasteriser:Rasteriser",
    "pyrender": "render_agent.render.pyrender_renderer:Pyrender",
}
