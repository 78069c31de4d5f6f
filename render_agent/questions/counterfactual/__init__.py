"""The values of `--change`: counterparts of questions in rooms, or in words, that differ in one thing.

Imports scenes, questions and their truth.
Start with `base` and its `ChangePlan`; `pairs` gives every question its counterparts.
"""

CHANGES = {
    "remove": "render_agent.questions.counterfactual.objects:Remove",
    "add": "render_agent.questions.counterfactual.objects:Add",
    "move": "render_agent.questions.counterfactual.objects:Move",
    "swap": "render_agent.questions.counterfactual.objects:Swap",
    "recolour": "render_agent.questions.counterfactual.objects:Recolour",
    "scale": "render_agent.questions.counterfactual.objects:Scale",
    "rotate": "render_agent.questions.counterfactual.objects:Rotate",
    "order": "render_agent.questions.counterfactual.wordings:Order",
    "letters": "render_agent.questions.counterfactual.wordings:Letters",
    "units": "render_agent.questions.counterfactual.wordings:Units",
    "inverse": "render_agent.questions.counterfactual.wordings:Inverse",
    "names": "render_agent.questions.counterfactual.wordings:Names",
}
"""Values of `--change`, without their arguments."""
