"""Who chooses the views, one object a value of `--views`: the model, or fair baselines beside it.

It imports scenes and rendering. Start with `base`; `built_in` has the program's own.
"""
