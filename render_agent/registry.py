"""The registry of parts: engines, renderers, verifiers, commands … by kind and name, loaded when asked for.

A part is an entry point, `module:attribute`. Those of the program stand in one table here; installed packages,
`render_agent_lab` among them, declare theirs in the groups of GROUPS. All are found, loaded and checked alike, and of
one name the program's own comes first. Names are known without importing a part.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import Distribution, EntryPoint, EntryPoints, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from render_agent.errors import RenderAgentError, SetupError
from render_agent.text.reasons import short_repr

Kind = Literal[
    "engine",
    "renderer",
    "benchmark",
    "kind of view",
    "verifier",
    "view policy",
    "picture stress",
    "probe",
    "change",
    "toolset",
    "scripted policy",
    "logger",
    "command",
]

KINDS: dict[Kind, tuple[str, str]] = {
    "engine": ("engines", "render_agent.engines.base:Engine"),
    "renderer": ("renderers", "render_agent.render.base:Renderer"),
    "benchmark": ("benchmarks", "collections.abc:Sequence"),
    "kind of view": ("views", "render_agent.dialogue.view_kinds:ViewKind"),
    "verifier": ("verifiers", "render_agent.agents.verifiers.base:Verifier"),
    "view policy": ("view_policies", "render_agent.observation.view_policies.base:ViewPolicy"),
    "picture stress": ("picture_stresses", "render_agent.observation.stress.base:PictureStress"),
    "probe": ("probes", "render_agent.dialogue.probe:ProbeKind"),
    "change": ("changes", "render_agent.questions.counterfactual.base:ChangePlan"),
    "toolset": ("toolsets", "render_agent.observation.toolsets:Toolset"),
    "scripted policy": ("policies", "render_agent.engines.scripted.base:Policy"),
    "logger": ("loggers", "render_agent.analysis.export.loggers:RunLogger"),
    "command": ("commands", "click:Command"),
}
"""Of each kind of part the group of entry points, `render_agent.…`, in which a package declares its own, and the
protocol or base class whose members every part must have."""

GROUPS: dict[Kind, str] = {kind: f"render_agent.{group}" for kind, (group, _) in KINDS.items()}

BUILT_IN: dict[Kind, Mapping[str, str]] = {
    "engine": {
        "transformers": "render_agent.engines.registry:TRANSFORMERS",
        "vllm": "render_agent.engines.registry:VLLM",
        "openai": "render_agent.engines.registry:OPENAI",
        "scripted": "render_agent.engines.registry:SCRIPTED",
        "human": "render_agent.engines.registry:HUMAN",
    },
    "renderer": {
        "rasteriser": "render_agent.render.rasteriser.renderer:Rasteriser",
        "pyrender": "render_agent.render.pyrender_renderer:Pyrender",
    },
    "benchmark": {
        "vsibench": "render_agent.questions.vsibench:VSI_BENCH",
        "rooms": "render_agent.questions.rooms:ROOMS",
        "sqa3d": "render_agent.questions.scan_benchmarks:SQA3D",
        "scanqa": "render_agent.questions.scan_benchmarks:SCANQA",
        "openeqa": "render_agent.questions.scan_benchmarks:OPENEQA",
        "revsi": "render_agent.questions.scan_benchmarks:REVSI",
    },
    "kind of view": {
        "ego": "render_agent.dialogue.view_kinds:Ego",
        "top": "render_agent.dialogue.view_kinds:Top",
        "around": "render_agent.dialogue.view_kinds:Around",
    },
    "verifier": {
        "random": "render_agent.agents.verifiers.random:RandomVerifier",
        "geometry": "render_agent.agents.verifiers.geometry:GeometryVerifier",
        "judge": "render_agent.agents.verifiers.judge.verifier:JudgeVerifier",
        "embedding": "render_agent.agents.verifiers.embedding:EmbeddingVerifier",
    },
    "view policy": {
        "free": "render_agent.observation.view_policies.built_in:Free",
        "none": "render_agent.observation.view_policies.built_in:Blind",
        "start": "render_agent.observation.view_policies.built_in:Start",
        "four": "render_agent.observation.view_policies.built_in:Four",
        "top": "render_agent.observation.view_policies.built_in:Top",
        "random-walk": "render_agent.observation.view_policies.built_in:RandomWalkViews",
        "tour": "render_agent.observation.view_policies.tour:TourViews",
    },
    "picture stress": {
        "real": "render_agent.observation.stress.base:Real",
        "black": "render_agent.observation.stress.blank:Black",
        "noise": "render_agent.observation.stress.blank:Noise",
        "shuffled": "render_agent.observation.stress.shuffled:Shuffled",
        "mirrored": "render_agent.observation.stress.mirrored:Mirrored",
    },
    "probe": {
        "map": "render_agent.dialogue.probe:Map",
        "counts": "render_agent.dialogue.probe:Counts",
        "pose": "render_agent.dialogue.probe:Pose",
        "seen": "render_agent.dialogue.probe:Seen",
    },
    "change": {
        "remove": "render_agent.questions.counterfactual.objects:Remove",
        "add": "render_agent.questions.counterfactual.objects:Add",
        "move": "render_agent.questions.counterfactual.objects:Move",
        "swap": "render_agent.questions.counterfactual.objects:Swap",
        "recolour": "render_agent.questions.counterfactual.objects:Recolour",
        "scale": "render_agent.questions.counterfactual.objects:Scale",
        "rotate": "render_agent.questions.counterfactual.objects:Rotate",
        "order": "render_agent.questions.counterfactual.wordings:Order",
        "letters": "render_agent.questions.counterfactual.wordings:Letters",
        "units": "render_agent.questions.counterfactual.wordings:Units",
        "inverse": "render_agent.questions.counterfactual.wordings:Inverse",
        "names": "render_agent.questions.counterfactual.wordings:Names",
    },
    "toolset": {
        "none": "render_agent.observation.toolsets:Toolset",
        "measure": "render_agent.observation.toolsets:Measure",
        "graph": "render_agent.observation.toolsets:SceneGraph",
    },
    "scripted policy": {
        "explorer": "render_agent.engines.scripted.blind_policies:EXPLORER",
        "random": "render_agent.engines.scripted.blind_policies:RANDOM",
        "frequency": "render_agent.engines.scripted.blind_policies:FREQUENCY",
        "wanderer": "render_agent.engines.scripted.blind_policies:WANDERER",
    },
    "logger": {
        "wandb": "render_agent.analysis.export.loggers:WandbLogger",
        "trackio": "render_agent.analysis.export.loggers:TrackioLogger",
        "tensorboard": "render_agent.analysis.export.loggers:TensorBoardLogger",
        "mlflow": "render_agent.analysis.export.loggers:MlflowLogger",
    },
    "command": {
        "ls": "render_agent.cli.main:ls",
        "show": "render_agent.cli.main:show",
        "report": "render_agent.cli.commands.report:report_command",
        "bundle": "render_agent.cli.commands.report:bundle_command",
        "view": "render_agent.cli.commands.view:view_command",
        "diagnose": "render_agent.cli.commands.diagnose:diagnose_command",
        "compare": "render_agent.cli.main:compare",
        "power": "render_agent.cli.commands.power:power_command",
        "rescore": "render_agent.cli.main:rescore",
        "merge": "render_agent.cli.main:merge",
        "export": "render_agent.cli.commands.export:export_command",
        "sweep": "render_agent.cli.commands.sweep:sweep_command",
        "doctor": "render_agent.cli.main:doctor",
        "play": "render_agent.cli.commands.play:play_command",
        "score": "render_agent.cli.main:score",
        "llm-match": "render_agent.cli.commands.llm_match:llm_match_command",
        "judge": "render_agent.cli.commands.judge:judge_command",
        "completion": "render_agent.cli.completion:completion_command",
    },
}
"""The program's own parts."""

