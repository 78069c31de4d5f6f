"""Models with random weights in published shapes, for measuring engines. Start with `random_model.py`."""
