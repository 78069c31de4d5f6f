"""The ensemble's scores: the same in three ways, against torch's own layers, and as they should depend."""

import numpy as np
import pytest
import torch
from factories.examples import SMALL, random_features, random_histories
from factories.naive_scoring import PlainPoolingBlock, score_one_by_one, score_repeated
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from render_agent_lab.learned_verifier.ensemble import Ensemble
from render_agent_lab.learned_verifier.history import Histories
from render_agent_lab.learned_verifier.network import (
    MemberNetwork,
    extract,
    positions,
)
from render_agent_lab.learned_verifier.shape import Features, Shape

MEDIUM = Shape(
    rows=3,
    columns=4,
    text=5,
    features=32,
    width=24,
    heads=3,
    blocks=2,
    history=6,
    layers=3,
    inner=40,
)


@pytest.mark.slow
@settings(max_examples=25)
@given(st.integers(0, 2**16), st.integers(1, 7), st.integers(1, 4), st.integers(0, 5))
def test_three_ways_give_the_same_scores(seed, count, members, shared):
    ensemble = Ensemble.fresh(MEDIUM, members, seed)
    features = random_features(MEDIUM, seed)
    histories = random_histories(MEDIUM, count, seed, shared)
    once = ensemble.score(features, histories)
    assert once.shape == (members, count)
    assert once.dtype == np.float32
    assert (np.abs(once) <= 1 + 1e-6).all()
    for other in (score_one_by_one, score_repeated):
        np.testing.assert_allclose(other(ensemble, features, histories), once, rtol=0, atol=1e-6)


def test_scores_differ_between_candidates_members_views_and_questions():
    ensemble, features = Ensemble.fresh(MEDIUM, 3, 0), random_features(MEDIUM, 0)
    histories, other = random_histories(MEDIUM, 5, 0), random_features(MEDIUM, 1)
    scores = ensemble.score(features, histories)
    assert len(np.unique(scores.round(4))) == scores.size
    for changed in (Features(other.patches, features.text), Features(features.patches, other.text)):
        assert np.abs(ensemble.score(changed, histories) - scores).min() > 1e-4


def test_a_member_is_the_same_alone_and_in_any_ensemble():
    three, one = Ensemble.fresh(MEDIUM, 3, seed=5), Ensemble.fresh(MEDIUM, 1, seed=5)
    first = three.member(0).parameters
    assert all(torch.equal(first[name], one.parameters[name]) for name in one.parameters)
    own = [n for n in first if not n.endswith(("bias", "norm.weight", "log_scale"))]
    assert own
    other = Ensemble.fresh(MEDIUM, 1, seed=6).parameters
    for name in own:
        assert not torch.equal(three.parameters[name][0], three.parameters[name][1])
        assert not torch.equal(three.parameters[name][0], other[name][0])
    features, histories = random_features(MEDIUM, 0), random_histories(MEDIUM, 4, 0)
    together = three.score(features, histories)
    alone = [three.member(m).score(features, histories)[0] for m in range(3)]
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-6)


def test_the_tower_sees_order_and_length_but_nothing_in_places_without_a_move():
    ensemble, features = Ensemble.fresh(MEDIUM, 2, 1), random_features(MEDIUM, 1)
    histories = random_histories(MEDIUM, 1, 3, empty=False)
    scores = ensemble.score(features, histories)
    swapped = histories.values.copy()
    swapped[:, [1, 2]] = swapped[:, [2, 1]]
    assert (
        np.abs(ensemble.score(features, Histories(swapped, histories.known)) - scores).min() > 1e-4
    )
    values, known = torch.as_tensor(histories.values), torch.as_tensor(histories.known).clone()
    known[..., :3] = False
    noise = values.clone()
    noise[..., :3, :] = 1e3
    kept, disturbed = (ensemble.embed(histories=(x, known))[0] for x in (values, noise))
    torch.testing.assert_close(kept, disturbed, rtol=0, atol=1e-6)


@torch.no_grad()
def jittered(shape, seed):
    """Return a network with parameters of which none is 0 or 1."""
    network, generator = MemberNetwork(shape), torch.Generator().manual_seed(seed)
    network.initialise(generator)
    for tensor in network.parameters():
        tensor += 0.1 * torch.randn(tensor.shape, generator=generator)
    return network


