"""Inventory dialogues: teach the model to read many object positions off an image at once.

python -m training.inventory IMAGES...

IMAGES are folders written by `training.perception_images`; each gets `dialogues.npz` about its images. A benchmark
question names two to five objects; here all objects of an image are named, in random order, and only their positions are
learned.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from render_agent.dialogue.chat import Message, View, assistant
from render_agent.dialogue.prompt import Prompt
from render_agent.dialogue.question import Question
from render_agent.scans.camera import Camera
from render_agent.util.safe_parse import convert
from render_agent_lab.expert.derive import format_places, plan_point
from training.dialogue_file import DIALOGUES_FILE, Dialogues, EncodedDialogue, concatenate
from training.encode import CHUNK, Encoder
from training.perception_images import FIELD_DEGREES, SHOWN_FILE
from training.phrases import LABELS
from training.wording import small_wording

TYPE = "inventory"

MAX_HIDDEN = 4  # maximum named objects that the image does not show

MAX_NAMES = 20  # maximum named objects


def inventory(line: Mapping[str, Any], number: int, seed: int = 0) -> list[Message]:
    """Return the dialogue about an image from its line in the file `SHOWN_FILE`."""
    rng = random.Random(f"{seed} {number}")
    positions = {
        name: sorted(plan_point(*place) for place in places)
        for name, places in line["shown"].items()
    }
    hidden = rng.sample(line["hidden"], min(len(line["hidden"]), rng.randint(0, MAX_HIDDEN)))
    names = [*positions, *hidden]
    rng.shuffle(names)
    listing = "; ".join(
        f"{name} {format_places(positions.get(name, ()))}" for name in names[:MAX_NAMES]
    )
    camera = convert(line["camera"], Camera)
    question = Question(str(number), "rooms", "rooms", line["home"], TYPE, "What is where?", "text")
    prompt = Prompt(9, FIELD_DEGREES, wording=small_wording())
    view = View(0, line["kind"], f"{number}.png", camera)
    reply = json.dumps({"reasoning": listing, "answer": None, "done": False})
    return [*prompt.opening(question, [view], camera), assistant(reply)]


def inventories(folder: Path, processor: Any) -> list[EncodedDialogue]:
    """Return the dialogues about all images of a folder; only positions are learned."""
    lines = [json.loads(line) for line in (folder / SHOWN_FILE).read_text().splitlines()]
    encoder = Encoder(processor)
    tokenizer = processor.tokenizer
    name_tokens = np.array([tokenizer(name)["input_ids"][0] for name in LABELS])
    encoded_dialogues = []
    for start in range(0, len(lines), CHUNK):
        numbers = range(start, min(start + CHUNK, len(lines)))
        arrays = encoder.encode([inventory(lines[number], number) for number in numbers])
        for number, (ids, learned) in zip(numbers, arrays, strict=True):
            encoded = EncodedDialogue(
                ids,
                learned & ~np.isin(ids, name_tokens),
                [number],
                str(number),
                lines[number]["home"],
                TYPE,
                lines[number]["kind"],
            )
            encoded_dialogues.append(encoded)
    return encoded_dialogues


def write_inventories(folder: Path, processor: Any) -> Dialogues:
    """Write the dialogues about a folder's images into it, and return them."""
    dialogues = concatenate(None, inventories(folder, processor))
    dialogues.save(folder / DIALOGUES_FILE)
    return dialogues


def main(arguments: Sequence[str]) -> None:
    """Write the dialogues for every folder named on the command line."""
    from training.processor import small_processor
    from training.tokenizer import small_tokenizer

    processor = small_processor(small_tokenizer())
    for folder in map(Path, arguments):
        dialogues = write_inventories(folder, processor)
        print(
            f"{folder}: {len(dialogues)} dialogues, {len(dialogues.ids)} tokens ({int(dialogues.learned.sum())} learned)"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
