"""Readers of 3D Gaussian splats: PLY, compressed PLY, SPZ, and `.splat`. Start with `assemble.py`, then `ply_splat.py`."""
