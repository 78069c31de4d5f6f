"""VSI-Bench through the command line, without rendering."""

import json
from pathlib import Path

# The paper's row "Frequency", except for route planning, where the published questions give 29.4.
FREQUENCY = {
    "object_counting": 62.1,
    "object_abs_distance": 32.0,
    "object_size_estimation": 29.9,
    "room_size_estimation": 33.1,
    "object_rel_distance": 25.1,
    "object_rel_direction": 47.9,
    "route_planning": 29.4,
    "obj_appearance_order": 25.2,
}


def write_rows(folder: Path, scenes: int = 12, each: int = 4) -> Path:
    """Write `each` questions of two types per scene, half of them pruned; return the file."""
    rows = []
    for scene in range(scenes):
        for number in range(each):
            choice = number % 2
            rows.append(
                {
                    "id": len(rows),
                    "dataset": ["scannet", "arkitscenes"][scene % 2],
                    "scene_name": f"s{scene}",
                    "question_type": "route_planning" if choice else "object_counting",
                    "question": "Which way?" if choice else "How many box(s) are in this room?",
                    "options": ["A. left", "B. right"] if choice else None,
                    "ground_truth": "AB"[scene % 2] if choice else str(2 + scene % 3),
                    "pruned": number < 2,
                }
            )
    path = folder / "test.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
