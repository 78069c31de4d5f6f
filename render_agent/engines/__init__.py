"""What answers: the seam, the engines behind it, and what batching, reuse and memory take."""
