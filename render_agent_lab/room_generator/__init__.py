"""The generator of furnished rooms with exact truths, and of VSI-Bench's questions about them.

Imports `render_agent`'s geometry, scene and questions. Start with `build`, then `ask`.
"""
