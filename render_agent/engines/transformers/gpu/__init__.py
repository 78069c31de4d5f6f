"""GPU code with plain equivalents for other devices: CUDA graphs (start there), fused layers, Triton kernels."""
