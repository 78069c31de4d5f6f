"""Every option of a run, once: its name, default, sentence, and what it may change."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from math import isfinite
from typing import Any

from render_agent.config.choosing_options import ChoosingOptions
from render_agent.config.option_forms import misfit_of_options
from render_agent.config.paths import absolute_paths
from render_agent.config.setting import setting
from render_agent.config.view_budget import opening_kinds
from render_agent.errors import UsageError

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class RunConfig(ChoosingOptions):
    """The options of one run, resolved: flag beats environment beats file beats default.

    What may differ when a run is continued: the groups `speed`, `place` and `display`, and what is
    declared `free`. All else changes results and is part of the fingerprint.
    """

    batch: bool = setting(False, "questions", "Run a benchmark.", flag=True)
    ply: str | None = setting(
        None, "questions", "Ask one question of this scan (PLY, GLB, OBJ).", metavar="FILE"
    )
    question: str | None = setting(None, "questions", "The question to ask.", metavar="TEXT")
    option: tuple[str, ...] = setting(
        (), "questions", 'A choice, such as "A. left"; give one --option a choice.', metavar="TEXT"
    )
    benchmark: str = setting(
        "vsibench",
        "questions",
        "Which questions: vsibench, rooms (bundled, needs nothing) or a file of questions.",
        metavar="vsibench|rooms|FILE",
    )
    questions: str | None = setting(
        None,
        "questions",
        "VSI-Bench's own questions: a file (jsonl, json, parquet, or VLMEvalKit's tsv), its folder, or"
        " a name on the hub (default: test.jsonl where it lies, else nyu-visionx/VSI-Bench).",
        metavar="FILE|NAME",
    )
    subset: str = setting(
        "full",
        "questions",
        "Which of VSI-Bench's questions.",
        choices=("full", "debiased", "tiny"),
    )
    tiny_ids: str | None = setting(
        None,
        "questions",
        "The ids of VSI-Bench(tiny), one a line (default: tiny_ids.txt beside the questions).",
        metavar="FILE",
    )
    removed_ids: str | None = setting(
        None,
        "questions",
        "The ids that debiased leaves out (default: the column pruned, else"
        " debiased_removed_ids.txt beside the questions).",
        metavar="FILE",
    )
    scannet: tuple[str, ...] = setting(
        (), "questions", "Where ScanNet lies; may be given more than once.", metavar="DIR"
    )
    scannetpp: tuple[str, ...] = setting(
        (), "questions", "Where ScanNet++ lies; may be given more than once.", metavar="DIR"
    )
    arkitscenes: tuple[str, ...] = setting(
        (), "questions", "Where ARKitScenes lies; may be given more than once.", metavar="DIR"
    )
    annotations: str | None = setting(
        None,
        "questions",
        "VSI-Bench's official annotations: rooms of labelled boxes stand in for scans that are not"
        " found.",
        metavar="DIR",
    )
    allow_missing: bool = setting(
        False,
        "questions",
        "Go on without the scans that are not found; their questions are MISSING, and every figure"
        " says so.",
        flag=True,
    )
    limit: int | None = setting(
        None, "questions", "At most so many questions; the run is stamped PARTIAL.", metavar="N"
    )
    type: tuple[str, ...] = setting((), "questions", "Only this question type.", metavar="TYPE")
    dataset: tuple[str, ...] = setting(
        (), "questions", "Only this data set: scannet, scannetpp, arkitscenes.", metavar="NAME"
    )
    scene: tuple[str, ...] = setting((), "questions", "Only this scene.", metavar="SCENE")
    id: tuple[str, ...] = setting((), "questions", "Only the question with this id.", metavar="ID")
    shuffle: bool = setting(
        False, "questions", "Choose the questions in an order drawn from the seed.", flag=True
    )
    shard: str | None = setting(
        None,
        "questions",
        "Only part I of N of the scenes, such as 2/8; render-agent merge joins the parts.",
        metavar="I/N",
    )
    repeat: int = setting(
        1,
        "questions",
        "Run it K times, with seeds from --seed on, and give the spread between the runs.",
        minimum=1,
        metavar="K",
    )
    engine: str = setting(
        "transformers",
        "engine",
        "What answers: a model in this process, by transformers or vLLM; an OpenAI-compatible server;"
        " replies by rule; or a person, in the browser.",
        choices=("transformers", "vllm", "openai", "scripted", "human"),
    )
    model: str | None = setting(
        None,
        "engine",
        "A hub name, a directory, or small, the bundled one (default Qwen/Qwen3-VL-8B-Instruct); with --engine scripted:"
        " explorer (default), wanderer, random, frequency, oracle, witness, seeker, expert, stumbler, or a file of replies.",
        metavar="NAME",
    )
    base_url: tuple[str, ...] = setting(
        (),
        "engine",
        "Where the server of --engine openai answers, such as http://localhost:8000/v1; may be given"
        " more than once.",
        metavar="URL",
        free=True,
    )
    revision: str | None = setting(None, "engine", "Revision of the model.", metavar="NAME")
    dtype: str = setting(
        AUTO,
        "engine",
        "Number format of the weights.",
        choices=(AUTO, "float32", "bfloat16", "float16"),
    )
    device: str = setting(
        AUTO, "engine", "Where the model runs: auto, cpu, cuda, cuda:1 …", metavar="NAME"
    )
    tensor_parallel: int = setting(
        1, "engine", "GPUs that hold one model together.", minimum=1, metavar="N"
    )
    max_model_len: int | None = setting(
        None,
        "engine",
        "Tokens of a dialogue at the most; a longer one fails its question.",
        metavar="N",
    )
    engine_option: tuple[str, ...] = setting(
        (), "engine", "Passed to the engine as it is.", metavar="K=V"
    )
    no_guide: bool = setting(
        False,
        "engine",
        "Do not hold replies to their JSON schema where the engine could.",
        flag=True,
    )
    max_batched_turns: int = setting(
        4, "speed", "Turns that all active questions take together first.", minimum=0
    )
    max_turns: int = setting(
        9, "dialogue", "Turns a question has at the most; in the last it must answer.", minimum=1
    )
    finish_together: int | str = setting(
        AUTO,
        "speed",
        "How many questions finish side by side after the batched turns; 1 is one after the other.",
        metavar="N|auto",
    )
    batch_size: int | str = setting(
        AUTO,
        "speed",
        "Requests in one call of the model, or under way at once; auto is what memory holds.",
        metavar="N|auto",
    )
    devices: tuple[str, ...] = setting(
        (),
        "speed",
        "One replica of the model on each of these devices, such as cuda:0,cuda:1.",
        metavar="LIST",
        separator=",",
    )
    workers: int = setting(
        1, "speed", "Processes that share the questions, scene by scene.", minimum=1, metavar="N"
    )
    ray: str | None = setting(
        None,
        "speed",
        "The Ray cluster that the workers run on (default: this machine).",
        metavar="ADDRESS",
    )
    image_size: tuple[int, int] = setting(
        (640, 480), "dialogue", "Size of every view in pixels.", metavar="WxH", separator="x"
    )
    field_of_view: float = setting(
        75.0, "dialogue", "Horizontal field of view in degrees.", metavar="DEG"
    )
    kinds: tuple[str, ...] = setting(
        ("ego", "top", "around"),
        "dialogue",
        "Kinds of view that may be asked for; the first is shown where none is.",
        metavar="LIST",
        separator=",",
    )
    views: str = setting(
        "free",
        "dialogue",
        "Who chooses the views: free, the model; else all are shown at once: the first one (start), four"
        " around it, the map (top), a random walk, a tour of the room, those that show what the question"
        " names (oracle); or none, and it needs no scans.",
        choices=("free", "none", "start", "four", "top", "random-walk", "tour", "oracle"),
    )
    pictures: str = setting(
        "real",
        "dialogue",
        "What the views show: the scene; black; noise; another question's scene (shuffled); the scene"
        " mirrored, left for right.",
        choices=("real", "black", "noise", "shuffled", "mirrored"),
    )
    start: str = setting(
        "best",
        "dialogue",
        "Where the camera begins: best (faces the most to see), middle, or a pose.",
        metavar="best|middle|x,y,z,yaw",
    )
    renderer: str = setting(
        "rasteriser",
        "dialogue",
        "What draws the views.",
        choices=("rasteriser", "pyrender", "moderngl", "raycast"),
    )
    temperature: float = setting(0.0, "dialogue", "0 is greedy.", minimum=0)
    seed: int = setting(0, "dialogue", "All randomness comes from it and the question's id.")
    max_new_tokens: int = setting(512, "dialogue", "Tokens of one reply at the most.", minimum=1)
    port: int = setting(
        0, "place", "Port of the page of --engine human; 0 is any that is free.", minimum=0
    )
    output: str = setting("experiment_logs", "place", "Where run folders lie.", metavar="DIR")
    json: bool = setting(
        False, "display", "Print the results as JSON on standard output.", flag=True
    )
    quiet: bool = setting(False, "display", "Print errors and the folder only.", flag=True)
    verbose: bool = setting(False, "display", "Print every turn.", flag=True)

    def __post_init__(self) -> None:
        if self.batch == (self.ply is not None):
            raise UsageError("give either --batch, or --ply FILE with --question TEXT")
        if self.ply is not None and not (self.question or "").strip():
            raise UsageError("--ply needs --question TEXT")
        if self.batch and (self.question or self.option):
            raise UsageError("--question and --option go with --ply, not with --batch")
        if not (isfinite(self.temperature) and isfinite(self.field_of_view)):
            raise UsageError("--temperature and --field-of-view must be finite numbers")
        if self.devices and self.workers not in (1, len(self.devices)):
            raise UsageError(
                f"--devices names {len(self.devices)} devices, a worker each: leave --workers"
                f" {self.workers} out"
            )
        opening_kinds(self.views, self.kinds)  # refuses what cannot be shown
        self.check_choosing(
            greedy=not self.temperature,
            free=self.views == "free",
            human=self.engine == "human",
        )

    @property
    def model_name(self) -> str:
        """The model, or the default of the engine."""
        defaults = {"scripted": "explorer", "human": "person"}
        return self.model or defaults.get(self.engine, "Qwen/Qwen3-VL-8B-Instruct")

    def absolute(self) -> RunConfig:
        """Return the same options with every path made absolute, so that they hold from any folder."""
        return replace(self, **absolute_paths(asdict(self)))

    @property
    def blind(self) -> bool:
        """Whether nothing is shown."""
        return self.views == "none"

    @property
    def passive(self) -> bool:
        """Whether views are shown that the model did not choose."""
        return self.views not in ("free", "none")

    @property
    def alone(self) -> bool:
        """Whether it all happens in one process."""
        return self.workers == 1 and not self.devices and not self.ray

    def without_shard(self) -> RunConfig:
        """Return the options of the run that this one is a shard of."""
        return replace(self, shard=None)

    @property
    def partial(self) -> bool:
        """Whether only some of the benchmark's questions are chosen."""
        narrowed = self.type or self.dataset or self.scene or self.id
        return bool(self.limit or narrowed or self.shard)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of every option that changes results."""
        return fingerprint_of(asdict(self))

    def to_json(self) -> dict[str, Any]:
        """Return the options as `config.json` holds them."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunConfig:
        """Return the options that `to_json` wrote. UsageError where one is unknown, or cannot be so."""
        if wrong := misfit_of_options(data, OPTIONS):
            raise UsageError(wrong)
        lists = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
        return cls(**{**data, **lists})


def fingerprint_of(options: Mapping[str, Any]) -> str:
    """Return the SHA-256 of those of some options that change results.

    Of saved options it stays what it was when later versions of the program have more of them.
    """
    fixed = {name: value for name, value in options.items() if name not in CHANGEABLE}
    text = json.dumps(fixed, sort_keys=True, default=list)
    return hashlib.sha256(text.encode()).hexdigest()


LATER = ("choosing", "place", "display")

OPTIONS = {e.name: e for e in sorted(fields(RunConfig), key=lambda e: e.metadata["group"] in LATER)}
"""The declared options by name, as they are told; a base class would have its own first."""

CHANGEABLE = {
    name
    for name, entry in OPTIONS.items()
    if entry.metadata["group"] in ("speed", "place", "display") or entry.metadata.get("free")
}
"""Names of the options that may differ when a run is continued."""
