"""Build what the options of a run name: the only module that turns an option into an object."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from render_agent import registry
from render_agent.agents.agent import Agent
from render_agent.agents.verifiers.verifier import Verifier
from render_agent.dialogue.prompt import Prompt
from render_agent.dialogue.question import Question
from render_agent.dialogue.wording import FILE_NAME, Wording, general, load_wording
from render_agent.engines.bundled_models import bundled_model
from render_agent.engines.engine import Engine, Workload
from render_agent.engines.make_engine import (
    EngineMaker,
    engine_maker,
    engine_traits,
    start_engine,
)
from render_agent.errors import SceneError, UsageError
from render_agent.options import AUTO, RunConfig, parse_options
from render_agent.render.start_pose import parse_start
from render_agent.render.subprocess_renderer import make_guarded
from render_agent.render.viewer import Viewer
from render_agent.scans.cache import SceneCache
from render_agent.tasks.choice import Choice
from render_agent.tasks.counterfactual.change_plan import ChangePlan
from render_agent.tasks.ground_truth import known_facts
from render_agent.tasks.selection import choose_questions
from render_agent.util.reasons import short_repr
from render_agent.views.free_views import FreeViews, PolicyViews
from render_agent.views.picture_store import Pictures
from render_agent.views.provider import NoViews, ViewProvider
from render_agent.views.scene_graph import GraphTold
from render_agent.views.stress.image_stress import PictureStress
from render_agent.views.toolsets import Toolset
from render_agent.views.view_policies.view_policy import ViewPolicy

MAX_CANDIDATES = 64  # replies per turn


@dataclass(frozen=True, eq=False)
class Parts:
    """The objects that the options of a run name, and the facts that follow from them.

    Attributes:
        config: The options.
        view_policy: Chooses the views (`--views`).
        picture_stress: Changes what the views show (`--pictures`).
        toolset: Helps the model beside its views (`--tools`).
        agent: Decides each turn (`--agent`).
        verifiers: Score candidate moves (`--verifier`); not open yet.
        changes: Make counterparts of questions (`--change`).
        engine: Properties of the engine (`--engine`). A package's engine has the defaults and is not imported.
    """

    config: RunConfig
    view_policy: ViewPolicy
    picture_stress: PictureStress
    toolset: Toolset
    agent: Agent
    verifiers: tuple[Verifier, ...]
    changes: tuple[ChangePlan, ...]
    engine: EngineMaker

    @property
    def blind(self) -> bool:
        """True if nothing is shown."""
        return self.view_policy.blind or self.toolset.graph

    @property
    def free(self) -> bool:
        """True if the model chooses its views."""
        return self.view_policy.free and not self.blind

    @property
    def passive(self) -> bool:
        """True if views are shown that the model did not choose."""
        return not (self.blind or self.free)

    @property
    def faithful(self) -> bool:
        """True if the views show the scenes that the questions are about."""
        return not self.blind and self.picture_stress.faithful

    @property
    def opening_kinds(self) -> tuple[str, ...]:
        """The kinds of the first views, in order. UsageError if `--kinds` lacks one that is needed."""
        return self.view_policy.opening_kinds(self.config.kinds)

    @property
    def most_views(self) -> int:
        """The largest number of views that a question is shown."""
        return self.view_policy.most_views(self.config.kinds, self.config.max_turns)

    @property
    def pictures_in_prompt(self) -> int:
        """The largest number of images in a prompt of the run, including those of judges."""
        shown = self.most_views
        if self.agent.shows_all:  # each later turn also shows where the other moves would have led
            shown += (self.agent.samples - 1) * (self.config.max_turns - 1)
        return max(shown, *(verifier.pictures for verifier in self.verifiers), 0)

    @property
    def workload(self) -> Workload:
        """What the run demands of its engine."""
        kinds = self.config.kinds if self.free else ()
        return Workload(self.pictures_in_prompt, self.agent.candidates, kinds)

    @property
    def judges(self) -> tuple[Verifier, ...]:
        """The verifiers that ask a model about every candidate."""
        return tuple(verifier for verifier in self.verifiers if verifier.asks_model)

    @property
    def model_name(self) -> str:
        """The model, or the engine's default."""
        return self.engine.model_of(self.config)

    @property
    def agent_words(self) -> str:
        """The agent and its verifiers, as in "lookahead:4 by geometry and random"."""
        labels = [verifier.label for verifier in self.verifiers]
        return f"{self.agent.text} by {' and '.join(labels)}" if labels else self.agent.text

    @property
    def notes(self) -> list[str]:
        """The notes on what is shown that must accompany every score; most runs have none."""
        shown = self.view_policy.note(self.config.kinds, self.config.max_turns)
        notes = (shown, self.picture_stress.note, self.toolset.note)
        return [note for note in notes if note is not None]

    @property
    def choices(self) -> tuple[Choice, ...]:
        """All parts that check themselves and name the files they read, in the order of their checks.

        SetupError if the package of the engine is not installed.
        """
        maker = engine_maker(self.config.engine)
        engine = maker if isinstance(maker, Choice) else Choice()
        shown = (self.picture_stress, self.view_policy, self.toolset)
        return (*shown, *self.verifiers, engine)

    @cached_property
    def prompt(self) -> Prompt:
        """How the dialogues are worded. SetupError if the wording of the model cannot be used."""
        config, wording = self.config, wording_of(self)
        turns, field = config.max_turns, config.field_of_view
        protocol = registry.load("reply protocol", config.reply_protocol)()
        if self.passive:
            kinds, shown = self.opening_kinds, self.most_views
            return Prompt(turns, field, kinds, shown, wording=wording, protocol=protocol)
        start = parse_start(config.start)
        # In a mirrored room the requested position has other coordinates.
        named = None if isinstance(start, str) or self.picture_stress.changes_truth else start[0]
        return Prompt(
            turns,
            field,
            () if self.blind else config.kinds,
            picture_size=config.image_size if self.toolset.measures else None,
            graph=self.toolset.graph,
            start=named,
            wording=wording,
            protocol=protocol,
        )

    def questions(self) -> list[Question]:
        """Choose the questions of the run. SetupError if they or their scans are missing."""
        return choose_questions(self.config, blind=self.blind, changes=self.changes)

    def scenes(self, questions: Sequence[Question], limit: int | None = None) -> SceneCache:
        """Return the scenes that some questions are shown; limit: bytes of the cache."""
        return self.picture_stress.scenes(self.config, questions, limit)


