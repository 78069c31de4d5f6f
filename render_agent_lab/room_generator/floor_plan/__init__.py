"""Floor plans of homes, with walls, openings and walkways. Start with `plan.py`, then `random_plans.py`."""
