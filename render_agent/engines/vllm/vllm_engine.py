"""A vision-language model run by vLLM on this machine, many dialogues at once, each at its own pace."""

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
    FoundModel,
    describe_found,
    fetch_model,
    find_model,
)
from render_agent.engines.checkpoint.pretrained import load_processor, silence_libraries
from render_agent.engines.checkpoint.special_tokens import picture_tokens
from render_agent.engines.checkpoint.torchvision_compat import cure_torchvision
from render_agent.engines.engine import Capabilities, Reply, Request, Scores
from render_agent.engines.families.thinking import Thought
from render_agent.engines.vllm.arguments import (
    VllmOptions,
    prepare_environment,
    require_vllm,
    vllm_version,
)
from render_agent.engines.vllm.core import VllmCore
from render_agent.engines.vllm.option_logprobs import ScoringRequest, logprob_queries
from render_agent.engines.vllm.requests import Prompts, Sampling, TokenPrompt, scoring_params
from render_agent.errors import EngineError
from render_agent.util.reasons import first_line

LOG = logging.getLogger(__name__)


@dataclass
class Occupancy:
    """Requests under way × seconds so far. Two readings give the mean number of requests between them."""

    work: float = 0.0
    _noted: float = field(default_factory=time.perf_counter)

    def note(self, running: int) -> float:
        """Add the time since the last note, in which so many ran, and return the work so far."""
        now = time.perf_counter()
        self.work += running * (now - self._noted)
        self._noted = now
        return self.work


@dataclass(eq=False)
class Generation:
    """A request under way: vLLM's outputs of its finished samples, and its reply in the end.

    work_before: of the engine's `occupancy` as it began. waited_for: whether `generate` takes it.
    """

    request: Request
    began: float
    work_before: float
    waited_for: bool
    outputs: dict[int, Any] = field(default_factory=dict)
    reply: Reply | None = None


