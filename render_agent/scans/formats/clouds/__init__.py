"""Readers of point clouds: LAS, LAZ, E57, PCD, and columns of text. Start with `cloud_builder.py`, then `las.py`."""
