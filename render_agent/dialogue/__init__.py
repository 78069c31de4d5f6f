"""The dialogue about one question: its state, its turns, the prompt, the reply protocol, and the feedback.

Imports cameras, free space and the scene model; nothing about how views are drawn or replies generated.
Start with `state`, then `reply` and `feedback`.
"""
