"""Locates the scans of VSI-Bench's three data sets, and reports missing ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from render_agent.dialogue.question import Question
from render_agent.errors import SetupError
from render_agent.tasks.boxes.annotations import find_annotation_files, read_annotations

# Paths of a scene's scan relative to the root of its data set, in order of preference: meshes before clouds.
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

# In order of preference, if a folder has several scans of a scene.
KINDS = ("mesh", "cloud", "splat")

MAX_SCENE_NAME_BYTES = 200  # file systems allow 255 bytes, and suffixes are added to the name

MAX_NAMED_SCENES = 8  # missing scenes listed per data set in an error message

ROOMS_HINT = "or use --benchmark rooms, which needs no downloads"

Roots = Mapping[str, Sequence[str]]  # data set -> root folders, in search order


def with_scans(
    questions: Sequence[Question],
    roots: Roots,
    annotations: str | None = None,
) -> list[Question]:
    """Return the questions with their scans, or stand-in rooms built from `annotations`; `scan` is None if not found."""
    _check_folders(roots)
    stand_ins = {} if annotations is None else _stand_ins(annotations)
    scenes = {(question.dataset, question.scene) for question in questions}
    _refuse_ambiguous_scenes(scenes)
    scans = {
        (dataset, scene): find_scan(dataset, scene, roots) or stand_ins.get(scene)
        for dataset, scene in scenes
    }
    if questions and not any(scans.values()):
        flags = ", ".join(f"--{name} DIR" for name in sorted({dataset for dataset, _ in scenes}))
        raise SetupError(
            f"{missing_text([replace(question, scan=None) for question in questions])}. {_places_searched(scenes, roots)}Pass"
            f" {flags} with the folder layout of the original"
            " downloads, pass --annotations DIR to build rooms from the official annotations,"
            f" {ROOMS_HINT}."
        )
    return [
        replace(question, scan=scans[question.dataset, question.scene]) for question in questions
    ]


def _places_searched(scenes: Iterable[tuple[str, str]], roots: Roots) -> str:
    """Return a sentence per data set with the paths tried for its first scene; empty without root folders."""
    paths: dict[str, tuple[str, list[Path]]] = {}
    for dataset, scene in sorted(scenes):
        if is_safe_name(scene):
            paths.setdefault(dataset, (scene, [*_candidates(dataset, scene, roots)]))
    return "".join(
        f"Looked for {dataset} scene {scene} at {', '.join(map(str, searched))}. "
        for dataset, (scene, searched) in paths.items()
        if searched
    )


def find_scan(dataset: str, scene: str, roots: Roots) -> Path | None:
    """Return the path of a scene's scan; None if it was not found."""
    if not is_safe_name(scene):
        return None
    return next((path for path in _candidates(dataset, scene, roots) if path.is_file()), None)


def _candidates(dataset: str, scene: str, roots: Roots) -> Iterator[Path]:
    """Yield the paths at which a scan may be: meshes in any root, then clouds."""
    for cloud in (False, True):
        for root in roots.get(dataset, ()):
            for layout in LAYOUTS.get(dataset, ()):
                if ("pc_" in layout) is cloud:
                    # links are not resolved, because companion files are next to the link
                    yield Path(root, layout.format(id=scene)).absolute()


def find_in_folder(folder: Path, scene: str) -> Path | None:
    """Return the scan in a folder that is named after a scene, or None. KINDS has the order of preference."""
    from render_agent.scans.formats.readers import SCAN_SUFFIXES, scan_kind

    if not is_safe_name(scene):
        return None
    names = (folder / f"{scene}{suffix}" for suffix in SCAN_SUFFIXES)
    files = [path.absolute() for path in names if path.is_file()]
    if len(files) > 1:
        files.sort(key=lambda path: KINDS.index(scan_kind(path)))
    return next(iter(files), None)


def is_safe_name(scene: str) -> bool:
    """Return True if a scene's name is a safe file name: not a path, and not too long."""
    if scene in ("", ".", "..") or len(scene.encode("utf-8", "replace")) > MAX_SCENE_NAME_BYTES:
        return False
    return not any(character in scene for character in "/\\\0")


def missing_scans(questions: Iterable[Question]) -> dict[str, dict[str, int]]:
    """Return the number of questions of each scene without a scan, by data set and scene, in order of names."""
    counts = Counter((q.dataset, q.scene) for q in questions if q.scan is None)
    missing: dict[str, dict[str, int]] = {}
    for (dataset, scene), number in sorted(counts.items()):
        missing.setdefault(dataset, {})[scene] = number
    return missing


def refuse_missing(questions: Sequence[Question], places: Mapping[str, str]) -> None:
    if text := missing_text(questions, places):
        raise SetupError(
            f"{text}. Add the files (--dry-run lists them all), or skip their questions with --allow-missing."
        )


def missing_text(
    questions: Sequence[Question],
    places: Mapping[str, str] = MappingProxyType({}),
    # the largest number of scenes to name per data set; None names all
    max_named: int | None = MAX_NAMED_SCENES,
) -> str:
    """Return a text that names the scenes without a scan; empty if there are none."""
    missing = missing_scans(questions)
    if not missing:
        return ""
    num_scenes = len({(question.dataset, question.scene) for question in questions})
    parts = []
    for dataset, scenes in missing.items():
        place = places.get(dataset)
        more = f" ({place})" if place else ""
        parts.append(f"{dataset} {_format_scenes([*scenes], max_named)}{more}")
    return (
        f"missing scans for {sum(map(len, missing.values()))} of {num_scenes} scenes and"
        f" {sum(question.scan is None for question in questions)} of {len(questions)} questions: {'; '.join(parts)}"
    )


def search_places(roots: Roots) -> dict[str, str]:
    """Return, for each data set, a phrase that says where its scans are expected."""
    return {
        dataset: f"expected {layouts[0].format(id='ID')} in {' or '.join(folders)}"
        if (folders := roots.get(dataset))
        else f"--{dataset} not specified"
        for dataset, layouts in LAYOUTS.items()
    }


def _refuse_ambiguous_scenes(scenes: Iterable[tuple[str, str]]) -> None:
    """Raise SetupError if two data sets share a scene name, because images are stored by scene name."""
    datasets: dict[str, str] = {}
    for dataset, scene in sorted(scenes):
        if (other_dataset := datasets.setdefault(scene, dataset)) != dataset:
            raise SetupError(
                f"scene {scene!r} exists in both {other_dataset} and {dataset}. Run one data set at a time with --dataset."
            )


def _check_folders(roots: Roots) -> None:
    for name, folders in roots.items():
        for folder in folders:
            if not Path(folder).is_dir():
                raise SetupError(
                    f"--{name} {folder} is not a folder. Pass the root of the data set."
                )


def _stand_ins(annotations: str) -> dict[str, Path]:
    """Map each annotated scene to its annotation file."""
    if not Path(annotations).exists():
        raise SetupError(
            f"--annotations {annotations} does not exist. Pass the folder with scannet_meta_info_val.json."
        )
    files = find_annotation_files(Path(annotations))
    return {scene: file.absolute() for file in files for scene in read_annotations(file)}


def _format_scenes(scenes: Sequence[str], max_named: int | None) -> str:
    num_more = 0 if max_named is None else len(scenes) - max_named
    names = ", ".join(scenes[:max_named])
    return f"{names} and {num_more} more" if num_more > 0 else names
