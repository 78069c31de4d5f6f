"""Models with random weights in published shapes, to measure engines with. Start with `random_model.py`."""
