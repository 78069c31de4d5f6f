"""VSI-Bench's questions, from a local file or the Hugging Face hub, complete or as a subset."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from render_agent.dialogue.question import Question
from render_agent.errors import QuestionsError, SetupError, os_errors
from render_agent.options import RunConfig
from render_agent.tasks.benchmark import Benchmark
from render_agent.tasks.row_files import SUFFIXES, load_questions
from render_agent.tasks.scan_folders import LAYOUTS, ROOMS_HINT, Roots, search_places, with_scans
from render_agent.util.hub import hub_file
from render_agent.util.safe_parse import read_text

# Folders searched if --questions is not given.
QUESTION_FOLDERS = ("VSI-Bench", "vsibench", "data/vsibench", ".")

QUESTION_FILES = ("test.jsonl", "test.json", "test-00000-of-00001.parquet", "VSI-Bench.tsv", "VSIBench.tsv")  # fmt: skip

HUB_DATASET = "nyu-visionx/VSI-Bench"
HUB_FILE = "test.jsonl"  # the question file in HUB_DATASET
HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")  # OWNER/NAME of a data set on the hub

DOWNLOAD_HINT = f"download {HUB_FILE} of {HUB_DATASET} and pass it as --questions"


class ScannedBenchmark(Benchmark):
    """A benchmark on VSI-Bench's data sets, with scans in the folders given by `--scannet` and similar options."""

    def with_scans(self, config: RunConfig, questions: Sequence[Question]) -> list[Question]:
        return with_scans(questions, roots_of(config), config.annotations)

    def search_places(self, config: RunConfig, questions: Sequence[Question]) -> dict[str, str]:
        return search_places(roots_of(config))


class VSIBench(ScannedBenchmark):
    def questions(self, config: RunConfig) -> list[Question]:
        """Return the questions without their scans. Raises the same errors as `load_vsibench`."""
        return load_vsibench(config.questions, config.subset)

    def files(self, config: RunConfig) -> list[Path]:
        return vsibench_files(config.questions, config.subset)


VSI_BENCH = VSIBench()


def roots_of(config: RunConfig) -> Roots:
    return {dataset: getattr(config, dataset) for dataset in LAYOUTS}


def load_vsibench(questions: str | None, subset: str = "full") -> list[Question]:
    """Return VSI-Bench's questions in file order, without their scans."""
    path = questions_path(questions)
    return subset_of(with_pruned(load_questions(path, "vsibench"), path), path, subset)


def vsibench_files(questions: str | None, subset: str) -> list[Path]:
    """Return the files that `load_vsibench` reads for the same options."""
    path = questions_path(questions)
    tiny = [tiny_ids_path(path)] if subset == "tiny" else []
    removed_ids = path.with_name(REMOVED_IDS)
    return [path, *tiny, *([removed_ids] if removed_ids.is_file() else [])]


def questions_path(questions: str | None) -> Path:
    """Locate VSI-Bench's question file: a file, a folder, or a data set on the hub; None searches QUESTION_FOLDERS,
    then the hub.
    """
    if questions is None:
        local = next(
            (path for folder in QUESTION_FOLDERS if (path := _in_folder(Path(folder)))), None
        )
        return local or _from_hub()
    path = Path(questions)
    if path.is_file():
        return path
    in_folder = _in_folder(path)
    if in_folder is not None:
        return in_folder
    if not path.exists() and HUB_NAME.fullmatch(questions) and path.suffix.lower() not in SUFFIXES:
        return hub_file(questions, HUB_FILE, DOWNLOAD_HINT, dataset=True)[0]
    raise SetupError(f"no question file found at {path}. Pass VSI-Bench's file as --questions.")


def _in_folder(folder: Path) -> Path | None:
    return next((folder / name for name in QUESTION_FILES if (folder / name).is_file()), None)


def _from_hub() -> Path:
    try:
        return hub_file(HUB_DATASET, HUB_FILE, DOWNLOAD_HINT, dataset=True)[0]
    except SetupError as error:
        raise SetupError(
            f"VSI-Bench's questions are not available: {error}, with --scannet, --scannetpp and"
            f" --arkitscenes, {ROOMS_HINT}"
        ) from error


# Files next to the question file, with one id per line.
REMOVED_IDS = "debiased_removed_ids.txt"
TINY_IDS = "tiny_ids.txt"


def with_pruned(questions: Sequence[Question], path: Path) -> list[Question]:
    """Set `pruned` of all questions from the file of removed ids next to `path`.

    Questions stay unchanged if there is no such file, or if all of them have the flag from a column.
    """
    removed_ids = path.with_name(REMOVED_IDS)
    if not removed_ids.is_file() or all(question.pruned is not None for question in questions):
        return list(questions)
    ids = read_ids(removed_ids)
    return [replace(question, pruned=question.id in ids) for question in questions]


def subset_of(questions: Sequence[Question], path: Path, subset: str) -> list[Question]:
    """Return the questions of a subset, in order.

    Unknown ids in the list of `tiny` are ignored, because the benchmark has since removed those questions.
    """
    if subset == "full":
        return list(questions)
    if subset == "tiny":
        ids = read_ids(tiny_ids_path(path))
        subset_questions = [question for question in questions if question.id in ids]
    else:
        if any(question.pruned is None for question in questions):
            raise SetupError(
                f"--subset debiased needs a column 'pruned', which {path} does not have. Add {REMOVED_IDS} to"
                " the same folder."
            )
        subset_questions = [question for question in questions if not question.pruned]
    if not subset_questions:
        raise QuestionsError(
            f"no question in {path} belongs to the subset {subset}. Check its ids."
        )
    return subset_questions


def tiny_ids_path(path: Path) -> Path:
    """Return the file with the ids of VSI-Bench(tiny), in the folder of the question file."""
    ids_path = path.with_name(TINY_IDS)
    if not ids_path.is_file():
        raise SetupError(
            f"--subset tiny needs the ids of VSI-Bench(tiny). Add {TINY_IDS} to {path.parent}."
        )
    return ids_path


def read_ids(path: Path) -> set[str]:
    """Read a file with one id per line."""
    with os_errors(QuestionsError, f"read the ids in {path}", also=ValueError):
        ids = read_text(path).split()
    if not ids:
        raise QuestionsError(f"{path} contains no ids. Add one id per line, or omit the option.")
    return set(ids)
