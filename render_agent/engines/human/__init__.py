"""The engine that asks a person: a page in the browser in place of the model.

Holds the `engine`, the `session` in which it and the page meet, and the `site` with its templates. May import what all
engines share and the local web server. Start with `engine`.
"""