LAB: Mapping[Kind, Sequence[str]] = {
    "verifier": ("learned",),
    "view policy": ("oracle",),
    "scripted policy": ("oracle", "witness", "seeker", "expert", "stumbler", "surveyor"),
    "command": ("train-verifier", "make-rooms", "bench", "audit"),
}
"""Names of the parts of `render_agent_lab`, the second package of this repository, which setup.cfg declares."""

NAME = re.compile(r"[a-z][a-z0-9_]*(?:-[a-z][a-z0-9_]*)*")
"""A part's name; names of files are made of it, where -2 stands for the second one."""

RESERVED = ("candidate", "none", "null")
"""Names that mean something else where a package brings a part: in replies, or in names of files."""

MAX_NAME_CHARACTERS = 40


def built_in(kind: Kind) -> tuple[str, ...]:
    """Return the names of the program's own parts of a kind, in the order of their table.

    The parts of `render_agent_lab` follow, where it is installed.
    """
    installed = {e.name for e in _declared(kind) if _is_own(e)} if kind in LAB else set()
    return (*BUILT_IN[kind], *(name for name in LAB.get(kind, ()) if name in installed))


def brought(kind: Kind) -> list[str]:
    """Return the names of the parts of a kind that only installed packages bring, sorted."""
    own = built_in(kind)
    return sorted({e.name for e in _declared(kind) if is_name(e.name) and e.name not in own})


def names(kind: Kind) -> list[str]:
    """Return the names of all parts of a kind: the program's own, then those of installed packages."""
    return [*built_in(kind), *brought(kind)]


def is_known(kind: Kind, name: str) -> bool:
    """Whether `load` knows the name: it is one of `names`, or of a part of `render_agent_lab`."""
    return name in LAB.get(kind, ()) or name in names(kind)


def is_name(text: str) -> bool:
    """Whether a package may call a part so."""
    fits = NAME.fullmatch(text) and len(text) <= MAX_NAME_CHARACTERS
    return bool(fits) and text not in RESERVED


def package(kind: Kind, name: str) -> str | None:
    """Return the package that brings a part, with its version ("my-engine 1.0"); None for the program's own.

    SetupError as in `load`.
    """
    return None if name in built_in(kind) else _package(_entry(kind, name))


