"""The command `train-verifier`: it learns from run logs which moves were good, and measures how well it then chooses.

It imports `render_agent`, mostly `agents.verifiers.learned`, which uses what is trained here. Start with `train`.
"""
