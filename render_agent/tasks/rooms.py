"""The bundled rooms and whatever `render-agent make-rooms` writes: a folder of scans and questions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from render_agent.dialogue.question import Question
from render_agent.errors import QuestionsError, UsageError
from render_agent.options import OPTIONS, RunConfig
from render_agent.tasks.benchmark import Benchmark
from render_agent.tasks.question_files import load_questions
from render_agent.tasks.scan_folders import find_beside

BUNDLED = Path(__file__).parents[1] / "bundled"
"""The rooms that come with the program; in a checkout a link to `scenes/`."""

QUESTIONS = "questions.jsonl"


VSIBENCH_ONLY = ("subset", "annotations")
"""Options that mean nothing for other benchmarks."""


@dataclass(frozen=True)
class QuestionFile(Benchmark):
    """A file of questions with the scans beside it, such as that of the bundled rooms."""

    path: Path
    benchmark: str

    def questions(self, config: RunConfig) -> list[Question]:
        """Return the questions in the file. UsageError where an option belongs to another benchmark."""
        refuse_vsibench_options(config)
        return load_beside(self.path, self.benchmark)

    def files(self, config: RunConfig) -> list[Path]:
        """Return the file."""
        return [self.path]


ROOMS = QuestionFile(BUNDLED / QUESTIONS, "rooms")


def refuse_vsibench_options(config: RunConfig, *, own_questions: bool = False) -> None:
    """Raise UsageError where an option was given that only VSI-Bench has.

    own_questions: whether the benchmark, too, reads the file that --questions names.
    """
    if config.questions is not None and not own_questions:
        raise UsageError(
            "--questions is the file of VSI-Bench's questions: give another file as --benchmark FILE"
        )
    for name in VSIBENCH_ONLY:
        if getattr(config, name) != OPTIONS[name].default:
            flag = "--" + name.replace("_", "-")
            raise UsageError(f"{flag} belongs to --benchmark vsibench: leave it out")


def bundled() -> list[Question]:
    """Return the questions about the rooms that come with the program, their scans beside them."""
    return load_rooms(BUNDLED)


def load_rooms(folder: Path) -> list[Question]:
    """Return the questions of a folder that `make-rooms` wrote, in order, with the scans of its rooms.

    Errors: QuestionsError where there are none or a row is wrong.
    """
    path = folder / QUESTIONS
    if not path.is_file():
        raise QuestionsError(
            f"there are no rooms in {folder}: make some with render-agent make-rooms --to {folder}"
        )
    return load_beside(path, "rooms")


def load_beside(path: Path, benchmark: str) -> list[Question]:
    """Return the questions of a file, the scan of each scene looked for beside it as SCENE.ply, SCENE.glb …

    QuestionsError if a row is wrong, or there is no scan at all.
    """
    questions = load_questions(path, benchmark)
    scenes = {question.scene for question in questions}
    scans = {scene: find_beside(path.parent, scene) for scene in scenes}
    if not any(scans.values()):
        raise QuestionsError(
            f"none of the scans of {path} lies beside it: put {questions[0].scene}.ply and the others"
            f" into {path.parent}"
        )
    return [replace(question, scan=scans[question.scene]) for question in questions]
