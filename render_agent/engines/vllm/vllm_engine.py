"""The vLLM engine: requests run concurrently, and each reply is returned as soon as it is complete."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from threading import Event
from typing import Any

from render_agent.dialogue.tokens import Tokens
from render_agent.engines.checkpoint.locate import (
    LocatedModel,
    fetch_model,
    find_model,
    reject_adapter,
)
from render_agent.engines.checkpoint.pretrained import load_processor, silence_libraries
from render_agent.engines.checkpoint.special_tokens import image_token_ids
from render_agent.engines.checkpoint.torchvision_compat import patch_torchvision
from render_agent.engines.engine import Capabilities, Reply, Request, Scores
from render_agent.engines.families.thinking import Thought
from render_agent.engines.vllm.arguments import (
    VllmOptions,
    prepare_environment,
    require_vllm,
)
from render_agent.engines.vllm.core import VllmCore
from render_agent.engines.vllm.option_logprobs import ScoringRequest, logprob_queries
from render_agent.engines.vllm.requests import Prompts, Sampling, TokenPrompt, scoring_params
from render_agent.errors import EngineError
from render_agent.util.reasons import first_line

LOG = logging.getLogger(__name__)


@dataclass
class Occupancy:
    """Integral of the number of requests in flight over time, from which the mean over an interval follows."""

    request_seconds: float = 0.0
    _updated_at: float = field(default_factory=time.perf_counter)

    def update(self, running: int) -> float:
        """Add the time since the last update, during which `running` requests were in flight; return the integral."""
        now = time.perf_counter()
        self.request_seconds += running * (now - self._updated_at)
        self._updated_at = now
        return self.request_seconds


@dataclass(eq=False)
class Generation:
    """A request in flight, with vLLM's outputs of its finished samples, and finally its reply."""

    request: Request
    began: float
    request_seconds_before: float
    """Value of the engine's `occupancy` at the beginning."""
    for_generate: bool
    """True if `generate` rather than `ready` returns the reply."""
    outputs: dict[int, Any] = field(default_factory=dict)
    reply: Reply | None = None


