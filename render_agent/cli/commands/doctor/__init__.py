"""The command `doctor`: what this machine can do, and what to install or do about the rest.

It imports `engines`, `render`, `questions` and what is below them. Start with `command`, which gathers all findings.
"""
