"""Folders with a question file and scans: the bundled rooms, and folders written by `render-agent make-rooms`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from render_agent.dialogue.question import Question
from render_agent.errors import QuestionsError, UsageError
from render_agent.options import OPTIONS, RunConfig, flag_of
from render_agent.tasks.benchmark import Benchmark
from render_agent.tasks.row_files import load_questions
from render_agent.tasks.scan_folders import find_in_folder, missing_text
from render_agent.util.reasons import did_you_mean

# The bundled rooms; in a checkout, a link to scenes/.
BUNDLED = Path(__file__).parents[1] / "bundled"

QUESTIONS = "questions.jsonl"

VSIBENCH_ONLY = ("subset", "annotations")  # options that apply only to VSI-Bench


@dataclass(frozen=True)
class QuestionFile(Benchmark):
    """A question file with scans in the same folder, such as that of the bundled rooms."""

    path: Path
    benchmark: str

    def questions(self, config: RunConfig) -> list[Question]:
        refuse_vsibench_options(config)
        return load_with_scans(self.path, self.benchmark)

    def files(self, config: RunConfig) -> list[Path]:
        return [self.path]

    def search_places(self, config: RunConfig, questions: Sequence[Question]) -> dict[str, str]:
        """Return, for each data set, the scans next to the file, and the name that is most similar to a missing one."""
        missing = {q.dataset: q.scene for q in reversed(questions) if q.scan is None}
        return {
            dataset: scans_instead_of(scene, self.path.parent) for dataset, scene in missing.items()
        }


ROOMS = QuestionFile(BUNDLED / QUESTIONS, "rooms")
VIEWS = QuestionFile(BUNDLED / "views.jsonl", "views")


def refuse_vsibench_options(config: RunConfig, *, own_questions: bool = False) -> None:
    """Raise UsageError if an option was passed that applies only to VSI-Bench."""
    if config.questions is not None and not own_questions:
        raise UsageError(
            "--questions applies only to VSI-Bench's question file. Pass any other file as --benchmark FILE."
        )
    for name in VSIBENCH_ONLY:
        if getattr(config, name) != OPTIONS[name].default:
            raise UsageError(f"{flag_of(name)} applies only to --benchmark vsibench. Omit it.")


def load_bundled_rooms() -> list[Question]:
    """Return the questions about the bundled rooms, with their scans."""
    return load_rooms(BUNDLED)


def load_rooms(folder: Path) -> list[Question]:
    """Return the questions of a folder written by `make-rooms`, in order, with the scans of its rooms."""
    path = folder / QUESTIONS
    if not path.is_file():
        raise QuestionsError(
            f"no rooms found in {folder}. Create some with: render-agent make-rooms --to {folder}"
        )
    return load_with_scans(path, "rooms")


def load_with_scans(path: Path, benchmark: str) -> list[Question]:
    """Read a question file whose scans are in the same folder, named SCENE.ply, SCENE.glb and so on."""
    questions = load_questions(path, benchmark)
    scenes = {question.scene for question in questions}
    scans = {scene: find_in_folder(path.parent, scene) for scene in scenes}
    questions = [replace(question, scan=scans[question.scene]) for question in questions]
    if not any(scans.values()):
        scene = questions[0].scene
        raise QuestionsError(
            f"{missing_text(questions)}. Expected a scan named after each scene next to {path.name}:"
            f" {scans_instead_of(scene, path.parent)}"
        )
    return questions


MAX_LISTED_SCANS = 10


def scans_instead_of(scene: str, folder: Path) -> str:
    """Return a phrase that lists the scans in a folder and suggests the most similar name."""
    from render_agent.scans.formats.readers import SCAN_SUFFIXES

    names = sorted(path.name for path in folder.iterdir() if path.suffix.lower() in SCAN_SUFFIXES)
    if not names:
        return f"there is no scan in {folder}"
    more = f" and {len(names) - MAX_LISTED_SCANS} more" if len(names) > MAX_LISTED_SCANS else ""
    stems = {Path(name).stem for name in names}
    stem = Path(scene).stem
    similar = f"; did you mean {stem!r}?" if stem in stems else did_you_mean(scene, stems)
    return f"{folder} has {', '.join(names[:MAX_LISTED_SCANS])}{more}{similar}"