def build(config: RunConfig) -> Parts:
    """Build what the options name.

    Raises:
        UsageError: An option has a value that its flag would refuse, or options contradict each other.
        SetupError: The package of a part is not installed.
    """
    parse_options(config.to_json())
    stress: PictureStress = registry.load("picture stress", config.pictures)()
    agent = parse_agent(config.agent)
    default = agent.verifiers
    names = () if default is None else config.verifier or default
    parts = Parts(
        config,
        registry.load("view policy", config.views)(),
        stress,
        registry.load("toolset", config.tools)(),
        agent,
        _parse_parts("verifier", names, own_scene=stress.own_scene),
        _parse_parts("change", config.change),
        engine_traits(config.engine),
    )
    for check in (_check_questions, _check_engine, _check_schedule, _check_views, _check_agent):
        check(parts)
    return parts


def _parse_parts(kind: registry.Kind, texts: Sequence[str], **more: Any) -> tuple[Any, ...]:
    """Make parts from texts of the form NAME or NAME:ARGUMENT.

    more: further arguments of every part. UsageError if a text is named twice or has no form of its kind.
    """
    if len({text.strip() for text in texts}) < len(texts):
        raise UsageError(f"a --{kind} is named twice")
    parts = []
    for text in texts:
        name, colon, argument = text.strip().partition(":")
        maker = registry.load(kind, name) if name in registry.names(kind) else None
        if maker is None or not maker.accepts(argument if colon else None):
            makers = (registry.load(kind, part) for part in registry.names(kind))
            forms = ", ".join(form for each in makers for form in each.forms)
            raise UsageError(f"--{kind} {short_repr(text)} is not valid: write one of {forms}")
        parts.append(maker(argument or None, **more))
    return tuple(parts)


