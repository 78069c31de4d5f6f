"""The run folder: its schema, its files, and how they are written. Start with `writer.py`."""