@torch.no_grad()
def test_the_tower_is_torchs_own_transformer():
    network = jittered(MEDIUM, 2)
    layer = nn.TransformerEncoderLayer(
        MEDIUM.width, MEDIUM.heads, MEDIUM.inner, 0.0, "gelu", batch_first=True, norm_first=True
    )
    tower = nn.TransformerEncoder(layer, MEDIUM.layers, enable_nested_tensor=False)
    for ours, its in zip(network.tower.layers, tower.layers, strict=True):
        its.self_attn.in_proj_weight.copy_(ours.qkv.weight)
        its.self_attn.in_proj_bias.copy_(ours.qkv.bias)
        for mine, copied in (
            (ours.out, its.self_attn.out_proj),
            (ours.norm, its.norm1),
            (ours.then.norm, its.norm2),
            (ours.then.up, its.linear1),
            (ours.then.down, its.linear2),
        ):
            copied.load_state_dict(mine.state_dict())
    histories = random_histories(MEDIUM, 5, 2, empty=False)
    values, known = torch.as_tensor(histories.values), torch.as_tensor(histories.known)
    ahead = torch.ones(MEDIUM.history, MEDIUM.history, dtype=torch.bool).triu(1)
    made = network.tower.norm(tower(network.move(values) + network.positions, mask=ahead))
    theirs = nn.functional.normalize(network.moves(made.mean(1)), dim=-1)
    (found,) = network(histories=(values, known))
    torch.testing.assert_close(found, theirs, rtol=0, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("plain", [False, True])
def test_a_pooling_is_torchs_own_attention(plain):
    shape = Shape(**(MEDIUM.to_json() | {"blocks": 1}))
    network = jittered(shape, 4)
    attention = nn.MultiheadAttention(
        shape.width, shape.heads, kdim=shape.features, vdim=shape.features, batch_first=True
    )
    contexts = tuple(torch.randn(3, shape.text, shape.features) for _ in range(2))
    pooled = []
    for pooling, x in zip((network.seen, network.asked), contexts, strict=True):
        (block,) = pooling.blocks
        attention.q_proj_weight.copy_(torch.eye(shape.width))
        attention.k_proj_weight.copy_(block.key.weight)
        attention.v_proj_weight.copy_(block.value.weight)
        attention.in_proj_bias.zero_()
        attention.in_proj_bias[-shape.width :] = block.value.bias
        attention.out_proj.load_state_dict(block.out.state_dict())
        query = pooling.query.expand(3, -1)
        asked = block.query(block.norm(query))
        query = query + attention(asked[:, None], x, x)[0][:, 0]
        pooled.append(pooling.norm(block.then(query)))
        if plain:
            block.__class__ = PlainPoolingBlock
    theirs = nn.functional.normalize(network.context(torch.cat(pooled, -1)), dim=-1)
    (found,) = network(contexts)
    torch.testing.assert_close(found, theirs, rtol=0, atol=1e-5)


def test_a_word_finds_its_patch_and_where_it_lies():
    shape = Shape(**(SMALL.to_json() | {"rows": 3, "columns": 5, "features": 64}))
    generator = torch.Generator().manual_seed(0)
    patches = torch.randn(1, shape.patches, shape.features, generator=generator)
    text = patches[:, [7, 2, 14]] * 3  # its length says nothing
    seen, asked = extract(shape, patches, text)
    place = positions(shape.rows, shape.columns, shape.features)
    there = nn.functional.layer_norm(patches, (shape.features,)) + place
    there = nn.functional.layer_norm(there, (shape.features,))
    likeness = nn.functional.cosine_similarity(seen[0][:, None], there, dim=-1)
    assert likeness.argmax(1).tolist() == [7, 2, 14]
    assert likeness.max(1).values.min() > 0.95
    torch.testing.assert_close(asked, nn.functional.layer_norm(text, (shape.features,)))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"heads": 5}, "heads do not divide"),
        ({"features": 30}, "divisible by 4"),
        ({"rows": 0}, "rows is a whole number"),
        ({"layers": 1.5}, "layers is a whole number"),
    ],
)
def test_shapes_that_cannot_be_are_refused(wrong, told):
    with pytest.raises(ValueError, match=told):
        Shape(**(MEDIUM.to_json() | wrong))
    with pytest.raises(ValueError, match="depth"):
        Shape.from_json(MEDIUM.to_json() | {"depth": 3})


def test_features_and_histories_that_do_not_fit_are_refused():
    ensemble, features = Ensemble.fresh(MEDIUM, 1, 0), random_features(MEDIUM, 0)
    histories = random_histories(MEDIUM, 2, 0)
    broken = features.patches.copy()
    broken[3, 3] = np.nan
    for patches, text, told in (
        (features.text, features.text, "patches of"),
        (features.patches, features.patches, "text of"),
        (features.patches.astype(np.float64), features.text, "float64"),
        (broken, features.text, "not finite"),
    ):
        with pytest.raises(ValueError, match=told):
            ensemble.score(Features(patches, text), histories)
    with pytest.raises(ValueError, match="moves of"):
        ensemble.score(features, random_histories(SMALL, 2, 0))
