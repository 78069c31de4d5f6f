"""What is where, picture by picture: dialogues that teach to read places off pictures many at a time.

python -m training.inventory PICTURES...

PICTURES are folders that `training.perception_pictures` wrote; each gets `dialogues.npz` about its pictures.
A question of the benchmark names two to five objects; here all of a picture are named, in an order drawn at
random, and only their places are learned.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from render_agent.dialogue.chat import Message, assistant
from render_agent.dialogue.prompt import Prompt
from render_agent.dialogue.question import Question
from render_agent.dialogue.view import View
from render_agent.scans.camera import Camera
from render_agent.util.safe_parse import convert
from render_agent_lab.expert.derive import places_of, spot_at
from training.dialogue_file import DIALOGUES, Dialogues, Encoded, gathered
from training.encode import CHUNK, Encoder
from training.perception_pictures import FIELD, TOLD
from training.phrases import LABELS
from training.wording import small_wording

TYPE = "inventory"

HIDDEN = 4
"""Objects named at the most that the picture does not show."""

MOST = 20
"""Objects named at the most."""


def inventory(line: Mapping[str, Any], number: int, seed: int = 0) -> list[Message]:
    """Return the dialogue about a picture, of which `TOLD` has this line."""
    chance = random.Random(f"{seed} {number}")
    shown = {
        name: sorted(spot_at(*place) for place in places) for name, places in line["shown"].items()
    }
    hidden = chance.sample(line["hidden"], min(len(line["hidden"]), chance.randint(0, HIDDEN)))
    names = [*shown, *hidden]
    chance.shuffle(names)
    listed = "; ".join(f"{name} {places_of(shown.get(name, ()))}" for name in names[:MOST])
    camera = convert(line["camera"], Camera)
    question = Question(str(number), "rooms", "rooms", line["home"], TYPE, "What is where?", "text")
    prompt = Prompt(9, FIELD, wording=small_wording())
    view = View(0, line["kind"], f"{number}.png", camera)
    reply = json.dumps({"reasoning": listed, "answer": None, "done": False})
    return [*prompt.opening(question, [view], camera), assistant(reply)]


def inventories(folder: Path, processor: Any) -> list[Encoded]:
    """Return the dialogues about all pictures of a folder; names are given, places are learned."""
    lines = [json.loads(line) for line in (folder / TOLD).read_text().splitlines()]
    encoder = Encoder(processor)
    tokenizer = processor.tokenizer
    names = np.array([tokenizer(name)["input_ids"][0] for name in LABELS])
    found = []
    for start in range(0, len(lines), CHUNK):
        some = range(start, min(start + CHUNK, len(lines)))
        arrays = encoder.encode([inventory(lines[number], number) for number in some])
        for number, (ids, learned) in zip(some, arrays, strict=True):
            made = Encoded(
                ids,
                learned & ~np.isin(ids, names),
                [number],
                str(number),
                lines[number]["home"],
                TYPE,
                lines[number]["kind"],
            )
            found.append(made)
    return found


def write(folder: Path, processor: Any) -> Dialogues:
    """Write the dialogues about a folder's pictures into it, and return them."""
    dialogues = gathered(None, inventories(folder, processor))
    dialogues.save(folder / DIALOGUES)
    return dialogues


def main(arguments: Sequence[str]) -> None:
    """Write the dialogues for every folder named on the command line."""
    from training.processor import small_processor
    from training.tokenizer import small_tokenizer

    processor = small_processor(small_tokenizer())
    for folder in map(Path, arguments):
        made = write(folder, processor)
        print(
            f"{folder}: {len(made)} dialogues, {len(made.ids)} tokens ({int(made.learned.sum())} learned)"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
