"""Web pages: shared templates, style and scripts, and the server that shows pages on this machine.

Imports `errors` and `system`. Start with `server`, and with `templates` for the pages themselves.
"""
