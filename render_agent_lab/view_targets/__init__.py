"""Targets for questions of the type `reach_view`: `draw.py` chooses them, `look_alikes.py` and `content.py` test them."""
