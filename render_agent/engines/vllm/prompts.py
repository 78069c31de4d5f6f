"""Requests as vLLM takes them: prompts in tokens, with named pictures."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from PIL.Image import Image

from render_agent.dialogue.chat import pictures
from render_agent.engines.base import Request
from render_agent.engines.transformers.families.pictures import QwenPictures
from render_agent.engines.transformers.families.registry import family_of


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """A prompt in tokens, one placeholder a picture, and its pictures in order.

    names: of the pictures, the same for the same pixels; what was computed for them is found by it.
    guided: whether the reply is to be held to the request's schema.
    """

    ids: Sequence[int]
    pictures: Sequence[Image] = ()
    names: Sequence[str] = ()
    guided: bool = False

    def extended(self, ids: Sequence[int]) -> TokenPrompt:
        """Return the prompt with more tokens at its end."""
        return TokenPrompt([*self.ids, *ids], self.pictures, self.names)


class Prompts:
    """Makes prompts; a picture is named once a question, by its pixels.

    options: the engine options; those of the model's family are for its pictures.
    """

    def __init__(self, processor: Any, model_type: str, options: Mapping[str, Any]) -> None:
        self.processor = processor
        self.tokenizer = processor.tokenizer
        make = family_of(model_type).pictures
        # Scaled as --engine transformers scales them; what other families do is vLLM's own.
        self._form = QwenPictures(processor, options) if make is QwenPictures else None
        # With a parser vLLM itself lets a model think before it holds the reply to a schema.
        self._thinks_apart = bool(options.get("reasoning_parser"))
        self._names: dict[str, dict[tuple[Callable[[str], Image], str], str]] = {}

    def of(self, request: Request) -> TokenPrompt:
        """Return a request's prompt.

        ValueError where a text holds what stands for a picture. Raises whatever its pictures or its
        texts cause.
        """
        text: str = self.processor.apply_chat_template(
            list(request.messages), tokenize=False, add_generation_prompt=True
        )
        files = pictures(list(request.messages))
        image = getattr(self.processor, "image_token", None)
        if image and text.count(image) != len(files):
            raise ValueError(f"a text holds {image}, which stands for a picture")
        names = self._names.setdefault(request.question_id, {})
        shown = [self._shown(request, file) for file in files]
        for file, picture in zip(files, shown, strict=True):
            if (request.picture, file) not in names:
                names[request.picture, file] = picture_name(picture)
        return TokenPrompt(
            ids=self.tokenizer(text)["input_ids"],
            pictures=shown,
            names=[names[request.picture, file] for file in files],
            guided=request.schema is not None
            and (self._thinks_apart or not text.rstrip().endswith("<think>")),
        )

    def _shown(self, request: Request, file: str) -> Image:
        picture = request.picture(file).convert("RGB")
        return self._form.scaled(picture) if self._form else picture

    def choice(self, words: str) -> list[int]:
        """Return the tokens of an answer as the beginning of a reply."""
        ids: list[int] = self.tokenizer(words, add_special_tokens=False)["input_ids"]
        return ids

    def text(self, ids: Sequence[int]) -> str:
        """Return tokens as the text of a reply."""
        text: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def forget(self, question_id: str) -> None:
        """Drop the names of a question's pictures."""
        self._names.pop(question_id, None)


def picture_name(picture: Image) -> str:
    """Return a name that two pictures share only where they share mode, size and pixels."""
    digest = hashlib.sha256(f"{picture.mode} {picture.size}".encode())
    digest.update(picture.tobytes())
    return digest.hexdigest()[:32]
