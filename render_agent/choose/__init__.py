"""The verifiers that the options name."""