def parse_agent(text: str) -> Agent:
    """Parse the value of `--agent`. UsageError if no agent has that form."""
    known = registry.names("agent")
    name, colon, argument = text.strip().partition(":")
    agent: type[Agent] | None = registry.load("agent", name) if name in known else None
    shape = agent.form.partition(":")[2] if agent else ""
    match = re.fullmatch("".join(_COUNTS[letter] for letter in shape), argument)
    if agent is None or match is None or bool(colon) != bool(shape):
        forms = ", ".join(registry.load("agent", each).form for each in known)
        raise UsageError(
            f"--agent {short_repr(text)} is not valid: write one of {forms}, with whole numbers"
        )
    made = agent(text.strip(), **{key: int(value) for key, value in match.groupdict().items()})
    if colon and not 2 <= made.candidates <= MAX_CANDIDATES:
        raise UsageError(
            f"--agent {text}: 2 to {MAX_CANDIDATES} candidates are needed, to choose among them"
        )
    return made


_COUNTS = {"R": "(?P<wordings>[0-9]{1,4})", "K": "(?P<samples>[0-9]{1,4})", "x": "[x×]"}


def _check_questions(parts: Parts) -> None:
    config = parts.config
    if config.batch == (config.ply is not None):
        raise UsageError("give either --batch, or --ply FILE with --question TEXT")
    if config.ply is not None and not (config.question or "").strip():
        raise UsageError("--ply needs --question TEXT")
    if config.batch and (config.question or config.option):
        raise UsageError("--question and --option go with --ply, not with --batch")
    if config.change and not config.batch:
        raise UsageError(
            "--change needs --batch: nobody knows the truth of a question that was typed"
        )


def _check_engine(parts: Parts) -> None:
    config = parts.config
    if not parts.engine.asks_model and (config.thinking != AUTO or config.thinking_budget is not None):  # fmt: skip
        flag = "--thinking-budget" if config.thinking == AUTO else "--thinking"
        raise UsageError(f"{flag} is for models, not for --engine {config.engine}: leave it out")


def _check_schedule(parts: Parts) -> None:
    config = parts.config
    if config.devices and config.workers not in (1, len(config.devices)):
        raise UsageError(
            f"--devices names {len(config.devices)} devices, a worker each: leave --workers"
            f" {config.workers} out"
        )


def _check_views(parts: Parts) -> None:
    config, stress = parts.config, parts.picture_stress
    _ = parts.opening_kinds  # refuses kinds that lack a view to begin with
    if config.probe and parts.blind:
        raise UsageError(
            "--probe asks what was learnt from views, and --views none shows none: leave one of them out"
        )
    if config.probe and not parts.free and set(config.probe) == {"pose"}:
        raise UsageError(
            f"--probe {','.join(config.probe)} asks where the camera is, and --views {config.views} moves it by"
            " itself: add map, counts or seen, or let the model choose its views"
        )
    if parts.toolset.note and not (parts.view_policy.free and stress.note is None):
        raise UsageError(
            f"--tools {config.tools} goes with --views free and --pictures real: leave the others out"
        )
    if stress.note is not None and parts.blind:
        raise UsageError(
            f"--pictures {config.pictures} says what views show, and --views none shows none: leave"
            " one of them out"
        )
    if config.change and (stress.changes_truth or not stress.own_scene):
        raise UsageError(
            f"--change needs rooms as they are, and --pictures {config.pictures} exchanges or mirrors"
            " them: leave one of them out"
        )


