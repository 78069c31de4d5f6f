"""Floor plans, and what is drawn on them: paths, boxes, candidates.

Imports `analysis.diagnosis` and `render`. Start with `floor_plan`, then `path_marks`.
"""
