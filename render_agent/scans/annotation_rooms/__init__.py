"""Stand-in rooms of coloured boxes, built from annotations if a scan is missing. Start with `annotated_room.py`."""
