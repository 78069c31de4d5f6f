"""The top view: the room from above with its metric grid and the path of the camera. Start with `map_view.py`."""
