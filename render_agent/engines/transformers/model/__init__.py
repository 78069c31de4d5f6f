"""The model in memory: loaded with all that goes with it (`load`), and what its prompts and pictures become (`inputs`).

Also holds what recurrent layers carry (`recurrent_state`) and what vision towers made (`vision_cache`). Imports
families, checkpoints and, of the engine, sampling and memory. Start with `load`.
"""
