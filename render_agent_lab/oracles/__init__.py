"""Oracles: what goes by the boxes of a scene, to test views and to measure by, as policies that answer and as views.

Holds the `sighted_oracle`, what it looks with (`question_visibility`), and the
views of `named_objects`. It imports `render_agent`, which finds them as `--model` of the scripted engine and as `--views`.
Start with `sighted_oracle`.
"""
