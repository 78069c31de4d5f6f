"""Other benchmarks about scans: SQA3D, ScanQA, OpenEQA and ReVSI, read from their authors' files.

Scans are located by scene id, as for VSI-Bench. The `metric` of each question determines how it is scored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from render_agent.dialogue.question import MAX_QUESTION_CHARS, Question, StartPose
from render_agent.errors import QuestionsError, SetupError, os_errors
from render_agent.options import RunConfig
from render_agent.tasks.question_type import QuestionType
from render_agent.tasks.question_types import answer_form_of
from render_agent.tasks.rooms import refuse_vsibench_options
from render_agent.tasks.row_files import read_rows
from render_agent.tasks.rows import check_name, is_finite, question_from_row
from render_agent.tasks.vsibench import ScannedBenchmark
from render_agent.util.reasons import short_repr
from render_agent.util.safe_parse import parse_json, read_text
from render_agent_lab.other_benchmarks import revsi_types

SCANNET = "scannet"

Entry = Mapping[str, Any]


@dataclass(frozen=True)
class ScanBenchmark(ScannedBenchmark):
    """A benchmark read from its authors' file, passed as `--questions`."""

    name: str
    read: Callable[[Path], list[Question]]  # reads the questions of a file
    file: str  # name of the authors' file, for error messages
    beside: Callable[[Path], list[Path]] = lambda path: []
    """Returns the other files that belong to a question file."""

    def questions(self, config: RunConfig) -> list[Question]:
        """Return the questions without their scans."""
        refuse_vsibench_options(config, own_questions=True)
        questions = self.read(self._path(config))
        if len({question.id for question in questions}) < len(questions):
            raise QuestionsError(f"{self._path(config)} has duplicate ids")
        return questions

    def files(self, config: RunConfig) -> list[Path]:
        path = self._path(config)
        return [path, *self.beside(path)]

    def _path(self, config: RunConfig) -> Path:
        path = Path(config.questions or "")
        if not path.is_file():
            raise SetupError(
                f"--benchmark {self.name} needs a question file. Pass the authors' {self.file} as --questions."
            )
        return path


def read_sqa3d(path: Path) -> list[Question]:
    """Read SQA3D's questions; the annotation file must be in the same folder.

    The text of a question is its situation followed by the question itself. The start pose is that of the annotation.
    As in SQA3D's tables, the first word of a question determines its type.
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
    """Return the annotation file that belongs to a question file of SQA3D."""
    annotations = path.with_name(path.name.replace("_questions_", "_sqa_annotations_"))
    if annotations == path or not annotations.is_file():
        raise SetupError(
            f"no annotations found next to {path}. Keep SQA3D's file names, such as"
            " v1_balanced_questions_test_scannetv2.json and v1_balanced_sqa_annotations_test_scannetv2.json."
        )
    return [annotations]


def read_scanqa(path: Path) -> list[Question]:
    """Read ScanQA's questions. Those of the test sets have no answers and are not scored."""
    return [
        _question(
            "scanqa", entry, "scanqa", str(entry["question"]), entry.get("answers"), "exact-match"
        )
        for entry in _entries(path, None, "question_id", "scene_id", "question")
    ]


def read_openeqa(path: Path) -> list[Question]:
    """Read the questions of OpenEQA (open-eqa-v0.json) about ScanNet scenes; answers are scored by a judge."""
    questions = []
    for entry in _entries(path, None, "question_id", "question", "episode_history"):
        scene = re.search(r"scene\d{4}_\d{2}", str(entry["episode_history"]))
        if scene is None:  # HM3D
            continue
        extra = entry.get("extra_answers")
        answers = [entry.get("answer"), *(extra if isinstance(extra, list) else [])]
        category = str(entry.get("category", "question")).replace(" ", "_")
        with_scene = {**entry, "scene_id": scene[0]}
        questions.append(
            _question(
                "openeqa",
                with_scene,
                f"openeqa_{category}",
                str(entry["question"]),
                answers,
                "llm-match",
            )
        )
    if not questions:
        raise QuestionsError(f"{path} has no question about a ScanNet scene")
    return questions


