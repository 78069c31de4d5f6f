"""What only a GPU has: kernels in Triton, layers fused by them, and steps captured as CUDA graphs.

Nothing here is imported elsewhere than on a GPU; everything has its plain form outside. Start with `cuda_graphs`.
"""
