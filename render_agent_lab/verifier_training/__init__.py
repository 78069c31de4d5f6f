"""Training the learned verifier from run logs: decisions, which moves were good, the fit, and how well it chooses.

Imports `render_agent.agents.verifiers.learned`, which uses what is trained here. Start reading in `train`.
"""
