"""Web pages: shared templates and style, and the server for pages on this machine. Start with `server.py`."""
