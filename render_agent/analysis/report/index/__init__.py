"""The index of a report: headline, figures, table of questions.

Imports `analysis.report` and below. Start with `index_page`.
"""
