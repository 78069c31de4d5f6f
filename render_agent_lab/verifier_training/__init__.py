"""Training the learned verifier from run logs: decisions, which moves were good, and how well it chooses."""
