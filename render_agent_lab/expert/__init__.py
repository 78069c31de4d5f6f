"""The expert: a scripted policy for imitation learning. It describes what it has seen, then moves or answers.

Start with `policy.py`, then `derive.py`.
"""
