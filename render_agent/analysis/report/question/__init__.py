"""The page of one question: its dialogue, its choices, its verdict.

Imports `analysis.report` and below. Start with `question_page`.
"""
