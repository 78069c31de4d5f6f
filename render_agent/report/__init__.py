"""Everything derived from run folders: diagnoses, HTML pages, exports, comparisons and scored predictions.

Start with `pages/build.py`, which writes a report.
"""

PARTS = {  # see `report_part.py`
    "beliefs": "render_agent.report.beliefs.part:BeliefPart",
    "answering": "render_agent.report.answering.answering_page:AnsweringPart",
}