class VllmEngine:
    """Runs any model that vLLM supports, with its continuous batching and prefix cache."""

    name = "vllm"
    capabilities = Capabilities(streaming=True, guided_decoding=True, scoring=True)

    def __init__(
        self,
        model: str,
        *,
        revision: str | None = None,
        options: VllmOptions | None = None,  # the options; None for defaults
    ) -> None:
        require_vllm()
        self.options = options = options or VllmOptions()
        patch_torchvision()
        located = find_model(model, revision)
        reject_adapter(located, "--engine vllm")
        on_cpu = prepare_environment(options.device, options.reproducible)
        silence_libraries()
        located = fetch_model(located)
        model_type = str(located.config.get("model_type"))
        processor = load_processor(located, options.thinking)
        self.prompts = Prompts(processor, model_type, options.options, options.thinking)
        self.core = self._load(located, on_cpu)
        self.batch_size = self.core.sequences
        self.calls = self.core.steps = 0
        self.occupancy = Occupancy()
        self._names = count()
        self._in_flight: dict[str, tuple[Generation | ScoringRequest, int]] = {}
        self._answered: list[Generation] = []
        self._woken = Event()

    def generate(self, requests: Sequence[Request]) -> list[Reply]:
        generations = [self._start(request, for_generate=True) for request in requests]
        while any(generation.reply is None for generation in generations):
            self._step()
        return [generation.reply for generation in generations if generation.reply is not None]

    def submit(self, requests: Sequence[Request]) -> None:
        """Start requests; `ready` returns their replies."""
        for request in requests:
            self._start(request, for_generate=False)

    def ready(self, timeout: float | None = None) -> Iterator[tuple[Request, Reply]]:
        began = time.perf_counter()
        remaining = timeout
        while not self._answered and self._in_flight:
            self._step(remaining)
            if self._woken.is_set():
                break
            if timeout is not None:
                remaining = began + timeout - time.perf_counter()
                if remaining <= 0:
                    break
        self._woken.clear()
        answered, self._answered = self._answered, []
        for generation in answered:
            if generation.reply is not None:
                yield generation.request, generation.reply

    def score(self, requests: Sequence[Request], choices: Sequence[Sequence[str]]) -> list[Scores]:
        """Score the choices of every request, as in `Scorer.score`.

        A prompt is computed once and then read from the prefix cache; choices of a single token need no further
        computation.
        """
        scorings = [
            self._start_scoring(request, texts)
            for request, texts in zip(requests, choices, strict=True)
        ]
        while not all(scoring.done for scoring in scorings):
            self._step()
        return [scoring.scores(min(len(scorings), self.batch_size)) for scoring in scorings]

    def wake(self) -> None:
        """Make `ready` return after its next step."""
        self._woken.set()

    def retire(self, dialogue_id: str) -> None:
        """Drop the hashes of a question's images; vLLM evicts old entries of its prefix cache itself."""
        self.prompts.retire(dialogue_id)

    def close(self) -> None:
        self.core.close()

    def _load(self, located: LocatedModel, on_cpu: bool) -> VllmCore:
        core = VllmCore(located, self.options, on_cpu)
        suppressed = image_token_ids(core.hf_config, self.prompts.tokenizer)
        self.sampling = Sampling.published(core.published, self.options.options, suppressed)
        return core

    def _start(self, request: Request, *, for_generate: bool) -> Generation:
        request_seconds = self.occupancy.update(len(self._in_flight))
        generation = Generation(request, time.perf_counter(), request_seconds, for_generate)

        def samples(prompt: TokenPrompt) -> Iterator[tuple[TokenPrompt, Any]]:
            for sample in range(request.distinct_samples):
                yield prompt, self.sampling.params(request, sample, prompt.guided)

        if (error := self._add(request, generation, samples)) is not None:
            self._finish(generation, Reply(error=error))
        return generation

    def _start_scoring(self, request: Request, choices: Sequence[str]) -> ScoringRequest:
        self.occupancy.update(len(self._in_flight))
        tokens = [self.prompts.choice_tokens(text) for text in choices]
        scoring = ScoringRequest(tokens, logprob_queries(tokens))

        def prefixes(prompt: TokenPrompt) -> Iterator[tuple[TokenPrompt, Any]]:
            for prefix, ids in scoring.queries:
                yield prompt.extended(prefix), scoring_params(ids)

        scoring.error = self._add(request, scoring, prefixes)
        return scoring

    def _add(
        self,
        request: Request,
        owner: Generation | ScoringRequest,
        parts: Callable[[TokenPrompt], Iterator[tuple[TokenPrompt, Any]]],
    ) -> str | None:
        """Submit the parts of a request to vLLM."""
        # vLLM raises many kinds of errors for an image, a template or a length; they concern only this request.
        try:
            for index, (prompt, params) in enumerate(parts(self.prompts.build(request))):
                name = str(next(self._names))
                self.core.add(name, prompt, params)
                self._in_flight[name] = owner, index
        except EngineError:
            raise
        except Exception as error:
            LOG.warning("%s: vLLM rejected the prompt", request.dialogue_id, exc_info=True)
            return f"vLLM rejected the prompt: {first_line(error)}"
        return None

    def _step(self, timeout: float | None = None) -> None:
        running = len(self._in_flight)
        outputs = self.core.step(timeout)
        self.calls = self.core.steps
        self.occupancy.update(running)
        for output in outputs:
            owner, index = self._in_flight.pop(output.request_id)
            owner.outputs[index] = output
            if (
                isinstance(owner, Generation)
                and len(owner.outputs) == owner.request.distinct_samples
            ):
                self._finish(owner, self._reply(owner))

    def _finish(self, generation: Generation, reply: Reply) -> None:
        generation.reply = reply
        if not generation.for_generate:
            self._answered.append(generation)

    def _reply(self, generation: Generation) -> Reply:
        """Build the reply of a finished generation. Its `batch_size` is the mean number of requests in flight."""
        outputs = [generation.outputs[sample] for sample in sorted(generation.outputs)]
        completions = [output.outputs[0] for output in outputs]
        seconds = time.perf_counter() - generation.began
        request_seconds = self.occupancy.request_seconds - generation.request_seconds_before
        batch_size = max(1, min(self.batch_size, round(request_seconds / seconds)))
        reasons = {completion.finish_reason for completion in completions}
        if failures := reasons - {"stop", "length"}:
            return Reply(error=f"vLLM aborted the request: {failures.pop()}", seconds=seconds)
        marks = self.prompts.marks
        texts, thought_tokens = [], 0
        for output, completion in zip(outputs, completions, strict=True):
            opened = marks is not None and marks.opened_by(output.prompt_token_ids)
            # Without the end token.
            ids = list(completion.token_ids)[: -1 if completion.finish_reason == "stop" else None]
            texts.append(self.prompts.text(ids, opened=opened))
            if marks is not None:
                thought_tokens += Thought.of(marks, ids, opened=opened).tokens
        return Reply(
            samples=generation.request.all_samples(texts),
            tokens=Tokens(
                prompt=sum(len(output.prompt_token_ids) for output in outputs),
                reply=sum(len(completion.token_ids) for completion in completions),
                cached=sum(output.num_cached_tokens or 0 for output in outputs),
                thought=thought_tokens,
            ),
            seconds=seconds,
            batch_size=batch_size,
            finish="length" if "length" in reasons else "stop",
        )
