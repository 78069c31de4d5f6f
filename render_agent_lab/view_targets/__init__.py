"""Targets for questions of the type `reach_view`: `draw_targets.py` chooses them, `target_room.py` tests them."""
