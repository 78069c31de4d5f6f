"""The report of a run: pages written from its folder, opened from disk.

Imports `analysis.diagnosis`, the run folder and `web`. Start with `build`, which writes them all, then
`index.index_page` and `question.question_page`.
"""
