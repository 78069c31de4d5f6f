"""Name grounding: target positions, and that the trained weights are those of the language model's first layer."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from render_agent.scans.camera import Camera
from render_agent.util.safe_parse import to_plain
from training.name_attention import NameFinder, read_places
from training.phrases import LABELS
from training.shape import TOKENS, WIDTH, new_model
from training.tokenizer import small_tokenizer

torch = pytest.importorskip("torch")


def shown_file(
    folder: Path, kind: str, camera: Camera, shown: dict[str, list[list[float]]]
) -> Path:
    line = {
        "kind": kind,
        "home": "room00",
        "camera": to_plain(camera),
        "shown": shown,
        "hidden": [],
    }
    file = folder / "shown.jsonl"
    file.write_text(json.dumps(line) + "\n")
    return file


def test_map_positions_use_the_map_frame_and_the_leftmost_object(tmp_path: Path) -> None:
    shown = {"sofa": [[3.0, 1.0]], "chair": [[2.0, 4.0], [1.0, 5.0]]}
    (places,) = read_places(shown_file(tmp_path, "top", Camera((9.0, 9.0, 1.6), 45.0), shown))
    assert places[LABELS.index("sofa")].tolist() == [1, 3, 1]
    assert places[LABELS.index("chair")].tolist() == [1, 1, 5]
    not_shown = np.delete(places, [LABELS.index("sofa"), LABELS.index("chair")], axis=0)
    assert (not_shown[:, 0] == 0).all()
    assert np.isnan(not_shown[:, 1:]).all()


def test_view_positions_are_ahead_and_left_of_the_camera(tmp_path: Path) -> None:
    # looking along +y from (1, 2): +y is ahead, -x is left
    camera = Camera((1.0, 2.0, 1.6), 90.0)
    shown = {"sofa": [[0.0, 5.0]], "chair": [[1.0, 4.0], [1.0, 5.0]]}
    (places,) = read_places(shown_file(tmp_path, "ego", camera, shown))
    np.testing.assert_allclose(places[LABELS.index("sofa")], [1, 3, 1], atol=1e-6)
    assert places[LABELS.index("chair")][0] == 1
    assert np.isnan(places[LABELS.index("chair")][1:]).all()


def test_finder_trains_the_weights_of_the_first_layer() -> None:
    tokenizer = small_tokenizer()
    model = new_model(tokenizer, 0)
    finder = NameFinder(model, tokenizer)
    merged = torch.randn(2, TOKENS, WIDTH, generator=torch.Generator().manual_seed(0))
    places = torch.zeros(2, len(LABELS), 3)
    loss, _ = finder.loss(merged, places, np.random.default_rng(0))
    loss.backward()
    trained = {
        f"{part}.{name}": weight
        for part, module in finder.modules.items()
        for name, weight in module.named_parameters()
        if part.startswith("text.")
    }
    all_weights = dict(model.model.language_model.named_parameters())
    assert trained
    for name, weight in trained.items():
        assert weight is all_weights[name.removeprefix("text.")]
        assert weight.grad is not None
        assert weight.grad.abs().max() > 0
    rows = model.model.language_model.embed_tokens.weight.grad.abs().sum(dim=1).nonzero().flatten()
    assert sorted(rows.tolist()) == sorted(finder.ids.tolist())
    learning = {id(weight) for weight in trained.values()}
    assert all(w.grad is None for w in all_weights.values() if id(w) not in learning)
