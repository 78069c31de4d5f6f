"""The page of the pairs of a report: questions and their counterparts side by side, and what changed with them.

Imports what a run is made of and the templates.
Start with `pairs_page` and its `write_pairs`.
"""
