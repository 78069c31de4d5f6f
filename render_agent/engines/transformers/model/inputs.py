"""Dialogues with pictures → prompts as token ids, and the tensors of one batch of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import islice
from threading import Lock
from typing import Any

from PIL.Image import Image

from render_agent.dialogue import chat
from render_agent.engines.byte_cache import ByteCache
from render_agent.engines.checkpoint.special_tokens import disarming
from render_agent.engines.engine import Request
from render_agent.engines.families.model_families import family_of
from render_agent.engines.families.pictures import Grid, PictureCost, PictureForm, Tensors, joined

PICTURE_BYTES = 256 * 2**20
"""What the pixel values that are kept for later turns may take."""

REMEMBERED = 2**16
"""How many pictures are remembered by their size."""

COMPARED_TOKENS = 256
"""Tokens that are compared in one go."""


@dataclass(frozen=True, slots=True)
class PromptPicture:
    """One picture of a prompt.

    start: where its first token stands in the prompt's ids. tokens: how many there are from it to the last,
    those between its rows included. grid: its patches, frames × rows × columns; None where the model is told
    of none. rows: of `pixel_values`. values: gives its tensors, computed when they are asked for and kept for
    a while: of `pixel_values` (patches, width) for Qwen-VL, (tiles, 3, height, width) for InternVL; raises
    what the picture causes.
    """

    file: str
    start: int
    tokens: int
    grid: Grid | None
    rows: int
    values: PictureValues = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class PreparedPrompt:
    """One dialogue, ready to be put into a batch.

    text: as the chat template writes it, with a placeholder for every picture. ids: all its tokens,
    pictures included, without padding. shown: its pictures, in order; for a family of which
    only the processor knows where they stand, they are `pictures`. For a family with
    recurrent layers kept is how many of its tokens every later prompt of the dialogue begins with, and
    continues says whether that is all of them, so that it may go on behind the very reply.
    """

    text: str
    ids: tuple[int, ...]
    pictures: tuple[Image, ...] = ()
    shown: tuple[PromptPicture, ...] = ()
    kept: int = 0
    continues: bool = False

    @property
    def picture_count(self) -> int:
        """How many pictures the dialogue shows."""
        return len(self.pictures) + len(self.shown)

    @property
    def pixel_rows(self) -> int:
        """How many rows of `pixel_values` they have; one each where only the processor knows them."""
        return len(self.pictures) + sum(picture.rows for picture in self.shown)


class PromptBuilder:
    """Turns requests into prompts, and prompts into the tensors that the model's own processor would give.

    Earlier pictures of a dialogue are not read again: the size of each is remembered, and its pixel values are kept,
    in at most `PICTURE_BYTES` wherever they were computed. Safe to use from several threads.
    """

    def __init__(
        self,
        processor: Any,
        model_type: str,
        options: Mapping[str, Any] | None = None,
        device: str = "cpu",
    ) -> None:
        """Take a model's processor; options are those of its family, and `chat_template_kwargs`.

        device: where pictures are cut into patches; on a CPU that takes some 35 ms for 640 × 480.
        """
        self.processor = processor
        self.tokenizer = processor.tokenizer
        self.family = family_of(model_type)
        self.device = device
        self.template: Mapping[str, Any] = (options or {}).get("chat_template_kwargs") or {}
        make = self.family.pictures
        self.form: PictureForm | None = make(processor, options or {}) if make else None
        self.kept: ByteCache[Tensors] = ByteCache(PICTURE_BYTES)
        self._disarmed = disarming(self.tokenizer)
        self._added = set(self.tokenizer.get_added_vocab().values())
        # A file's name says what it shows only together with what reads it: the run.
        self._size = lru_cache(REMEMBERED)(_size)
        # A tokenizer of the tokenizers library cannot be borrowed twice when its padding changes.
        self._tokenizing = Lock()

    def prepare(self, request: Request) -> PreparedPrompt:
        """Return one request as a prompt.

        ValueError where a text holds what stands for a picture. Raises whatever its pictures or its texts cause.
        """
        text = self.written(request.messages)
        pieces = (piece for message in request.messages for piece in message["content"])
        files = [piece["image"] for piece in pieces if piece["type"] == "image"]
        if self.form is None:
            pictures = tuple(request.picture(file).convert("RGB") for file in files)
            prompt = PreparedPrompt(text, (), pictures)
            return replace(prompt, ids=tuple(self.processed([prompt])["input_ids"][0].tolist()))
        self._check(text, len(files))
        costs = [self.form.cost(*self._size(request.picture, file)) for file in files]
        ids = self._tokens(text, costs)
        shown = tuple(self._found(request, files, costs, ids, self.form))
        if not self.family.recurrent:
            return PreparedPrompt(text, ids=ids, shown=shown)
        lasting = self._lasting(request, ids, costs)
        kept = max((n + 1 for n in range(lasting) if ids[n] in self._added), default=0)
        return PreparedPrompt(text, ids=ids, shown=shown, kept=kept, continues=lasting == len(ids))

    def _lasting(self, request: Request, ids: Sequence[int], costs: Sequence[PictureCost]) -> int:
        """Return how many tokens of a prompt any later prompt of its dialogue begins with.

        That is asked of the chat template with some reply and some next message: what a reply has been opened
        with, such as a thought, may not stand in the history.
        """
        later = [*request.messages, chat.assistant("{}"), chat.message("user", chat.text("next"))]
        return common_tokens(ids, self._tokens(self.written(later, generate=False), costs))

    def written(self, messages: Sequence[chat.Message], generate: bool = True) -> str:
        """Return messages as the chat template writes them. generate: whether a reply is to follow."""
        text: str = self.processor.apply_chat_template(
            self._disarmed(messages),
            tokenize=False,
            add_generation_prompt=generate,
            **self.template,
        )
        return text

    def encode(self, prompts: Sequence[PreparedPrompt], device: str | None = None) -> Any:
        """Return the tensors of a batch as the processor would give them, padded on the left.

        `input_ids` and `attention_mask` are (rows, length); all that the model's positions depend
        on is there too. Of a known family earlier pictures come from what is kept. device: where pictures are
        cut into patches from now on.
        """
        if device is not None:
            self.device = device
        if self.form is None:
            return self.processed(prompts)
        import torch
        from transformers import BatchFeature

        ids = [list(prompt.ids) for prompt in prompts]
        rows = {"input_ids": ids, "attention_mask": [[1] * len(row) for row in ids]}
        if self.type_names:
            types = self.processor.create_mm_token_type_ids(ids)
            rows |= dict.fromkeys(self.type_names, types)
        filling = {"input_ids": self.tokenizer.pad_token_id}
        length = max(map(len, ids))
        tensors = {
            name: torch.tensor(
                [[filling.get(name, 0)] * (length - len(row)) + list(row) for row in values]
            )
            for name, values in rows.items()
        }
        if shown := [picture.values() for prompt in prompts for picture in prompt.shown]:
            tensors |= joined(shown, self.family.picture_axis)
        return BatchFeature(tensors)

    @cached_property
    def type_names(self) -> set[str]:
        """What the processor calls the kinds of tokens that it tells the model, where it does."""
        with self._tokenizing:
            return {name for name in self.processor(text=["a"]) if name.endswith("token_type_ids")}

    def processed(self, prompts: Sequence[PreparedPrompt]) -> Any:
        """Return what the processor itself makes of texts and pictures, padded on the left."""
        arguments: dict[str, Any] = dict(self.form.arguments) if self.form is not None else {}
        if any(prompt.picture_count for prompt in prompts):
            arguments["images"] = [
                [*prompt.pictures, *(picture.values.scaled() for picture in prompt.shown)]
                for prompt in prompts
            ]
        with self._tokenizing:
            inputs = self.processor(
                text=[prompt.text for prompt in prompts],
                padding=True,
                # The side that a processor was saved with is not restored when it is loaded.
                padding_side="left",
                return_tensors="pt",
                **arguments,
            )
            # Its padding is changed back before other threads use the tokenizer.
            self.tokenizer("")
        return inputs

    def retire(self, question_id: str) -> None:
        """Forget the pictures that no other question is shown."""
        self.kept.retire(question_id)

    def values(
        self, form: PictureForm, key: tuple[Callable[[str], Image], str], owner: str
    ) -> Tensors:
        """Return the tensors of a picture of a question, by what reads it and its file."""
        place: Hashable = (*key, self.device)
        values = self.kept.get(place, owner)
        if values is None:
            read, file = key
            values = form.values(read(file).convert("RGB"), self.device)
            self.kept.put(place, values, sum(v.nbytes for v in values.values()), owner)
        return values

    def _check(self, text: str, pictures: int) -> None:
        """ValueError where texts of the dialogue put together hold a placeholder.

        Version 5.17 takes one for a picture of the next row.
        """
        image, video = self.processor.image_token, getattr(self.processor, "video_token", None)
        if text.count(image) != pictures:
            raise ValueError(f"a text holds {image}, which stands for a picture")
        if video and video in text:
            raise ValueError(f"a text holds {video}, which stands for a video")

    def _tokens(self, text: str, costs: Sequence[PictureCost]) -> tuple[int, ...]:
        """Return the tokens of a prompt whose text has a placeholder for every picture."""
        if costs and self.form is not None:
            text = self.form.written(text, [cost.text for cost in costs])
        with self._tokenizing:
            return tuple(self.tokenizer(text)["input_ids"])

    def _found(
        self,
        request: Request,
        files: Sequence[str],
        costs: Sequence[PictureCost],
        ids: Sequence[int],
        form: PictureForm,
    ) -> Iterator[PromptPicture]:
        """Give the pictures of a prompt, from the first token of each to its last."""
        places = iter([place for place, token in enumerate(ids) if token == form.token])
        for file, cost in zip(files, costs, strict=True):
            if own := list(islice(places, cost.tokens)):
                values = PictureValues(self, form, (request.picture, file), request.question_id)
                tokens = own[-1] + 1 - own[0]
                yield PromptPicture(file, own[0], tokens, cost.grid, cost.rows, values)


def _size(read: Callable[[str], Image], file: str) -> tuple[int, int]:
    return read(file).size


@dataclass(frozen=True, slots=True)
class PictureValues:
    """Gives the tensors of one picture; equal for equal pictures."""

    inputs: PromptBuilder
    form: PictureForm
    key: tuple[Callable[[str], Image], str]
    owner: str = field(compare=False)

    def __call__(self) -> Tensors:
        return self.inputs.values(self.form, self.key, self.owner)

    def scaled(self) -> Image:
        """Return the picture itself, read again, as the processor takes it."""
        read, file = self.key
        return self.form.scaled(read(file).convert("RGB"))


def common_tokens(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many tokens two sequences have in common from their start."""
    shorter = min(len(first), len(second))
    for start in range(0, shorter, COMPARED_TOKENS):
        end = min(start + COMPARED_TOKENS, shorter)
        if tuple(first[start:end]) != tuple(second[start:end]):
            return next(place for place in range(start, end) if first[place] != second[place])
    return shorter
