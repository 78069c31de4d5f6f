"""Examples of a training step and their gradients: complete, correctly assigned, and equal to a single batch."""

from collections import Counter
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

import training.dialogue as dialogue
from training.curriculum import (
    ANSWER_WEIGHT,
    MAX_TOKENS,
    Curriculum,
    Dialogue,
    Example,
    distinct_images,
    special_tokens,
    split_by_length,
)
from training.dialogue import DialogueTrainer
from training.dialogue_file import DIALOGUES_FILE, EncodedDialogue, concatenate
from training.networks import batch_of, encode_images, predict
from training.shape import TOKENS, new_model
from training.sight import ComputedFeatures, StoredFeatures
from training.tokenizer import small_tokenizer

torch = pytest.importorskip("torch")

TEXT = 400  # lowest id of ordinary text tokens used here


@cache
def special():
    """Return the ids of the image token, the padding token, and the token before an answer."""
    return special_tokens(small_tokenizer())


def encoded(scene, number, pictures, *, length=30):
    """Return a dialogue with some images, whose last nine tokens are learned and contain an answer."""
    chance = np.random.default_rng((number, *map(int, pictures)))
    picture, _, answered = special()
    ids = np.concatenate(
        [
            chance.integers(TEXT, 900, length - 9),
            *([*[picture] * TOKENS, TEXT] for _ in pictures),  # separate images by text
            chance.integers(TEXT, 900, 3),
            [answered],
            chance.integers(TEXT, 900, 5),
        ]
    ).astype(np.int16)
    learned = np.arange(len(ids)) >= len(ids) - 9
    return EncodedDialogue(ids, learned, pictures, f"{number}", scene, "object_counting", "free")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return two folders of dialogues and their image counts: two images per scene, four dialogues each."""
    made = []
    for folder, scenes in ("one", "abc"), ("two", "abde"):
        path = tmp_path_factory.mktemp(folder)
        some = [
            encoded(scene, 10 * row + number, (2 * row, 2 * row + 1)[: 1 + number % 2])
            for row, scene in enumerate(scenes)
            for number in range(4)
        ]
        long = encoded(scenes[0], 99, (0,), length=MAX_TOKENS)
        concatenate(None, [*some, long]).save(path / DIALOGUES_FILE)
        made.append((path, 2 * len(scenes)))
    return made


@pytest.fixture(scope="module")
def colours(folders):
    """Return features by folder that encode the folder and the row."""
    return [
        np.stack([np.full((2, TOKENS, 1), 100 * part + row, np.int16) for row in range(count)])
        for part, (_, count) in enumerate(folders)
    ]


@pytest.fixture(scope="module")
def shown(folders, colours):
    offsets = StoredFeatures(colours).offsets
    answered = special()[-1]
    return [
        Dialogue(path, answered, offset) for (path, _), offset in zip(folders, offsets, strict=True)
    ]


def test_image_rows_belong_to_their_dialogue(shown, colours):
    seen = StoredFeatures(colours)
    for part, some in enumerate(shown):
        arrays = some.arrays
        for numbers in some.scenes.values():
            for number in numbers:
                rows = arrays.pictures[slice(*arrays.picture_offsets[number : number + 2])]
                features = seen.rows(some.example(number).pictures)
                assert features[:, 0, 0, 0].tolist() == [100 * part + row for row in rows]
    assert seen.rows([7, 6, 5, 0, 13])[:, 1, 3, 0].tolist() == [101, 100, 5, 0, 107]


def test_draws_are_deterministic_per_seed_and_step(shown):
    def drawn(seed, step):
        curriculum = Curriculum(shown, shown, shown, seed)
        examples = curriculum.dialogues(step, 3, 2) + curriculum.arithmetic(step, 5)
        examples += curriculum.inventories(step, 4)
        return [(example.ids.tolist(), example.pictures) for example in examples]

    assert drawn(0, 7) == drawn(0, 7)
    assert len({str(drawn(seed, step)) for seed in range(3) for step in range(4)}) == 12


def test_dialogues_are_drawn_per_scene_without_repetition(shown):
    curriculum = Curriculum(shown, [], [], 0)
    of_picture = {
        number: (part, scene)
        for part, some in enumerate(shown)
        for scene, numbers in some.scenes.items()
        for one in numbers
        for number in some.example(one).pictures
    }
    met = Counter()
    for step in range(40):
        drawn = curriculum.dialogues(step, 3, 2)
        scenes = Counter(of_picture[example.pictures[0]] for example in drawn)
        assert sorted(scenes.values()) == [2, 2, 2]
        assert len({(example.ids.tobytes(), example.pictures) for example in drawn}) == 6
        for example in drawn:
            assert {of_picture[number] for number in example.pictures} <= scenes.keys()
        met += scenes
    assert len(met) == 7  # scenes a and b of the two folders are distinct
    assert len(curriculum.dialogues(0, 50, 50)) == 7 * 4
    assert curriculum.arithmetic(0, 7) == curriculum.inventories(0, 7) == []


def test_each_kind_is_drawn_from_its_own_folders(shown):
    """All three kinds can draw the same examples, but draw independently."""
    (one, two) = shown
    curriculum = Curriculum([one], [two], [one, two], 0)
    count = len(one.arrays) + len(two.arrays) - 2  # each has one dialogue that is too long
    listed = [example for step in range(30) for example in curriculum.inventories(step, 8)]
    assert len({(example.ids.tobytes(), example.pictures) for example in listed}) == count
    told = [example for step in range(30) for example in curriculum.arithmetic(step, 8)]
    assert len({example.ids.tobytes() for example in told}) == len(two.arrays) - 1
    assert min(min(example.pictures) for example in told) >= two.offset
    assert curriculum.arithmetic(0, 0) == []
    assert [one.pictures for one in told[:8]] != [one.pictures for one in listed[:8]]


def test_long_dialogues_are_skipped_and_answers_weigh_more(shown):
    (some, _) = shown
    assert len(some.arrays) == 3 * 4 + 1
    assert [len(numbers) for numbers in some.scenes.values()] == [4, 4, 4]
    example = some.example(0)
    assert np.flatnonzero(example.weights).tolist() == list(
        range(len(example.ids) - 9, len(example.ids))
    )
    assert example.weights[-9:].tolist() == [1.0] * 4 + [ANSWER_WEIGHT] * 5
    assert example.ids[-6] == special()[-1]


def test_parts_respect_the_limit_and_contain_every_example():
    chance = np.random.default_rng(0)
    examples = [
        Example(np.full(length, number, np.int16), np.ones(length, np.float32), ())
        for number, length in enumerate(chance.integers(20, 900, 50))
    ]
    groups = split_by_length(examples, 2000)
    assert sorted(id(one) for part in groups for one in part) == sorted(map(id, examples))
    assert all(len(part) * max(len(one.ids) for one in part) <= 2000 for part in groups)
    for part, after in pairwise(groups):
        assert min(len(one.ids) for one in part) >= max(len(one.ids) for one in after)
        assert (len(part) + 1) * len(part[0].ids) > 2000  # parts are as large as possible
    assert [len(part) for part in split_by_length(examples[:3], 10)] == [1, 1, 1]
    assert split_by_length([], 2000) == []


@pytest.fixture(scope="module")
def model():
    """Return the model with enlarged random weights, so that images affect its output."""
    made = new_model(small_tokenizer(), 0)
    with torch.no_grad():
        for weight in made.parameters():
            if weight.ndim > 1:
                weight.mul_(3)
    return made


@pytest.fixture(scope="module")
def pictures():
    """Return the images of two folders."""
    noise = np.random.default_rng(0).integers(0, 256, (3, 224, 320, 3), np.uint8)
    return [noise[:2], noise[2:]]


EXAMPLES = [
    encoded("a", 1, (0, 2), length=24),
    encoded("a", 2, (2,), length=60),
    encoded("b", 3, (0,), length=13),
    encoded("b", 4, (), length=90),
]


def examples():
    return [
        Example(one.ids, one.learned * np.float32(1 + number), tuple(one.pictures))
        for number, one in enumerate(EXAMPLES)
    ]


def gradients(model):
    """Return the accumulated gradients of a model by name, and clear them."""
    collected = {
        name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None
    }
    model.zero_grad(set_to_none=True)
    return collected


def by_hand(model, pictures):
    """Return loss and gradients of all examples in a single batch, through both networks."""
    some = examples()
    numbers, rows = distinct_images(some)
    features = encode_images(model, torch.from_numpy(np.concatenate(pictures)[numbers]))
    shown = [[rows[number] for number in one.pictures] for one in some]
    batch = batch_of([one.ids for one in some], [one.weights for one in some], shown, special()[1])
    which = torch.from_numpy(batch.images)
    scores, learned = predict(model, batch, tuple(part[which] for part in features))
    truth = torch.from_numpy(batch.ids.ravel())[learned]
    weights = torch.from_numpy(batch.weights.ravel())[learned]
    each = torch.nn.functional.cross_entropy(scores, truth, reduction="none")
    loss = (each * weights).sum() / weights.sum()
    loss.backward()
    return loss.item(), gradients(model)


@pytest.mark.slow
@pytest.mark.parametrize("joint", [True, False])
def test_gradients_of_parts_equal_those_of_one_batch(model, pictures, monkeypatch, joint):
    loss, expected = by_hand(model, pictures)
    monkeypatch.setattr(dialogue, "PART_TOKENS", 300)
    assert len(split_by_length(examples(), 300)) > 1
    lesson = DialogueTrainer(
        model, small_tokenizer(), ComputedFeatures(model, pictures), joint=joint
    )
    figures = lesson.gather(examples())
    assert figures["loss"] == pytest.approx(loss, rel=1e-5)
    gathered_gradients = gradients(model)
    towers = {name for name in expected if ".visual." in name}
    assert len(towers) > 50
    assert gathered_gradients.keys() == (expected.keys() if joint else expected.keys() - towers)
    for name, gradient in gathered_gradients.items():
        off = (gradient - expected[name]).norm() / expected[name].norm().clamp(min=1e-6)
        assert off < 1e-3, name
    assert all(gradient.norm() > 0 for gradient in gathered_gradients.values())
