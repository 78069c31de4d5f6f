"""Several candidates, one action: verifiers that score them, and how scores are fused."""
