"""The expert: a scripted policy that a small model learns from; it says what views have shown, looks for the rest, answers.

Imports `render_agent` and `room_generator`. Start with `policy`, then `derive`.
"""