def _check_agent(parts: Parts) -> None:
    config, agent, verifiers = parts.config, parts.agent, parts.verifiers
    if agent.verifiers is None:
        if config.verifier:
            raise UsageError(
                f"--agent {config.agent} takes no verifier: leave {config.verifier[0]} out"
            )
    elif not verifiers:
        raise UsageError(f"--agent {config.agent} needs --verifier random or learned:DIR")
    looking = [verifier for verifier in verifiers if verifier.looks]
    if looking and not agent.draws:
        raise UsageError(
            f"--verifier {looking[0].label} looks at what a move leads to, and {agent.form} draws none:"
            f" use --agent lookahead:{agent.samples}"
        )
    if not agent.chooses:
        return
    if parts.engine.gives_one_reply:
        raise UsageError(f"--agent {config.agent} needs several replies a turn: a person gives one")
    if not config.temperature:
        raise UsageError(
            f"--agent {config.agent} needs replies that differ: give a --temperature above 0"
        )
    if agent.moves and not parts.free:
        raise UsageError(f"--agent {config.agent} chooses among moves: use it with --views free")


def make_engine(config: RunConfig, questions: Sequence[Question]) -> Engine:
    """Return the engine of a run, its model loaded. SetupError if that is impossible."""
    return start_engine(config, questions, build(config).workload)


def wording_of(parts: Parts) -> Wording:
    """Return the sentences of the prompt: the model's own if it is a local model that brings them.

    SetupError if those cannot be used.
    """
    if parts.engine.holds_weights:
        name = parts.model_name
        file = (bundled_model(name) or Path(name).expanduser()) / FILE_NAME
        if os.path.lexists(file):  # a broken link is an error, too
            return load_wording(file)
    return general()


MakeViews = Callable[[Parts, SceneCache, Pictures, Sequence[Question]], ViewProvider]


def make_views(
    parts: Parts, scenes: SceneCache, pictures: Pictures, questions: Sequence[Question]
) -> ViewProvider:
    """Return what draws the views of some questions; the renderer is made for the first of them.

    SetupError if something that the choice of views depends on is missing.
    """
    config = parts.config
    if parts.toolset.graph:
        return GraphTold(known_facts(questions, config.annotations), parts.prompt.wording)
    if parts.blind:
        return NoViews()

    prepare = getattr(registry.load("renderer", config.renderer), "prepare", None)
    if prepare is not None and questions:
        with suppress(SceneError):  # its question fails alone, later
            prepare(partial(scenes.get, questions[0]))

    def make_viewer() -> Viewer:
        return Viewer(make_guarded(config.renderer), config.image_size, config.field_of_view)

    shown = parts.picture_stress.painted(pictures, config.seed)
    opening = parts.opening_kinds
    if parts.passive:
        policy = parts.view_policy.build(config, questions)
        return PolicyViews(
            make_viewer, scenes, shown, opening, config.start, opening, policy=policy
        )
    facts = known_facts(questions, config.annotations) if parts.toolset.measures else None
    wording = parts.prompt.wording
    return FreeViews(
        make_viewer, scenes, shown, config.kinds, config.start, opening, facts, wording
    )


def describe_choosing(parts: Parts, questions: Sequence[Question]) -> dict[str, Any]:
    """Describe the agent and its verifiers for `config.json`; loads nothing heavy.

    `note` names the verifiers that know what no model should; None if there are none. QuestionsError if a file
    of boxes has no known format.
    """
    described = [
        {"name": verifier.label, **verifier.describe(parts.config, questions)}
        for verifier in parts.verifiers
    ]
    names = [
        f"{entry['name']} (knows {entry['knows']})" if entry.get("knows") else entry["name"]
        for entry in described
    ]
    known = any(entry.get("knows") for entry in described)
    return {
        "agent": parts.config.agent,
        "samples": parts.agent.samples,
        "groups": parts.agent.wordings,
        "verifiers": described,
        "note": f"agent: {parts.config.agent} by {', '.join(names)}" if known else None,
    }
