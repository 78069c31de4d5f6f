"""The protocol of scripted policies, and their declaration under a name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from render_agent.dialogue.question import Question
from render_agent.engines.engine import Request
from render_agent.options import RunConfig


class Policy(Protocol):
    """Chooses the replies. A policy is built with the list of questions, so it can use what no prompt contains.

    A policy can define four optional methods:

    - `samples(request)` returns one reply per sample, if samples differ; the first must equal `reply(request)`.
    - `reply_all(requests)` replaces `reply` for a batch: it returns one reply, or an exception, per request.
    - `believe(request)` replies to requests with a `probe`, which `reply` and `reply_all` receive otherwise.
    - `close()` releases resources, such as a renderer.
    """

    def reply(self, request: Request) -> str:
        """Return the text of the reply to a request."""
        ...


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """A policy that can be selected by name."""

    make: Callable[[Sequence[Question], int, RunConfig | None], Policy]
    """Builds the policy from the questions, the seed and the run options. If the options are None, there is
    no run, and the policy must work without scenes and annotations."""
    note: str | None = None
    """Shown next to the results of the policy."""
    knows_boxes: bool = False
    """True if the policy answers from the object boxes of the scenes."""
    answers_probes: bool = False
    """True if the policy replies to requests with a `probe`."""

    def __call__(
        self,
        questions: Sequence[Question],
        seed: int = 0,
        config: RunConfig | None = None,  # the run options; None outside a run
    ) -> Policy:
        return self.make(questions, seed, config)
