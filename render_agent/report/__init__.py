"""Everything derived from run folders: diagnoses, HTML pages, exports, comparisons and scored predictions.

Start with `pages/build.py`, which writes a report.
"""

PARTS = {"beliefs": "render_agent.report.beliefs.belief_part:BeliefPart"}  # see `report_part.py`
