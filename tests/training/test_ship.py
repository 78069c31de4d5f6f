"""What is shipped is what was trained: loaded by its name alone, offline, with the same scores; never too large."""

import json

import numpy as np
import pytest
from PIL import Image

import training.ship as shipping
from training.optimizer import WEIGHTS, Masters, save, weights_of
from training.shape import TOKENS, new_model
from training.ship import ship, trained
from training.tokenizer import small_tokenizer
from training.wording import FILE

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Return a checkpoint as the last training leaves it, of weights that no seed gives."""
    model = new_model(small_tokenizer(), 3)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.02)
    masters = Masters(
        {"visual": model.model.visual, "text": model.model.language_model}, decay=0.02
    )
    file = tmp_path_factory.mktemp("trained") / "joint.pt"
    save(file, 7, 1.5, masters.state())
    return file


@pytest.fixture(scope="module")
def shipped(checkpoint, tmp_path_factory):
    return ship(tmp_path_factory.mktemp("models") / "some" / "small", checkpoint)


@pytest.mark.slow
def test_loaded_as_anyone_loads_it_it_scores_as_the_trained_weights(checkpoint, shipped):
    from transformers import AutoModelForImageTextToText, AutoProcessor

    processor = AutoProcessor.from_pretrained(shipped, local_files_only=True)
    model = AutoModelForImageTextToText.from_pretrained(
        shipped, local_files_only=True, dtype=torch.float32
    )
    picture = np.random.default_rng(0).integers(0, 256, (240, 320, 3), np.uint8)
    text = "<|vision_start|><|image_pad|><|vision_end|>How many chair(s) are in this room?"
    fed = processor(text=[text], images=[Image.fromarray(picture)], return_tensors="pt")
    assert TOKENS < fed["input_ids"].shape[1] < TOKENS + 20
    own = trained(checkpoint)
    with torch.no_grad():
        found, wanted = (one.eval()(**fed).logits for one in (model, own))
    assert wanted.std() > 0.1
    assert (found - wanted).norm() < 2e-3 * wanted.norm()
    for (name, weight), (same, kept) in zip(
        own.named_parameters(), model.named_parameters(), strict=True
    ):
        assert name == same
        assert torch.equal(weight.half().float(), kept), name


@pytest.mark.slow
def test_training_goes_on_from_what_was_shipped(checkpoint, shipped):
    before, after = weights_of(checkpoint), weights_of(shipped)
    assert before.keys() == after.keys()
    for name, weight in before.items():
        assert after[name].dtype == torch.float32
        assert torch.equal(weight.half().float(), after[name]), name


@pytest.mark.slow
def test_of_two_the_mean_is_shipped(checkpoint, shipped, tmp_path):
    """Of what was trained and what it became, here the same in half precision with a weight moved."""
    from safetensors.torch import load_file, save_file

    weights = load_file(shipped / WEIGHTS)
    moved = "model.language_model.norm.weight"
    weights[moved] = weights[moved] + 1
    save_file(weights, tmp_path / WEIGHTS)
    mean = dict(trained(checkpoint, tmp_path).named_parameters())
    for name, weight in trained(checkpoint).named_parameters():
        step = 0.5 if name == moved else 0.0
        assert torch.allclose(mean[name], weight + step, atol=2e-3), name


def test_what_is_shipped_is_half_precision_and_says_how_replies_end(shipped):
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
    ("limit", "most"), [("MOST_WEIGHTS", 10_000_000), ("MOST_BYTES", 20_000_000)]
)
def test_what_is_too_large_is_refused_and_what_was_there_stays(
    checkpoint, tmp_path, monkeypatch, limit, most
):
    monkeypatch.setattr(shipping, limit, most)
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / WEIGHTS).write_text("of an earlier making")
    unit = limit.removeprefix("MOST_").lower()
    with pytest.raises(ValueError, match=rf"{unit}.*{most:,}"):
        ship(tmp_path / "small", checkpoint)
    assert [file.name for file in (tmp_path / "small").iterdir()] == [WEIGHTS]
    assert (tmp_path / "small" / WEIGHTS).read_text() == "of an earlier making"
    assert [file.name for file in tmp_path.iterdir()] == ["small"]
