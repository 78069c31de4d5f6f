"""Floor plans with paths, boxes and candidates. Start with `floor_plan.py`, then `path_marks.py`."""
