"""The expert: a scripted policy to learn from, which describes what it saw and then moves or answers.

Start with `policy.py`, then `derive.py`.
"""
