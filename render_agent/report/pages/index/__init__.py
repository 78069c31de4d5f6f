"""The index of a report: the score and what it stands beside, the plots, the table of questions.

Imports `analysis.report` and below. Start with `index_page`, which writes it.
"""
