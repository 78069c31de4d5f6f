"""The engine that asks a person."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from render_agent.dialogue.state import Question
from render_agent.engines.base import Capabilities, Reply, Request
from render_agent.engines.human.session import HumanSession

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

FAREWELL_SECONDS = 2.0
"""Seconds that an open page is given to learn that the sitting is over."""


class HumanEngine:
    """Shows requests on a page of this machine, one at a time, and replies what is typed there.

    kinds: the kinds of view that may be asked for, none where nothing may. port: of the page, 0 for
    any that is free. name: who plays. SetupError where the port is taken.
    """

    name = "human"
    capabilities = Capabilities(free_running=True, one_dialogue=True, probes=False)
    batch_size = 1

    def __init__(
        self,
        questions: Sequence[Question],
        kinds: Sequence[str],
        max_turns: int,
        *,
        port: int = 0,
        name: str = "person",
    ) -> None:
        from render_agent.engines.human.site import PlaySite
        from render_agent.web.server import LocalServer

        self.calls = 0
        self.session = HumanSession()
        self._server = LocalServer(port)
        self.site = PlaySite(self.session, questions, kinds, max_turns, name, self._server.token)
        self._server.start(self.site.routes())

    @property
    def address(self) -> str:
        """Where the page is."""
        return self._server.address

    def offer(self, routes: Sequence[BaseRoute], page_of: Callable[[str], str | None]) -> None:
        """Serve the pages of finished questions beside its own; page_of: where that of an id lies, if it may be seen."""
        self.site.offer(routes, page_of)

    def generate(self, requests: Sequence[Request]) -> list[Reply]:
        """Return a reply for every request, in their order; they are asked in that order too."""
        self.submit(requests)
        replies: list[Reply] = []
        while len(replies) < len(requests):
            replies += [reply for _, reply in self.ready()]
        return replies

    def submit(self, requests: Sequence[Request]) -> None:
        """Hand over requests whose replies `ready` will give."""
        for request in requests:
            self.session.put(request)

    def ready(self, timeout: float | None = None) -> Iterator[tuple[Request, Reply]]:
        """Wait until the person has replied and give that; nothing after `timeout` seconds."""
        for answered in self.session.answered(timeout):
            self.calls += 1
            yield answered

    def wake(self) -> None:
        """Have `ready` wait no longer."""
        self.session.wake()

    def retire(self, question_id: str) -> None:
        """Count a question that asks no more."""
        self.session.retire(question_id)

    def close(self) -> None:
        """Tell an open page that the sitting is over, and stop serving it."""
        self.session.end(FAREWELL_SECONDS)
        self._server.close()
