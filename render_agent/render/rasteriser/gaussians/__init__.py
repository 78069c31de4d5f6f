"""Gaussian splats drawn on the processor: projected, sorted by depth, blended from front to back.

Imports `render.rasteriser.kernels`, `render.rasteriser.blocks`, `render.base`, `scene` and below. Start with
`renderer`, then `ewa` and `blending`.
"""
