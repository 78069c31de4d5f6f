"""The default renderer, on the CPU, compiled by numba. Start with `rasteriser.py`, then `zbuffer.py`."""
