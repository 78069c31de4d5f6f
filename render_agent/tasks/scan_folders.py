"""The scan files of VSI-Bench's three data sets: how they are found, and the error where they are missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from render_agent.dialogue.question import Question
from render_agent.errors import SetupError
from render_agent.scans.stand_in.annotations import annotation_files, read_annotations

LAYOUTS = {
    "scannet": ("scans/{id}/{id}_vh_clean_2.ply", "{id}/{id}_vh_clean_2.ply"),
    "scannetpp": (
        "data/{id}/scans/mesh_aligned_0.05.ply",
        "{id}/scans/mesh_aligned_0.05.ply",
        "data/{id}/scans/pc_aligned.ply",
        "{id}/scans/pc_aligned.ply",
    ),
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
"""Paths of a scene's scan below the root of its data set, in order of preference: meshes, then clouds."""

KINDS = ("mesh", "cloud", "splat")
"""Kinds of scans, in order of preference if there are several beside a file of questions."""

MAX_SCENE_NAME_BYTES = 200
"""Bytes of a scene's name; with what is added to it, a file system takes 255."""

MAX_NAMED_SCENES = 8
"""So many missing scenes of a data set are named in a sentence."""

ROOMS_HINT = "or use --benchmark rooms, which needs nothing"

Roots = Mapping[str, Sequence[str]]
"""The folders in which each data set lies, in the order in which they are looked through."""


@dataclass(frozen=True, slots=True)
class Missing:
    """The scenes of one data set that have no scan, and how many questions are about them."""

    dataset: str
    scenes: tuple[str, ...]
    questions: int


def with_scans(
    questions: Sequence[Question],
    roots: Roots,
    annotations: str | None = None,
) -> list[Question]:
    """Return the questions with the scans of their scenes, None where one was not found.

    roots: the folders of each data set. annotations: the official annotations, of which rooms stand
    in for the scans that were not found. SetupError where a folder is none, or nothing at all was found.
    """
    _check_folders(roots)
    stand_ins = {} if annotations is None else _stand_ins(annotations)
    scenes = {(question.dataset, question.scene) for question in questions}
    _refuse_twins(scenes)
    scans = {
        (dataset, scene): find_scan(dataset, scene, roots) or stand_ins.get(scene)
        for dataset, scene in scenes
    }
    if questions and not any(scans.values()):
        named = ", ".join(f"--{name} DIR" for name in sorted({dataset for dataset, _ in scenes}))
        raise SetupError(
            f"none of the {len(scenes)} scans was found: give {named} as the data sets' own"
            " downloads lay them out, --annotations DIR to build rooms from the official"
            f" annotations instead, {ROOMS_HINT}"
        )
    return [
        replace(question, scan=scans[question.dataset, question.scene]) for question in questions
    ]


def find_scan(dataset: str, scene: str, roots: Roots) -> Path | None:
    """Return the path of a scene's scan, None if it is in none of the known places."""
    if not is_name(scene):
        return None
    layouts = LAYOUTS.get(dataset, ())
    # mesh before cloud whatever the root; links are not followed: what belongs to a scan is beside the link
    paths = (
        Path(root, layout.format(id=scene))
        for cloud in (False, True)
        for root in roots.get(dataset, ())
        for layout in layouts
        if ("pc_" in layout) is cloud
    )
    return next((path.absolute() for path in paths if path.is_file()), None)


def find_beside(folder: Path, scene: str) -> Path | None:
    """Return the scan in a folder that is named after a scene, of the first of KINDS; None if there is none."""
    from render_agent.scans.formats.readers import SCAN_SUFFIXES, scan_kind

    if not is_name(scene):
        return None
    names = (folder / f"{scene}{suffix}" for suffix in SCAN_SUFFIXES)
    files = [path.absolute() for path in names if path.is_file()]
    if len(files) > 1:
        files.sort(key=lambda path: KINDS.index(scan_kind(path)))
    return next(iter(files), None)


def is_name(scene: str) -> bool:
    """Whether a scene's name can be that of a file: no path, nothing that leads elsewhere, not too long."""
    if scene in ("", ".", "..") or len(scene.encode("utf-8", "replace")) > MAX_SCENE_NAME_BYTES:
        return False
    return not any(sign in scene for sign in "/\\\0")


def missing_scans(questions: Iterable[Question]) -> list[Missing]:
    """Return what has no scan, a data set an entry, everything by name."""
    scenes: dict[str, dict[str, int]] = {}
    for question in questions:
        if question.scan is None:
            of_dataset = scenes.setdefault(question.dataset, {})
            of_dataset[question.scene] = of_dataset.get(question.scene, 0) + 1
    return [
        Missing(dataset, tuple(sorted(counts)), sum(counts.values()))
        for dataset, counts in sorted(scenes.items())
    ]


def refuse_missing(questions: Sequence[Question], places: Mapping[str, str]) -> None:
    """SetupError where questions have no scan; it names the scenes, the number of questions and the folders searched.

    places: where the scans of each data set were looked for, in words.
    """
    missing = missing_scans(questions)
    if not missing:
        return
    scenes = len({(question.dataset, question.scene) for question in questions})
    parts = [
        f"{entry.dataset} {_listed(entry.scenes)} ({entry.questions} questions,"
        f" looked for {places.get(entry.dataset, 'nowhere')})"
        for entry in missing
    ]
    raise SetupError(
        f"the scans of {sum(len(entry.scenes) for entry in missing)} of {scenes} scenes are missing,"
        f" which {sum(entry.questions for entry in missing)} of {len(questions)} questions are about:"
        f" {'; '.join(parts)}; put them there (--dry-run lists all), or give --allow-missing to go on"
        " without them"
    )


def searched(roots: Roots) -> dict[str, str]:
    """Return where the scans of each data set are looked for, in words."""
    return {
        dataset: f"as {layouts[0].format(id='ID')} below {' and '.join(folders)}"
        if (folders := roots.get(dataset))
        else f"nowhere, as no --{dataset} is given"
        for dataset, layouts in LAYOUTS.items()
    }


def _refuse_twins(scenes: Iterable[tuple[str, str]]) -> None:
    """SetupError where two data sets have a scene of one name: a scene's pictures lie under its name."""
    known: dict[str, str] = {}
    for dataset, scene in sorted(scenes):
        if (other := known.setdefault(scene, dataset)) != dataset:
            raise SetupError(
                f"the scene {scene!r} is in {other} and in {dataset}: run one of them at a time, by"
                " --dataset"
            )


def _check_folders(roots: Roots) -> None:
    for name, folders in roots.items():
        for folder in folders:
            if not Path(folder).is_dir():
                raise SetupError(
                    f"--{name} {folder} is no folder: give the one that holds the data set"
                )


def _stand_ins(annotations: str) -> dict[str, Path]:
    """Return the file of annotations of each scene that has one."""
    if not Path(annotations).exists():
        raise SetupError(
            f"there are no annotations at {annotations}: --annotations wants the folder of"
            " scannet_meta_info_val.json and its like"
        )
    files = annotation_files(Path(annotations))
    return {scene: file.absolute() for file in files for scene in read_annotations(file)}


def _listed(scenes: Sequence[str]) -> str:
    more = len(scenes) - MAX_NAMED_SCENES
    named = ", ".join(scenes[:MAX_NAMED_SCENES])
    return f"{named} and {more} more" if more > 0 else named
