"""Inventories: only the positions of named objects are learned, in the format of replies."""

import json
import re

import pytest

from render_agent.scans.camera import Camera
from render_agent.util.safe_parse import to_plain
from training.dialogue_file import DIALOGUES_FILE, load_dialogues
from training.inventory import MAX_HIDDEN, MAX_NAMES, inventory, write_inventories
from training.perception_images import SHOWN_FILE
from training.processor import IMAGE_TOKENS, small_processor
from training.tokenizer import small_tokenizer

CAMERA = to_plain(Camera((1.0, 2.0, 1.4), 90.0))
SHOWN = {"chair": [[2.04, 3.11], [0.96, 3.0]], "tv stand": [[4.0, -0.04]], "sofa": [[1.26, 0.5]]}
HIDDEN = ["bed", "clock", "door", "stove", "table", "window"]
LINES = [
    {"home": "room00", "kind": kind, "camera": CAMERA, "shown": SHOWN, "hidden": HIDDEN}
    for kind in ("top", "ego", "around", "top", "ego")
]
PLACES = {"chair": "1.0 3.0, 2.0 3.1", "tv stand": "4.0 0.0", "sofa": "1.3 0.5"}


def reasoning(messages):
    return json.loads(messages[-1]["content"][0]["text"])["reasoning"]


def entries_of(text):
    return dict(
        re.fullmatch(r"([a-z ]+?) (\?|[-\d].*)", part).groups() for part in text.split("; ")
    )


def test_shown_objects_have_positions_and_hidden_ones_do_not():
    orders = set()
    for number in range(30):
        entries = entries_of(reasoning(inventory(LINES[0], number)))
        assert {name: place for name, place in entries.items() if place != "?"} == PLACES
        assert {name for name, place in entries.items() if place == "?"} <= set(HIDDEN)
        assert len(PLACES) <= len(entries) <= len(PLACES) + MAX_HIDDEN
        orders.add(tuple(name for name in entries if name in PLACES))
    assert len(orders) == 6
    assert inventory(LINES[0], 3) == inventory(LINES[0], 3) != inventory(LINES[0], 3, seed=1)
    objects = {f"thing {chr(97 + number)}": [[1.0, 2.0]] for number in range(MAX_NAMES + 5)}
    assert len(entries_of(reasoning(inventory({**LINES[0], "shown": objects}, 0)))) == MAX_NAMES


@pytest.fixture(scope="module")
def tokenizer():
    return small_tokenizer()


def test_positions_are_learned_and_names_are_not(tokenizer, tmp_path):
    (tmp_path / SHOWN_FILE).write_text("".join(json.dumps(line) + "\n" for line in LINES))
    write_inventories(tmp_path, small_processor(tokenizer))
    dialogues = load_dialogues(tmp_path / DIALOGUES_FILE)
    assert len(dialogues) == len(LINES)
    assert dialogues.pictures.tolist() == list(range(len(LINES)))
    assert dialogues.views.tolist() == [line["kind"] for line in LINES]
    image_token = tokenizer.convert_tokens_to_ids("<|image_pad|>")
    for number in range(len(LINES)):
        span = slice(*dialogues.offsets[number : number + 2])
        ids, learned = dialogues.ids[span], dialogues.learned[span]
        assert int((ids == image_token).sum()) == IMAGE_TOKENS
        learned_text, text = tokenizer.decode(ids[learned]), tokenizer.decode(ids)
        assert all(place in learned_text for place in PLACES.values())
        assert not any(name in learned_text for name in (*PLACES, *HIDDEN))
        assert all(name in text for name in PLACES)
