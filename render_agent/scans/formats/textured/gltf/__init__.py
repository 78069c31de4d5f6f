"""The reader of glTF: its file, materials, and nodes. Start with `nodes.py`."""
