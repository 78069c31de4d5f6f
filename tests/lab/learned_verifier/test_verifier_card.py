"""Saving and loading a verifier; inconsistent files are rejected."""

import json

import numpy as np
import pytest
import torch
from factories.examples import SMALL, random_features, random_histories
from safetensors.torch import load_file, save_file

from render_agent.errors import SetupError
from render_agent_lab.learned_verifier.card import CARD, WEIGHTS
from render_agent_lab.learned_verifier.checkpoint import load
from render_agent_lab.learned_verifier.ensemble import Ensemble
from render_agent_lab.verifier_training.card import save_verifier

LEARNED = {"encoder": "noise", "scenes": ["room00", "room01"], "held_out": {"chosen": 0.5}}


@pytest.fixture
def folder(tmp_path):
    save_verifier(Ensemble.fresh(SMALL, 2, 0), tmp_path / "verifier", LEARNED)
    return tmp_path / "verifier"


def test_saved_verifier_is_loaded_unchanged(folder):
    ensemble, learned = load(folder)
    assert learned == LEARNED
    assert ensemble.shape == SMALL
    assert sorted(path.name for path in folder.iterdir()) == sorted([CARD, WEIGHTS])
    features, histories = random_features(SMALL, 0), random_histories(SMALL, 4, 0)
    fresh = Ensemble.fresh(SMALL, 2, 0)
    for name, tensor in fresh.parameters.items():
        assert torch.equal(ensemble.parameters[name], tensor)
    scores = (one.score(features, histories) for one in (ensemble, fresh))
    np.testing.assert_allclose(*scores, rtol=0, atol=1e-6)
    save_verifier(ensemble, folder, {})
    assert load(folder)[1] == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, CARD),
        ({"numbers_of_a_move": ["forward"]}, CARD),
        ({"numbers_of_a_move": 5}, CARD),
        ({"members": 3}, WEIGHTS),
        ({"members": "two"}, "members .* 'two'"),
        ({"shape": SMALL.to_json() | {"width": 32}}, WEIGHTS),
        ({"shape": SMALL.to_json() | {"layers": 2}}, r"missing, .*\(2, .* more"),
        ({"shape": SMALL.to_json() | {"layers": "two"}}, "layers .* 'two'"),
        ({"shape": {}}, "sizes"),
        ({"shape": 5}, CARD),
    ],
)
def test_inconsistent_card_is_rejected(folder, changes, message):
    card = json.loads((folder / CARD).read_text("utf-8"))
    (folder / CARD).write_text(json.dumps(card | changes), "utf-8")
    with pytest.raises(SetupError, match=message) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


def test_weights_that_do_not_match_the_card_are_rejected(folder):
    tensors = load_file(folder / WEIGHTS)
    for changed, message in (
        ({"positions": torch.zeros(2, 4, 16)}, r"positions .*\(2, 4, 16\).*\(2, 3, 16\)"),
        ({"unheard": torch.zeros(1)}, "unheard"),
        ({"positions": torch.full((2, 3, 16), torch.nan)}, "positions .* finite"),
        ({"positions": torch.zeros((2, 3, 16), dtype=torch.int32)}, "positions .* finite"),
    ):
        save_file(tensors | changed, folder / WEIGHTS)
        with pytest.raises(SetupError, match=message):
            load(folder)
    (folder / WEIGHTS).write_bytes(b"\x80\x04K*.")  # a pickle
    with pytest.raises(SetupError, match=WEIGHTS):
        load(folder)


def test_folder_without_a_verifier_is_rejected(folder, tmp_path):
    with pytest.raises(SetupError, match="nowhere"):
        load(tmp_path / "nowhere")
    for text in ("{", "[]", '{"format": 1}'):
        (folder / CARD).write_text(text, "utf-8")
        with pytest.raises(SetupError, match=CARD):
            load(folder)
    with pytest.raises(SetupError, match=CARD):
        save_verifier(Ensemble.fresh(SMALL, 1, 0), folder / CARD, {})
