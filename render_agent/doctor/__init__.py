"""The command `doctor`: what this machine can do, and what to install or do about the rest.

Imports `engines`, `render`, `questions` and below. Start with `examine`, which gathers all findings.
"""
