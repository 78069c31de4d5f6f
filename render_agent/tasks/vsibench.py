"""VSI-Bench's questions: from a local file or the Hugging Face hub, whole or a subset."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from render_agent.dialogue.question import Question
from render_agent.errors import QuestionsError, SetupError, os_errors
from render_agent.options import RunConfig
from render_agent.tasks.benchmark import Benchmark
from render_agent.tasks.question_files import SUFFIXES, load_questions
from render_agent.tasks.scan_folders import LAYOUTS, ROOMS_HINT, Roots, searched, with_scans
from render_agent.util.hub import hub_file
from render_agent.util.safe_parse import read_bounded

QUESTION_FOLDERS = ("VSI-Bench", "vsibench", "data/vsibench", ".")
"""Where the questions are looked for when --questions is not given."""

QUESTION_FILES = ("test.jsonl", "test.json", "test-00000-of-00001.parquet", "VSI-Bench.tsv", "VSIBench.tsv")  # fmt: skip
"""What the file of questions is called."""

HUB_DATASET = "nyu-visionx/VSI-Bench"
"""VSI-Bench's name on the hub."""

HUB_FILE = "test.jsonl"
"""The file of its questions there."""

HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")
"""How the name of a data set on the hub is written, OWNER/NAME."""

DOWNLOAD_HINT = f"download {HUB_FILE} of {HUB_DATASET} and give --questions FILE"


class ScannedBenchmark(Benchmark):
    """A benchmark about the data sets of VSI-Bench, whose scans lie where `--scannet` and its like say."""

    def with_scans(self, config: RunConfig, questions: Sequence[Question]) -> list[Question]:
        """Return questions with the scans that are found, or rooms built from annotations."""
        return with_scans(questions, roots_of(config), config.annotations)

    def searched(self, config: RunConfig, questions: Sequence[Question]) -> dict[str, str]:
        """Return by data set where its scans were looked for."""
        return searched(roots_of(config))


class VSIBench(ScannedBenchmark):
    """VSI-Bench as a benchmark."""

    def questions(self, config: RunConfig) -> list[Question]:
        """Return its questions, their scans not yet looked for."""
        return load_vsibench(config.questions, config.subset)

    def files(self, config: RunConfig) -> list[Path]:
        """Return the files that its questions come from. SetupError where one is not at hand."""
        return vsibench_files(config.questions, config.subset)


VSI_BENCH = VSIBench()


def roots_of(config: RunConfig) -> Roots:
    """Return the folders of the scans of each data set."""
    return {dataset: getattr(config, dataset) for dataset in LAYOUTS}


def load_vsibench(questions: str | None, subset: str = "full") -> list[Question]:
    """Return VSI-Bench's questions in their file's order, their scans not yet looked for.

    questions: see `questions_path`. SetupError if a file is missing, QuestionsError if it is not VSI-Bench's.
    """
    path = questions_path(questions)
    return subset_of(with_pruned(load_questions(path, "vsibench"), path), path, subset)


def vsibench_files(questions: str | None, subset: str) -> list[Path]:
    """Return the files that `load_vsibench` reads for the same options."""
    path = questions_path(questions)
    tiny = [tiny_ids_path(path)] if subset == "tiny" else []
    removed = path.with_name(REMOVED_IDS)
    return [path, *tiny, *([removed] if removed.is_file() else [])]


def questions_path(questions: str | None) -> Path:
    """Return the file of VSI-Bench's questions.

    questions: the file, a folder that holds it, or a data set's name on the hub, from which it is
    fetched; without it, the file in one of the usual places, else the hub's. SetupError where it is
    in none of them.
    """
    if questions is None:
        here = next(
            (path for folder in QUESTION_FOLDERS if (path := _in_folder(Path(folder)))), None
        )
        return here or _from_hub()
    path = Path(questions)
    if path.is_file():
        return path
    inside = _in_folder(path)
    if inside is not None:
        return inside
    if not path.exists() and HUB_NAME.fullmatch(questions) and path.suffix.lower() not in SUFFIXES:
        return hub_file(questions, HUB_FILE, DOWNLOAD_HINT, dataset=True)[0]
    raise SetupError(f"there is no file of questions at {path}: --questions wants VSI-Bench's")


def _in_folder(folder: Path) -> Path | None:
    return next((folder / name for name in QUESTION_FILES if (folder / name).is_file()), None)


def _from_hub() -> Path:
    try:
        return hub_file(HUB_DATASET, HUB_FILE, DOWNLOAD_HINT, dataset=True)[0]
    except SetupError as error:
        raise SetupError(
            f"VSI-Bench's questions are not at hand: {error}, with --scannet, --scannetpp and"
            f" --arkitscenes, {ROOMS_HINT}"
        ) from error


REMOVED_IDS = "debiased_removed_ids.txt"
TINY_IDS = "tiny_ids.txt"
"""Files of ids, one a line, that are looked for beside the questions."""


def with_pruned(questions: Sequence[Question], path: Path) -> list[Question]:
    """Return the questions of the file `path`, each with `pruned`, whether `debiased` leaves it out.

    Their own column takes precedence over the file of ids beside them; without either they are unchanged.
    """
    removed = path.with_name(REMOVED_IDS)
    if not removed.is_file() or all(question.pruned is not None for question in questions):
        return list(questions)
    ids = read_ids(removed)
    return [replace(question, pruned=question.id in ids) for question in questions]


def subset_of(questions: Sequence[Question], path: Path, subset: str) -> list[Question]:
    """Return the questions of the file `path` that belong to a subset, in their order.

    Ids of `tiny` that are not among the questions were removed from the benchmark since. SetupError if the
    subset's questions are not known, QuestionsError if there are none.
    """
    if subset == "full":
        return list(questions)
    if subset == "tiny":
        ids = read_ids(tiny_ids_path(path))
        chosen = [question for question in questions if question.id in ids]
    else:
        if any(question.pruned is None for question in questions):
            raise SetupError(
                f"--subset debiased needs questions with the column pruned, which {path} does not have: put"
                f" {REMOVED_IDS} beside it"
            )
        chosen = [question for question in questions if not question.pruned]
    if not chosen:
        raise QuestionsError(f"no question of {path} is in the subset {subset}: check its ids")
    return chosen


def tiny_ids_path(path: Path) -> Path:
    """Return the file of the ids of VSI-Bench(tiny), beside the questions in `path`."""
    ids_path = path.with_name(TINY_IDS)
    if not ids_path.is_file():
        raise SetupError(
            f"--subset tiny needs the ids of VSI-Bench(tiny): put {TINY_IDS} beside {path}"
        )
    return ids_path


def read_ids(path: Path) -> set[str]:
    """Return the ids in a file, one a line. QuestionsError where there are none."""
    with os_errors(QuestionsError, f"read the ids in {path}", also=ValueError):
        ids = read_bounded(path).decode("utf-8-sig").split()
    if not ids:
        raise QuestionsError(f"{path} holds no ids: write one a line, or leave the option out")
    return set(ids)
