"""Other benchmarks about scans: SQA3D, ScanQA, OpenEQA and ReVSI, read from the files in which their authors give them.

Their scans are found as VSI-Bench's are, by the ids of scenes. What they are scored by is each question's `metric`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from render_agent.dialogue.question import MAX_QUESTION_LETTERS, Question, StartPose
from render_agent.errors import QuestionsError, SetupError, os_errors
from render_agent.options import RunConfig
from render_agent.tasks.question_files import read_rows
from render_agent.tasks.question_types import REVSI_CHOICES, REVSI_NUMBERS
from render_agent.tasks.rooms import refuse_vsibench_options
from render_agent.tasks.rows import check_name, is_finite, question_from_row
from render_agent.tasks.vsibench import ScannedBenchmark
from render_agent.util.reasons import short_repr
from render_agent.util.safe_parse import parse_json, read_bounded

SCANNET = "scannet"

Entry = Mapping[str, Any]


@dataclass(frozen=True)
class ScanBenchmark(ScannedBenchmark):
    """A benchmark in its authors' file, which --questions names; VSI-Bench's annotations are refused.

    name: as `--benchmark` has it. read: gives the questions of a file. beside: the files that belong to one.
    """

    name: str
    read: Callable[[Path], list[Question]]
    file: str
    beside: Callable[[Path], list[Path]] = lambda path: []

    def questions(self, config: RunConfig) -> list[Question]:
        """Return the questions, their scans not yet looked for. QuestionsError where the file has another form."""
        refuse_vsibench_options(config, own_questions=True)
        questions = self.read(self._path(config))
        if len({question.id for question in questions}) < len(questions):
            raise QuestionsError(f"{self._path(config)} has an id twice; ids must be unique")
        return questions

    def files(self, config: RunConfig) -> list[Path]:
        """Return the files that the questions come from. SetupError where one is not at hand."""
        path = self._path(config)
        return [path, *self.beside(path)]

    def _path(self, config: RunConfig) -> Path:
        path = Path(config.questions or "")
        if not path.is_file():
            raise SetupError(
                f"--benchmark {self.name} needs its questions: give --questions FILE, its authors' {self.file}"
            )
        return path


def read_sqa3d(path: Path) -> list[Question]:
    """Return the questions of SQA3D: its file of questions, and beside it that of annotations.

    The situation comes before the question, and the camera begins where the annotation says. Types are by the
    question's first word, as its tables have them.
    """
    annotations = {
        str(entry["question_id"]): entry
        for entry in _entries(sqa3d_annotations(path)[0], "annotations", "question_id")
    }
    questions = []
    for entry in _entries(path, "questions", "question_id", "scene_id", "situation", "question"):
        annotation = annotations.get(str(entry["question_id"]))
        if annotation is None:
            raise QuestionsError(
                f"{path}: question {short_repr(str(entry['question_id']))} has no annotation in {sqa3d_annotations(path)[0]}"
            )
        text = str(entry["question"])
        questions.append(
            _question(
                "sqa3d",
                entry,
                f"sqa3d_{_first_word(text)}",
                f"{str(entry['situation']).strip()} {text.strip()}",
                annotation.get("answers"),
                "exact-match",
                _sqa3d_start(annotation, path),
            )
        )
    return questions


def sqa3d_annotations(path: Path) -> list[Path]:
    """Return the file of annotations of SQA3D that belongs to one of its questions.

    SetupError where it is not there.
    """
    beside = path.with_name(path.name.replace("_questions_", "_sqa_annotations_"))
    if beside == path or not beside.is_file():
        raise SetupError(
            f"the annotations of {path} are not beside it: keep SQA3D's names of files, such as"
            " v1_balanced_questions_test_scannetv2.json and v1_balanced_sqa_annotations_test_scannetv2.json"
        )
    return [beside]


def read_scanqa(path: Path) -> list[Question]:
    """Return the questions of ScanQA; those of its test sets have no answers, and none is scored."""
    return [
        _question(
            "scanqa", entry, "scanqa", str(entry["question"]), entry.get("answers"), "exact-match"
        )
        for entry in _entries(path, None, "question_id", "scene_id", "question")
    ]


def read_openeqa(path: Path) -> list[Question]:
    """Return those questions of OpenEQA (open-eqa-v0.json) that are about scenes of ScanNet; a judge scores them."""
    questions = []
    for entry in _entries(path, None, "question_id", "question", "episode_history"):
        scene = re.search(r"scene\d{4}_\d{2}", str(entry["episode_history"]))
        if scene is None:  # HM3D
            continue
        more = entry.get("extra_answers")
        answers = [entry.get("answer"), *(more if isinstance(more, list) else [])]
        category = str(entry.get("category", "question")).replace(" ", "_")
        named = {**entry, "scene_id": scene[0]}
        questions.append(
            _question(
                "openeqa",
                named,
                f"openeqa_{category}",
                str(entry["question"]),
                answers,
                "llm-match",
            )
        )
    if not questions:
        raise QuestionsError(f"{path} has no question about a scene of ScanNet")
    return questions


REVSI_DATASETS = {
    r"scene\d{4}_\d{2}": SCANNET,
    r"\d{8}": "arkitscenes",
    r"[0-9a-f]{10}": "scannetpp",
}
"""Whose scene an id of ReVSI is, by its form; others are of data sets whose layout is not known here."""


def read_revsi(path: Path) -> list[Question]:
    """Return the questions of ReVSI, rows as its data set on the hub and lmms-eval have them."""
    questions = []
    for number, row in enumerate(read_rows(path), 1):
        kind, scene = str(row.get("question_type")), str(row.get("scene_id", row.get("scene_name")))
        if kind not in REVSI_CHOICES + REVSI_NUMBERS:
            raise QuestionsError(
                f"{path}, row {number}: {short_repr(kind)} is no question type of ReVSI"
            )
        forms = (name for form, name in REVSI_DATASETS.items() if re.fullmatch(form, scene))
        named = {
            **row,
            "scene_name": scene,
            "dataset": row.get("dataset") or next(forms, "revsi"),
            "metric": "accuracy" if kind in REVSI_CHOICES else "mean-relative-accuracy",
            "options": row.get("options") or None,
        }
        try:
            questions.append(question_from_row(named, "revsi", None))
        except QuestionsError as error:
            raise QuestionsError(f"{path}, row {number}: {error}") from error
    return questions


def _entries(path: Path, key: str | None, *fields: str) -> list[Entry]:
    """Return the entries of a JSON file that have these fields; key: under which they stand. QuestionsError."""
    with os_errors(QuestionsError, f"read the questions in {path}", also=ValueError):
        data: Any = parse_json(read_bounded(path).decode("utf-8-sig"))
    entries = data.get(key) if key is not None and isinstance(data, dict) else data
    if not isinstance(entries, list) or not entries:
        raise QuestionsError(
            f"{path} must hold a list of entries{f' under {key!r}' if key else ''}"
        )
    for number, entry in enumerate(entries, 1):
        lacking = [n for n in fields if not isinstance(entry, dict) or entry.get(n) is None]
        if lacking:
            raise QuestionsError(f"{path}, entry {number}: the field {lacking[0]!r} is missing")
    return entries


def _question(
    benchmark: str,
    entry: Entry,
    kind: str,
    text: str,
    answers: object,
    metric: str,
    start: StartPose | None = None,
) -> Question:
    """Return a question about a scene of ScanNet that wants a text; answers: a list of them, or of objects with them.

    QuestionsError where it cannot go by its names.
    """
    for column, name in (
        ("id", entry["question_id"]),
        ("scene_name", entry["scene_id"]),
        ("type", kind),
    ):
        check_name(column, str(name))
    texts = answers if isinstance(answers, list) else []
    texts = [answer.get("answer") if isinstance(answer, dict) else answer for answer in texts]
    if len(text) > MAX_QUESTION_LETTERS:
        raise QuestionsError(f"a question has more than {MAX_QUESTION_LETTERS:,} letters")
    right = [str(answer) for answer in texts if isinstance(answer, str | int | float)]
    return Question(
        str(entry["question_id"]),
        benchmark,
        SCANNET,
        str(entry["scene_id"]),
        kind,
        text,
        "text",
        truth=right[0] if right else None,
        metric=metric,
        answers=tuple(right[1:]),
        start=start,
    )


def _first_word(question: str) -> str:
    """Return the type of a question of SQA3D, by how it begins."""
    begins = question.lstrip().lower()
    words = ("what", "is", "how", "can", "which")
    return next((word for word in words if begins.startswith(word)), "other")


def _sqa3d_start(entry: Entry, path: Path) -> StartPose:
    """Return the pose of an annotation of SQA3D.

    Its rotation is a quaternion about z, that of an arrow which without it points along -x, as SQA3D's own
    script draws it; its position counts from the middle of the scan.
    """
    position, rotation = entry.get("position"), entry.get("rotation")
    numbers = [
        part.get(axis) if isinstance(part, dict) else None
        for part, axis in ((position, "x"), (position, "y"), (rotation, "_z"), (rotation, "_w"))
    ]
    if not all(map(is_finite, numbers)):
        raise QuestionsError(
            f"{path}: question {short_repr(str(entry['question_id']))} has no position and rotation"
        )
    x, y, z, w = (float(number or 0.0) for number in numbers)
    yaw = math.degrees(2 * math.atan2(z, w)) + 180
    return StartPose((x, y, 0.0), (yaw + 180) % 360 - 180, centred=True)


SQA3D = ScanBenchmark(
    "sqa3d", read_sqa3d, "v1_balanced_questions_test_scannetv2.json", sqa3d_annotations
)
SCANQA = ScanBenchmark("scanqa", read_scanqa, "ScanQA_v1.0_val.json")
OPENEQA = ScanBenchmark("openeqa", read_openeqa, "open-eqa-v0.json")
REVSI = ScanBenchmark("revsi", read_revsi, "rows (jsonl, json or parquet)")
