"""The options of a run: each declared once, with its type, default, help text, and effect on results.

This module is data: `runs/build.py` builds the named parts and checks them, `cli/flags.py` makes command-line flags, and
`parse_options` reads keyword arguments.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, asdict, dataclass, field, fields, replace
from functools import partial
from numbers import Number
from os import PathLike, fspath
from pathlib import Path
from sys import float_info
from typing import Any, Literal, get_args

from render_agent.errors import UsageError
from render_agent.scans.file_frame import AUTO as AUTO
from render_agent.scans.file_frame import AnyUnit, Axis, Unit, Up
from render_agent.util.reasons import did_you_mean, short_repr
from render_agent.util.sanitize import is_key_option, make_public

VSIBENCH, ROOMS = "vsibench", "rooms"
DEFAULT_MODEL = "Qwen/Qwen3-VL-8B-Instruct"
BUNDLED_MODELS = ("small",)  # names in --model that take precedence over folders
VIEW_TYPES = ("ego", "top", "around")
PROBES = ("map", "counts", "pose", "seen")

TRUE_WORDS, FALSE_WORDS = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
MIN_SIDE_PIXELS, MAX_SIDE_PIXELS = 32, 4096

Group = Literal["questions", "engine", "dialogue", "choosing", "speed", "place", "display"]


def declare(group: Group, default: Any, text: str, **more: Any) -> Any:
    """Declare an option as a field of RunConfig, with a default of False for a flag without a value.

    Options in the groups speed, place and display do not affect results. A tuple as default makes the option repeatable. In
    the help text, `{names}` stands for the names of the parts of kind `names`. Further metadata: `metavar`, `choices`,
    `minimum`, `maximum`, `pattern` (a regular expression), `separator` of several values in one word, `part` or `names` (the
    kind of part that it names, or that its values start with; see `registry`), `path` (a key of IS_PATH), `private` (must
    not be published), `of_model` (only a model that is prompted needs it), `free` (may change when a run is resumed although
    its group may not), and `local` (describes a model on this machine; a server determines it for its models).
    """
    return field(default=default, metadata={"group": group, "text": text, **more})


_questions, _engine, _dialogue = (partial(declare, g) for g in ("questions", "engine", "dialogue"))
_choosing, _speed = (partial(declare, group) for group in ("choosing", "speed"))
_place, _display = (partial(declare, group) for group in ("place", "display"))


@dataclass(frozen=True)
class RunConfig:
    """The options of one run. Flags override the environment, which overrides files, which override defaults."""

    batch: bool = _questions(False, "Run a benchmark.")
    ply: str | None = _questions(
        None, "Ask one question about this scan (PLY, GLB, OBJ …).", metavar="FILE", path="always"
    )
    question: str | None = _questions(None, "The question to ask.")
    up: Up = _questions(  # noqa: RUF009
        AUTO,
        "Up axis of the scan files; auto reads it from the file, else assumes z.",
        choices=(AUTO, *get_args(Axis)),
    )
    unit: AnyUnit = _questions(  # noqa: RUF009
        AUTO,
        "Unit of the scan files; auto reads it from the file, else assumes metres, and refuses scans that are too"
        " large or too small for a room.",
        choices=(AUTO, *get_args(Unit)),
    )
    option: tuple[str, ...] = _questions(
        (), 'A choice of the question, e.g. "A. left". Repeatable.'
    )
    benchmark: str = _questions(
        VSIBENCH,
        "The benchmark: {names}, or a file of questions. rooms is bundled and needs no data.",
        metavar="NAME|FILE",
        names="benchmark",
        path="file",
    )
    questions: str | None = _questions(
        None,
        "Question file from the benchmark's authors. For VSI-Bench: a file (jsonl, json, parquet, or VLMEvalKit's tsv),"
        " its folder, or a name on the Hugging Face hub (default: test.jsonl if it exists, else"
        " nyu-visionx/VSI-Bench).",
        metavar="FILE|NAME",
        path="existing",
    )
    subset: str = _questions("full", "Subset of VSI-Bench.", choices=("full", "debiased", "tiny"))
    scannet: tuple[str, ...] = _questions(
        (), "ScanNet root directory. Repeatable.", metavar="DIR", path="always"
    )
    scannetpp: tuple[str, ...] = _questions(
        (), "ScanNet++ root directory. Repeatable.", metavar="DIR", path="always"
    )
    arkitscenes: tuple[str, ...] = _questions(
        (), "ARKitScenes root directory. Repeatable.", metavar="DIR", path="always"
    )
    annotations: str | None = _questions(
        None,
        "VSI-Bench's official annotations, used to build rooms of coloured boxes in place of missing scans.",
        metavar="DIR",
        path="always",
    )
    boxes: str | None = _questions(
        None,
        "File of the objects' boxes in the scan (default: NAME.boxes.json next to the scan, or RoomPlan's NAME.json).",
        metavar="FILE",
        path="always",
    )
    boxes_up: Up = _questions(  # noqa: RUF009
        AUTO,
        "Up axis of the boxes; auto uses that of their format, else that of the scan.",
        choices=(AUTO, *get_args(Axis)),
    )
    boxes_unit: AnyUnit = _questions(  # noqa: RUF009
        AUTO,
        "Unit of the boxes; auto uses that of their format, else that of the scan.",
        choices=(AUTO, *get_args(Unit)),
    )
    allow_missing: bool = _questions(
        False,
        "Run even if scans are missing; their questions are MISSING, and every score has a caveat.",
    )
    limit: int | None = _questions(
        None, "Run at most N questions; results are marked PARTIAL.", minimum=1
    )
    type: tuple[str, ...] = _questions((), "Only this question type. Repeatable.", metavar="TYPE")
    dataset: tuple[str, ...] = _questions(
        (),
        "Only this data set, e.g. scannet, scannetpp or arkitscenes. Repeatable.",
        metavar="NAME",
    )
    scene: tuple[str, ...] = _questions((), "Only this scene. Repeatable.", metavar="SCENE")
    id: tuple[str, ...] = _questions(
        (), "Only the question with this id. Repeatable.", metavar="ID"
    )
    exclude: str | None = _questions(
        None,
        "Omit questions whose ids are in this file, one per line (see render-agent audit --to).",
        metavar="FILE",
        path="always",
    )
    shuffle: bool = _questions(False, "Choose questions in random order, based on the seed.")
    shard: str | None = _questions(
        None,
        "Run part I of N of the scenes, e.g. 2/8; render-agent merge joins the parts.",
        metavar="I/N",
    )
    change: tuple[str, ...] = _questions(
        (),
        "Also ask every question with one change to the room or the wording: {names}. Some take a value, e.g."
        " remove:chair or move:other. Repeatable.",
        metavar="CHANGE",
        names="change",
    )

    engine: str = _engine(
        "transformers",
        "What answers: a local model (transformers, vllm), an OpenAI-compatible server (openai), a hosted"
        " model (anthropic, gemini, openai), rules (scripted), or a person in the browser (human).",
        part="engine",
    )
    model: str | None = _engine(
        None,
        f"Hugging Face model name, directory, or bundled model: {', '.join(BUNDLED_MODELS)} (default: {DEFAULT_MODEL})."
        " With --engine scripted: {names}, or a file of replies (default: explorer, which walks at random and then"
        " answers like the baseline frequency).",
        metavar="NAME",
        names="scripted policy",
        path="model",
    )
    base_url: tuple[str, ...] = _engine(
        (),
        "URL of the server for --engine openai, anthropic or gemini, e.g. http://localhost:8000/v1. Repeatable.",
        metavar="URL",
        free=True,
        private=True,
    )
    sight_check: str = _engine(
        "warn",
        "Check before the run that the model behind a server or an MCP client reads two test images: warn of a failure,"
        " require a pass, or off.",
        choices=("off", "warn", "require"),
        free=True,
    )
    revision: str | None = _engine(None, "Revision of the model.", metavar="NAME", local=True)
    dtype: str = _engine(
        AUTO,
        "Data type of the weights.",
        choices=(AUTO, "float32", "bfloat16", "float16"),
        local=True,
    )
    device: str = _engine(
        AUTO, "Device of the model: auto, cpu, cuda, cuda:1 …", metavar="NAME", local=True
    )
    tensor_parallel: int = _engine(1, "GPUs that share one model.", minimum=1, local=True)
    max_model_len: int | None = _engine(
        None,
        "Token limit of a dialogue; a question that exceeds it fails.",
        minimum=1,
        local=True,
    )
    engine_option: tuple[str, ...] = _engine(
        (), "Additional option for the engine. Repeatable.", metavar="K=V"
    )
    thinking: str = _engine(
        AUTO,
        "Whether the model thinks before it replies; auto uses the default of its chat template.",
        choices=(AUTO, "on", "off"),
    )
    thinking_budget: int | None = _engine(
        None,
        "Token limit of thinking per turn, in addition to the reply; longer thinking is cut off.",
        minimum=0,
    )
    reproducible: str = _engine(
        AUTO,
        "Make replies of --engine transformers or vllm independent, bit for bit, of batch size, schedule and resuming;"
        " on is refused if the device or the model does not allow it. auto is off for now, as its cost on GPUs is not"
        " measured.",
        choices=(AUTO, "on", "off"),
    )
    no_guide: bool = _engine(False, "Do not constrain replies to their JSON schema.")
    prices: str | None = _engine(
        None,
        "Table of prices (YAML or JSON) that replaces the bundled one, in USD per million tokens.",
        metavar="FILE",
        free=True,
        path="always",
    )

    max_batched_turns: int = _speed(
        4, "Number of initial turns that all questions take together, in batches.", minimum=0
    )
    batch_jobs: bool = _speed(
        False, "Send batched turns to the batch API of openai, anthropic or gemini at half price."
    )
    finish_together: int | str = _speed(
        AUTO,
        "Questions in progress at once after the batched turns; 1 is one at a time.",
        metavar="N|auto",
    )
    batch_size: int | str = _speed(
        AUTO,
        "Requests per model call, or in flight; auto uses the available memory.",
        metavar="N|auto",
    )
    devices: tuple[str, ...] = _speed(
        (),
        "Run a replica of the model on each of these devices, e.g. cuda:0,cuda:1.",
        metavar="LIST",
        separator=",",
    )
    workers: int = _speed(1, "Processes that share the questions, by scene.", minimum=1)
    ray: str | None = _speed(
        None,
        "Ray cluster for the workers (default: this machine).",
        metavar="ADDRESS",
        private=True,
    )
    no_self_check: bool = _speed(
        False,
        "Skip the start check, which compares the engine of a local model with the model's plain forward pass.",
    )
    max_failures: str = _speed(
        AUTO,
        "Failed questions after which the run stops, as a number or percentage; auto stops after five consecutive ones.",
        metavar="N|X%|auto",
        pattern=r"auto|\d{1,9}|(\d{1,2}(\.\d+)?|100)%",
    )
    max_cost: float | None = _speed(
        None,
        "Stop before the run folder costs more than this many US dollars, including earlier parts of the run; requests"
        " in flight are completed and may exceed it.",
        metavar="USD",
        minimum=0,
    )

    max_turns: int = _dialogue(
        9, "Maximum number of turns per question; the last one must answer.", minimum=1
    )
    image_size: tuple[int, int] = _dialogue(
        (640, 480), "Size of every view in pixels.", metavar="WxH", separator="x"
    )
    field_of_view: float = _dialogue(
        75.0, "Horizontal field of view in degrees.", metavar="DEG", minimum=20, maximum=140
    )
    view_types: tuple[str, ...] = _dialogue(
        VIEW_TYPES,
        "View types the model may request; the first is the default.",
        metavar="LIST",
        separator=",",
        choices=VIEW_TYPES,
    )
    views: str = _dialogue(
        "free",
        "Who chooses the views: the model (free), or a fixed policy that shows all views at once: {names}. recorded:32 shows"
        " 32 images of the camera path recorded with the scan.",
        metavar="NAME[:N]",
        names="view policy",
    )
    frames: str | None = _dialogue(
        None,
        "Folder of recorded frames, DIR/SCENE/NAME.jpg, that --views recorded shows instead of renderings.",
        metavar="DIR",
        path="always",
    )
    image_stress: str = _dialogue(
        "real",
        "What images show: the scene, or a stress test.",
        part="image stress",
    )
    tools: str = _dialogue(
        "none",
        "Aids for the model: {names}: measurements on request, or the scene graph as text instead of views. Both are exact"
        " unless they have faults: measure:noise=0.1, measure:bias=0.2, measure:stale or graph:wrong=20%.",
        metavar="NAME[:FAULT]",
        names="toolset",
    )
    reply_protocol: str = _dialogue(
        "json",
        "Format of replies: json (one JSON object) or tools (native tool calls).",
        part="reply protocol",
        of_model=True,
    )
    history: str = _dialogue(
        "all",
        "Turns whose images stay in the prompt: all, or the last K. The texts of earlier turns stay.",
        metavar="all|K",
        pattern=r"all|[1-9]\d{0,3}",
        of_model=True,
    )
    feedback: str = _dialogue(
        "on",
        "Report the effect of each move and the position to the model; off only shows the next view. With drift:0.05, the"
        " reported position and heading go wrong by 5 % of every move.",
        metavar="on|off|drift:X",
        pattern=r"on|off|drift:\d{0,3}\.?\d{1,9}(:silent)?",
    )
    confidence: str = _dialogue(
        "off",
        "Ask for the confidence in the answer so far, from 0 to 100, in every reply.",
        choices=("on", "off"),
    )
    start: str = _dialogue(
        "best",
        "Start of the camera: best (the place and heading that show the most surface), four-headings (the best of four"
        " at the middle of the room), middle, or a pose.",
        metavar="best|four-headings|middle|x,y,z,yaw",
    )
    no_restate: bool = _dialogue(
        False,
        "Do not ask once more for only the answer if the reply in the last turn gives none that can be read.",
    )
    renderer: str = _dialogue("rasteriser", "Renderer.", part="renderer")
    probe: tuple[str, ...] = _dialogue(
        (),
        "Ask the model for its beliefs after every turn, outside the dialogue: map (where objects are), counts, pose"
        " (where the camera is), seen (what it has not seen yet). diagnose then tells apart failures of perception, memory"
        " and reasoning.",
        metavar="LIST",
        separator=",",
        choices=PROBES,
        of_model=True,
    )
    temperature: float = _dialogue(
        0.0, "Sampling temperature; 0 is greedy.", minimum=0, of_model=True
    )
    seed: int = _dialogue(0, "Seed of all randomness, combined with question ids.")
    max_new_tokens: int = _dialogue(512, "Token limit of a reply.", minimum=1, of_model=True)

    agent: str = _choosing(
        "single",
        "How each turn is decided: {names}. All but single generate several replies and choose among them, e.g. vote:5,"
        " lookahead:4 or rephrase:2x3 (two wordings, three replies each).",
        metavar="NAME[:N]",
        names="agent",
    )
    verifier: tuple[str, ...] = _choosing(
        (),
        "Scores candidate moves: {names}. Some take a value, e.g. judge:MODEL or learned:DIR. Repeatable; mean ranks"
        " are used then (default: geometry for agents that render moves).",
        metavar="NAME",
        names="verifier",
        path="argument",
    )
    rubric: str = _choosing(
        "view",
        "How the judge rates views: a built-in rubric or a file.",
        metavar="NAME|FILE",
        path="file",
    )
    judge_mode: str = _choosing(
        "yes",
        "What the judge returns: the probability of yes, or criteria as JSON.",
        choices=("yes", "json"),
    )

    port: int = _place(
        0, "Port of the page of --engine human; 0 picks a free one.", minimum=0, private=True
    )
    output: str = _place(
        "experiment_logs", "Folder of the run folders.", metavar="DIR", private=True
    )
    log_to: tuple[str, ...] = _display(
        (), "Also log the run to this tracker. Repeatable.", part="logger"
    )
    json: bool = _display(False, "Print the results as JSON on standard output.")
    quiet: bool = _display(False, "Print only errors and the run folder.")
    verbose: bool = _display(False, "Print every turn.")

    @property
    def alone(self) -> bool:
        """True if the run uses only this process."""
        return self.workers == 1 and not self.devices and not self.ray

    @property
    def num_batched_turns(self) -> int:
        """Number of initial turns that all questions take together, at most `max_turns`."""
        return min(self.max_batched_turns, self.max_turns)

    @property
    def fixed_batch_size(self) -> int | None:
        """The requested batch size; None to use the available memory."""
        return None if self.batch_size == AUTO else int(self.batch_size)

    @property
    def frame(self) -> tuple[Up, AnyUnit]:
        """The values of `--up` and `--unit`; auto for the bundled rooms, whose frame is known."""
        bundled = self.benchmark == ROOMS and self.ply is None
        return (AUTO, AUTO) if bundled else (self.up, self.unit)

    @property
    def partial(self) -> bool:
        """True if only some questions of the benchmark are selected."""
        filters = self.type or self.dataset or self.scene or self.id or self.exclude
        return bool(self.limit or filters or self.shard)

    def absolute(self) -> RunConfig:
        """Return the same options with absolute paths, so that a run can be resumed from any folder."""
        return replace(self, **absolute_paths(asdict(self)))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all options that affect results."""
        return fingerprint_of(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the options as stored in `config.json`."""
        return {**asdict(self), "start": STORED_STARTS.get(self.start, self.start)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunConfig:
        """Return options stored by `to_json`. Raises UsageError if one is unknown or has the wrong type."""
        import msgspec  # not needed for --help

        data = {FORMER_NAMES.get(name, name): value for name, value in data.items()}
        if unknown := sorted(set(data) - set(OPTIONS)):
            raise UsageError(f"there is no option {short_repr(unknown[0])}")
        try:
            config: RunConfig = msgspec.convert(data, cls)
        except msgspec.ValidationError as error:
            raise UsageError(str(error)) from error
        return replace(config, start=READ_STARTS.get(config.start, config.start))


FORMER_NAMES = {"kinds": "view_types", "pictures": "image_stress"}  # in run folders before 0.2.0

# `--start best` is stored under the name of its rule, so that a run is resumed with the rule it started with. Earlier
# versions stored "best" for the best of four headings.
STORED_STARTS = {"best": "most-surface"}
READ_STARTS = {"most-surface": "best", "best": "four-headings"}


OPTIONS: dict[str, Field[Any]] = {entry.name: entry for entry in fields(RunConfig)}

# Options of the group "questions" that also apply to one question about one scan; the others select from a benchmark.
_SCAN_OPTIONS = "batch ply question option up unit annotations boxes boxes_up boxes_unit".split()
BENCHMARK_OPTIONS = [
    name
    for name, entry in OPTIONS.items()
    if entry.metadata["group"] == "questions" and name not in _SCAN_OPTIONS
]

# Options that may change when a run is resumed.
CHANGEABLE = {
    name
    for name, entry in OPTIONS.items()
    if entry.metadata["group"] in ("speed", "place", "display") or entry.metadata.get("free")
}


def fixed_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that affect results; they cannot change when a run is resumed."""
    return {name: value for name, value in options.items() if name not in CHANGEABLE}


def fingerprint_of(options: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the options that affect results.

    The fingerprint of saved options stays the same when later versions of the program add options.
    """
    text = json.dumps(fixed_options(options), sort_keys=True, default=list)
    return hashlib.sha256(text.encode()).hexdigest()


def flag_of(name: str) -> str:
    """Return the flag of an option, e.g. "--max-turns"."""
    return "--" + name.replace("_", "-")


def parse_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Parse options from Python like the corresponding flags.

    Lists can replace tuples, and paths can replace strings; None means not set.
    """
    parsed: dict[str, Any] = {}
    for name, value in options.items():
        if name not in OPTIONS:
            raise UsageError(f"there is no option {short_repr(name)}{did_you_mean(name, OPTIONS)}")
        if value is None:
            continue
        try:
            parsed[name] = parse_value(OPTIONS[name], value)
        except ValueError as error:
            raise UsageError(f"{flag_of(name)}: {error}") from error
    return parsed


def parse_value(entry: Field[Any], value: Any) -> Any:
    """Parse a value as typed. Raises ValueError with the reason if it is invalid."""
    declared = entry.metadata
    if entry.name == "image_size":
        return _parse_size(value)
    if isinstance(entry.default, tuple):
        if isinstance(value, Mapping):
            if declared.get("metavar") != "K=V":
                raise ValueError(f"{short_repr(value)} is not a list of texts")
            value = [f"{name}={_yaml(part)}" for name, part in value.items()]
        is_single = isinstance(value, str | PathLike) or not isinstance(value, Iterable)
        words = [_text(part) for part in ([value] if is_single else value)]
        if separator := declared.get("separator"):
            words = [word.strip() for text in words for word in text.split(separator)]
            words = list(dict.fromkeys(filter(None, words)))
            if not words and entry.default:
                raise ValueError(f"the list is empty. Choose from {', '.join(declared['choices'])}")
        return tuple(_validate(entry, word) for word in words)
    if isinstance(value, list | tuple | dict | set):
        raise ValueError(f"{short_repr(value)} is not one value")
    if entry.type == "bool":
        return _parse_flag(value)
    text = _text(value)
    if entry.type == "int | str" and text == AUTO:
        return AUTO
    if str(entry.type).startswith("int"):
        minimum = 1 if entry.type == "int | str" else declared.get("minimum")
        return _parse_number(int, text, minimum, declared.get("maximum"))
    if str(entry.type).startswith("float"):
        return _parse_number(float, text, declared.get("minimum"), declared.get("maximum"))
    return _validate(entry, text)


def _validate(entry: Field[Any], text: str) -> str:
    """Return a text if it is among the choices of an option and matches its pattern; otherwise raise ValueError."""
    choices, pattern = entry.metadata.get("choices"), entry.metadata.get("pattern")
    if choices and text not in choices:
        suggestion = did_you_mean(text, choices)
        raise ValueError(
            f"{short_repr(text)} is unknown. Choose from {', '.join(choices)}{suggestion}"
        )
    if pattern and not re.fullmatch(pattern, text):
        raise ValueError(
            f"{short_repr(text)} is invalid. The format is {entry.metadata['metavar']}."
        )
    return text


def _parse_size(value: Any) -> tuple[int, int]:
    sides = value if isinstance(value, list | tuple) else _text(value).lower().split("x")
    if len(sides) != 2 or not all(str(side).isdecimal() for side in sides):
        raise ValueError(f"{short_repr(value)} is not a size. Write it as 640x480.")
    width, height = map(int, sides)
    if not all(MIN_SIDE_PIXELS <= side <= MAX_SIDE_PIXELS for side in (width, height)):
        raise ValueError(f"both sides must be {MIN_SIDE_PIXELS} to {MAX_SIDE_PIXELS} pixels")
    return width, height


def _parse_flag(value: Any) -> bool:
    word = str(value).strip().lower()
    if word not in (*TRUE_WORDS, *FALSE_WORDS):
        raise ValueError(f"{short_repr(value)} is neither true nor false")
    return word in TRUE_WORDS


def _parse_number(
    kind: type[int] | type[float], text: str, minimum: float | None, maximum: float | None
) -> float:
    noun = "a whole number" if kind is int else "a number"
    try:
        number = kind(text)
    except ValueError:
        raise ValueError(f"{short_repr(text)} is not {noun}") from None
    if not abs(number) <= float_info.max:  # NaN too
        raise ValueError(f"{short_repr(text)} is too large, or not a number")
    if minimum is not None and number < minimum:
        raise ValueError(f"{text} is less than {minimum}")
    if maximum is not None and number > maximum:
        raise ValueError(f"{text} is more than {maximum}")
    return number


# Texts that YAML reads as they are.
_PLAIN_YAML = re.compile(r"(?!(?i:true|false|yes|no|on|off|null|y|n)\Z)[A-Za-z_][\w./-]*")


def _yaml(value: Any) -> str:
    """Return a value of a K=V option as it is typed, so that equal options have the same fingerprint."""
    if isinstance(value, str) and _PLAIN_YAML.fullmatch(value):
        return value
    try:
        return json.dumps(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{short_repr(value)} is not a JSON value") from error


def _text(value: Any) -> str:
    if not isinstance(value, str | PathLike | Number):
        raise ValueError(f"{short_repr(value)} is neither a text nor a number")
    return fspath(value) if isinstance(value, PathLike) else str(value)


def absolute_paths(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return some options with their paths made absolute. Symbolic links are kept."""
    kinds = {name: OPTIONS[name].metadata.get("path") for name in options}
    return {name: _absolute(value, kinds[name]) for name, value in options.items()}


def _absolute(value: Any, kind: str | None) -> Any:
    if kind is None or not value:
        return value
    if isinstance(value, tuple):
        return tuple(_absolute(part, kind) for part in value)
    prefix, colon, path = value.partition(":") if kind == "argument" else ("", "", value)
    return f"{prefix}{colon}{Path(path).absolute()}" if IS_PATH[kind](path) else value


def _holds_model(name: str) -> bool:
    if not name or name in BUNDLED_MODELS:
        return False
    folder = Path(name)
    return (folder / "config.json").is_file() or any(folder.glob("*.safetensors"))


# `path` of a declaration -> whether a value is a path rather than a name.
IS_PATH: dict[str, Callable[[str], bool]] = {
    "always": lambda path: True,
    "file": lambda name: "." in name and Path(name).is_file(),
    "existing": lambda name: Path(name).exists(),
    "model": lambda name: (
        _holds_model(name) or (Path(name).is_file() and name not in BUNDLED_MODELS)
    ),
    "argument": _holds_model,  # applied to the part after the colon
}


def public_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that may be published: without servers, private paths and keys, and only names of files."""
    published: dict[str, Any] = {}
    for name, value in options.items():
        if name in OPTIONS and OPTIONS[name].metadata.get("private"):
            continue
        if name == "engine_option":
            value = [entry for entry in value if not is_key_option(entry.partition("=")[0])]
        is_sequence = isinstance(value, list | tuple)
        parts = [_without_folder(part) for part in (value if is_sequence else [value])]
        published[name] = parts if is_sequence else parts[0]
    return published


def _without_folder(value: Any) -> Any:
    head, colon, path = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    return make_public(f"{head}{colon}{Path(path).name}" if path.startswith("/") else value)
