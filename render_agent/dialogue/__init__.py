"""What is said: questions and their states, prompts, replies, and the feedback on what was done.

It imports cameras and scenes, and nothing about how views are drawn or replies generated.
Start at `feedback.respond`.
"""
