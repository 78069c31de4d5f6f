"""The expert: a scripted policy to learn from, which describes what its views showed, then moves or answers.

It imports `render_agent`, and of `room_generator` the width of a way through a room. Start with `policy`, then read `derive`.
"""
