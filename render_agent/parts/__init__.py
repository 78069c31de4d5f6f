"""Optional parts of runs, which plug into `runs/run_part.py`; `report/` has what they add to reports."""

PARTS = {
    "counterfactual": "render_agent.parts.counterfactual.counterparts:Counterparts",
    "beliefs": "render_agent.parts.beliefs.part:Beliefs",
}
