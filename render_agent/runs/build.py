"""Builds the parts named by the options of a run. This is the only module that turns options into objects."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from render_agent import registry
from render_agent.agents.agent import Agent
from render_agent.agents.verifiers.verifier import Verifier
from render_agent.dialogue.prompt import Prompt
from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState, SceneSource
from render_agent.dialogue.turn import Turn
from render_agent.dialogue.wording import FILE_NAME, Wording, general, load_wording
from render_agent.engines.bundled_models import bundled_model
from render_agent.engines.engine import Engine, Workload
from render_agent.engines.make_engine import (
    EngineMaker,
    engine_maker,
    engine_traits,
    start_engine,
)
from render_agent.engines.prices import Price
from render_agent.errors import SceneError, UsageError
from render_agent.options import RunConfig, parse_options
from render_agent.render.subprocess_renderer import make_isolated_renderer
from render_agent.render.viewer import Viewer
from render_agent.runs.conflicts import refuse_conflicts
from render_agent.runs.cost.billing import Billing
from render_agent.runs.run_part import run_parts
from render_agent.scans.cache import SceneCache
from render_agent.tasks.ground_truth import load_facts
from render_agent.tasks.input_files import Choice
from render_agent.tasks.question_types import type_of
from render_agent.tasks.selection import choose_questions
from render_agent.util.reasons import short_repr
from render_agent.views.free_views import FreeViews, PolicyViews
from render_agent.views.image_store import ImageStore
from render_agent.views.instruments import Faults, parse_faults
from render_agent.views.provider import NoViews, ViewProvider
from render_agent.views.scene_graph import SceneGraphViews
from render_agent.views.stress.image_stress import ImageStress
from render_agent.views.toolsets import Toolset
from render_agent.views.view_policies.view_policy import ViewPolicy
from render_agent.visibility.start_pose import parse_start

MAX_CANDIDATES = 64  # maximum replies per turn


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts named by the options of a run, and what follows from their combination."""

    config: RunConfig
    view_policy: ViewPolicy
    image_stress: ImageStress
    toolset: Toolset
    agent: Agent
    verifiers: tuple[Verifier, ...]  # score candidate moves (`--verifier`); not opened yet
    engine: EngineMaker
    """Traits of the engine (`--engine`). Engine plug-ins have default traits and are not imported for this."""
    pose_faults: Faults  # of the reported pose (`--feedback`)
    blind: bool  # nothing is shown
    free: bool  # the model chooses its views
    passive: bool  # views are shown, but not chosen by the model
    faithful: bool  # images show the scenes that the questions are about
    recorded: Mapping[str, Any] = field(default_factory=dict)
    """SHA-256 of the input files of an existing run, as under `sha256` in its `config.json`. A scene is only
    read from the recorded files.
    """
    price: Price | None = None  # price of the model of an existing run; None if it is unknown

    @property
    def opening_kinds(self) -> tuple[str, ...]:
        """View types of the opening, in order. Raises UsageError if `--view-types` lacks a required one."""
        return self.view_policy.opening_kinds(self.config.view_types)

    @property
    def max_views(self) -> int:
        return self.view_policy.max_views(self.config.view_types, self.config.max_turns)

    @property
    def judges(self) -> tuple[Verifier, ...]:
        """The verifiers that query a model about every candidate."""
        return tuple(verifier for verifier in self.verifiers if verifier.uses_model)

    @property
    def billing(self) -> Billing:
        """How the run's tokens are billed."""
        own_models = [judge.argument for judge in self.judges]
        return Billing(self.price, bool(own_models) and not any(own_models))

    @property
    def model_name(self) -> str:
        return self.engine.model_name(self.config)

    @property
    def agent_words(self) -> str:
        """Description of the agent and its verifiers, e.g. "lookahead:4 by geometry and random"."""
        labels = [verifier.label for verifier in self.verifiers]
        return f"{self.agent.text} by {' and '.join(labels)}" if labels else self.agent.text

    @property
    def choices(self) -> tuple[Choice, ...]:
        """All parts that validate themselves and list their input files, in the order of their checks."""
        maker = engine_maker(self.config.engine)
        engine = maker if isinstance(maker, Choice) else Choice()
        view_parts = (self.image_stress, self.view_policy, self.toolset)
        return (*view_parts, *self.verifiers, engine, *run_parts())

    @cached_property
    def prompt(self) -> Prompt:
        """The prompt of the dialogues. Raises SetupError if the wording of the model is invalid."""
        config, wording = self.config, wording_of(self)
        turns, field = config.max_turns, config.field_of_view
        replies = {
            "wording": wording,
            "protocol": registry.load("reply protocol", config.reply_protocol)(),
            "asks_confidence": config.confidence == "on",
        }
        if self.passive:
            kinds = self.opening_kinds or ("ego",)
            return Prompt(turns, field, kinds, self.max_views, **replies)
        start = parse_start(config.start)
        faults = {self.toolset.name: self.toolset.faults, "pose": self.pose_faults}
        # in a mirrored room, the requested position has different coordinates
        position = (
            None if isinstance(start, str) or self.image_stress.changes_ground_truth else start[0]
        )
        return Prompt(
            turns,
            field,
            () if self.blind else config.view_types,
            image_size=config.image_size if self.toolset.measures else None,
            graph=self.toolset.graph,
            start=position,
            tells_outcome=config.feedback != "off",
            image_turns=None if config.history == "all" else int(config.history),
            warnings=tuple(name for name, own in faults.items() if own.any and not own.is_silent),
            **replies,
        )

    def questions(self) -> list[Question]:
        """Choose the questions of the run. Raises SetupError if they or their scans are missing."""
        questions = choose_questions(self.config, blind=self.blind)
        for part in run_parts():
            questions = part.questions(self, questions)
        return questions

    def state(
        self, question: Question, scenes: SceneSource, turns: Sequence[Turn] = ()
    ) -> QuestionState:
        """Return the state of a question of the run after the given turns."""
        return QuestionState(
            question,
            scenes,
            self.config.max_turns,
            blind=self.blind,
            protocol=self.prompt.protocol,
            turns=[*turns],
        )

    def scenes(self, questions: Sequence[Question], limit: int | None = None) -> SceneCache:
        """Return the scenes shown to the given questions; `limit` is the cache size in bytes."""
        digests = self.recorded.get("annotations", {}) | self.recorded.get("scans", {})
        return self.image_stress.scenes(self.config, questions, limit, digests)


