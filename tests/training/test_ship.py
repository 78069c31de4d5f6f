"""Shipping: the shipped model loads offline by path, gives the trained model's logits, and is never too large."""

import json

import numpy as np
import pytest
from PIL import Image

import training.ship as shipping
from training.optimizer import WEIGHTS, MasterWeights, read_weights, save
from training.shape import TOKENS, new_model
from training.ship import mean_model, ship
from training.tokenizer import small_tokenizer
from training.wording import FILE

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Return a checkpoint as written by the last stage, with weights that no seed produces."""
    model = new_model(small_tokenizer(), 3)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.02)
    masters = MasterWeights(
        {"visual": model.model.visual, "text": model.model.language_model}, decay=0.02
    )
    file = tmp_path_factory.mktemp("trained") / "joint.pt"
    save(file, 7, 1.5, masters.state())
    return file


@pytest.fixture(scope="module")
def shipped(checkpoint, tmp_path_factory):
    return ship(tmp_path_factory.mktemp("models") / "new" / "small", checkpoint)


@pytest.mark.slow
def test_shipped_model_gives_the_logits_of_the_trained_weights(checkpoint, shipped):
    from transformers import AutoModelForImageTextToText, AutoProcessor

    processor = AutoProcessor.from_pretrained(shipped, local_files_only=True)
    model = AutoModelForImageTextToText.from_pretrained(
        shipped, local_files_only=True, dtype=torch.float32
    )
    picture = np.random.default_rng(0).integers(0, 256, (240, 320, 3), np.uint8)
    text = "<|vision_start|><|image_pad|><|vision_end|>How many chair(s) are in this room?"
    inputs = processor(text=[text], images=[Image.fromarray(picture)], return_tensors="pt")
    assert TOKENS < inputs["input_ids"].shape[1] < TOKENS + 20
    trained = mean_model(checkpoint)
    with torch.no_grad():
        logits, expected = (m.eval()(**inputs).logits for m in (model, trained))
    assert expected.std() > 0.1
    assert (logits - expected).norm() < 2e-3 * expected.norm()
    for (name, weight), (shipped_name, shipped_weight) in zip(
        trained.named_parameters(), model.named_parameters(), strict=True
    ):
        assert name == shipped_name
        assert torch.equal(weight.half().float(), shipped_weight), name


@pytest.mark.slow
def test_training_can_start_from_a_shipped_model(checkpoint, shipped):
    before, after = read_weights(checkpoint), read_weights(shipped)
    assert before.keys() == after.keys()
    for name, weight in before.items():
        assert after[name].dtype == torch.float32
        assert torch.equal(weight.half().float(), after[name]), name


@pytest.mark.slow
def test_mean_of_two_checkpoints_is_shipped(checkpoint, shipped, tmp_path):
    """The second checkpoint is the first in half precision with one weight changed."""
    from safetensors.torch import load_file, save_file

    weights = load_file(shipped / WEIGHTS)
    changed = "model.language_model.norm.weight"
    weights[changed] = weights[changed] + 1
    save_file(weights, tmp_path / WEIGHTS)
    mean = dict(mean_model(checkpoint, tmp_path).named_parameters())
    for name, weight in mean_model(checkpoint).named_parameters():
        step = 0.5 if name == changed else 0.0
        assert torch.allclose(mean[name], weight + step, atol=2e-3), name


def test_shipped_model_is_half_precision_with_end_tokens(shipped):
    from safetensors.torch import load_file

    weights = load_file(shipped / WEIGHTS)
    assert {weight.dtype for weight in weights.values()} == {torch.float16}
    assert sum(weight.numel() for weight in weights.values()) < 12_000_000
    assert sum(file.stat().st_size for file in shipped.iterdir()) < 25_000_000
    assert [entry.name for entry in shipped.parent.iterdir()] == [shipped.name]
    assert (shipped / FILE.name).read_bytes() == FILE.read_bytes()
    config = json.loads((shipped / "generation_config.json").read_text())
    tokenizer = small_tokenizer()
    assert config["eos_token_id"] == [tokenizer.eos_token_id, tokenizer.pad_token_id]
    assert not config["do_sample"]


@pytest.mark.parametrize(
    ("limit", "value"), [("MAX_WEIGHTS", 10_000_000), ("MAX_BYTES", 20_000_000)]
)
def test_too_large_models_are_rejected_and_existing_files_kept(
    checkpoint, tmp_path, monkeypatch, limit, value
):
    monkeypatch.setattr(shipping, limit, value)
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / WEIGHTS).write_text("earlier version")
    unit = limit.removeprefix("MAX_").lower()
    with pytest.raises(ValueError, match=rf"{unit}.*{value:,}"):
        ship(tmp_path / "small", checkpoint)
    assert [file.name for file in (tmp_path / "small").iterdir()] == [WEIGHTS]
    assert (tmp_path / "small" / WEIGHTS).read_text() == "earlier version"
    assert [file.name for file in tmp_path.iterdir()] == ["small"]
