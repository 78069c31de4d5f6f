"""VSI-Bench's subsets: debiased leaves out what can be guessed unseen, tiny is a small sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from render_agent.dialogue.state import Question
from render_agent.errors import QuestionsError, SetupError
from render_agent.text.safe_parse import read_bounded

REMOVED_IDS = "debiased_removed_ids.txt"
TINY_IDS = "tiny_ids.txt"
"""Files of ids, one a line, that are looked for beside the questions."""


def with_pruned(questions: Sequence[Question], path: Path, given: str | None) -> list[Question]:
    """Return the questions of the file `path`, each saying whether debiased leaves it out.

    given: a file of the ids that it leaves out; it goes before the questions' own column `pruned`,
    and that before the file of ids beside them. Without any of these they are returned as they are.
    """
    removed = removed_ids_path(path, given)
    known = all(question.pruned is not None for question in questions)
    if removed is None or (known and given is None):
        return list(questions)
    ids = read_ids(removed)
    return [replace(question, pruned=question.id in ids) for question in questions]


def subset_of(
    questions: Sequence[Question], path: Path, subset: str, tiny_ids: str | None = None
) -> list[Question]:
    """Return the questions of the file `path` that belong to a subset, in their order.

    tiny_ids: the file of the ids of `tiny`; without it the one beside the questions. Ids that are
    not among the questions were dropped from the benchmark since. Errors: SetupError where it is not
    known which questions belong to the subset, QuestionsError where none does.
    """
    if subset == "full":
        return list(questions)
    if subset == "tiny":
        ids = read_ids(tiny_ids_path(path, tiny_ids))
        chosen = [question for question in questions if question.id in ids]
    else:
        if any(question.pruned is None for question in questions):
            raise SetupError(
                f"--subset debiased needs questions with the column pruned, which {path} does not"
                f" have: give --removed-ids FILE, or put {REMOVED_IDS} beside it"
            )
        chosen = [question for question in questions if not question.pruned]
    if not chosen:
        raise QuestionsError(f"no question of {path} is in the subset {subset}: check its ids")
    return chosen


def tiny_ids_path(path: Path, given: str | None) -> Path:
    """Return the file of the ids of VSI-Bench(tiny), given or beside the questions in `path`."""
    ids_path = _given(given, "--tiny-ids") or path.with_name(TINY_IDS)
    if not ids_path.is_file():
        raise SetupError(
            f"--subset tiny needs the ids of VSI-Bench(tiny): give --tiny-ids FILE, or put {TINY_IDS}"
            f" beside {path}"
        )
    return ids_path


def removed_ids_path(path: Path, given: str | None) -> Path | None:
    """Return the file of the ids that debiased leaves out, None where there is none."""
    beside = path.with_name(REMOVED_IDS)
    return _given(given, "--removed-ids") or (beside if beside.is_file() else None)


def read_ids(path: Path) -> set[str]:
    """Return the ids in a file, one a line. QuestionsError where there are none."""
    try:
        ids = read_bounded(path).decode("utf-8-sig").split()
    except (OSError, ValueError) as error:
        raise QuestionsError(f"cannot read the ids in {path}: {error}") from error
    if not ids:
        raise QuestionsError(f"{path} holds no ids: write one a line")
    return set(ids)


def _given(file: str | None, option: str) -> Path | None:
    if file is not None and not Path(file).is_file():
        raise SetupError(f"there is no file at {file}: {option} wants one of ids, an id a line")
    return None if file is None else Path(file)
