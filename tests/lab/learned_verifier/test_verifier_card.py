"""A verifier on disk: weights and card come back as they were, and what does not fit is refused."""

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
from render_agent_lab.verifier_training.card import save

LEARNED = {"encoder": "noise", "scenes": ["room00", "room01"], "held_out": {"chosen": 0.5}}


@pytest.fixture
def folder(tmp_path):
    save(Ensemble.fresh(SMALL, 2, 0), tmp_path / "verifier", LEARNED)
    return tmp_path / "verifier"


def test_a_saved_verifier_comes_back(folder):
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
    save(ensemble, folder, {})
    assert load(folder)[1] == {}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"format": 2}, "another version"),
        ({"numbers_of_a_move": ["forward"]}, "another version"),
        ({"numbers_of_a_move": 5}, "another version"),
        ({"members": 3}, "does not fit its card"),
        ({"members": "two"}, "members is a whole number"),
        ({"shape": SMALL.to_json() | {"width": 32}}, "does not fit its card"),
        ({"shape": SMALL.to_json() | {"layers": 2}}, r"is missing, not \(2, .* more"),
        ({"shape": SMALL.to_json() | {"layers": "two"}}, "layers is a whole number"),
        ({"shape": {}}, "sizes are missing"),
        ({"shape": 5}, "verifier.json"),
    ],
)
def test_a_card_that_does_not_fit_is_refused(folder, changes, told):
    card = json.loads((folder / CARD).read_text("utf-8"))
    (folder / CARD).write_text(json.dumps(card | changes), "utf-8")
    with pytest.raises(SetupError, match=told) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


def test_weights_that_do_not_fit_are_refused(folder):
    tensors = load_file(folder / WEIGHTS)
    for changed, told in (
        ({"positions": torch.zeros(2, 4, 16)}, r"positions is \(2, 4, 16\), not \(2, 3, 16\)"),
        ({"unheard": torch.zeros(1)}, "unheard is"),
        ({"positions": torch.full((2, 3, 16), torch.nan)}, "no finite number"),
        ({"positions": torch.zeros((2, 3, 16), dtype=torch.int32)}, "no finite number"),
    ):
        save_file(tensors | changed, folder / WEIGHTS)
        with pytest.raises(SetupError, match=told):
            load(folder)
    (folder / WEIGHTS).write_bytes(b"\x80\x04K*.")  # a pickle
    with pytest.raises(SetupError, match="as safetensors"):
        load(folder)


def test_folders_without_a_verifier_are_refused(folder, tmp_path):
    with pytest.raises(SetupError, match="holds no verifier"):
        load(tmp_path / "nowhere")
    for text, told in (
        ("{", "holds no verifier"),
        ("[]", "is no card"),
        ('{"format": 1}', "is no card"),
    ):
        (folder / CARD).write_text(text, "utf-8")
        with pytest.raises(SetupError, match=told):
            load(folder)
    with pytest.raises(SetupError, match="cannot write"):
        save(Ensemble.fresh(SMALL, 1, 0), folder / CARD, {})
