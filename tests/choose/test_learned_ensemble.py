"""The ensemble's scores: the same in three ways, against torch's own layers, and as they should depend."""

import numpy as np
import pytest
import torch
from factories.examples import SMALL, random_features, random_histories
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from render_agent.agents.verifiers.learned.context import embed_context, extract, positions
from render_agent.agents.verifiers.learned.ensemble import (
    Ensemble,
    score_one_by_one,
    score_repeated,
)
from render_agent.agents.verifiers.learned.features import Features
from render_agent.agents.verifiers.learned.history import Histories
from render_agent.agents.verifiers.learned.layers import MANY_ROWS, feed_forward, linear, norm
from render_agent.agents.verifiers.learned.parameters import initial, member, sizes
from render_agent.agents.verifiers.learned.shape import Shape
from render_agent.agents.verifiers.learned.tower import embed_histories, shared_moves

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
    for changed in (
        Features(other.patches, features.text),
        Features(features.patches, other.text),
    ):
        assert np.abs(ensemble.score(changed, histories) - scores).min() > 1e-4


def test_a_member_is_the_same_alone_and_in_any_ensemble():
    three, one = initial(MEDIUM, 3, seed=5), initial(MEDIUM, 1, seed=5)
    assert all(torch.equal(member(three, 0)[name], one[name]) for name in one)
    own = [name for name in three if not name.endswith(("bias", "gain", "log_scale"))]
    assert own
    for name in own:
        assert not torch.equal(three[name][0], three[name][1])
        assert not torch.equal(three[name][0], initial(MEDIUM, 1, seed=6)[name][0])
    features, histories = random_features(MEDIUM, 0), random_histories(MEDIUM, 4, 0)
    together = Ensemble(MEDIUM, three).score(features, histories)
    alone = [Ensemble(MEDIUM, member(three, m)).score(features, histories)[0] for m in range(3)]
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
    p = ensemble.parameters
    values, known = torch.as_tensor(histories.values)[None], torch.as_tensor(histories.known)[None]
    known = known.clone()
    known[..., :3] = False
    noise = values.clone()
    noise[..., :3, :] = 1e3
    kept, disturbed = (embed_histories(MEDIUM, p, x, known) for x in (values, noise))
    torch.testing.assert_close(kept, disturbed, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("shared", "counted"), [(0, 0), (2, 2), (5, 5), (6, 5)])
def test_what_histories_share_is_found(shared, counted):
    histories = random_histories(MEDIUM, 4, 0, shared, empty=False)
    tensors = torch.as_tensor(histories.values), torch.as_tensor(histories.known)
    assert shared_moves(*tensors) == counted
    assert shared_moves(*(x[:1] for x in tensors)) == MEDIUM.history - 1


def test_the_tower_is_torchs_own_transformer():
    p = initial(MEDIUM, 1, seed=2)
    layer = nn.TransformerEncoderLayer(
        MEDIUM.width, MEDIUM.heads, MEDIUM.inner, 0.0, "gelu", batch_first=True, norm_first=True
    )
    tower = nn.TransformerEncoder(layer, MEDIUM.layers, enable_nested_tensor=False)
    with torch.no_grad():
        for number, its in enumerate(tower.layers):
            theirs = {
                "qkv.weight": its.self_attn.in_proj_weight,
                "qkv.bias": its.self_attn.in_proj_bias,
                "out.weight": its.self_attn.out_proj.weight,
                "out.bias": its.self_attn.out_proj.bias,
                "norm.gain": its.norm1.weight,
                "norm.bias": its.norm1.bias,
                "then.norm.gain": its.norm2.weight,
                "then.norm.bias": its.norm2.bias,
                "then.up.weight": its.linear1.weight,
                "then.up.bias": its.linear1.bias,
                "then.down.weight": its.linear2.weight,
                "then.down.bias": its.linear2.bias,
            }
            for name, tensor in theirs.items():
                p[f"tower.{number}.{name}"] = tensor[None].clone() + 0.1
                tensor += 0.1
        histories = random_histories(MEDIUM, 5, 2, empty=False)
        values = torch.as_tensor(histories.values)
        x = values @ p["move.weight"][0].T + p["move.bias"][0] + p["positions"][0]
        ahead = torch.ones(MEDIUM.history, MEDIUM.history, dtype=torch.bool).triu(1)
        made = norm(p, "tower.norm", tower(x, mask=ahead)[None])
        theirs = made.mean(2) @ p["moves.weight"][0].T + p["moves.bias"][0]
        ours = embed_histories(MEDIUM, p, values[None], torch.as_tensor(histories.known)[None])
    torch.testing.assert_close(ours, nn.functional.normalize(theirs, dim=-1), rtol=0, atol=1e-5)


