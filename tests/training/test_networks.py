"""The networks that training runs are the model's own: same weights, same numbers, in other steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image

from training.language import Batch, Language, batch_of, positions
from training.shape import COLUMNS_OF_TOKENS, ROWS_OF_TOKENS, TOKENS, new_model
from training.tower import Tower

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def made() -> tuple[Any, Any]:
    """The model with larger random weights, so that all of it shows in its scores, and its processor."""
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
def pictures() -> Any:
    """Three pictures of noise, (3, 224, 320, 3)."""
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, 224, 320, 3), np.uint8))


def given(processor: Any, pictures: Any) -> Any:
    return processor.image_processor(
        images=[Image.fromarray(one.numpy()) for one in pictures], return_tensors="pt"
    )


def dialogue(parts: list[int | str], picture: int, seed: int) -> Any:
    chance = np.random.default_rng(seed)
    ids: list[int] = []
    for part in parts:
        ids += (
            [picture] * TOKENS
            if isinstance(part, str)
            else chance.integers(300, 900, part).tolist()
        )
    return np.array(ids, np.int16)


def laid(picture: int) -> Batch:
    """Two dialogues of different lengths that show two pictures and one."""
    ids = [dialogue([12, "a", 3, "b", 20], picture, 1), dialogue([30, "c", 9], picture, 2)]
    weights = [np.concatenate([[0], np.ones(len(some) - 1)]).astype(np.float32) for some in ids]
    return batch_of(ids, weights, [[0, 1], [2]], picture, 0)


def test_the_tower_gives_what_the_models_own_gives(made: Any, pictures: Any) -> None:
    model, processor = made
    fed = given(processor, pictures)
    with torch.no_grad():
        own = model.model.visual(fed["pixel_values"], grid_thw=fed["image_grid_thw"])
        merged, deeper = Tower(model)(pictures)
    assert own.pooler_output.std() > 0.01
    torch.testing.assert_close(
        merged.reshape(own.pooler_output.shape), own.pooler_output, atol=2e-4, rtol=1e-4
    )
    deep = own.deepstack_features[0]
    torch.testing.assert_close(deeper.reshape(deep.shape), deep, atol=2e-4, rtol=1e-4)


def test_padded_on_the_right_the_scores_are_the_models_own(made: Any, pictures: Any) -> None:
    model, processor = made
    picture = processor.tokenizer.convert_tokens_to_ids("<|image_pad|>")
    batch = laid(picture)
    fed = given(processor, pictures)
    ids = torch.from_numpy(batch.ids)
    mask = torch.ones_like(ids)
    mask[1, 30 + TOKENS + 9 :] = 0
    with torch.no_grad():
        scores, learned = Language(model, picture).scores(batch, Tower(model)(pictures))
        own = model(
            input_ids=ids,
            attention_mask=mask,
            mm_token_type_ids=(ids == picture).long(),
            pixel_values=fed["pixel_values"],
            image_grid_thw=fed["image_grid_thw"],
        ).logits
    wanted = own.reshape(-1, own.shape[-1])[learned - 1]
    assert len(learned) == int((batch.weights > 0).sum()) > 200
    torch.testing.assert_close(scores, wanted, atol=2e-3, rtol=1e-3)


def test_positions_are_those_of_the_library(made: Any) -> None:
    model, processor = made
    picture = processor.tokenizer.convert_tokens_to_ids("<|image_pad|>")
    grid = torch.tensor([[1, 2 * ROWS_OF_TOKENS, 2 * COLUMNS_OF_TOKENS]] * 3)
    apart = dialogue([5, "a", 1, "b", 7, "c", 2], picture, 3)
    ids = torch.from_numpy(apart.astype(np.int64))[None]
    own, _ = model.model.get_rope_index(
        ids,
        mm_token_type_ids=(ids == picture).int(),
        image_grid_thw=grid,
        attention_mask=torch.ones_like(ids),
    )
    np.testing.assert_array_equal(positions(apart == picture), own[:, 0].numpy())


def test_the_loss_counts_replies_alone(made: Any) -> None:
    model, processor = made
    picture = processor.tokenizer.convert_tokens_to_ids("<|image_pad|>")
    ids = dialogue([40], picture, 4)
    weights = np.zeros(40, np.float32)
    weights[30:] = 1
    with torch.no_grad():
        scores, learned = Language(model, picture).scores(
            batch_of([ids], [weights], [[]], picture, 0), None
        )
    assert learned.tolist() == list(range(30, 40))
    assert scores.shape == (10, len(processor.tokenizer))
