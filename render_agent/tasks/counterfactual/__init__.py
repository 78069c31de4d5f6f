"""`--change`: the same question about an edited room, or in another wording. Start with `change_plan.py`, the base
class.
"""

# value of `--change`, without its argument -> class
CHANGES = {
    "remove": "render_agent.tasks.counterfactual.objects:Remove",
    "add": "render_agent.tasks.counterfactual.objects:Add",
    "move": "render_agent.tasks.counterfactual.objects:Move",
    "swap": "render_agent.tasks.counterfactual.objects:Swap",
    "order": "render_agent.tasks.counterfactual.wordings:Order",
    "names": "render_agent.tasks.counterfactual.wordings:Names",
}
