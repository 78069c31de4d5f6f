"""Model families: how each takes images and how it thinks. Start with `model_families.py`."""
