"""Renderers: the protocol, the renderers behind it, and the kinds of view made from their frames.

Imports `questions`, `scene`, `geometry` and below. Start with `base`, the protocol, then `views`, what the
model is shown.
"""

RENDERERS = {
    "rasteriser": "render_agent.render.rasteriser.rasteriser:Rasteriser",
    "pyrender": "render_agent.render.pyrender_renderer:Pyrender",
}
"""Values of `--renderer`."""