def build(config: RunConfig) -> Parts:
    parse_options(config.to_json())
    policy: ViewPolicy = _make_part("view policy", "--views", config.views)
    stress: ImageStress = registry.load("image stress", config.image_stress)()
    toolset: Toolset = _make_part("toolset", "--tools", config.tools)
    agent = parse_agent(config.agent)
    names = () if agent.verifiers is None else config.verifier or agent.verifiers
    _, colon, drift = config.feedback.partition("drift:")
    blind = policy.blind or toolset.graph
    free = policy.free and not blind
    parts = Parts(
        config,
        policy,
        stress,
        toolset,
        agent,
        verifiers=parse_parts("verifier", names, own_scene=stress.shows_own_scene),
        engine=engine_traits(config.engine),
        pose_faults=parse_faults("--feedback", f"drift={drift}" if colon else "", ("drift",)),
        blind=blind,
        free=free,
        passive=not (blind or free),
        faithful=stress.faithful and not blind,
    )
    refuse_conflicts(parts)
    return parts


def _make_part(kind: registry.Kind, flag: str, text: str) -> Any:
    """Create the part that an option names as NAME or NAME:ARGUMENT."""
    name, colon, argument = text.partition(":")
    if name not in registry.names(kind):
        raise UsageError(f"{flag}: {registry.unknown(kind, name)}")
    return registry.load(kind, name)(argument if colon else None)


def parse_parts(kind: registry.Kind, texts: Sequence[str], **arguments: Any) -> tuple[Any, ...]:
    """Create parts from texts of the form NAME or NAME:ARGUMENT."""
    if len({text.strip() for text in texts}) < len(texts):
        raise UsageError(f"a --{kind} is named twice. Name each once.")
    parts = []
    for text in texts:
        name, colon, argument = text.strip().partition(":")
        maker = registry.load(kind, name) if name in registry.names(kind) else None
        if maker is None or not maker.accepts(argument if colon else None):
            makers = (registry.load(kind, part) for part in registry.names(kind))
            forms = ", ".join(form for part_type in makers for form in part_type.forms)
            raise UsageError(f"--{kind} {short_repr(text)} is not valid. Use one of {forms}.")
        parts.append(maker(argument or None, **arguments))
    return tuple(parts)


