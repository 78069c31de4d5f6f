"""The page of one question: its turns, its candidates, its diagnosis.

Imports `analysis.report.maps` and below. Start with `question_page`, which writes the pages, then `question_view`.
"""
