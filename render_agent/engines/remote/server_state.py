"""The state of one server during a run."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

from render_agent.dialogue.events import describe_event
from render_agent.engines.engine import Request
from render_agent.engines.remote.api_error import ApiError
from render_agent.engines.remote.chat_api import ChatApi, Fields
from render_agent.engines.remote.endpoints import Endpoint
from render_agent.engines.remote.phrases import Fault
from render_agent.engines.remote.quirks import find_adaptation

LOG = logging.getLogger(__name__)

MAX_CONSECUTIVE_FAILURES = 3  # requests that fail after all retries before a server is abandoned
ADAPTABLE = (400, 415, 422, 501)  # status of requests that are rejected because of their content


@dataclass
class Server:
    """A server, its faults, and how requests to it are adapted."""

    endpoint: Endpoint
    client: Any
    adaptations: set[str]
    """What requests leave out or change, as events of their replies."""
    questions: set[str] = field(default_factory=set)
    """Ids of the questions that are assigned to the server."""
    answered: bool = False
    consecutive_failures: int = 0
    lost: str | None = None
    """The reason why the server was abandoned, otherwise None."""
    note: str | None = None
    """A remark for the error if the server is abandoned."""
    not_before: float = 0.0
    """Time of the event loop until which the server asked for no more requests."""

    def record_success(self) -> None:
        self.answered, self.consecutive_failures = True, 0

    def record_failure(self, error: ApiError) -> bool:
        """Abandon the server if no request can succeed, or after too many failures in a row; return True if it is lost."""
        if error.fault in (Fault.REQUEST, Fault.TOO_LONG) and self.answered:
            return self.lost is not None  # a problem of this request, such as its length
        self.consecutive_failures += 1
        is_final = error.fault.is_final or error.failure == "unreachable"
        if self.lost is None and (
            is_final or self.consecutive_failures >= MAX_CONSECUTIVE_FAILURES
        ):
            reason = error.describe(self.endpoint)
            is_exhausted = error.fault is Fault.EXHAUSTED
            self.lost = f"{error.fault.value}: {reason}" if is_exhausted else reason
            LOG.error("no more requests to %s: %s", self.endpoint.url, self.lost)
        return self.lost is not None

    def adapt(
        self, error: ApiError, fields: Fields, request: Request, applied: set[str], api: ChatApi
    ) -> bool:
        """Adapt requests to what the server rejects; return True if the rejected one can be sent again."""
        if error.status not in ADAPTABLE or error.fault is Fault.TOO_LONG:
            return False
        event = find_adaptation(error.body, fields, request, api)
        if event is None or event in applied:
            return False
        if event not in self.adaptations:
            self.adaptations.add(event)
            reason = error.describe(self.endpoint)
            change = describe_event(event)
            LOG.warning("%s: %s from now on, because of %s", self.endpoint.url, change, reason)
        return True
