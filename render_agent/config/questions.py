"""Which questions a run asks: the options, and whether they leave some of a benchmark out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

from render_agent.config.choice import parsed
from render_agent.config.option import declare
from render_agent.errors import UsageError
from render_agent.scans.file_frame import AUTO, AXES, METRES, AnyUnit, Up

if TYPE_CHECKING:
    from render_agent.tasks.counterfactual.change_plan import ChangePlan

VSIBENCH, ROOMS = "vsibench", "rooms"

setting = partial(declare, "questions")


@dataclass(frozen=True)
class QuestionSpec:
    """Which questions are asked, and where they and their scans lie."""

    batch: bool = setting(False, "Run a benchmark.")
    ply: str | None = setting(
        None, "Ask one question of this scan (PLY, GLB, OBJ).", metavar="FILE", path="always"
    )
    question: str | None = setting(None, "The question to ask.", metavar="TEXT")
    up: Up = setting(  # noqa: RUF009
        AUTO,
        "The axis of the scans' files that points up; auto is what a file or its format says, else z.",
        choices=(AUTO, *AXES),
    )
    unit: AnyUnit = setting(  # noqa: RUF009
        AUTO,
        "The unit of the scans' files; auto is what a file or its format says, else metres, and a scan"
        " that is as large or as small as no room is refused.",
        choices=(AUTO, *METRES),
    )
    option: tuple[str, ...] = setting(
        (), 'A choice, such as "A. left"; give one --option a choice.', metavar="TEXT"
    )
    benchmark: str = setting(
        VSIBENCH,
        "Which questions: vsibench, rooms (bundled, needs nothing), sqa3d, scanqa, openeqa, revsi, or a"
        " file of questions.",
        metavar="NAME|FILE",
        path="file",
    )
    questions: str | None = setting(
        None,
        "The benchmark's own questions, its authors' file. VSI-Bench's: a file (jsonl, json, parquet, or"
        " VLMEvalKit's tsv), its folder, or a name on the hub (default: test.jsonl where it lies, else"
        " nyu-visionx/VSI-Bench).",
        metavar="FILE|NAME",
        path="existing",
    )
    subset: str = setting(
        "full", "Which of VSI-Bench's questions.", choices=("full", "debiased", "tiny")
    )
    scannet: tuple[str, ...] = setting(
        (),
        "Where ScanNet lies; may be given more than once.",
        metavar="DIR",
        path="always",
    )
    scannetpp: tuple[str, ...] = setting(
        (),
        "Where ScanNet++ lies; may be given more than once.",
        metavar="DIR",
        path="always",
    )
    arkitscenes: tuple[str, ...] = setting(
        (),
        "Where ARKitScenes lies; may be given more than once.",
        metavar="DIR",
        path="always",
    )
    annotations: str | None = setting(
        None,
        "VSI-Bench's official annotations: rooms of coloured boxes stand in for scans that are not"
        " found.",
        metavar="DIR",
        path="always",
    )
    allow_missing: bool = setting(
        False,
        "Go on without the scans that are not found; their questions are MISSING, and every figure"
        " says so.",
    )
    limit: int | None = setting(
        None, "At most so many questions; the run is stamped PARTIAL.", metavar="N"
    )
    type: tuple[str, ...] = setting(
        (), "Only this question type; may be given more than once.", metavar="TYPE"
    )
    dataset: tuple[str, ...] = setting(
        (),
        "Only this data set: scannet, scannetpp, arkitscenes; may be given more than once.",
        metavar="NAME",
    )
    scene: tuple[str, ...] = setting(
        (), "Only this scene; may be given more than once.", metavar="SCENE"
    )
    id: tuple[str, ...] = setting(
        (), "Only the question with this id; may be given more than once.", metavar="ID"
    )
    exclude: str | None = setting(
        None,
        "Without the questions whose ids this file has, one a line, as render-agent audit --to writes it.",
        metavar="FILE",
        path="always",
    )
    shuffle: bool = setting(False, "Choose the questions in an order drawn from the seed.")
    shard: str | None = setting(
        None,
        "Only part I of N of the scenes, such as 2/8; render-agent merge joins the parts.",
        metavar="I/N",
    )
    change: tuple[str, ...] = setting(
        (),
        "Ask every question once more with one thing changed: in the room (remove:CATEGORY, add:CATEGORY, move,"
        " swap, recolour, scale:X, rotate) or in its words (order, letters, units:cm, inverse, names); may be given"
        " more than once.",
        metavar="CHANGE",
    )

    def check_questions(self) -> None:
        """Raise UsageError where these options contradict each other."""
        if self.batch == (self.ply is not None):
            raise UsageError("give either --batch, or --ply FILE with --question TEXT")
        if self.ply is not None and not (self.question or "").strip():
            raise UsageError("--ply needs --question TEXT")
        if self.batch and (self.question or self.option):
            raise UsageError("--question and --option go with --ply, not with --batch")
        if self.change and not self.batch:
            raise UsageError(
                "--change needs --batch: nobody knows the truth of a question that was typed"
            )
        _ = self.changes  # refuses what is none

    @cached_property
    def changes(self) -> tuple[ChangePlan, ...]:
        """What `--change` asks for. UsageError where one is none of the forms of changes, or is there twice."""
        return parsed("change", "--change", self.change)

    @property
    def frame(self) -> tuple[Up, AnyUnit]:
        """What `--up` and `--unit` say of the files of scans; those of the bundled rooms are known."""
        return (
            (AUTO, AUTO) if self.benchmark == ROOMS and self.ply is None else (self.up, self.unit)
        )

    @property
    def asks_vsibench(self) -> bool:
        """Whether the questions are VSI-Bench's own."""
        return self.benchmark == VSIBENCH

    @property
    def partial(self) -> bool:
        """Whether only some of the benchmark's questions are chosen."""
        narrowed = self.type or self.dataset or self.scene or self.id or self.exclude
        return bool(self.limit or narrowed or self.shard)
