"""Dialogues of `render-agent export RUN --format messages`, or of `training.practice`, as training arrays.

    python -m training.encode OUT MESSAGES.jsonl...

OUT gets `dialogues.npz` and `pictures.npy`. Run again with more files it adds to them; files that it has
already are left out.
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

from render_agent.dialogue.chat import Message, assistant, pictures
from training.dialogue_file import DIALOGUES, PICTURES, Dialogues, Encoded, gathered, load_dialogues
from training.picture_file import PictureFile, as_seen
from training.processor import PICTURE_TOKENS
from training.wording import small_wording

CHUNK = 256
"""Dialogues that are tokenized at once."""


class Encoder:
    """Turns dialogues into the tokens that an engine feeds, and says which of them are replies."""

    def __init__(self, processor: Any) -> None:
        """Take the small model's processor."""
        self.processor = processor
        self.tokenizer = processor.tokenizer
        token = self.tokenizer.convert_tokens_to_ids
        self.begin, self.end = token("<|im_start|>"), token("<|im_end|>")
        self.picture = token("<|image_pad|>")
        self.header = self.tokenizer("<|im_start|>assistant\n")["input_ids"]

    def encode(
        self,
        dialogues: Sequence[Sequence[Message]],
        given: Sequence[str] | None = None,
        only: Sequence[Collection[int] | None] | None = None,
    ) -> list[tuple[NDArray[np.int16], NDArray[np.bool_]]]:
        """Return each dialogue's ids and which of them are learned, both (tokens,).

        Replies stand in them as they are fed back: without thinking; not learned are what stands for an
        empty reply, and what could not be read. given: of each dialogue the beginning of its last reply
        that is not learned; a token that reaches beyond it is. only: of each dialogue the numbers of the
        messages that are learned, None for all replies. ValueError where text and replies do not go together.
        """
        fed = [[_fed_back(entry) for entry in messages] for messages in dialogues]
        texts = self.processor.apply_chat_template(fed, tokenize=False)
        made = self.tokenizer(texts, return_offsets_mapping=given is not None)
        encoded = []
        for number, messages in enumerate(fed):
            ids = np.array(made["input_ids"][number], np.int16)
            learned = self._learned(ids, messages, only[number] if only else None)
            if given is not None:
                reply = messages[-1]["content"][0]["text"]
                begun = texts[number].rindex(reply) + len(given[number])
                ends = np.array([end for _, end in made["offset_mapping"][number]])
                learned &= ends > begun
            encoded.append(self._expanded(ids, learned, len(pictures(list(messages)))))
        return encoded

    def _learned(
        self, ids: NDArray[np.int16], messages: Sequence[Message], only: Collection[int] | None
    ) -> NDArray[np.bool_]:
        """Return which tokens are of replies or end them, before pictures are expanded."""
        learned = np.zeros(len(ids), np.bool_)
        begins, ends = np.flatnonzero(ids == self.begin), np.flatnonzero(ids == self.end)
        if not len(begins) == len(ends) == len(messages):
            raise ValueError("a text of the dialogue holds what begins or ends a message")
        followed = [*messages[1:], None]
        spans = zip(messages, followed, begins, ends, strict=True)
        for number, (entry, told, begin, end) in enumerate(spans):
            if entry["role"] != "assistant":
                continue
            start = begin + len(self.header)
            if ids[begin:start].tolist() != self.header:
                raise ValueError("a reply begins with what merges with the line break before it")
            empty = entry["content"][0]["text"] == "(no reply)"
            wanted = only is None or number in only
            learned[start : end + 1] = wanted and not (empty or _says_unread(told))
        return learned

    def _expanded(
        self, ids: NDArray[np.int16], learned: NDArray[np.bool_], shown: int
    ) -> tuple[NDArray[np.int16], NDArray[np.bool_]]:
        placeholder = ids == self.picture
        if placeholder.sum() != shown:
            raise ValueError("a text of the dialogue holds what stands for a picture")
        times = np.where(placeholder, PICTURE_TOKENS, 1)
        return np.repeat(ids, times), np.repeat(learned, times)