class VllmEngine:
    """Answers with any model that vLLM serves, through its continuous batching and prefix cache.

    A request that vLLM cannot take, such as one that is too long, is its `Reply.error`.
    """

    name = "vllm"
    capabilities = Capabilities(free_running=True, schema=True, score=True)

    def __init__(
        self, model: str, *, revision: str | None = None, options: VllmOptions | None = None
    ) -> None:
        """Load a bundled model, a hub name or a directory.

        SetupError where vLLM is not installed or cannot run the model.
        """
        require_vllm()
        self.options = options = options or VllmOptions()
        cure_torchvision()
        located = find_model(model, revision)
        on_cpu = prepare_environment(options.device)
        silence_libraries()
        located = fetch_model(located)
        model_type = str(located.config.get("model_type"))
        processor = load_processor(located, options.thinking)
        self.prompts = Prompts(processor, model_type, options.options, options.thinking)
        self.core = self._load(located, on_cpu)
        self.description = describe_found(located)
        self.batch_size = self.core.sequences
        self.calls = self.core.steps = 0
        self.occupancy = Occupancy()
        self._numbers = count()
        self._under_way: dict[str, tuple[Generation | ScoringRequest, int]] = {}
        self._answered: list[Generation] = []
        self._woken = Event()

    def describe(self) -> dict[str, Any]:
        """Return what identifies the model as it runs: its weights, place, libraries, limits."""
        return {
            **self.description,
            "vllm": vllm_version(),
            "dtype": self.core.dtype,
            "device": self.core.device,
            "max_model_len": self.core.max_model_len,
            "max_num_seqs": self.core.sequences,
            "prefix_caching": self.core.prefix_caching,
            "top_k": self.sampling.top_k,
            "top_p": self.sampling.top_p,
        }

    def generate(self, requests: Sequence[Request]) -> list[Reply]:
        """Return a reply for every request, in their order (a barrier)."""
        begun = [self._begin(request, waited_for=True) for request in requests]
        while any(generation.reply is None for generation in begun):
            self._step()
        return [generation.reply for generation in begun if generation.reply is not None]

    def submit(self, requests: Sequence[Request]) -> None:
        """Begin requests whose replies `ready` will give."""
        for request in requests:
            self._begin(request, waited_for=False)

    def ready(self, timeout: float | None = None) -> Iterator[tuple[Request, Reply]]:
        """Step until at least one request is answered or the time is over, and give what is."""
        began = time.perf_counter()
        left = timeout
        while not self._answered and self._under_way:
            self._step(left)
            if self._woken.is_set():
                break
            if timeout is not None:
                left = began + timeout - time.perf_counter()
                if left <= 0:
                    break
        self._woken.clear()
        answered, self._answered = self._answered, []
        for generation in answered:
            if generation.reply is not None:
                yield generation.request, generation.reply

    def score(self, requests: Sequence[Request], choices: Sequence[Sequence[str]]) -> list[Scores]:
        """Return for every request, in their order, how likely each of its choices begins the reply.

        A prompt is computed once and then lies in the prefix cache; choices of one token cost
        nothing more. A request that vLLM cannot take has its `Scores.error`.
        """
        begun = [
            self._begin_scoring(request, words)
            for request, words in zip(requests, choices, strict=True)
        ]
        while not all(scoring.done for scoring in begun):
            self._step()
        return [scoring.scores(min(len(begun), self.batch_size)) for scoring in begun]

    def wake(self) -> None:
        """Have `ready` give what it has after its next step."""
        self._woken.set()

    def retire(self, question_id: str) -> None:
        """Forget the names of a question's pictures; the prefix cache drops its oldest by itself."""
        self.prompts.forget(question_id)

    def close(self) -> None:
        """Give back memory and processes."""
        self.core.close()

    def _load(self, located: FoundModel, on_cpu: bool) -> VllmCore:
        """Return the loaded model."""
        core = VllmCore(located, self.options, on_cpu)
        suppressed = picture_tokens(core.hf_config, self.prompts.tokenizer)
        self.sampling = Sampling.published(core.published, self.options.options, suppressed)
        return core

    def _begin(self, request: Request, *, waited_for: bool) -> Generation:
        work = self.occupancy.note(len(self._under_way))
        generation = Generation(request, time.perf_counter(), work, waited_for)

        def samples(prompt: TokenPrompt) -> Iterator[tuple[TokenPrompt, Any]]:
            for sample in range(request.distinct_samples):
                yield prompt, self.sampling.params(request, sample, prompt.guided)

        if (fault := self._add(request, generation, samples)) is not None:
            self._end(generation, Reply(error=fault))
        return generation

    def _begin_scoring(self, request: Request, choices: Sequence[str]) -> ScoringRequest:
        self.occupancy.note(len(self._under_way))
        tokens = [self.prompts.choice(words) for words in choices]
        scoring = ScoringRequest(tokens, logprob_queries(tokens))

        def prefixes(prompt: TokenPrompt) -> Iterator[tuple[TokenPrompt, Any]]:
            for path, ids in scoring.queries:
                yield prompt.extended(path), scoring_params(ids)

        scoring.error = self._add(request, scoring, prefixes)
        return scoring

    def _add(
        self,
        request: Request,
        owner: Generation | ScoringRequest,
        parts: Callable[[TokenPrompt], Iterator[tuple[TokenPrompt, Any]]],
    ) -> str | None:
        """Hand the parts of a request's prompt to vLLM for `owner`; return why it does not take them.

        parts: prompts and vLLM's parameters, from the request's prompt.
        """
        # Pictures, template and limits are this request's own: whatever is wrong with them, and
        # vLLM raises many kinds, the others go on.
        try:
            for number, (prompt, params) in enumerate(parts(self.prompts.of(request))):
                name = str(next(self._numbers))
                self.core.add(name, prompt, params)
                self._under_way[name] = owner, number
        except EngineError:
            raise
        except Exception as error:
            LOG.warning("%s: vLLM did not take the prompt", request.question_id, exc_info=True)
            return f"vLLM did not take the prompt: {first_line(error)}"
        return None

    def _step(self, timeout: float | None = None) -> None:
        before = len(self._under_way)
        outputs = self.core.step(timeout)
        self.calls = self.core.steps
        self.occupancy.note(before)
        for output in outputs:
            owner, number = self._under_way.pop(output.request_id)
            owner.outputs[number] = output
            if (
                isinstance(owner, Generation)
                and len(owner.outputs) == owner.request.distinct_samples
            ):
                self._end(owner, self._reply(owner))

    def _end(self, generation: Generation, reply: Reply) -> None:
        generation.reply = reply
        if not generation.waited_for:
            self._answered.append(generation)

    def _reply(self, generation: Generation) -> Reply:
        """Return a generation's reply; `batch_size` is how many ran beside it on the average."""
        outputs = [generation.outputs[sample] for sample in sorted(generation.outputs)]
        written = [output.outputs[0] for output in outputs]
        seconds = time.perf_counter() - generation.began
        beside = (self.occupancy.work - generation.work_before) / seconds
        size = max(1, min(self.batch_size, round(beside)))
        reasons = {output.finish_reason for output in written}
        if lost := reasons - {"stop", "length"}:
            return Reply(error=f"vLLM gave the request up: {lost.pop()}", seconds=seconds)
        marks = self.prompts.marks
        texts, thoughts = [], 0
        for output, completion in zip(outputs, written, strict=True):
            opened = marks is not None and marks.opened_by(output.prompt_token_ids)
            # Without the token that ended it.
            ids = list(completion.token_ids)[: -1 if completion.finish_reason == "stop" else None]
            texts.append(self.prompts.text(ids, opened=opened))
            thoughts += Thought.of(marks, ids, opened=opened).tokens if marks is not None else 0
        return Reply(
            samples=generation.request.all_samples(texts),
            tokens=Tokens(
                prompt=sum(len(output.prompt_token_ids) for output in outputs),
                reply=sum(len(output.token_ids) for output in written),
                cached=sum(output.num_cached_tokens or 0 for output in outputs),
                thought=thoughts,
            ),
            seconds=seconds,
            batch_size=size,
            finish="length" if "length" in reasons else "stop",
        )
