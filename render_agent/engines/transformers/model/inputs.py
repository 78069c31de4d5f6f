"""Turns dialogues with images into token ids and batch tensors."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Any

from PIL.Image import Image

from render_agent.dialogue import chat
from render_agent.engines.byte_cache import ByteCache
from render_agent.engines.checkpoint.special_tokens import special_token_escaper
from render_agent.engines.engine import Request
from render_agent.engines.families.images import (
    Grid,
    ImageCost,
    ImagePreprocessor,
    Tensors,
    concatenate,
)
from render_agent.engines.families.model_families import family_of

if TYPE_CHECKING:
    import torch

MAX_IMAGE_CACHE_BYTES = 256 * 2**20  # pixel values cached for later turns
SIZE_CACHE_ENTRIES = 2**16  # images whose size is cached
COMPARE_CHUNK_TOKENS = 256  # comparing slices is faster than comparing token by token


@dataclass(frozen=True, slots=True)
class PromptImage:
    file: str
    start: int  # index of its first token in the prompt's ids
    tokens: int
    """Number of tokens from its first to its last, including separators between its rows."""
    grid: Grid | None  # patches (frames, rows, columns); None if the model does not get a grid
    values: ImageTensors = field(repr=False, compare=False)
    """Computes or returns the cached tensors; raises any error that the image causes."""


@dataclass(frozen=True, slots=True)
class PreparedPrompt:
    text: str  # the rendered chat template with a placeholder for every image
    ids: tuple[int, ...]  # all tokens including those of images, without padding
    raw_images: tuple[Image, ...] = ()
    """The images, for families whose processor has to see the whole prompt."""
    images: tuple[PromptImage, ...] = ()  # the images, for all other families
    stable_tokens: int = 0
    """Length of the prefix that all later prompts of the dialogue share. Only for recurrent families."""
    is_stable: bool = False
    """True if later prompts contain this whole prompt, so that they can also reuse the reply's state."""

    @property
    def image_count(self) -> int:
        return len(self.raw_images) + len(self.images)


