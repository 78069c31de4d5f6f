"""Models with random weights of published shapes, to measure engines by.

Holds how one is made (`random_model`) and the `published_shapes`.
It imports `render_agent`'s transformers engine, and transformers within functions. Start with `random_model`.
"""
