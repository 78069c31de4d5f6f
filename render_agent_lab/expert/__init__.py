"""The expert: a scripted policy for imitation learning that describes what it saw, then moves or answers.

Start with `policy.py`, then `derive.py`.
"""
