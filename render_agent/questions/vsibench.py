"""VSI-Bench: its questions, and its scans where the three data sets keep them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from render_agent.errors import SetupError
from render_agent.questions.rows import load_rows
from render_agent.state import Question

LAYOUTS = {
    "scannet": ("scans/{id}/{id}_vh_clean_2.ply", "{id}/{id}_vh_clean_2.ply"),
    "scannetpp": ("data/{id}/scans/mesh_aligned_0.05.ply", "{id}/scans/mesh_aligned_0.05.ply"),
    "arkitscenes": (
        "Training/{id}/{id}_3dod_mesh.ply",
        "Validation/{id}/{id}_3dod_mesh.ply",
        "3dod/Training/{id}/{id}_3dod_mesh.ply",
        "3dod/Validation/{id}/{id}_3dod_mesh.ply",
        "raw/Training/{id}/{id}_3dod_mesh.ply",
        "raw/Validation/{id}/{id}_3dod_mesh.ply",
        "{id}/{id}_3dod_mesh.ply",
    ),
}
"""Where a scene's mesh lies below the root of its data set."""

PLACES = ("VSI-Bench/test.jsonl", "vsibench/test.jsonl", "data/vsibench/test.jsonl", "test.jsonl")
"""Where the questions are looked for when --questions is not given."""

NEEDS_NOTHING = "or use --benchmark rooms, which needs nothing"


def load_vsibench(questions: str | None) -> list[Question]:
    """Return the questions of VSI-Bench in their file's order, their scans not yet looked for.

    SetupError where the file is not at hand, QuestionsError where it is not VSI-Bench's.
    """
    if questions is not None:
        path = Path(questions)
        if not path.is_file():
            raise SetupError(
                f"there is no file of questions at {path}: --questions wants VSI-Bench's"
            )
        return load_rows(path, "vsibench")
    for place in PLACES:
        if Path(place).is_file():
            return load_rows(Path(place), "vsibench")
    raise SetupError(
        "VSI-Bench's questions are not at hand: download test.jsonl of nyu-visionx/VSI-Bench and give"
        f" --questions FILE with --scannet, --scannetpp and --arkitscenes, {NEEDS_NOTHING}"
    )


def with_scans(questions: Sequence[Question], roots: Mapping[str, str]) -> list[Question]:
    """Return the questions with the scans of their scenes, None where one was not found.

    roots: the folder of each data set. SetupError where one is no folder, or no scan at all was
    found.
    """
    for name, root in roots.items():
        if not Path(root).is_dir():
            raise SetupError(f"--{name} {root} is no folder: give the one that holds the data set")
    scenes = {(question.dataset, question.scene) for question in questions}
    scans = {scene: find_scan(*scene, roots) for scene in scenes}
    if questions and not any(scans.values()):
        named = ", ".join(f"--{name} DIR" for name in sorted({dataset for dataset, _ in scenes}))
        raise SetupError(
            f"none of the {len(scenes)} scans was found: give {named} as the data sets' own"
            f" downloads lay them out, {NEEDS_NOTHING}"
        )
    return [replace(q, scan=scans[q.dataset, q.scene]) for q in questions]


def find_scan(dataset: str, scene: str, roots: Mapping[str, str]) -> Path | None:
    """Return where the scan of a scene lies, None where it is in none of the known places."""
    root = roots.get(dataset)
    if root is None:
        return None
    places = (Path(root, layout.format(id=scene)) for layout in LAYOUTS.get(dataset, ()))
    return next((place.resolve() for place in places if place.is_file()), None)
