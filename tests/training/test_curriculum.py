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
    DialogueDataset,
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

MIN_TEXT_ID = 400  # lowest id of ordinary text tokens used here


@cache
def special_ids():
    """Return the ids of the image token, the padding token, and the token before an answer."""
    return special_tokens(small_tokenizer())


def encoded_dialogue(scene, number, image_rows, *, length=30):
    """Return a dialogue with some images, whose last nine tokens are learned and contain an answer."""
    rng = np.random.default_rng((number, *map(int, image_rows)))
    image_token, _, answer_token = special_ids()
    ids = np.concatenate(
        [
            rng.integers(MIN_TEXT_ID, 900, length - 9),
            *([*[image_token] * TOKENS, MIN_TEXT_ID] for _ in image_rows),  # text between images
            rng.integers(MIN_TEXT_ID, 900, 3),
            [answer_token],
            rng.integers(MIN_TEXT_ID, 900, 5),
        ]
    ).astype(np.int16)
    learned = np.arange(len(ids)) >= len(ids) - 9
    return EncodedDialogue(ids, learned, image_rows, f"{number}", scene, "object_counting", "free")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return two folders of dialogues and their image counts: two images per scene, four dialogues each."""
    folders = []
    for folder, scenes in ("one", "abc"), ("two", "abde"):
        path = tmp_path_factory.mktemp(folder)
        dialogues = [
            encoded_dialogue(scene, 10 * row + number, (2 * row, 2 * row + 1)[: 1 + number % 2])
            for row, scene in enumerate(scenes)
            for number in range(4)
        ]
        too_long = encoded_dialogue(scenes[0], 99, (0,), length=MAX_TOKENS)
        concatenate(None, [*dialogues, too_long]).save(path / DIALOGUES_FILE)
        folders.append((path, 2 * len(scenes)))
    return folders


@pytest.fixture(scope="module")
def features(folders):
    """Return features by folder that encode the folder and the row."""
    return [
        np.stack([np.full((2, TOKENS, 1), 100 * folder + row, np.int16) for row in range(count)])
        for folder, (_, count) in enumerate(folders)
    ]


@pytest.fixture(scope="module")
def datasets(folders, features):
    offsets = StoredFeatures(features).offsets
    answer_token = special_ids()[-1]
    return [
        DialogueDataset(path, answer_token, offset)
        for (path, _), offset in zip(folders, offsets, strict=True)
    ]


def test_image_rows_belong_to_their_dialogue(datasets, features):
    stored = StoredFeatures(features)
    for folder, dataset in enumerate(datasets):
        arrays = dataset.arrays
        for numbers in dataset.scenes.values():
            for number in numbers:
                rows = arrays.pictures[slice(*arrays.picture_offsets[number : number + 2])]
                rows_found = stored.stack(dataset.example(number).image_rows)
                assert rows_found[:, 0, 0, 0].tolist() == [100 * folder + row for row in rows]
    assert stored.stack([7, 6, 5, 0, 13])[:, 1, 3, 0].tolist() == [101, 100, 5, 0, 107]


def test_draws_are_deterministic_per_seed_and_step(datasets):
    def draw(seed, step):
        curriculum = Curriculum(datasets, datasets, datasets, [], seed)
        examples = curriculum.draw_dialogues(step, 3, 2) + curriculum.draw_arithmetic(step, 5)
        examples += curriculum.draw_inventories(step, 4)
        return [(example.ids.tolist(), example.image_rows) for example in examples]

    assert draw(0, 7) == draw(0, 7)
    assert len({str(draw(seed, step)) for seed in range(3) for step in range(4)}) == 12


def test_dialogues_are_drawn_per_scene_without_repetition(datasets):
    curriculum = Curriculum(datasets, [], [], [], 0)
    scene_of_image = {
        row: (folder, scene)
        for folder, dataset in enumerate(datasets)
        for scene, numbers in dataset.scenes.items()
        for number in numbers
        for row in dataset.example(number).image_rows
    }
    draws_by_scene = Counter()
    for step in range(40):
        drawn = curriculum.draw_dialogues(step, 3, 2)
        scenes = Counter(scene_of_image[example.image_rows[0]] for example in drawn)
        assert sorted(scenes.values()) == [2, 2, 2]
        assert len({(example.ids.tobytes(), example.image_rows) for example in drawn}) == 6
        for example in drawn:
            assert {scene_of_image[row] for row in example.image_rows} <= scenes.keys()
        draws_by_scene += scenes
    assert len(draws_by_scene) == 7  # scenes a and b of the two folders are distinct
    assert len(curriculum.draw_dialogues(0, 50, 50)) == 7 * 4
    assert curriculum.draw_arithmetic(0, 7) == curriculum.draw_inventories(0, 7) == []


def test_each_kind_is_drawn_from_its_own_folders(datasets):
    """All three kinds can draw the same examples, but draw independently."""
    first, second = datasets
    curriculum = Curriculum([first], [second], [first, second], [], 0)
    count = len(first.arrays) + len(second.arrays) - 2  # each has one dialogue that is too long
    inventories = [
        example for step in range(30) for example in curriculum.draw_inventories(step, 8)
    ]
    assert len({(example.ids.tobytes(), example.image_rows) for example in inventories}) == count
    arithmetic = [example for step in range(30) for example in curriculum.draw_arithmetic(step, 8)]
    assert len({example.ids.tobytes() for example in arithmetic}) == len(second.arrays) - 1
    assert min(min(example.image_rows) for example in arithmetic) >= second.image_offset
    assert curriculum.draw_arithmetic(0, 0) == []
    assert [example.image_rows for example in arithmetic[:8]] != [
        example.image_rows for example in inventories[:8]
    ]


def test_long_dialogues_are_skipped_and_answers_weigh_more(datasets):
    dataset, _ = datasets
    assert len(dataset.arrays) == 3 * 4 + 1
    assert [len(numbers) for numbers in dataset.scenes.values()] == [4, 4, 4]
    example = dataset.example(0)
    assert np.flatnonzero(example.weights).tolist() == list(
        range(len(example.ids) - 9, len(example.ids))
    )
    assert example.weights[-9:].tolist() == [1.0] * 4 + [ANSWER_WEIGHT] * 5
    assert example.ids[-6] == special_ids()[-1]


def test_groups_respect_the_limit_and_contain_every_example():
    rng = np.random.default_rng(0)
    examples = [
        Example(np.full(length, number, np.int16), np.ones(length, np.float32), ())
        for number, length in enumerate(rng.integers(20, 900, 50))
    ]
    groups = split_by_length(examples, 2000)
    assert sorted(id(example) for group in groups for example in group) == sorted(map(id, examples))
    assert all(len(group) * max(len(e.ids) for e in group) <= 2000 for group in groups)
    for group, next_group in pairwise(groups):
        assert min(len(e.ids) for e in group) >= max(len(e.ids) for e in next_group)
        assert (len(group) + 1) * len(group[0].ids) > 2000  # groups are as large as possible
    assert [len(group) for group in split_by_length(examples[:3], 10)] == [1, 1, 1]
    assert split_by_length([], 2000) == []


@pytest.fixture(scope="module")
def model():
    """Return the model with enlarged random weights, so that images affect its output."""
    model = new_model(small_tokenizer(), 0)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.mul_(3)
    return model


@pytest.fixture(scope="module")
def images():
    """Return the images of two folders."""
    noise = np.random.default_rng(0).integers(0, 256, (3, 224, 320, 3), np.uint8)
    return [noise[:2], noise[2:]]


def examples():
    dialogues = [
        encoded_dialogue("a", 1, (0, 2), length=24),
        encoded_dialogue("a", 2, (2,), length=60),
        encoded_dialogue("b", 3, (0,), length=13),
        encoded_dialogue("b", 4, (), length=90),
    ]
    return [
        Example(encoded.ids, encoded.learned * np.float32(1 + number), tuple(encoded.pictures))
        for number, encoded in enumerate(dialogues)
    ]


def gradients(model):
    """Return the accumulated gradients of a model by name, and clear them."""
    collected = {
        name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None
    }
    model.zero_grad(set_to_none=True)
    return collected


def single_batch_gradients(model, images):
    """Return loss and gradients of all examples in a single batch, through both networks."""
    all_examples = examples()
    rows, index_of_row = distinct_images(all_examples)
    features = encode_images(model, torch.from_numpy(np.concatenate(images)[rows]))
    batch = batch_of(
        [example.ids for example in all_examples],
        [example.weights for example in all_examples],
        [[index_of_row[row] for row in example.image_rows] for example in all_examples],
        special_ids()[1],
    )
    indices = torch.from_numpy(batch.images)
    logits, learned = predict(model, batch, tuple(part[indices] for part in features))
    targets = torch.from_numpy(batch.ids.ravel())[learned]
    weights = torch.from_numpy(batch.weights.ravel())[learned]
    losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    loss = (losses * weights).sum() / weights.sum()
    loss.backward()
    return loss.item(), gradients(model)


@pytest.mark.slow
@pytest.mark.parametrize("joint", [True, False])
def test_gradients_of_groups_equal_those_of_one_batch(model, images, monkeypatch, joint):
    loss, expected = single_batch_gradients(model, images)
    monkeypatch.setattr(dialogue, "GROUP_TOKENS", 300)
    assert len(split_by_length(examples(), 300)) > 1
    trainer = DialogueTrainer(
        model, small_tokenizer(), ComputedFeatures(model, images), joint=joint
    )
    metrics = trainer.accumulate_gradients(examples())
    assert metrics["loss"] == pytest.approx(loss, rel=1e-5)
    accumulated = gradients(model)
    tower_weights = {name for name in expected if ".visual." in name}
    assert len(tower_weights) > 50
    assert accumulated.keys() == (expected.keys() if joint else expected.keys() - tower_weights)
    for name, gradient in accumulated.items():
        error = (gradient - expected[name]).norm() / expected[name].norm().clamp(min=1e-6)
        assert error < 1e-3, name
    assert all(gradient.norm() > 0 for gradient in accumulated.values())
