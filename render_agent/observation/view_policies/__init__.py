"""The values of `--views`: the model chooses its views, or a fixed policy does as a fair baseline.

Imports scenes, rendering and what questions name.
Start with `base`; `built_in` has the program's own policies.
"""
