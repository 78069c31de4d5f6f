"""The pages that compare two or more runs.

Imports `analysis.report` and below. Start with `comparison_page`, which writes them from a `runs.Comparison`.
"""
