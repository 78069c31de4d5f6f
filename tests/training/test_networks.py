"""Batched forward passes for training match the model's own forward pass for each dialogue."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image

from training.networks import Batch, batch_of, encode_images, patches, predict
from training.shape import TOKENS, new_model

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def model_and_processor() -> tuple[Any, Any]:
    """Return the model with enlarged random weights, so that all of it affects its logits, and its processor."""
    from training.processor import small_processor
    from training.tokenizer import small_tokenizer

    tokenizer = small_tokenizer()
    model = new_model(tokenizer, 0)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.mul_(4)
    return model.eval(), small_processor(tokenizer)


@pytest.fixture(scope="module")
def images() -> Any:
    """Return three noise images, (3, 224, 320, 3)."""
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, 224, 320, 3), np.uint8))


@pytest.fixture(scope="module")
def processed(model_and_processor: Any, images: Any) -> Any:
    pictures = [Image.fromarray(image.numpy()) for image in images]
    return model_and_processor[1].image_processor(images=pictures, return_tensors="pt")


def dialogue(parts: list[int | str], image_token: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    ids: list[int] = []
    for part in parts:
        ids += (
            [image_token] * TOKENS
            if isinstance(part, str)
            else rng.integers(300, 900, part).tolist()
        )
    return np.array(ids, np.int16)


def two_dialogues(image_token: int) -> Batch:
    """Return dialogues of different lengths that show two images and one."""
    ids = [dialogue([12, "a", 3, "b", 20], image_token, 1), dialogue([30, "c", 9], image_token, 2)]
    weights = [np.concatenate([[0], np.ones(len(row) - 1)]).astype(np.float32) for row in ids]
    return batch_of(ids, weights, [[0, 1], [2]], 0)


def test_patches_match_the_image_processor(images: Any, processed: Any) -> None:
    torch.testing.assert_close(patches(images), processed["pixel_values"], atol=1e-6, rtol=0)


def test_images_encode_as_in_the_models_own_vision_tower(
    model_and_processor: Any, images: Any, processed: Any
) -> None:
    model, _ = model_and_processor
    with torch.no_grad():
        expected = model.model.visual(
            processed["pixel_values"], grid_thw=processed["image_grid_thw"]
        )
        tokens, deepstack = encode_images(model, images)
    assert expected.pooler_output.std() > 0.01
    for ours, theirs in (
        (tokens, expected.pooler_output),
        (deepstack, expected.deepstack_features[0]),
    ):
        torch.testing.assert_close(ours.reshape(theirs.shape), theirs, atol=2e-4, rtol=1e-4)


def test_padding_on_the_right_does_not_change_the_logits(
    model_and_processor: Any, images: Any, processed: Any
) -> None:
    model, _ = model_and_processor
    image_token = model.config.image_token_id
    batch = two_dialogues(image_token)
    ids = torch.from_numpy(batch.ids)
    mask = torch.ones_like(ids)
    mask[1, 30 + TOKENS + 9 :] = 0
    with torch.no_grad():
        logits, learned = predict(model, batch, encode_images(model, images))
        own_logits = model(
            input_ids=ids,
            attention_mask=mask,
            mm_token_type_ids=(ids == image_token).long(),
            pixel_values=processed["pixel_values"],
            image_grid_thw=processed["image_grid_thw"],
        ).logits
    expected = own_logits.reshape(-1, own_logits.shape[-1])[learned - 1]
    assert len(learned) == int((batch.weights > 0).sum()) > 200
    torch.testing.assert_close(logits, expected, atol=2e-3, rtol=1e-3)


def test_only_weighted_tokens_are_predicted(model_and_processor: Any) -> None:
    model, processor = model_and_processor
    ids = dialogue([40], model.config.image_token_id, 4)
    weights = np.zeros(40, np.float32)
    weights[30:] = 1
    with torch.no_grad():
        logits, learned = predict(model, batch_of([ids], [weights], [[]], 0), None)
    assert learned.tolist() == list(range(30, 40))
    assert logits.shape == (10, len(processor.tokenizer))
