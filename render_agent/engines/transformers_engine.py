"""A vision-language model run in this process by transformers, a batch in one `generate` call."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from render_agent.engines.dialogue_tensors import DialogueTensors, PreparedPrompt, is_qwen_vl
from render_agent.engines.loading import describe_found, find_model
from render_agent.engines.pretrained import Pretrained, check_names, first_line, load_pretrained
from render_agent.engines.rows import Row, Written, chunks, distinct_samples, reply_of
from render_agent.engines.seam import BatchingEngine, Capabilities, Reply, Request
from render_agent.engines.special_tokens import end_tokens, pad_token, picture_tokens
from render_agent.errors import EngineError, SetupError, UsageError
from render_agent.state import Tokens

if TYPE_CHECKING:
    from render_agent.engines.forced import Script

LOG = logging.getLogger(__name__)
OPTIONS = ("min_pixels", "max_pixels", "top_k", "top_p", "attn_implementation", "device_map")


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a call of the model failed."""

    reason: str
    out_of_memory: bool


class TransformersEngine(BatchingEngine):
    """Answers with any image-text-to-text model of transformers; Qwen3-VL is what it is made for.

    A row that fails is its request's `Reply.error`; a batch that does not fit into memory is halved,
    and the smaller size is kept from then on. EngineError where the device is lost.
    """

    name = "transformers"
    capabilities = Capabilities()

    def __init__(
        self,
        model: str,
        *,
        revision: str | None = None,
        dtype: str = "auto",
        device: str = "auto",
        batch_size: int = 16,
        engine_options: Mapping[str, Any] | None = None,
        pretrained: Pretrained | None = None,
        script: Script | None = None,
    ) -> None:
        """Load a hub name or a directory.

        dtype auto: the weights' own, on a CPU float32. device auto: the first GPU, else the CPU.
        batch_size: requests in one call. engine_options: `min_pixels` and `max_pixels` of a picture
        (Qwen-VL), `top_k` and `top_p` of sampling (the model's published ones), and
        `attn_implementation` and `device_map` as transformers takes them. pretrained: the model,
        where it is loaded already. script: gives the replies beforehand, for measurements.
        SetupError where the model cannot be run.
        """
        super().__init__(batch_size=batch_size)
        options = dict(engine_options or {})
        check_names(dtype, device)
        if pretrained is None:
            found = find_model(model, revision)
            check_options(options, str(found.config.get("model_type")))
            loaded = load_pretrained(found, dtype, device, options)
            self.description = describe_found(found)
        else:
            loaded = pretrained
            self.description = {"model_type": loaded.model.config.model_type}
            check_options(options, loaded.model.config.model_type)
        model_type = str(self.description["model_type"])
        self.script = script
        self.model: Any = loaded.model
        self.inputs = DialogueTensors(
            loaded.processor, model_type, options.get("min_pixels"), options.get("max_pixels")
        )
        self.tokenizer = loaded.processor.tokenizer
        self.ends = end_tokens(self.model, self.tokenizer)
        self.pad = pad_token(self.tokenizer, self.ends)
        self.suppressed = picture_tokens(self.model.config, self.tokenizer)
        self.top_k = int(options.get("top_k", loaded.top_k))
        self.top_p = float(options.get("top_p", loaded.top_p))
        self.ceiling: int | None = None

    def describe(self) -> dict[str, Any]:
        """Return what identifies the model as it runs: its weights, place, libraries, way of sampling."""
        return {
            **self.description,
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "device": str(self.model.device),
            "top_k": self.top_k,
            "top_p": self.top_p,
        }

    def answer(self, requests: Sequence[Request]) -> list[Reply]:
        """Return a reply for every request of one batch, in their order."""
        prepared = [self._prepare(request) for request in requests]
        rows = [
            Row(request, sample, prompt)
            for request, prompt in zip(requests, prepared, strict=True)
            if isinstance(prompt, PreparedPrompt)
            for sample in range(distinct_samples(request))
        ]
        written = iter(self._write(rows))
        return [
            reply_of(request, [next(written) for _ in range(distinct_samples(request))])
            if isinstance(prompt, PreparedPrompt)
            else Reply(error=prompt)
            for request, prompt in zip(requests, prepared, strict=True)
        ]

    def close(self) -> None:
        """Give back the model's memory."""
        from render_agent.engines.memory_faults import free_memory

        self.model = None
        free_memory()

    def _prepare(self, request: Request) -> PreparedPrompt | str:
        """Return a request ready for a batch, or in one sentence why it is not."""
        try:
            return self.inputs.prepare(request)
        # A picture comes from a file and goes through three libraries: whatever is wrong with it
        # is a fault of this request alone.
        except Exception as error:
            LOG.warning("%s: prompt failed", request.question_id, exc_info=True)
            return f"the prompt could not be prepared: {first_line(error)}"

    def _write(self, rows: Sequence[Row]) -> list[Written | str]:
        """Return what each row became, or in one sentence why it became nothing."""
        done: list[Written | str] = []
        waiting = deque([rows] if rows else [])
        # The caller has counted one call already.
        self.calls -= 1
        while waiting:
            chunk = waiting.popleft()
            if self.ceiling is not None and len(chunk) > self.ceiling:
                waiting.extendleft(reversed(chunks(chunk, self.ceiling)))
                continue
            self.calls += 1
            outcome = self._try(chunk)
            if not isinstance(outcome, Fault):
                done += outcome
            elif len(chunk) == 1:
                done.append(self._alone(outcome, chunk[0]))
            else:
                half = (len(chunk) + 1) // 2
                if outcome.out_of_memory:
                    self.ceiling = half
                    LOG.warning("out of memory with %d rows: now %d at a time", len(chunk), half)
                waiting.extendleft(reversed(chunks(chunk, half)))
        return done

    def _alone(self, fault: Fault, row: Row) -> str:
        """Return why a row failed that had a call of the model to itself."""
        if not fault.out_of_memory:
            return f"the model failed on this prompt: {fault.reason}"
        pictures = len(row.prompt.pictures)
        return (
            f"one request with {pictures} pictures does not fit into the memory of"
            f" {self.model.device}: lower --image-size or --max-turns, or use a smaller model"
            " (a lower --batch-size cannot help, it was alone)"
        )

    def _try(self, rows: Sequence[Row]) -> list[Written] | Fault:
        """Return what the rows became in one call of the model, or why it failed.

        The exception is dropped before memory is given back: it holds the failed batch's tensors.
        """
        from render_agent.engines.memory_faults import free_memory, is_device_lost, is_out_of_memory

        try:
            return self._call_model(rows)
        # The processor and the model may raise anything for a row that they cannot take.
        except Exception as error:
            if is_device_lost(error):
                raise EngineError(
                    f"{self.model.device} answers no more ({first_line(error)}): restart, and"
                    " continue the run with --continue recent"
                ) from error
            fault = Fault(first_line(error), is_out_of_memory(error))
            if not fault.out_of_memory:
                LOG.warning("a call with %d rows failed", len(rows), exc_info=True)
        if fault.out_of_memory:
            free_memory()
        return fault

    def _call_model(self, rows: Sequence[Row]) -> list[Written]:
        """Return what each row became in one `generate` call. Raises whatever that causes."""
        import torch

        from render_agent.engines.sampling import RowLimits

        began = time.perf_counter()
        device = self.model.device
        tensors = self.inputs.encode([row.prompt for row in rows], str(device))
        tensors = tensors.to(device=device, dtype=self.model.dtype)
        length = tensors["input_ids"].shape[1]
        limits = [row.request.max_new_tokens for row in rows]
        full = RowLimits(torch.tensor(limits, device=device), length)
        with torch.inference_mode():
            ids = self.model.generate(
                **tensors,
                do_sample=False,
                max_new_tokens=max(limits),
                eos_token_id=self.ends or None,
                pad_token_id=self.pad,
                suppress_tokens=self.suppressed or None,
                stopping_criteria=[full],
                logits_processor=self._sampling(rows, length) + self._forced_rows(rows, length),
            )
        replies = ids[:, length:].tolist()
        prompt_tokens = tensors["attention_mask"].sum(1).tolist()
        seconds = time.perf_counter() - began
        questions = len({id(row.request) for row in rows})
        return [
            self._written(reply[:limit], read, seconds, questions)
            for reply, limit, read in zip(replies, limits, prompt_tokens, strict=True)
        ]

    def _sampling(self, rows: Sequence[Row], length: int) -> list[Any]:
        """Return the logits processor that samples, where any row is not greedy."""
        import torch

        from render_agent.engines.sampling import RowSampling, Truncation, draws_of_rows

        temperatures = [row.request.temperature for row in rows]
        if not any(temperatures):
            return []
        device = self.model.device
        return [
            RowSampling(
                draws_of_rows([(row.request, row.sample) for row in rows]).to(device),
                torch.tensor(temperatures, device=device),
                length,
                Truncation(self.top_k, self.top_p),
            )
        ]

    def _forced_rows(self, rows: Sequence[Row], length: int) -> list[Any]:
        """Return the logits processor that writes what the script says, where there is one."""
        if self.script is None:
            return []
        from render_agent.engines.forced import ForcedRows, forced_tokens

        given = (self.script, self.tokenizer, self.ends)
        tokens = [forced_tokens(given[0], row.request, *given[1:]) for row in rows]
        return [ForcedRows(tokens, length)]

    def _written(self, ids: list[int], read: int, seconds: float, batch_size: int) -> Written:
        ended = next((place for place, token in enumerate(ids) if token in self.ends), None)
        kept = ids if ended is None else ids[:ended]
        text = self.tokenizer.decode(
            kept, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        counted = Tokens(prompt=read, reply=len(kept) + (ended is not None))
        return Written(text, counted, seconds, batch_size, ended is None)


def check_options(options: Mapping[str, Any], model_type: str) -> None:
    """UsageError for an engine option that does not exist; SetupError for one of another model."""
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise UsageError(
            f"--engine-option {unknown[0]} does not exist for --engine transformers: use one of"
            f" {', '.join(OPTIONS)}"
        )
    if options.keys() & {"min_pixels", "max_pixels"} and not is_qwen_vl(model_type):
        raise SetupError(
            f"--engine-option min_pixels and max_pixels are Qwen-VL's, and this is a {model_type}"
        )
