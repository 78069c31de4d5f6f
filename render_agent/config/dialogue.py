"""What a run shows, and how its dialogues go: the options, and the objects that two of them name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from math import isfinite
from typing import TYPE_CHECKING

from render_agent import registry
from render_agent.config.option import declare
from render_agent.errors import UsageError

if TYPE_CHECKING:
    from render_agent.views.stress.image_stress import PictureStress
    from render_agent.views.toolsets import Toolset
    from render_agent.views.view_policies.view_policy import ViewPolicy

setting = partial(declare, "dialogue")

VIEW_KINDS = ("ego", "top", "around")
"""Kinds of view that a reply may ask for."""

PROBES = ("map", "counts", "pose", "seen")
"""What a model can be asked to believe."""


@dataclass(frozen=True)
class DialogueSpec:
    """What is shown, who chooses it, and how many turns and tokens a dialogue has."""

    max_turns: int = setting(
        9, "The most turns that a question has; in the last one it must answer.", minimum=1
    )
    image_size: tuple[int, int] = setting(
        (640, 480), "Size of every view in pixels.", metavar="WxH", separator="x"
    )
    field_of_view: float = setting(75.0, "Horizontal field of view in degrees.", metavar="DEG")
    kinds: tuple[str, ...] = setting(
        VIEW_KINDS,
        "Kinds of view that may be asked for; the first is shown where none is.",
        metavar="LIST",
        separator=",",
    )
    views: str = setting(
        "free",
        "Who chooses the views: free, the model; else all are shown at once: the first one (start), four"
        " around it, the map (top), a random walk, a tour of the room, those that show what the question"
        " names (oracle); or none, and it needs no scans.",
        part="view policy",
    )
    pictures: str = setting(
        "real",
        "What the views show: the scene; black; noise; another question's scene (shuffled); the scene"
        " mirrored, left for right.",
        part="picture stress",
    )
    tools: str = setting(
        "none",
        "What helps the model beside views: none; exact measurements of pixels and points that it asks for"
        " (measure); or, in the place of views, a text of the true scene graph (graph).",
        part="toolset",
    )
    reply_protocol: str = setting(
        "json", "How a reply is asked for and read: one JSON object.", part="reply protocol"
    )
    start: str = setting(
        "best",
        "Where the camera begins: best (faces the most to see), middle, or a pose.",
        metavar="best|middle|x,y,z,yaw",
    )
    renderer: str = setting("rasteriser", "What draws the views.", part="renderer")
    probe: tuple[str, ...] = setting(
        (),
        "What the model is asked to believe after its turns, beside the dialogue: map (which objects are where),"
        " counts, pose (where it stands), seen (what it has not seen yet); several with commas.",
        metavar="LIST",
        separator=",",
    )
    temperature: float = setting(0.0, "Sampling temperature; 0 is greedy.", minimum=0)
    seed: int = setting(0, "All randomness comes from it and the question's id.")
    max_new_tokens: int = setting(512, "The most tokens of one reply.", minimum=1)

    @cached_property
    def view_policy(self) -> ViewPolicy:
        """Who chooses the views, as `--views` names it. SetupError where no such policy is installed."""
        policy: ViewPolicy = registry.load("view policy", self.views)()
        return policy

    @cached_property
    def picture_stress(self) -> PictureStress:
        """What the pictures show, as `--pictures` names it. SetupError where no such stress is installed."""
        stress: PictureStress = registry.load("picture stress", self.pictures)()
        return stress

    @cached_property
    def toolset(self) -> Toolset:
        """What helps the model, as `--tools` names it. SetupError where no such set is installed."""
        toolset: Toolset = registry.load("toolset", self.tools)()
        return toolset

    @property
    def opening_kinds(self) -> tuple[str, ...]:
        """The kinds of the first views, in their order."""
        return self.view_policy.opening_kinds(self.kinds)

    @property
    def most_views(self) -> int:
        """How many views a question is shown at the most."""
        return self.view_policy.most_views(self.kinds, self.max_turns)

    @property
    def blind(self) -> bool:
        """Whether nothing is shown."""
        return self.view_policy.blind or self.toolset.graph

    @property
    def free(self) -> bool:
        """Whether the model chooses its views."""
        return self.view_policy.free and not self.blind

    @property
    def passive(self) -> bool:
        """Whether views are shown that the model did not choose."""
        return not (self.blind or self.free)

    @property
    def faithful(self) -> bool:
        """Whether the views show the scenes that the questions are about."""
        return not self.blind and self.picture_stress.faithful

    @property
    def notes(self) -> list[str]:
        """What must be said beside every figure because of what is shown; most runs have none."""
        shown = self.view_policy.note(self.kinds, self.max_turns)
        notes = (shown, self.picture_stress.note, self.toolset.note)
        return [note for note in notes if note is not None]

    def check_dialogue(self) -> None:
        """Raise UsageError where these options contradict each other."""
        for flag, value in (
            ("--temperature", self.temperature),
            ("--field-of-view", self.field_of_view),
        ):
            if not isfinite(value):
                raise UsageError(f"{flag} {value} is no finite number")
        for flag, given, known in (
            ("--kinds", self.kinds, VIEW_KINDS),
            ("--probe", self.probe, PROBES),
        ):
            if unknown := [name for name in given if name not in known]:
                raise UsageError(f"{flag} {unknown[0]} is unknown: choose from {', '.join(known)}")
        _ = self.opening_kinds, self.picture_stress  # refuses what cannot be shown
        if self.probe and self.blind:
            raise UsageError(
                "--probe asks what was learnt from views, and --views none shows none: leave one of them out"
            )
        if self.probe and not self.free and set(self.probe) == {"pose"}:
            raise UsageError(
                f"--probe {','.join(self.probe)} asks where the camera is, and --views {self.views} moves it by"
                " itself: add map, counts or seen, or let the model choose its views"
            )
        if self.toolset.note and not (self.view_policy.free and self.picture_stress.note is None):
            raise UsageError(
                f"--tools {self.tools} goes with --views free and --pictures real: leave the others out"
            )
