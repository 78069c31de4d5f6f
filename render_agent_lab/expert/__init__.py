"""The expert: a scripted policy that a small model learns from; it says what views have shown, then looks or answers.

It imports `render_agent`, and of `room_generator` the width of a way through a room. Start with `policy`, then read `derive`.
"""
