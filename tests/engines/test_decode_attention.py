"""Attention of one token a row gives what the library's gives, with nothing copied."""

import pytest
import torch
from factories.models import small_model
from torch.nn.functional import scaled_dot_product_attention

from render_agent.engines.transformers.attention import attend, one_token_a_row
from render_agent.engines.transformers.opening import open_model


@pytest.mark.parametrize(("heads", "shared"), [(4, 4), (4, 2), (8, 2), (6, 1)])
def test_heads_that_share_keys_attend_as_if_each_had_its_own(heads, shared):
    torch.manual_seed(heads)
    rows, tokens, width = 3, 17, 8
    query = torch.randn(rows, heads, 1, width)
    key, value = torch.randn(2, rows, shared, tokens, width)
    mask = torch.arange(tokens) < torch.tensor([5, 17, 9])[:, None]
    mask = mask[:, None, None]
    found, _ = attend(None, query, key, value, mask, scaling=0.3)
    expected = scaled_dot_product_attention(
        query,
        key.repeat_interleave(heads // shared, 1),
        value.repeat_interleave(heads // shared, 1),
        attn_mask=mask,
        scale=0.3,
    )
    assert found.shape == (rows, 1, heads, width)
    torch.testing.assert_close(found, expected.transpose(1, 2))


def test_a_model_attends_so_within_only():
    loaded = open_model(str(small_model()), device="cpu")
    config = loaded.model.config
    with one_token_a_row(loaded.model):
        assert config.get_text_config()._attn_implementation == "one_token_a_row"
        assert config.vision_config._attn_implementation == "sdpa"
        own = loaded.model.model.language_model.layers[0].self_attn.config
        assert own is config.get_text_config()
    assert config.get_text_config()._attn_implementation == "sdpa"


def test_another_way_of_attention_is_left_alone():
    loaded = open_model(str(small_model()), device="cpu", options={"attn_implementation": "eager"})
    with one_token_a_row(loaded.model):
        assert loaded.model.config.get_text_config()._attn_implementation == "eager"
