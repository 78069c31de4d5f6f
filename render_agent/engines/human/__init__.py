"""The engine that asks a person, on a page in the browser. Start with `human_engine.py`."""
