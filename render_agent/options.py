"""The options of a run: every one declared once, with its type, default, help, and effect on results.

This is data: `runs/build.py` builds what the options name and checks that they fit together, `cli/flags.py` makes
the flags of the command line, and `parse_options` reads keywords in Python.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, asdict, dataclass, field, fields, replace
from functools import partial
from math import isfinite
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal, get_args

from render_agent.errors import UsageError
from render_agent.util.reasons import did_you_mean, short_repr
from render_agent.util.redact import names_a_key, public

AUTO: Literal["auto"] = "auto"

Axis = Literal["z", "-z", "y", "-y", "x", "-x"]
Up = Literal["auto"] | Axis
Unit = Literal["m", "cm", "mm", "ft", "in"]
AnyUnit = Literal["auto"] | Unit

VSIBENCH, ROOMS = "vsibench", "rooms"
DEFAULT_MODEL = "Qwen/Qwen3-VL-8B-Instruct"
BUNDLED_MODELS = ("small",)  # names in --model that take precedence over folders
VIEW_KINDS = ("ego", "top", "around")
PROBES = ("map", "counts", "pose", "seen")

TRUE_WORDS, FALSE_WORDS = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
MIN_SIDE_PIXELS, MAX_SIDE_PIXELS = 32, 4096

Group = Literal["questions", "engine", "dialogue", "choosing", "speed", "place", "display"]


def declare(group: Group, default: Any, text: str, **more: Any) -> Any:
    """Declare an option: a field of RunConfig. A default of False makes a flag without a value.

    Args:
        group: Its heading in `--help`. Options of the groups speed, place and display do not change results.
        default: Its value if it is not given. A tuple makes the option repeatable.
        text: Its sentence in `--help`; `{names}` stands for the names of the parts of the kind `names`.
        **more: `metavar`; `choices`; `minimum` and `maximum`; `pattern`, a regular expression that the value
            matches; `separator`, if several values are written as one word; `part`, the kind of part that it
            names (see `registry`); `names`, the kind of part with which its values begin; `path`, which values
            are paths (a key of `IS_PATH`); `private`, if it is left out of what is published; `free`, if it may
            change when a run is resumed although its group may not.
    """
    return field(default=default, metadata={"group": group, "text": text, **more})


_questions, _engine, _dialogue = (partial(declare, g) for g in ("questions", "engine", "dialogue"))
_choosing, _speed = (partial(declare, group) for group in ("choosing", "speed"))
_place, _display = (partial(declare, group) for group in ("place", "display"))


@dataclass(frozen=True)
class RunConfig:
    """The options of one run, resolved: flag beats environment beats file beats default."""

    batch: bool = _questions(False, "Run a benchmark.")
    ply: str | None = _questions(
        None, "Ask one question about this scan (PLY, GLB, OBJ …).", metavar="FILE", path="always"
    )
    question: str | None = _questions(None, "The question to ask.", metavar="TEXT")
    up: Up = _questions(  # noqa: RUF009
        AUTO,
        "The axis of the scan files that points up; auto reads it from the file, else assumes z.",
        choices=(AUTO, *get_args(Axis)),
    )
    unit: AnyUnit = _questions(  # noqa: RUF009
        AUTO,
        "The unit of the scan files; auto reads it from the file, else assumes metres, and refuses a scan that"
        " is too large or too small for a room.",
        choices=(AUTO, *get_args(Unit)),
    )
    option: tuple[str, ...] = _questions(
        (), 'A choice of the question, such as "A. left". Repeatable.', metavar="TEXT"
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
        "The question file of the benchmark's authors. For VSI-Bench: a file (jsonl, json, parquet, or"
        " VLMEvalKit's tsv), its folder, or a name on the hub (default: test.jsonl if it exists, else"
        " nyu-visionx/VSI-Bench).",
        metavar="FILE|NAME",
        path="existing",
    )
    subset: str = _questions(
        "full", "The subset of VSI-Bench's questions.", choices=("full", "debiased", "tiny")
    )
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
        "VSI-Bench's official annotations, from which rooms of coloured boxes are built for missing scans.",
        metavar="DIR",
        path="always",
    )
    allow_missing: bool = _questions(
        False, "Run without missing scans; their questions are MISSING, and every score says so."
    )
    limit: int | None = _questions(
        None, "Run at most N questions; results are marked PARTIAL.", metavar="N", minimum=1
    )
    type: tuple[str, ...] = _questions((), "Only this question type. Repeatable.", metavar="TYPE")
    dataset: tuple[str, ...] = _questions(
        (),
        "Only this data set, such as scannet, scannetpp or arkitscenes. Repeatable.",
        metavar="NAME",
    )
    scene: tuple[str, ...] = _questions((), "Only this scene. Repeatable.", metavar="SCENE")
    id: tuple[str, ...] = _questions(
        (), "Only the question with this id. Repeatable.", metavar="ID"
    )
    exclude: str | None = _questions(
        None,
        "Leave out the questions whose ids are in this file, one per line (see render-agent audit --to).",
        metavar="FILE",
        path="always",
    )
    shuffle: bool = _questions(False, "Choose the questions in random order, drawn from the seed.")
    shard: str | None = _questions(
        None,
        "Run part I of N of the scenes, such as 2/8; render-agent merge joins the parts.",
        metavar="I/N",
    )
    change: tuple[str, ...] = _questions(
        (),
        "Ask every question once more with one change in the room or in its words: {names}. Some take a value,"
        " as in remove:chair, scale:1.5 or units:cm. Repeatable.",
        metavar="CHANGE",
        names="change",
    )

    engine: str = _engine(
        "transformers",
        "What answers: a model in this process, an OpenAI-compatible server, replies by rule (scripted), or a"
        " person in the browser (human).",
        part="engine",
    )
    model: str | None = _engine(
        None,
        f"A hub name, a directory, or a bundled model: {', '.join(BUNDLED_MODELS)} (default: {DEFAULT_MODEL}). With"
        " --engine scripted: {names}, or a file of replies (default: explorer).",
        metavar="NAME",
        names="scripted policy",
        path="model",
    )
    base_url: tuple[str, ...] = _engine(
        (),
        "URL of the server for --engine openai, such as http://localhost:8000/v1. Repeatable.",
        metavar="URL",
        free=True,
        private=True,
    )
    revision: str | None = _engine(None, "Revision of the model.", metavar="NAME")
    dtype: str = _engine(
        AUTO, "Data type of the weights.", choices=(AUTO, "float32", "bfloat16", "float16")
    )
    device: str = _engine(AUTO, "Device of the model: auto, cpu, cuda, cuda:1 …", metavar="NAME")
    tensor_parallel: int = _engine(1, "GPUs that share one model.", minimum=1, metavar="N")
    max_model_len: int | None = _engine(
        None,
        "Token limit of a dialogue; a question that exceeds it fails.",
        minimum=1,
        metavar="N",
    )
    engine_option: tuple[str, ...] = _engine(
        (), "An option that is passed on to the engine. Repeatable.", metavar="K=V"
    )
    thinking: str = _engine(
        AUTO,
        "Whether the model thinks before it replies; auto is the default of its chat template.",
        choices=(AUTO, "on", "off"),
    )
    thinking_budget: int | None = _engine(
        None,
        "Token limit of the thinking per turn, in addition to the reply; thinking is cut off there.",
        minimum=0,
        metavar="N",
    )
    no_guide: bool = _engine(False, "Do not constrain replies to their JSON schema.")

    max_batched_turns: int = _speed(
        4, "Number of first turns that all active questions take together.", minimum=0
    )
    finish_together: int | str = _speed(
        AUTO,
        "Number of questions that finish side by side after the batched turns; 1 is one after the other.",
        metavar="N|auto",
    )
    batch_size: int | str = _speed(
        AUTO,
        "Requests per call of the model, or in flight; auto fills the memory.",
        metavar="N|auto",
    )
    devices: tuple[str, ...] = _speed(
        (),
        "Run one replica of the model on each of these devices, such as cuda:0,cuda:1.",
        metavar="LIST",
        separator=",",
    )
    workers: int = _speed(
        1, "Processes that share the questions, scene by scene.", minimum=1, metavar="N"
    )
    ray: str | None = _speed(
        None,
        "The Ray cluster of the workers (default: this machine).",
        metavar="ADDRESS",
        private=True,
    )
    max_failures: str = _speed(
        AUTO,
        "Failed questions after which the run stops, as a number or a share; auto is five in a row.",
        metavar="N|X%|auto",
        pattern=r"auto|\d{1,9}|(\d{1,2}(\.\d+)?|100)%",
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
    kinds: tuple[str, ...] = _dialogue(
        VIEW_KINDS,
        "Kinds of view that a reply may request; the first is the default.",
        metavar="LIST",
        separator=",",
        choices=VIEW_KINDS,
    )
    views: str = _dialogue(
        "free",
        "Who chooses the views: the model (free), or a fixed policy that shows all views at once.",
        part="view policy",
    )
    pictures: str = _dialogue(
        "real", "What the views show: the scene, or a stress test of it.", part="picture stress"
    )
    tools: str = _dialogue(
        "none",
        "What helps the model: nothing, exact measurements on request, or the true scene graph as text in place"
        " of views.",
        part="toolset",
    )
    reply_protocol: str = _dialogue(
        "json",
        "How a reply is requested and parsed; json is one JSON object.",
        part="reply protocol",
    )
    start: str = _dialogue(
        "best",
        "Start of the camera: best (the widest view), middle, or a pose.",
        metavar="best|middle|x,y,z,yaw",
    )
    renderer: str = _dialogue("rasteriser", "The renderer.", part="renderer")
    probe: tuple[str, ...] = _dialogue(
        (),
        "Ask the model for its beliefs after every turn, outside the dialogue: map (where objects are), counts,"
        " pose (where the camera is), seen (what it has not seen yet).",
        metavar="LIST",
        separator=",",
        choices=PROBES,
    )
    temperature: float = _dialogue(0.0, "Sampling temperature; 0 is greedy.", minimum=0)
    seed: int = _dialogue(0, "Seed of all randomness, combined with the question's id.")
    max_new_tokens: int = _dialogue(512, "Token limit of a reply.", minimum=1)

    agent: str = _choosing(
        "single",
        "How a turn is decided: {names}. All but single generate several replies and choose among them, as in"
        " vote:5, lookahead:4 or rephrase:2x3 (two wordings, three replies each).",
        metavar="NAME[:N]",
        names="agent",
    )
    verifier: tuple[str, ...] = _choosing(
        (),
        "Scores candidate moves: {names}. Some take a value, as in judge:MODEL or learned:DIR. Repeatable, then"
        " the mean rank counts (default: geometry for agents that draw moves).",
        metavar="NAME",
        names="verifier",
        path="argument",
    )
    rubric: str = _choosing(
        "view",
        "How the judge rates views: a bundled rubric or a file.",
        metavar="NAME|FILE",
        path="file",
    )
    judge_mode: str = _choosing(
        "yes",
        "What the judge returns: its probability of yes, or criteria in JSON.",
        choices=("yes", "json"),
    )

    port: int = _place(
        0, "Port of the page of --engine human; 0 is any free one.", minimum=0, private=True
    )
    output: str = _place(
        "experiment_logs", "Folder of the run folders.", metavar="DIR", private=True
    )
    log_to: tuple[str, ...] = _display(
        (), "Also log the run to this tool. Repeatable.", part="logger"
    )
    json: bool = _display(False, "Print the results as JSON on standard output.")
    quiet: bool = _display(False, "Print only errors and the run folder.")
    verbose: bool = _display(False, "Print every turn.")

    @property
    def alone(self) -> bool:
        """True if the run takes place in one process."""
        return self.workers == 1 and not self.devices and not self.ray

    @property
    def fixed_batch_size(self) -> int | None:
        """The requested batch size; None for as much as memory holds."""
        return None if self.batch_size == AUTO else int(self.batch_size)

    @property
    def frame(self) -> tuple[Up, AnyUnit]:
        """What `--up` and `--unit` say about the scan files; the frame of the bundled rooms is known."""
        bundled = self.benchmark == ROOMS and self.ply is None
        return (AUTO, AUTO) if bundled else (self.up, self.unit)

    @property
    def asks_vsibench(self) -> bool:
        """True if the questions are VSI-Bench's own."""
        return self.benchmark == VSIBENCH

    @property
    def partial(self) -> bool:
        """True if only some of the benchmark's questions are chosen."""
        narrowed = self.type or self.dataset or self.scene or self.id or self.exclude
        return bool(self.limit or narrowed or self.shard)

    def absolute(self) -> RunConfig:
        """Return the same options with every path made absolute, so that a run can be resumed from any folder."""
        return replace(self, **absolute_paths(asdict(self)))

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of every option that changes results."""
        return fingerprint_of(asdict(self))

    def to_json(self) -> dict[str, Any]:
        """Return the options as `config.json` stores them."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunConfig:
        """Return the options that `to_json` wrote. UsageError if one is unknown or has the wrong type."""
        import msgspec  # not at import: --help does not need it

        if unknown := sorted(set(data) - set(OPTIONS)):
            raise UsageError(f"there is no option {short_repr(unknown[0])}")
        try:
            config: RunConfig = msgspec.convert(data, cls)
        except msgspec.ValidationError as error:
            raise UsageError(str(error)) from error
        return config


