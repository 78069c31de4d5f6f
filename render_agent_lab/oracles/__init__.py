"""Oracles: policies and views that use the known boxes of a scene, for tests and as upper bounds.

Holds the `sighted_oracle`, what it looks with (`question_visibility`), and the
views of `named_objects`. It imports `render_agent`, which finds them as `--model` of the scripted engine and as `--views`.
Start with `sighted_oracle`.
"""
