"""VSI-Bench's questions: a file of them, found or fetched, whole or a subset."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from render_agent.config import RunConfig
from render_agent.dialogue.state import Question
from render_agent.errors import SetupError
from render_agent.questions.files import SUFFIXES
from render_agent.questions.hub import VSIBENCH, fetch_questions, is_hub_name
from render_agent.questions.rows import load_rows
from render_agent.questions.scans import LAYOUTS, NEEDS_NOTHING, Roots, searched, with_scans
from render_agent.questions.subsets import (
    removed_ids_path,
    subset_of,
    tiny_ids_path,
    with_pruned,
)

FOLDERS = ("VSI-Bench", "vsibench", "data/vsibench", ".")
"""Where the questions are looked for when --questions is not given."""

FILES = ("test.jsonl", "test.json", "test-00000-of-00001.parquet", "VSI-Bench.tsv", "VSIBench.tsv")
"""What the file of questions is called."""


class VSIBench:
    """VSI-Bench as a benchmark."""

    def __call__(self, config: RunConfig) -> list[Question]:
        """Return its questions, their scans not yet looked for."""
        return load_vsibench(
            config.questions,
            config.subset,
            tiny_ids=config.tiny_ids,
            removed_ids=config.removed_ids,
        )

    def files(self, config: RunConfig) -> list[Path]:
        """Return the files that its questions come from. SetupError where one is not at hand."""
        ids = {"tiny_ids": config.tiny_ids, "removed_ids": config.removed_ids}
        return vsibench_files(config.questions, config.subset, **ids)

    def with_scans(self, config: RunConfig, questions: Sequence[Question]) -> list[Question]:
        """Return questions with the scans that are found, or rooms built from annotations."""
        return with_scans(questions, roots_of(config), config.annotations)

    def searched(self, config: RunConfig) -> dict[str, str]:
        """Return by data set where its scans were looked for."""
        return searched(roots_of(config))


VSI_BENCH = VSIBench()


def roots_of(config: RunConfig) -> Roots:
    """Return where the scans of each data set lie."""
    return {dataset: getattr(config, dataset) for dataset in LAYOUTS}


def load_vsibench(
    questions: str | None,
    subset: str = "full",
    *,
    tiny_ids: str | None = None,
    removed_ids: str | None = None,
) -> list[Question]:
    """Return VSI-Bench's questions in their file's order, their scans not yet looked for.

    questions: see `questions_path`. subset, tiny_ids: see `subset_of`. removed_ids: see
    `with_pruned`. SetupError where a file is not at hand, QuestionsError where it is not
    VSI-Bench's.
    """
    path = questions_path(questions)
    found = with_pruned(load_rows(path, "vsibench"), path, removed_ids)
    return subset_of(found, path, subset, tiny_ids)


def vsibench_files(
    questions: str | None, subset: str, *, tiny_ids: str | None, removed_ids: str | None
) -> list[Path]:
    """Return the files that `load_vsibench` reads for the same options."""
    path = questions_path(questions)
    tiny = tiny_ids_path(path, tiny_ids) if subset == "tiny" else None
    return [file for file in (path, tiny, removed_ids_path(path, removed_ids)) if file]


def questions_path(questions: str | None) -> Path:
    """Return the file of VSI-Bench's questions.

    questions: the file, a folder that holds it, or a data set's name on the hub, from which it is
    fetched; without it, the file in one of the usual places, else the hub's. SetupError where it is
    in none of them.
    """
    if questions is None:
        here = next((path for folder in FOLDERS if (path := _in_folder(Path(folder)))), None)
        return here or _from_hub()
    path = Path(questions)
    if path.is_file():
        return path
    inside = _in_folder(path)
    if inside is not None:
        return inside
    if not path.exists() and is_hub_name(questions) and path.suffix.lower() not in SUFFIXES:
        return fetch_questions(questions)
    raise SetupError(f"there is no file of questions at {path}: --questions wants VSI-Bench's")


def _in_folder(folder: Path) -> Path | None:
    return next((folder / name for name in FILES if (folder / name).is_file()), None)


def _from_hub() -> Path:
    try:
        return fetch_questions(VSIBENCH)
    except SetupError as error:
        raise SetupError(
            f"VSI-Bench's questions are not at hand: {error}, with --scannet, --scannetpp and"
            f" --arkitscenes, {NEEDS_NOTHING}"
        ) from error
