"""Benchmark rows as questions about scans. Start with `selection.py`, which selects those of a run, then `rows.py`."""

# value of `--benchmark` -> benchmark
BENCHMARKS = {
    "vsibench": "render_agent.tasks.vsibench:VSI_BENCH",
    "rooms": "render_agent.tasks.rooms:ROOMS",
    "views": "render_agent.tasks.rooms:VIEWS",
}

# question type -> record; those of VSI-Bench, in the order of its tables, and of `reach_view`
QUESTION_TYPES = {
    "object_counting": "render_agent.tasks.built_in_types:COUNTING",
    "object_abs_distance": "render_agent.tasks.built_in_types:ABSOLUTE_DISTANCE",
    "object_size_estimation": "render_agent.tasks.built_in_types:OBJECT_SIZE",
    "room_size_estimation": "render_agent.tasks.built_in_types:ROOM_SIZE",
    "object_rel_distance": "render_agent.tasks.built_in_types:RELATIVE_DISTANCE",
    "object_rel_direction_easy": "render_agent.tasks.built_in_types:DIRECTION_EASY",
    "object_rel_direction_medium": "render_agent.tasks.built_in_types:DIRECTION_MEDIUM",
    "object_rel_direction_hard": "render_agent.tasks.built_in_types:DIRECTION_HARD",
    "route_planning": "render_agent.tasks.built_in_types:ROUTE",
    "obj_appearance_order": "render_agent.tasks.built_in_types:APPEARANCE_ORDER",
    **{
        f"reach_view_{tier}": f"render_agent.tasks.built_in_types:{tier.upper()}"
        for tier in ("rotation", "translation", "near", "far", "described")
    },
}
