"""The page of one question: its dialogue, its candidates, its diagnosis.

Imports `analysis.report` and below. Start with `question_page`.
"""
