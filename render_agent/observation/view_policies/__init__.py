"""Who chooses the views, one object a value of `--views`: the model, or fair baselines beside it.

It imports scenes and rendering. Start in `base.py`; `built_in.py` has the program's own.
"""
