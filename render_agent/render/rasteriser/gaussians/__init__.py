"""Gaussian splats drawn on the processor: projected, sorted by depth, blended from front to back.

Imports `kernels`, `blocks` and `morton` of `render.rasteriser`, `render.base`, `scene` and below. Start with
`renderer`, then `ewa` and `blending`.
"""