class PromptBuilder:
    """Turns requests into prompts, and prompts into the same tensors as the model's own processor.

    Thread-safe. Sizes and tensors of images are cached, so that earlier images of a dialogue are not read again.
    """

    def __init__(
        self,
        processor: Any,
        model_type: str,
        options: Mapping[str, Any] | None = None,
        pins: bool = False,
    ) -> None:
        self.processor = processor
        self.tokenizer = processor.tokenizer
        self.family = family_of(model_type)
        self.pins = pins
        self.template: Mapping[str, Any] = (options or {}).get("chat_template_kwargs") or {}
        make = self.family.images
        self.form: ImagePreprocessor | None = make(processor, options or {}) if make else None
        self.image_cache: ByteCache[Tensors] = ByteCache(MAX_IMAGE_CACHE_BYTES)
        self._escape_special_tokens = special_token_escaper(self.tokenizer)
        self._added = set(self.tokenizer.get_added_vocab().values())
        # The key includes the function that reads the file: other runs have other files of the same name.
        self._size = lru_cache(SIZE_CACHE_ENTRIES)(_size)
        # A Rust tokenizer raises an error if its padding changes while another thread uses it.
        self._tokenizer_lock = Lock()

    def prepare(self, request: Request) -> PreparedPrompt:
        """Build the prompt of a request. Raises any error that an image or a text causes in the libraries."""
        text = self.render_template(request.messages, tools=request.tools)
        pieces = (piece for message in request.messages for piece in message["content"])
        files = [piece["image"] for piece in pieces if piece["type"] == "image"]
        if self.form is None:
            raw_images = tuple(request.load_image(file).convert("RGB") for file in files)
            prompt = PreparedPrompt(text, (), raw_images)
            return replace(prompt, ids=tuple(self.process([prompt])["input_ids"][0].tolist()))
        self._check_placeholders(text, len(files))
        costs = [self.form.cost(*self._size(request.load_image, file)) for file in files]
        ids = self._tokens(text, costs)
        images = tuple(self._locate_images(request, files, costs, ids, self.form))
        if not self.family.recurrent:
            return PreparedPrompt(text, ids=ids, images=images)
        shared = self._shared_with_later(request, ids, costs)
        # Text behind the last added token could be tokenized differently in a longer prompt.
        stable = max((n + 1 for n in range(shared) if ids[n] in self._added), default=0)
        is_stable = shared == len(ids)
        return PreparedPrompt(
            text, ids=ids, images=images, stable_tokens=stable, is_stable=is_stable
        )

    def _shared_with_later(
        self, request: Request, ids: Sequence[int], costs: Sequence[ImageCost]
    ) -> int:
        """Return the length of the prefix that a prompt shares with later prompts of its dialogue.

        It is found by rendering an example of a later prompt. The beginning of a reply in the generation prompt,
        such as the mark of a thought, may be missing from the history.
        """
        later = [*request.messages, chat.assistant("{}"), chat.message("user", chat.text("next"))]
        text = self.render_template(later, generate=False, tools=request.tools)
        return common_tokens(ids, self._tokens(text, costs))

    def render_template(
        self,
        messages: Sequence[chat.Message],
        generate: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> str:
        """Render the chat template; `generate` adds the generation prompt."""
        text: str = self.processor.apply_chat_template(
            self._escape_special_tokens(messages),
            tokenize=False,
            add_generation_prompt=generate,
            **({} if tools is None else {"tools": tools}),
            **self.template,
        )
        return text

    def encode(self, prompts: Sequence[PreparedPrompt]) -> Any:
        """Return the model inputs of a batch, padded on the left, as the processor would."""
        if self.form is None:
            return self.process(prompts)
        import torch
        from transformers import BatchFeature

        ids = [list(prompt.ids) for prompt in prompts]
        rows = {"input_ids": ids, "attention_mask": [[1] * len(row) for row in ids]}
        if self.type_id_names:
            types = self.processor.create_mm_token_type_ids(ids)
            rows |= dict.fromkeys(self.type_id_names, types)
        padding = {"input_ids": self.tokenizer.pad_token_id}
        length = max(map(len, ids))
        tensors = {
            name: torch.tensor(
                [[padding.get(name, 0)] * (length - len(row)) + list(row) for row in values]
            )
            for name, values in rows.items()
        }
        if images := [image.values() for prompt in prompts for image in prompt.images]:
            tensors |= concatenate(images, self.family.image_axis)
        return BatchFeature(tensors)

    @cached_property
    def type_id_names(self) -> set[str]:
        """Names of the token type inputs of the model, as returned by the processor."""
        with self._tokenizer_lock:
            return {name for name in self.processor(text=["a"]) if name.endswith("token_type_ids")}

    def process(self, prompts: Sequence[PreparedPrompt]) -> Any:
        """Return the model inputs of a batch, padded on the left, computed by the processor itself."""
        arguments: dict[str, Any] = dict(self.form.arguments) if self.form is not None else {}
        if any(prompt.image_count for prompt in prompts):
            arguments["images"] = [
                [*prompt.raw_images, *(image.values.resized_image() for image in prompt.images)]
                for prompt in prompts
            ]
        with self._tokenizer_lock:
            inputs = self.processor(
                text=[prompt.text for prompt in prompts],
                padding=True,
                # Loading a processor does not restore its padding side.
                padding_side="left",
                return_tensors="pt",
                **arguments,
            )
            # Reset the padding before other threads use the tokenizer.
            self.tokenizer("")
        return inputs

    def retire(self, dialogue_id: str) -> None:
        """Drop the cached images that no other question uses."""
        self.image_cache.retire(dialogue_id)

    def tensors_of(
        self, form: ImagePreprocessor, source: tuple[Callable[[str], Image], str], owner: str
    ) -> Tensors:
        """Return the cached or computed tensors of an image; `source` is the function that reads it and its file."""
        key: Hashable = source
        tensors = self.image_cache.get(key, owner)
        if tensors is None:
            read, file = source
            tensors = form.tensors(read(file).convert("RGB"))
            if self.pins:
                tensors = {name: _pin(tensor) for name, tensor in tensors.items()}
            self.image_cache.put(key, tensors, sum(t.nbytes for t in tensors.values()), owner)
        return tensors

    def _check_placeholders(self, text: str, num_images: int) -> None:
        """Raise ValueError if texts of the dialogue form a placeholder when they are concatenated.

        The processor of transformers 5.17 would replace it with the image of the next row.
        """
        image, video = self.processor.image_token, getattr(self.processor, "video_token", None)
        if text.count(image) != num_images:
            raise ValueError(f"a text contains the image placeholder {image}")
        if video and video in text:
            raise ValueError(f"a text contains the video placeholder {video}")

    def _tokens(self, text: str, costs: Sequence[ImageCost]) -> tuple[int, ...]:
        """Return the tokens of a prompt whose text has a placeholder for every image."""
        if costs and self.form is not None:
            text = self.form.expand_placeholders(text, [cost.text for cost in costs])
        with self._tokenizer_lock:
            return tuple(self.tokenizer(text)["input_ids"])

    def _locate_images(
        self,
        request: Request,
        files: Sequence[str],
        costs: Sequence[ImageCost],
        ids: Sequence[int],
        form: ImagePreprocessor,
    ) -> Iterator[PromptImage]:
        """Yield the images of a prompt with the positions of their tokens."""
        indices = iter([index for index, token in enumerate(ids) if token == form.token])
        for file, cost in zip(files, costs, strict=True):
            if own := list(islice(indices, cost.tokens)):
                values = ImageTensors(self, form, (request.load_image, file), request.dialogue_id)
                tokens = own[-1] + 1 - own[0]
                yield PromptImage(file, own[0], tokens, cost.grid, values)


def _pin(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy in pinned memory, or the tensor itself if there is none left."""
    try:
        return tensor.pin_memory()
    except RuntimeError:
        return tensor


def _size(read: Callable[[str], Image], file: str) -> tuple[int, int]:
    return read(file).size


@dataclass(frozen=True, slots=True)
class ImageTensors:
    """Returns the tensors of one image when called. Two instances are equal if their images are the same."""

    inputs: PromptBuilder
    form: ImagePreprocessor
    source: tuple[Callable[[str], Image], str]
    owner: str = field(compare=False)

    def __call__(self) -> Tensors:
        return self.inputs.tensors_of(self.form, self.source, self.owner)

    def resized_image(self) -> Image:
        """Read the image again and resize it for the processor."""
        read, file = self.source
        return self.form.resize(read(file).convert("RGB"))


def common_tokens(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the length of the common prefix of two sequences."""
    shorter = min(len(first), len(second))
    for start in range(0, shorter, COMPARE_CHUNK_TOKENS):
        end = min(start + COMPARE_CHUNK_TOKENS, shorter)
        if tuple(first[start:end]) != tuple(second[start:end]):
            return next(index for index in range(start, end) if first[index] != second[index])
    return shorter
