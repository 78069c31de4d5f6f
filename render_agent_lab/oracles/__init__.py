"""Oracles: scripted policies that answer from what is known of a scene's boxes, at once or once their views have shown it.

Holds the `sighted_oracle`, what it looks with (`question_visibility`) and how boxes become answers (`exact_solver`). It
imports `render_agent`, in whose `scripted` engine its policies answer: they test views and measure verifiers, and are no
models. Start with `sighted_oracle`.
"""
