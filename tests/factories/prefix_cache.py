"""Whether prompts that run together, and out of vLLM's prefix cache, are answered as each is alone."""

from __future__ import annotations

from collections.abc import Mapping

from PIL import Image as Pictures
from PIL.Image import Image

from render_agent.dialogue.chat import Message, assistant, message, picture, text
from render_agent.engines.base import Request
from render_agent.engines.vllm.core import VllmCore
from render_agent.engines.vllm.requests import Prompts, Sampling

REPLY_TOKENS = 8
SIDE_PIXELS = 64
"""Of the probe's pictures."""

INSTRUCTIONS = "You are shown two pictures and say which of them has the stripes. " * 4
"""Long enough to fill blocks of the cache."""


def cache_mismatch(core: VllmCore, prompts: Prompts, sampling: Sampling) -> str | None:
    """Return in one sentence how replies differ, None where they do not; what was cached is dropped.

    Two prompts of the same words show their two pictures in opposite orders; a third goes on
    where the first ended.
    """
    requests = _requests()
    alone: dict[str, list[int]] = {}
    for name, request in requests.items():
        core.forget()
        alone |= _answers(core, prompts, sampling, {name: request})
    core.forget()
    together = _answers(core, prompts, sampling, {"first": requests["first"]})
    together |= _answers(core, prompts, sampling, requests)
    core.forget()
    prompts.forget(requests["first"].question_id)
    wrong = sorted(name for name, ids in together.items() if ids != alone[name])
    if not wrong:
        return None
    return (
        f"{len(wrong)} of {len(requests)} prompts with two pictures are answered otherwise together"
        f" than each alone ({core.dtype}, vLLM's prefix cache)"
    )


def _answers(
    core: VllmCore, prompts: Prompts, sampling: Sampling, requests: Mapping[str, Request]
) -> dict[str, list[int]]:
    """Return the tokens that each request is answered with, all of them under way at once."""
    for name, request in requests.items():
        core.add(name, prompts.of(request), sampling.params(request, 0, guided=False))
    ids: dict[str, list[int]] = {}
    while len(ids) < len(requests):
        ids |= {output.request_id: list(output.outputs[0].token_ids) for output in core.step()}
    return ids


def _requests() -> dict[str, Request]:
    shown = {
        "stripes": _striped(),
        "plain": Pictures.new("RGB", (SIDE_PIXELS, SIDE_PIXELS), (40, 90, 160)),
    }

    def asked(*files: str) -> list[Message]:
        pieces = [piece for file in files for piece in (text("Picture:"), picture(file))]
        return [
            message("system", text(INSTRUCTIONS)),
            message("user", *pieces, text("Which has the stripes?")),
        ]

    def request(messages: list[Message]) -> Request:
        return Request("probe", 0, messages, shown.__getitem__, max_new_tokens=REPLY_TOKENS)

    first = asked("stripes", "plain")
    more = [assistant("The first."), message("user", picture("plain"), text("And now?"))]
    return {
        "first": request(first),
        "swapped": request(asked("plain", "stripes")),
        "longer": request([*first, *more]),
    }


def _striped() -> Image:
    rows = bytes(255 * (row // 8 % 2) for row in range(SIDE_PIXELS) for _ in range(SIDE_PIXELS))
    return Pictures.frombytes("L", (SIDE_PIXELS, SIDE_PIXELS), rows).convert("RGB")