OPTIONS: dict[str, Field[Any]] = {entry.name: entry for entry in fields(RunConfig)}

CHANGEABLE = {
    name
    for name, entry in OPTIONS.items()
    if entry.metadata["group"] in ("speed", "place", "display") or entry.metadata.get("free")
}
"""Names of the options that may change when a run is resumed."""


def fixed_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of some options that change results: a resumed run keeps them."""
    return {name: value for name, value in options.items() if name not in CHANGEABLE}


def fingerprint_of(options: Mapping[str, Any]) -> str:
    """Return the SHA-256 of those of some options that change results.

    The fingerprint of saved options does not change when later versions of the program have more options.
    """
    text = json.dumps(fixed_options(options), sort_keys=True, default=list)
    return hashlib.sha256(text.encode()).hexdigest()


def flag_of(name: str) -> str:
    """Return the flag of an option, such as "--max-turns"."""
    return "--" + name.replace("_", "-")


def parse_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Parse options given by name in Python; each value is read as its flag would be.

    Lists may stand for tuples, and paths for strings; None is an option that is not given. UsageError if there is
    no such option or its flag would refuse the value.
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
    """Return the value of an option from how it is typed. ValueError, with the reason, if it is not valid."""
    declared = entry.metadata
    if entry.name == "image_size":
        return _parse_size(value)
    if isinstance(entry.default, tuple):
        alone = isinstance(value, str | PathLike) or not isinstance(value, Iterable)
        words = [_text(part) for part in ([value] if alone else value)]
        if separator := declared.get("separator"):
            words = [word.strip() for text in words for word in text.split(separator)]
            words = list(dict.fromkeys(filter(None, words)))
        return tuple(_checked(entry, word) for word in words)
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
    if entry.type == "float":
        return _parse_number(float, text, declared.get("minimum"), declared.get("maximum"))
    return _checked(entry, text)


def _checked(entry: Field[Any], text: str) -> str:
    """Return a text that is one of the choices, and matches the pattern, of an option. ValueError if not."""
    choices, pattern = entry.metadata.get("choices"), entry.metadata.get("pattern")
    if choices and text not in choices:
        meant = did_you_mean(text, choices)
        raise ValueError(f"{short_repr(text)} is unknown: choose from {', '.join(choices)}{meant}")
    if pattern and not re.fullmatch(pattern, text):
        raise ValueError(f"{short_repr(text)} is not valid: write {entry.metadata['metavar']}")
    return text


def _parse_size(value: Any) -> tuple[int, int]:
    sides = value if isinstance(value, list | tuple) else _text(value).lower().split("x")
    if len(sides) != 2 or not all(str(side).isdecimal() for side in sides):
        raise ValueError(f"{short_repr(value)} is not a size: write it as 640x480")
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
    if not isfinite(number):
        raise ValueError(f"{text} is not finite")
    if minimum is not None and number < minimum:
        raise ValueError(f"{text} is less than {minimum}")
    if maximum is not None and number > maximum:
        raise ValueError(f"{text} is more than {maximum}")
    return number


def _text(value: Any) -> str:
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


IS_PATH: dict[str, Callable[[str], bool]] = {
    "always": lambda path: True,
    "file": lambda name: "." in name and Path(name).is_file(),
    "existing": lambda name: Path(name).exists(),
    "model": lambda name: (
        _holds_model(name) or (Path(name).is_file() and name not in BUNDLED_MODELS)
    ),
    "argument": _holds_model,  # of what is behind the colon
}
"""`path` of a declaration -> whether a value is a path rather than a name."""


def public_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return some options as they may be published: without servers, places and keys, and of paths only the name."""
    shown: dict[str, Any] = {}
    for name, value in options.items():
        if name in OPTIONS and OPTIONS[name].metadata.get("private"):
            continue
        if name == "engine_option":
            value = [each for each in value if not names_a_key(each.partition("=")[0])]
        several = isinstance(value, list | tuple)
        parts = [_without_folder(each) for each in (value if several else [value])]
        shown[name] = parts if several else parts[0]
    return shown


def _without_folder(value: Any) -> Any:
    head, colon, path = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    return public(f"{head}{colon}{Path(path).name}" if path.startswith("/") else value)
