"""Floor plans, and what is drawn on them: paths, boxes, candidates.

Imports `analysis.report` and below. Start with `floor_plan`.
"""
