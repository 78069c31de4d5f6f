"""Renderers: a scene and a camera become pixels.

Start with `renderer.py`, the base class, then `viewer.py`, which makes every kind of view from rendered frames.
"""

RENDERERS = {
    "rasteriser": "render_agent.render.rasteriser.rasteriser:Rasteriser",
    "pyrender": "render_agent.render.pyrender_renderer:Pyrender",
}
"""Values of `--renderer`."""
