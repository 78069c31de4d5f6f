"""The pages that compare runs, and the table of ablations.

Imports `analysis.report` and below. Start with `comparison_page`.
"""