def parse_agent(text: str) -> Agent:
    """Parse the value of `--agent`. Raises UsageError if it is invalid."""
    agent_names = registry.names("agent")
    name, colon, argument = text.strip().partition(":")
    agent: type[Agent] | None = registry.load("agent", name) if name in agent_names else None
    shape = agent.form.partition(":")[2] if agent else ""
    match = re.fullmatch("".join(_COUNTS[letter] for letter in shape), argument)
    if agent is None or match is None or bool(colon) != bool(shape):
        forms = ", ".join(registry.load("agent", agent_name).form for agent_name in agent_names)
        raise UsageError(
            f"--agent {short_repr(text)} is not valid. Use one of {forms}, with whole numbers."
        )
    result = agent(text.strip(), **{key: int(value) for key, value in match.groupdict().items()})
    if colon and not 2 <= result.candidates <= MAX_CANDIDATES:
        raise UsageError(
            f"--agent {text} must have 2 to {MAX_CANDIDATES} candidates to choose among"
        )
    return result


_COUNTS = {"R": "(?P<wordings>[0-9]{1,4})", "K": "(?P<samples>[0-9]{1,4})", "x": "[x×]"}


def make_engine(config: RunConfig, questions: Sequence[Question]) -> Engine:
    """Return the engine of a run with its model loaded. Raises SetupError if that fails."""
    return start_engine(config, questions, workload_of(build(config), questions))


def workload_of(parts: Parts, questions: Sequence[Question] = ()) -> Workload:
    """Return the demands of a run on its engine."""
    config, agent, num_images = parts.config, parts.agent, parts.max_views
    if agent.shows_all:  # later turns also show the views of rejected moves
        num_images += (agent.samples - 1) * (config.max_turns - 1)
    num_images = max(num_images, *(verifier.max_images for verifier in parts.verifiers), 0)
    num_images += any(type_of(question).shows_target for question in questions)
    kinds = config.view_types if parts.free else ()
    return Workload(num_images, agent.candidates, kinds, parts.prompt.tools())


def wording_of(parts: Parts) -> Wording:
    """Return the wording of the prompt: that of a local model if it has its own, otherwise the general one."""
    if parts.engine.loads_weights:
        name = parts.model_name
        # unlike Path's, this keeps the names of unknown users, which are refused with the model
        folder = bundled_model(name) or Path(os.path.expanduser(name))  # noqa: PTH111
        file = folder / FILE_NAME
        if os.path.lexists(file):  # a broken link is an error
            return load_wording(file)
    return general()


MakeViews = Callable[[Parts, SceneCache, ImageStore, Sequence[Question]], ViewProvider]


def make_views(
    parts: Parts, scenes: SceneCache, images: ImageStore, questions: Sequence[Question]
) -> ViewProvider:
    """Return the view provider for the given questions. The renderer is created with the first view."""
    config = parts.config
    if parts.toolset.graph:
        return SceneGraphViews(
            load_facts(questions, config), parts.prompt.wording, parts.toolset.faults, config.seed
        )
    if parts.blind:
        return NoViews()

    prepare = getattr(registry.load("renderer", config.renderer), "prepare", None)
    if prepare is not None and questions:
        with suppress(SceneError):  # reported later, when its question fails
            prepare(partial(scenes.get, questions[0]))

    def make_viewer() -> Viewer:
        return Viewer(
            make_isolated_renderer(config.renderer), config.image_size, config.field_of_view
        )

    image_store = parts.image_stress.wrap_store(images, config.seed)
    opening, start = parts.opening_kinds, parse_start(config.start)
    if parts.passive:
        policy = parts.view_policy.build(config, questions)
        return PolicyViews(make_viewer, scenes, image_store, opening, start, opening, policy=policy)
    facts = load_facts(questions, config) if parts.toolset.measures else None
    wording = parts.prompt.wording
    return FreeViews(
        make_viewer,
        scenes,
        image_store,
        config.view_types,
        start,
        opening,
        facts,
        wording,
        parts.toolset.faults,
        config.seed,
    )


def describe_choosing(parts: Parts, questions: Sequence[Question]) -> dict[str, Any]:
    """Describe the agent and its verifiers for `config.json`, without loading models.

    `note` names verifiers with privileged knowledge; None if there are none.
    """
    descriptions = [
        {"name": verifier.label, **verifier.describe(parts.config, questions)}
        for verifier in parts.verifiers
    ]
    names = [
        f"{entry['name']} (knows {entry['knows']})" if entry.get("knows") else entry["name"]
        for entry in descriptions
    ]
    has_privileged = any(entry.get("knows") for entry in descriptions)
    return {
        "agent": parts.config.agent,
        "samples": parts.agent.samples,
        "groups": parts.agent.wordings,
        "verifiers": descriptions,
        "note": f"agent: {parts.config.agent} by {', '.join(names)}" if has_privileged else None,
    }
