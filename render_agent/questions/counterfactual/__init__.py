"""The values of `--change`: counterparts of questions in rooms, or in words, that differ in one thing.

Imports scenes, questions and their truth.
Start with `base` and its `ChangePlan`; `pairs` gives every question its counterparts.
"""
