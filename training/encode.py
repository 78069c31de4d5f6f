"""Encodes dialogues from `render-agent export RUN --format messages` or `training.practice` as training arrays.

    python -m training.encode OUT MESSAGES.jsonl...

OUT gets `dialogues.npz` and `pictures.npy`. Running it again with more files adds to them; files encoded before are
skipped.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.dialogue.chat import Message, assistant, image_files
from training.dialogue_file import (
    DIALOGUES_FILE,
    IMAGES_FILE,
    Dialogues,
    EncodedDialogue,
    concatenate,
    load_dialogues,
)
from training.image_file import ImageFile, decode_image
from training.processor import IMAGE_TOKENS
from training.wording import small_wording

CHUNK = 256  # dialogues tokenized per call


class Encoder:
    """Converts dialogues to the tokens of an engine's prompt, and marks those of replies."""

    def __init__(self, processor: Any) -> None:
        self.processor = processor
        self.tokenizer = processor.tokenizer
        token = self.tokenizer.convert_tokens_to_ids
        self.begin, self.end = token("<|im_start|>"), token("<|im_end|>")
        self.picture = token("<|image_pad|>")
        self.header = self.tokenizer("<|im_start|>assistant\n")["input_ids"]

    def encode(
        self,
        dialogues: Sequence[Sequence[Message]],
        prefixes: Sequence[str] | None = None,
        # indices of the messages to learn in each dialogue; None learns all replies
        learned_messages: Sequence[Collection[int] | None] | None = None,
    ) -> list[tuple[NDArray[np.int16], NDArray[np.bool_]]]:
        """Return the ids and the learned mask of each dialogue, both (tokens,).

        Replies appear as in later prompts, without thinking. Placeholders for empty replies and unreadable replies are
        not learned.
        """
        messages_by_dialogue = [
            [_as_in_prompt(entry) for entry in messages] for messages in dialogues
        ]
        texts = self.processor.apply_chat_template(messages_by_dialogue, tokenize=False)
        tokenized = self.tokenizer(texts, return_offsets_mapping=prefixes is not None)
        encoded = []
        for number, messages in enumerate(messages_by_dialogue):
            ids = np.array(tokenized["input_ids"][number], np.int16)
            learned = self._mask(
                ids, messages, learned_messages[number] if learned_messages else None
            )
            if prefixes is not None:
                reply = messages[-1]["content"][0]["text"]
                prefix_end = texts[number].rindex(reply) + len(prefixes[number])
                ends = np.array([end for _, end in tokenized["offset_mapping"][number]])
                learned &= ends > prefix_end
            encoded.append(self._expand_images(ids, learned, len(image_files(list(messages)))))
        return encoded

    def _mask(
        self, ids: NDArray[np.int16], messages: Sequence[Message], indices: Collection[int] | None
    ) -> NDArray[np.bool_]:
        """Return the mask of reply tokens and their end tokens, before image tokens are expanded."""
        learned = np.zeros(len(ids), np.bool_)
        begins, ends = np.flatnonzero(ids == self.begin), np.flatnonzero(ids == self.end)
        if not len(begins) == len(ends) == len(messages):
            raise ValueError("a text of the dialogue contains a message delimiter")
        next_messages = [*messages[1:], None]
        spans = zip(messages, next_messages, begins, ends, strict=True)
        for number, (entry, next_message, begin, end) in enumerate(spans):
            if entry["role"] != "assistant":
                continue
            start = begin + len(self.header)
            if ids[begin:start].tolist() != self.header:
                raise ValueError("the beginning of a reply merges with the preceding line break")
            is_placeholder = entry["content"][0]["text"] == "(no reply)"
            is_selected = indices is None or number in indices
            learned[start : end + 1] = is_selected and not (
                is_placeholder or _reports_unreadable(next_message)
            )
        return learned

    def _expand_images(
        self, ids: NDArray[np.int16], learned: NDArray[np.bool_], num_images: int
    ) -> tuple[NDArray[np.int16], NDArray[np.bool_]]:
        placeholder = ids == self.picture
        if placeholder.sum() != num_images:
            raise ValueError("a text of the dialogue contains an image token")
        times = np.where(placeholder, IMAGE_TOKENS, 1)
        return np.repeat(ids, times), np.repeat(learned, times)


