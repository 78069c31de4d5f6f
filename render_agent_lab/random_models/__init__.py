"""Models with random weights: of a published shape, to measure engines by, or a small one of each family, to try them.

Holds how one is made (`random_model`), the `published_shapes`, and the `small_families` that `doctor --probe` asks for.
It imports `render_agent`'s transformers engine, and transformers within functions. Start with `random_model`.
"""
