"""The run folder: its schema, its lines, and how it is written. Start with `writer.py`."""