REVSI_TYPES = (
    *(kind.name for kind in vars(revsi_types).values() if isinstance(kind, QuestionType)),
    "object_abs_distance",
    "object_size_estimation",
    "route_planning",
)

# pattern of a ReVSI scene id -> data set; scans of other data sets cannot be located
REVSI_DATASETS = {
    r"scene\d{4}_\d{2}": SCANNET,
    r"\d{8}": "arkitscenes",
    r"[0-9a-f]{10}": "scannetpp",
}


def read_revsi(path: Path) -> list[Question]:
    """Read ReVSI's questions, whose rows are as on the hub and in lmms-eval."""
    questions = []
    for number, row in enumerate(read_rows(path), 1):
        kind, scene = str(row.get("question_type")), str(row.get("scene_id", row.get("scene_name")))
        if kind not in REVSI_TYPES:
            raise QuestionsError(
                f"{path}, row {number}: {short_repr(kind)} is not a question type of ReVSI"
            )
        datasets = (name for form, name in REVSI_DATASETS.items() if re.fullmatch(form, scene))
        full_row = {
            **row,
            "scene_name": scene,
            "dataset": row.get("dataset") or next(datasets, "revsi"),
            "metric": "accuracy" if answer_form_of(kind) == "letter" else "mean-relative-accuracy",
            "options": row.get("options") or None,
        }
        try:
            questions.append(question_from_row(full_row, "revsi", None))
        except QuestionsError as error:
            raise QuestionsError(f"{path}, row {number}: {error}") from error
    return questions


def _entries(path: Path, key: str | None, *fields: str) -> list[Entry]:
    """Read a list of entries from a JSON file."""
    with os_errors(QuestionsError, f"read the questions in {path}", also=ValueError):
        data: Any = parse_json(read_text(path))
    entries = data.get(key) if key is not None and isinstance(data, dict) else data
    if not isinstance(entries, list) or not entries:
        raise QuestionsError(
            f"{path} must contain a list of entries{f' under {key!r}' if key else ''}"
        )
    for number, entry in enumerate(entries, 1):
        missing_fields = [n for n in fields if not isinstance(entry, dict) or entry.get(n) is None]
        if missing_fields:
            raise QuestionsError(f"{path}, entry {number}: field {missing_fields[0]!r} is missing")
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
    """Return a question about a ScanNet scene with a text as its answer."""
    for column, name in (
        ("id", entry["question_id"]),
        ("scene_name", entry["scene_id"]),
        ("type", kind),
    ):
        check_name(column, str(name))
    texts = answers if isinstance(answers, list) else []
    texts = [answer.get("answer") if isinstance(answer, dict) else answer for answer in texts]
    if len(text) > MAX_QUESTION_CHARS:
        raise QuestionsError(f"a question has more than {MAX_QUESTION_CHARS:,} characters")
    correct = [str(answer) for answer in texts if isinstance(answer, str | int | float)]
    return Question(
        str(entry["question_id"]),
        benchmark,
        SCANNET,
        str(entry["scene_id"]),
        kind,
        text,
        "text",
        ground_truth=correct[0] if correct else None,
        metric=metric,
        answers=tuple(correct[1:]),
        start=start,
    )


def _first_word(question: str) -> str:
    """Return the first word of an SQA3D question if it determines a type, otherwise "other"."""
    text = question.lstrip().lower()
    words = ("what", "is", "how", "can", "which")
    return next((word for word in words if text.startswith(word)), "other")


def _sqa3d_start(entry: Entry, path: Path) -> StartPose:
    """Return the start pose of an SQA3D annotation.

    The rotation is a quaternion about z that is applied to a viewing direction along -x, as in SQA3D's own
    visualisation script. The position is relative to the centre of the scan.
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
