"""GPU code: Triton kernels, fused layers, and CUDA graphs. Start with `cuda_graphs.py`.

Everything here has a plain equivalent that other devices use.
"""