def test_a_pooling_is_torchs_own_attention():
    shape = Shape(**(MEDIUM.to_json() | {"blocks": 1}))
    p = initial(shape, 1, seed=4)
    attention = nn.MultiheadAttention(
        shape.width, shape.heads, kdim=shape.features, vdim=shape.features, batch_first=True
    )
    tokens = tuple(torch.randn(1, 3, shape.text, shape.features) for _ in range(2))
    pooled = []
    with torch.no_grad():
        for name, x in zip(("seen", "asked"), tokens, strict=True):
            here = f"{name}.0"
            p[f"{here}.value.bias"] += 0.3
            attention.q_proj_weight.copy_(torch.eye(shape.width))
            attention.k_proj_weight.copy_(p[f"{here}.key.weight"][0])
            attention.v_proj_weight.copy_(p[f"{here}.value.weight"][0])
            attention.in_proj_bias.zero_()
            attention.in_proj_bias[-shape.width :] = p[f"{here}.value.bias"][0]
            attention.out_proj.weight.copy_(p[f"{here}.out.weight"][0])
            attention.out_proj.bias.copy_(p[f"{here}.out.bias"][0])
            query = p[f"{name}.query"].expand(3, -1)
            inner = norm(p, f"{here}.norm", query[None])[0]
            asked = inner @ p[f"{here}.query.weight"][0].T + p[f"{here}.query.bias"][0]
            query = query + attention(asked[:, None], x[0], x[0])[0][:, 0]
            up = norm(p, f"{here}.then.norm", query[None])[0] @ p[f"{here}.then.up.weight"][0].T
            query = query + nn.functional.gelu(up) @ p[f"{here}.then.down.weight"][0].T
            pooled.append(norm(p, f"{name}.norm", query[None])[0])
        theirs = torch.cat(pooled, -1) @ p["context.weight"][0].T
        for folded in (True, False):
            ours = embed_context(shape, p, tokens, folded=folded)[0]
            expected = nn.functional.normalize(theirs, dim=-1)
            torch.testing.assert_close(ours, expected, rtol=0, atol=1e-5)


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


def test_every_place_of_the_grid_is_its_own():
    place = positions(4, 6, 32)
    assert place.shape == (24, 32)
    apart = torch.cdist(place, place) + torch.eye(24) * 9
    assert apart.min() > 0.3
    by_place = place.view(4, 6, 32)
    assert (by_place[:, :1, :16] == by_place[..., :16]).all()
    assert (by_place[:1, :, 16:] == by_place[..., 16:]).all()


def test_the_sizes_of_the_published_ensemble_are_the_defaults():
    shape = Shape()
    assert (shape.patches, shape.text, shape.features) == (576, 64, 1024)
    assert (shape.width, shape.heads, shape.blocks, shape.history, shape.layers) == (
        512,
        8,
        4,
        10,
        4,
    )
    assert sum(map(np.prod, sizes(shape).values())) == pytest.approx(42.8e6, rel=0.01)
    assert Shape.from_json(shape.to_json()) == shape


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
    with pytest.raises(ValueError, match="missing or unknown: depth"):
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


@pytest.mark.parametrize("rows", [1, MANY_ROWS - 1, MANY_ROWS, 3 * MANY_ROWS])
@pytest.mark.parametrize("shared", [False, True])
def test_products_of_many_rows_are_those_of_few(rows, shared):
    """While nothing is learned oneDNN multiplies many rows; what is learned goes by torch's own product."""
    generator = torch.Generator().manual_seed(rows)
    sizes = {"up.weight": (3, 40, 24), "up.bias": (3, 40), "key.weight": (3, 24, 24)}
    sizes |= {"down.weight": (3, 24, 40), "down.bias": (3, 24)}
    sizes |= {"norm.gain": (3, 24), "norm.bias": (3, 24)}
    p = {f"x.{name}": torch.randn(size, generator=generator) for name, size in sizes.items()}
    x = torch.randn(1 if shared else 3, rows, 24, generator=generator)
    whole = x.expand(3, -1, -1)
    wanted = torch.einsum("mri,moi->mro", whole, p["x.up.weight"]) + p["x.up.bias"][:, None]
    learned = feed_forward(p, "x", whole)
    with torch.inference_mode():
        torch.testing.assert_close(linear(p, "x.up", x), wanted)
        keys = torch.einsum("mri,moi->mro", whole, p["x.key.weight"])
        torch.testing.assert_close(linear(p, "x.key", x), keys)
        torch.testing.assert_close(feed_forward(p, "x", whole), learned)
