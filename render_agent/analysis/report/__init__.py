"""The report of a run: pages written from its folder, opened from disk.

Imports `analysis.diagnosis`, the run folder and `web`. Start with `build`, then `question.question_page` and
`index.index_page`.
"""
