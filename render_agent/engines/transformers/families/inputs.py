"""Dialogues with pictures → prompts as token ids, and the tensors of one batch of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from PIL.Image import Image

from render_agent.dialogue import chat
from render_agent.engines.base import Request
from render_agent.engines.byte_cache import ByteCache
from render_agent.engines.transformers.families.pictures import (
    Grid,
    PictureCost,
    PictureForm,
    ProcessorPictures,
    Tensors,
    joined,
)
from render_agent.engines.transformers.families.registry import family_of
from render_agent.engines.transformers.model.special_tokens import disarming

PICTURE_BYTES = 256 * 2**20
"""What the pixel values that are kept for later turns may take."""

COSTS = 2**16
"""How many pictures are remembered by what they cost."""


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
    pictures included, without padding, and shown: its pictures, in order; for a family of which
    only the processor knows them, ids is None and the pictures stand in `pictures`. For a family with
    recurrent layers kept is how many of its tokens every later prompt of the dialogue begins with, and
    continues says whether that is all of them, so that it may go on behind the very reply.
    """

    text: str
    pictures: tuple[Image, ...] = ()
    ids: tuple[int, ...] | None = None
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


class DialogueTensors:
    """Turns requests into prompts, and prompts into the tensors that the model's own processor would give.

    Earlier pictures of a dialogue are not read again: what each costs in tokens is remembered, and
    its pixel values are kept, in at most `PICTURE_BYTES` wherever they were computed. Safe to use
    from several threads.
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
        self._costs: ByteCache[PictureCost] = ByteCache(COSTS)
        # A tokenizer of the tokenizers library cannot be borrowed twice when its padding changes.
        self._tokenizing = Lock()

    def prepare(self, request: Request) -> PreparedPrompt:
        """Return one request as a prompt.

        ValueError where a text holds what stands for a picture. Raises whatever its pictures or its
        texts cause.
        """
        text = self.processor.apply_chat_template(
            self._disarmed(request.messages),
            tokenize=False,
            add_generation_prompt=True,
            **self.template,
        )
        pieces = (piece for message in request.messages for piece in message["content"])
        files = [piece["image"] for piece in pieces if piece["type"] == "image"]
        if self.form is None:
            pictures = tuple(request.picture(file).convert("RGB") for file in files)
            return PreparedPrompt(text, pictures)
        self._check(text, len(files))
        given = list(self._shown(request, files, self.form))
        tokens = self._tokens(self._written(text, given))
        ids, shown = self._expanded(tokens, given)
        if not self.family.recurrent:
            return PreparedPrompt(text, ids=ids, shown=shown)
        lasting = self._lasting(request, tokens, given)
        kept = max(
            (place + 1 for place in range(lasting) if tokens[place] in self._added), default=0
        )
        return PreparedPrompt(
            text,
            ids=ids,
            shown=shown,
            kept=len(self._expanded(tokens[:kept], given)[0]),
            continues=lasting == len(tokens),
        )

    def _lasting(
        self,
        request: Request,
        tokens: Sequence[int],
        pictures: Sequence[tuple[str, PictureCost, PictureValues]],
    ) -> int:
        """Return how many tokens of a prompt, its pictures one each, any later prompt of its dialogue begins with.

        That is asked of the chat template with some reply and some next message: what a reply has been opened
        with, such as a thought, may not stand in the history.
        """
        later = [*request.messages, chat.assistant("{}"), chat.message("user", chat.text("next"))]
        text = self.processor.apply_chat_template(
            self._disarmed(later), tokenize=False, **self.template
        )
        others = self._tokens(self._written(text, pictures))
        pairs = enumerate(zip(tokens, others, strict=False))
        return next(
            (place for place, (one, other) in pairs if one != other), min(len(tokens), len(others))
        )

    def length(self, prompt: PreparedPrompt) -> int:
        """Return the tokens of a prompt; where only the processor knows them, it is asked."""
        if prompt.ids is not None:
            return len(prompt.ids)
        return int(self.encode([prompt])["input_ids"].shape[1])

    def token_types(self, prompt: PreparedPrompt) -> list[int]:
        """Return for every token of a prompt with ids 1 where it stands for a picture, else 0."""
        assert prompt.ids is not None
        return [int(token == self.processor.image_token_id) for token in prompt.ids]

    def encode(self, prompts: Sequence[PreparedPrompt], device: str | None = None) -> Any:
        """Return the tensors of a batch as the processor would give them, padded on the left.

        `input_ids` and `attention_mask` are (rows, length); all that the model's positions depend
        on is there too. device: where pictures are cut into patches from now on.
        """
        if device is not None:
            self.device = device
        if self.form is None or isinstance(self.form, ProcessorPictures):
            return self._processed(prompts)
        return self._collated(prompts)

    def retire(self, question_id: str) -> None:
        """Forget the pictures that no other question is shown."""
        self.kept.retire(question_id)
        self._costs.retire(question_id)

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

    def _tokens(self, text: str) -> list[int]:
        with self._tokenizing:
            return list(self.tokenizer(text)["input_ids"])

    def _shown(
        self, request: Request, files: Sequence[str], form: PictureForm
    ) -> Iterator[tuple[str, PictureCost, PictureValues]]:
        """Give a request's pictures: each one's file, what it costs, and what gives its values.

        A file's name says what it shows only together with what reads it: the run.
        """
        for file in files:
            key = (request.picture, file)
            cost = self._costs.get(key, request.question_id)
            if cost is None:
                cost = form.cost(*request.picture(file).size)
                self._costs.put(key, cost, 1, request.question_id)
            yield file, cost, PictureValues(self, form, key, request.question_id)

    def _written(
        self, text: str, pictures: Sequence[tuple[str, PictureCost, PictureValues]]
    ) -> str:
        """Return a prompt's text with what the processor writes for its pictures, where it writes anything."""
        written = [cost.text for _, cost, _ in pictures if cost.text is not None]
        if not written or not isinstance(self.form, ProcessorPictures):
            return text
        return self.form.written(text, written)

    def _expanded(
        self,
        tokens: Sequence[int],
        pictures: Sequence[tuple[str, PictureCost, PictureValues]],
    ) -> tuple[tuple[int, ...], tuple[PromptPicture, ...]]:
        """Return a prompt's tokens with every placeholder become a picture, and the pictures."""
        if isinstance(self.form, ProcessorPictures):
            return tuple(tokens), tuple(self._found(tokens, pictures))
        image = self.processor.image_token_id
        coming = iter(pictures)
        before: list[int] = []
        after: list[int] = []
        if self.form is not None and self.form.framed:
            before = [self.processor.start_image_token_id]
            after = [self.processor.end_image_token_id]
        ids: list[int] = []
        shown = []
        for token in tokens:
            if token != image:
                ids.append(token)
                continue
            file, cost, values = next(coming)
            ids += before
            shown.append(PromptPicture(file, len(ids), cost.tokens, cost.grid, cost.rows, values))
            ids += [image] * cost.tokens + after
        return tuple(ids), tuple(shown)

    def _found(
        self,
        tokens: Sequence[int],
        pictures: Sequence[tuple[str, PictureCost, PictureValues]],
    ) -> Iterator[PromptPicture]:
        """Give the pictures of a prompt that its processor has written out, from the first token of each to its last."""
        form = self.form
        assert isinstance(form, ProcessorPictures)
        places = iter([place for place, token in enumerate(tokens) if token == form.token])
        for file, cost, values in pictures:
            own = [place for _, place in zip(range(cost.tokens), places, strict=False)]
            if own:
                yield PromptPicture(
                    file, own[0], own[-1] + 1 - own[0], cost.grid, cost.rows, values
                )

    def _collated(self, prompts: Sequence[PreparedPrompt]) -> Any:
        """Return the tensors of prompts with ids, earlier pictures from what is kept."""
        import torch
        from transformers import BatchFeature

        length = max(len(prompt.ids or ()) for prompt in prompts)
        names = ("input_ids", "attention_mask", "mm_token_type_ids")
        rows: dict[str, list[list[int]]] = {name: [] for name in names}
        for prompt in prompts:
            ids = list(prompt.ids or ())
            padding = [0] * (length - len(ids))
            rows["input_ids"].append([self.tokenizer.pad_token_id] * len(padding) + ids)
            rows["attention_mask"].append(padding + [1] * len(ids))
            rows["mm_token_type_ids"].append(padding + self.token_types(prompt))
        if not self.family.token_types:
            del rows["mm_token_type_ids"]
        tensors = {name: torch.tensor(values) for name, values in rows.items()}
        shown = [picture for prompt in prompts for picture in prompt.shown]
        if shown:
            tensors |= joined([picture.values() for picture in shown])
        return BatchFeature(tensors)

    def _processed(self, prompts: Sequence[PreparedPrompt]) -> Any:
        """Return what the processor makes of texts and pictures."""
        arguments: dict[str, Any] = {
            "text": [prompt.text for prompt in prompts],
            "padding": True,
            # The side that a processor was saved with is not restored when it is loaded.
            "padding_side": "left",
            "return_tensors": "pt",
        }
        if any(prompt.picture_count for prompt in prompts):
            arguments["images"] = [
                [*prompt.pictures, *(picture.values.picture() for picture in prompt.shown)]
                for prompt in prompts
            ]
        return self.processor(**arguments)


@dataclass(frozen=True, slots=True)
class PictureValues:
    """Gives the tensors of one picture; equal for all who are shown the same."""

    inputs: DialogueTensors
    form: PictureForm
    key: tuple[Callable[[str], Image], str]
    owner: str = field(compare=False)

    def __call__(self) -> Tensors:
        return self.inputs.values(self.form, self.key, self.owner)

    def picture(self) -> Image:
        """Return the picture itself, read again."""
        read, file = self.key
        return read(file).convert("RGB")