def load(kind: Kind, name: str) -> Any:
    """Load the entry point of a part: the class or function that makes it, or a command.

    SetupError where no part has that name, several packages bring it, or what is named cannot be imported
    or called.
    """
    entry = _entry(kind, name)
    try:
        maker = entry.load()
    except RenderAgentError:
        raise
    except Exception as error:  # it is anybody's code
        raise SetupError(
            f"{_title(kind, entry)} cannot be imported from {entry.value}"
            f" ({type(error).__name__}: {error}): fix that package, or uninstall it"
        ) from error
    if not callable(maker):
        raise SetupError(
            f"{_title(kind, entry)} is not a class or function but {short_repr(maker)}: {entry.value} must"
            " name what makes it"
        )
    return maker


def make(kind: Kind, name: str, *arguments: object) -> Any:
    """Return a part, made by calling what its entry point names with `arguments`.

    SetupError as in `load`, and where making it fails or it lacks a member of its kind's form.
    """
    maker = load(kind, name)
    try:
        part = maker(*arguments)
    except RenderAgentError:
        raise
    except Exception as error:  # it is anybody's code
        raise SetupError(
            f"{_title(kind, _entry(kind, name))} could not be made ({type(error).__name__}: {error}):"
            " fix that package, or do without it"
        ) from error
    form = EntryPoint(kind, KINDS[kind][1], "").load()
    if missing := lacking(part, form):
        title = _title(kind, _entry(kind, name))
        raise SetupError(f"{title} lacks {', '.join(missing)}, which {form.__name__} asks for")
    return part


def lacking(part: object, form: type) -> list[str]:
    """Return the members of a protocol that an object does not have, sorted."""
    members = {*vars(form), *getattr(form, "__annotations__", {})}
    return sorted(name for name in members if not name.startswith("_") and not hasattr(part, name))


def summary(kind: Kind, name: str) -> str:
    """Return the first sentence of a part's docstring or help, read from its source.

    The part is imported only where its source defines no function or class of its name. Empty where it has
    neither, or cannot be read.
    """
    entry = _entry(kind, name)
    try:
        spec = find_spec(entry.module)
        bodies = ast.parse(Path(spec.origin or "").read_text("utf-8")).body if spec else []
        documented = (ast.FunctionDef, ast.ClassDef)
        named = [b for b in bodies if isinstance(b, documented) and b.name == entry.attr]
        if named:
            return first_sentence(ast.get_docstring(named[-1]) or "")
        return first_sentence(getattr(load(kind, name), "help", None) or "")
    except (ImportError, OSError, SyntaxError, ValueError, SetupError):
        return ""


def first_sentence(text: str) -> str:
    """Return a text up to the first full stop at the end of a sentence, in one line."""
    first = " ".join(text.split("\n\n")[0].split())
    return f"{first.partition('. ')[0].removesuffix('.')}." if first else ""


def _entry(kind: Kind, name: str) -> EntryPoint:
    """Return the one entry point of a name. SetupError where there is none, or more than one."""
    if name in BUILT_IN[kind]:
        return EntryPoint(name, BUILT_IN[kind][name], GROUPS[kind])
    entries = [entry for entry in _declared(kind) if entry.name == name and is_name(name)]
    entries = [entry for entry in entries if _is_own(entry)] or entries
    if not entries and name in LAB.get(kind, ()):
        raise SetupError(
            f"the {kind} {name!r} is part of render_agent_lab, which is not installed: type"
            " pip install -e . in the folder of the sources"
        )
    if not entries:
        known = ", ".join(names(kind))
        others = f"choose one of {known}, or install" if known else "install"
        raise SetupError(
            f"there is no {kind} {short_repr(name)}: {others} the package that brings it"
        )
    if len(entries) > 1:
        packages = " and ".join(sorted(map(_package, entries)))
        raise SetupError(f"the {kind} {name!r} is brought by {packages}: uninstall all but one")
    return entries[0]


def _declared(kind: Kind) -> EntryPoints:
    """Return the entry points of a kind that installed packages declare."""
    declared: EntryPoints = _entry_points(tuple(sys.path)).select(group=GROUPS[kind])
    return declared


@cache
def _entry_points(path: tuple[str, ...]) -> Any:
    """Return all entry points, read once; path: `sys.path`, whose folders hold the packages."""
    return entry_points()  # of Python 3.11 a mapping, later EntryPoints; both can select


def _is_own(entry: EntryPoint) -> bool:
    """Whether the distribution of this program declares an entry point."""
    return entry.dist is not None and _name(entry.dist).replace("-", "_") == "render_agent"


@cache
def _name(distribution: Distribution) -> str:
    """Return a distribution's name, for which the library reads and parses its whole METADATA every time."""
    return distribution.name


def _package(entry: EntryPoint) -> str:
    return "an unknown package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def _title(kind: Kind, entry: EntryPoint) -> str:
    """Return a part's title for an error: its kind, its name, and the package that brings it."""
    if entry.name in built_in(kind):
        return f"the {kind} {entry.name!r}"
    return f"the {kind} {entry.name!r} of {_package(entry)}"
