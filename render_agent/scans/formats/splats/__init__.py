"""3D Gaussian splats as files: PLY of the original work, PlayCanvas's compressed PLY, SPZ, and `.splat`.

Imports `scene.formats.cleaning`, `scene.formats.ply.header` and `scene.gaussians`. Start with `assemble`, then `ply_splat`.
"""
