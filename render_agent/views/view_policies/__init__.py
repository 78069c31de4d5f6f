"""View policies (`--views`). Start with `view_policy.py`, the base class, then `built_in.py`."""

# values of `--views`
VIEW_POLICIES = {
    "free": "render_agent.views.view_policies.built_in:Free",
    "none": "render_agent.views.view_policies.built_in:Blind",
    "start": "render_agent.views.view_policies.built_in:Start",
    "four": "render_agent.views.view_policies.built_in:Four",
    "top": "render_agent.views.view_policies.built_in:Top",
    "random-walk": "render_agent.views.view_policies.built_in:RandomWalkViews",
    "coverage": "render_agent.views.view_policies.coverage:CoverageViews",
    "recorded": "render_agent.views.view_policies.recorded:RecordedViews",
    "tour": "render_agent.views.view_policies.tour:TourViews",
}