class Library:
    """The pictures of one folder of training data, each content once."""

    def __init__(self, folder: Path, hashes: Sequence[bytes]) -> None:
        """Open the picture file; hashes: of the files that it holds already."""
        self.file = PictureFile(folder / PICTURES, len(hashes))
        self.hashes = list(hashes)
        self._numbers = {known: number for number, known in enumerate(hashes)}
        self._seen: dict[Path, int] = {}

    def number(self, path: Path) -> int:
        """Return a picture's row in the picture file, where it is put if its like is not there."""
        if path not in self._seen:
            data = path.read_bytes()
            key = blake2b(data, digest_size=16).digest()
            if key not in self._numbers:
                self._numbers[key] = self.file.append(as_seen(data))
                self.hashes.append(key)
            self._seen[path] = self._numbers[key]
        return self._seen[path]


def encode_files(folder: Path, files: Sequence[Path], processor: Any) -> Dialogues:
    """Encode files of dialogues into a folder and return all that it holds now.

    OSError where a file or a picture is not there. An interrupted run leaves the folder as it was.
    """
    folder.mkdir(parents=True, exist_ok=True)
    before = load_dialogues(folder / DIALOGUES) if (folder / DIALOGUES).is_file() else None
    known = [] if before is None else [row.tobytes() for row in before.hashes]
    sources = [blake2b(file.read_bytes(), digest_size=16).hexdigest() for file in files]
    done = set() if before is None else set(before.sources.tolist())
    fresh = {key: file for key, file in zip(sources, files, strict=True) if key not in done}
    library = Library(folder, known)
    with library.file:
        encoder = Encoder(processor)
        encoded = [one for file in fresh.values() for one in _encoded(file, encoder, library)]
    dialogues = gathered(before, encoded, library.hashes[len(known) :], list(fresh))
    dialogues.save(folder / DIALOGUES)
    return dialogues


def _encoded(file: Path, encoder: Encoder, library: Library) -> Iterator[Encoded]:
    options: dict[str, Mapping[str, Any]] = {}
    with file.open(encoding="utf-8") as stream:
        lines = (json.loads(line) for line in stream)
        while chunk := list(islice(lines, CHUNK)):
            arrays = encoder.encode(
                [line["messages"] for line in chunk], only=[line.get("learned") for line in chunk]
            )
            for line, (ids, learned) in zip(chunk, arrays, strict=True):
                paths = [file.parent / name for name in pictures(line["messages"])]
                if paths and line["run"] not in options:
                    options[line["run"]] = _options(paths[0])
                run = options.get(line["run"], {}) if paths else {}
                yield Encoded(
                    ids,
                    learned,
                    [library.number(path) for path in paths],
                    str(line["id"]),
                    str(line["scene"]),
                    str(line["type"]),
                    str(run.get("views", "none")),
                    str(run.get("pictures", "real")),
                    float("nan") if line["score"] is None else float(line["score"]),
                )


def _options(picture: Path) -> Mapping[str, Any]:
    """Return the options of the run in whose folder a picture lies."""
    for folder in picture.parents:
        if (folder / "config.json").is_file():
            found: Mapping[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
            return dict(found["config"])
    raise FileNotFoundError(f"{picture} lies in no run folder")


def _says_unread(told: Message | None) -> bool:
    """Whether a message tells that the reply before it could not be read."""
    unreadable = small_wording().beginning("feedback.unreadable")
    return told is not None and unreadable in "".join(
        piece.get("text", "") for piece in told["content"]
    )


def _fed_back(entry: Message) -> Message:
    """Return a message as the next turn's prompt has it."""
    if entry["role"] != "assistant":
        return entry
    return assistant("".join(piece["text"] for piece in entry["content"]))


def main(arguments: Sequence[str]) -> None:
    """Encode the files named on the command line, and say how much there is now."""
    from training.processor import small_processor
    from training.tokenizer import small_tokenizer

    folder, *files = map(Path, arguments)
    made = encode_files(folder, files, small_processor(small_tokenizer()))
    print(
        f"{len(made)} dialogues, {len(made.ids)} tokens ({int(made.learned.sum())} learned),"
        f" {len(made.hashes)} pictures in {folder}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
