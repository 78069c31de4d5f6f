"""The command `train-verifier`: it learns from run logs which moves were good, and measures how well it then chooses.

It imports `render_agent`, and `learned_verifier`, which uses what is trained here. Start with `train`.
"""
