"""`--change`: the same question about an edited room, or in another wording. Start with `change_plan.py`, the base
class.
"""

# value of `--change`, without its argument -> class
CHANGES = {
    "remove": "render_agent.parts.counterfactual.objects:Remove",
    "add": "render_agent.parts.counterfactual.objects:Add",
    "move": "render_agent.parts.counterfactual.objects:Move",
    "swap": "render_agent.parts.counterfactual.objects:Swap",
    "order": "render_agent.parts.counterfactual.wordings:Order",
    "names": "render_agent.parts.counterfactual.wordings:Names",
}
