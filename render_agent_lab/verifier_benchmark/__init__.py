"""The command `bench verifiers`: do verifiers choose better moves than chance, and what do they cost?

It imports `render_agent`, `bench` and `verifier_training`. Start with `command`, then read `measure`.
"""
