"""Floor plans with camera paths, object boxes and candidates. Start with `floor_plan.py`, then `path_marks.py`."""
