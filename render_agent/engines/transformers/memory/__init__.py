"""Memory planning. Start with `budget.py` for the engine with a key-value cache, with `sizing.py` for the other."""