class ImageLibrary:
    """Deduplicated images of one folder of training data."""

    def __init__(self, folder: Path, hashes: Sequence[bytes]) -> None:
        self.file = ImageFile(folder / IMAGES_FILE, len(hashes))
        self.hashes = list(hashes)
        self._row_by_hash = {key: row for row, key in enumerate(hashes)}
        self._row_by_path: dict[Path, int] = {}

    def row(self, path: Path) -> int:
        """Return the row of an image in the image file; append it if it is new."""
        if path not in self._row_by_path:
            data = path.read_bytes()
            key = blake2b(data, digest_size=16).digest()
            if key not in self._row_by_hash:
                self._row_by_hash[key] = self.file.append(decode_image(data))
                self.hashes.append(key)
            self._row_by_path[path] = self._row_by_hash[key]
        return self._row_by_path[path]


def encode_files(folder: Path, files: Sequence[Path], processor: Any) -> Dialogues:
    """Encode dialogue files into a folder; return all of its dialogues.

    Raises OSError if a file or an image is missing. An interrupted run leaves the folder unchanged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    before = (
        load_dialogues(folder / DIALOGUES_FILE) if (folder / DIALOGUES_FILE).is_file() else None
    )
    known_hashes = [] if before is None else [row.tobytes() for row in before.hashes]
    sources = [blake2b(file.read_bytes(), digest_size=16).hexdigest() for file in files]
    encoded_sources = set() if before is None else set(before.sources.tolist())
    new_files = {
        key: file for key, file in zip(sources, files, strict=True) if key not in encoded_sources
    }
    library = ImageLibrary(folder, known_hashes)
    with library.file:
        encoder = Encoder(processor)
        encoded = [
            dialogue
            for file in new_files.values()
            for dialogue in _encode_file(file, encoder, library)
        ]
    dialogues = concatenate(before, encoded, library.hashes[len(known_hashes) :], list(new_files))
    dialogues.save(folder / DIALOGUES_FILE)
    return dialogues


def _encode_file(file: Path, encoder: Encoder, library: ImageLibrary) -> Iterator[EncodedDialogue]:
    options: dict[str, Mapping[str, Any]] = {}
    with file.open(encoding="utf-8") as stream:
        lines = (json.loads(line) for line in stream)
        while chunk := list(islice(lines, CHUNK)):
            arrays = encoder.encode(
                [line["messages"] for line in chunk],
                learned_messages=[line.get("learned") for line in chunk],
            )
            for line, (ids, learned) in zip(chunk, arrays, strict=True):
                paths = [file.parent / name for name in image_files(line["messages"])]
                if paths and line["run"] not in options:
                    options[line["run"]] = _options(paths[0])
                run = options.get(line["run"], {}) if paths else {}
                yield EncodedDialogue(
                    ids,
                    learned,
                    [library.row(path) for path in paths],
                    str(line["id"]),
                    str(line["scene"]),
                    str(line["type"]),
                    str(run.get("views", "none")),
                    str(run.get("image_stress", "real")),
                    float("nan") if line["score"] is None else float(line["score"]),
                )


def _options(picture: Path) -> Mapping[str, Any]:
    """Return the options of the run whose folder contains an image."""
    for folder in picture.parents:
        if (folder / "config.json").is_file():
            record: Mapping[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
            return dict(record["config"])
    raise FileNotFoundError(f"{picture} is not in a run folder")


def _reports_unreadable(message: Message | None) -> bool:
    """Return True if a message says that the previous reply was unreadable."""
    unreadable = small_wording().beginning("feedback.unreadable")
    return message is not None and unreadable in "".join(
        piece.get("text", "") for piece in message["content"]
    )


def _as_in_prompt(entry: Message) -> Message:
    """Return a message as it appears in the next turn's prompt."""
    if entry["role"] != "assistant":
        return entry
    return assistant("".join(piece["text"] for piece in entry["content"]))


def main(arguments: Sequence[str]) -> None:
    """Encode the files named on the command line and print the amount of data."""
    from training.processor import small_processor
    from training.tokenizer import small_tokenizer

    folder, *files = map(Path, arguments)
    dialogues = encode_files(folder, files, small_processor(small_tokenizer()))
    print(
        f"{len(dialogues)} dialogues, {len(dialogues.ids)} tokens ({int(dialogues.learned.sum())} learned),"
        f" {len(dialogues.hashes)} images in {folder}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
