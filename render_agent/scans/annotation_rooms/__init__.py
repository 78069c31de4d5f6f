"""Stand-in rooms of coloured boxes, built from annotations for missing scans. Start with `annotated_room.py`."""
