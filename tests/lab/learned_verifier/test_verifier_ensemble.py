"""The ensemble's scores: three equivalent computations, comparison with torch layers, and dependence on inputs."""

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
    patch_positions,
)
from render_agent_lab.learned_verifier.shape import Features, VerifierShape

MEDIUM = VerifierShape(
    rows=3, columns=4, text=5, features=32, width=24, heads=3, blocks=2, history=6, layers=3, inner=40
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=25)
@given(st.integers(0, 2**16), st.integers(1, 7), st.integers(1, 4), st.integers(0, 5))
def test_three_computations_give_the_same_scores(seed, count, members, shared):
    ensemble = Ensemble.fresh(MEDIUM, members, seed)
    features = random_features(MEDIUM, seed)
    histories = random_histories(MEDIUM, count, seed, shared)
    once = ensemble.score(features, histories)
    assert once.shape == (members, count)
    assert once.dtype == np.float32
    assert (np.abs(once) <= 1 + 1e-6).all()
    for other in (score_one_by_one, score_repeated):
        np.testing.assert_allclose(other(ensemble, features, histories), once, rtol=0, atol=1e-6)


def test_scores_depend_on_candidate_member_view_and_question():
    ensemble, features = Ensemble.fresh(MEDIUM, 3, 0), random_features(MEDIUM, 0)
    histories, other = random_histories(MEDIUM, 5, 0), random_features(MEDIUM, 1)
    scores = ensemble.score(features, histories)
    assert len(np.unique(scores.round(4))) == scores.size
    for changed in (Features(other.patches, features.text), Features(features.patches, other.text)):
        assert np.abs(ensemble.score(changed, histories) - scores).min() > 1e-4


def test_member_is_independent_of_the_ensemble():
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
    scores = three.score(features, histories)
    single = [three.member(m).score(features, histories)[0] for m in range(3)]
    np.testing.assert_allclose(scores, single, rtol=0, atol=1e-6)


def test_tower_sees_order_and_length_but_not_padding():
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
    clean, disturbed = (ensemble.embed(histories=(x, known))[0] for x in (values, noise))
    torch.testing.assert_close(clean, disturbed, rtol=0, atol=1e-6)


@torch.no_grad()
def jittered(shape, seed):
    """Return a network in which no parameter is 0 or 1."""
    network, generator = MemberNetwork(shape), torch.Generator().manual_seed(seed)
    network.initialise(generator)
    for tensor in network.parameters():
        tensor += 0.1 * torch.randn(tensor.shape, generator=generator)
    return network


@torch.no_grad()
def test_tower_matches_torch_transformer():
    network = jittered(MEDIUM, 2)
    layer = nn.TransformerEncoderLayer(
        MEDIUM.width, MEDIUM.heads, MEDIUM.inner, 0.0, "gelu", batch_first=True, norm_first=True
    )
    tower = nn.TransformerEncoder(layer, MEDIUM.layers, enable_nested_tensor=False)
    for ours, theirs in zip(network.tower.layers, tower.layers, strict=True):
        theirs.self_attn.in_proj_weight.copy_(ours.qkv.weight)
        theirs.self_attn.in_proj_bias.copy_(ours.qkv.bias)
        for source, target in (
            (ours.out, theirs.self_attn.out_proj),
            (ours.norm, theirs.norm1),
            (ours.then.norm, theirs.norm2),
            (ours.then.up, theirs.linear1),
            (ours.then.down, theirs.linear2),
        ):
            target.load_state_dict(source.state_dict())
    histories = random_histories(MEDIUM, 5, 2, empty=False)
    values, known = torch.as_tensor(histories.values), torch.as_tensor(histories.known)
    ahead = torch.ones(MEDIUM.history, MEDIUM.history, dtype=torch.bool).triu(1)
    output = network.tower.norm(tower(network.move(values) + network.positions, mask=ahead))
    expected = nn.functional.normalize(network.moves(output.mean(1)), dim=-1)
    (embedded,) = network(histories=(values, known))
    torch.testing.assert_close(embedded, expected, rtol=0, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("plain", [False, True])
def test_pooling_matches_torch_attention(plain):
    shape = VerifierShape(**(MEDIUM.to_json() | {"blocks": 1}))
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
        projected = block.query(block.norm(query))
        query = query + attention(projected[:, None], x, x)[0][:, 0]
        pooled.append(pooling.norm(block.then(query)))
        if plain:
            block.__class__ = PlainPoolingBlock
    expected = nn.functional.normalize(network.context(torch.cat(pooled, -1)), dim=-1)
    (embedded,) = network(contexts)
    torch.testing.assert_close(embedded, expected, rtol=0, atol=1e-5)


def test_token_attends_to_its_patch_and_position():
    shape = VerifierShape(**(SMALL.to_json() | {"rows": 3, "columns": 5, "features": 64}))
    generator = torch.Generator().manual_seed(0)
    patches = torch.randn(1, shape.patches, shape.features, generator=generator)
    text = patches[:, [7, 2, 14]] * 3  # the norm does not matter
    seen, asked = extract(shape, patches, text)
    place = patch_positions(shape.rows, shape.columns, shape.features)
    expected = nn.functional.layer_norm(patches, (shape.features,)) + place
    expected = nn.functional.layer_norm(expected, (shape.features,))
    similarity = nn.functional.cosine_similarity(seen[0][:, None], expected, dim=-1)
    assert similarity.argmax(1).tolist() == [7, 2, 14]
    assert similarity.max(1).values.min() > 0.95
    torch.testing.assert_close(asked, nn.functional.layer_norm(text, (shape.features,)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 5}, "heads"),
        ({"features": 30}, "features"),
        ({"rows": 0}, "rows .* 0"),
        ({"layers": 1.5}, "layers .* 1.5"),
    ],
)
def test_invalid_shapes_are_rejected(changes, message):
    with pytest.raises(ValueError, match=message):
        VerifierShape(**(MEDIUM.to_json() | changes))
    with pytest.raises(ValueError, match="depth"):
        VerifierShape.from_json(MEDIUM.to_json() | {"depth": 3})


def test_features_and_histories_of_other_sizes_are_rejected():
    ensemble, features = Ensemble.fresh(MEDIUM, 1, 0), random_features(MEDIUM, 0)
    histories = random_histories(MEDIUM, 2, 0)
    broken = features.patches.copy()
    broken[3, 3] = np.nan
    for patches, text, message in (
        (features.text, features.text, "patches"),
        (features.patches, features.patches, "text"),
        (features.patches.astype(np.float64), features.text, "float64"),
        (broken, features.text, "finite"),
    ):
        with pytest.raises(ValueError, match=message):
            ensemble.score(Features(patches, text), histories)
    with pytest.raises(ValueError, match="moves"):
        ensemble.score(features, random_histories(SMALL, 2, 0))
