"""Attention over pages equals attention over complete dialogues."""

import pytest
import torch
from factories.models import small_model
from torch.nn.functional import scaled_dot_product_attention

from render_agent.engines.transformers.attention import (
    PAGED,
    UNMASKED_SDPA,
    DecodeAttention,
    KeyRecorder,
    PackedPrompt,
    PrefillAttention,
    attend_with,
    causal_attention,
    page_index,
    page_slots,
)
from render_agent.engines.transformers.kv_cache import PAGE_TOKENS, LayerPages
from render_agent.engines.transformers.model.load import open_model


def expected(query, key, value, mask):
    """Reference implementation with keys repeated for every head, (tokens, heads, width)."""
    group = query.shape[1] // key.shape[1]
    query, key, value = (part.transpose(0, 1)[None] for part in (query, key, value))
    output = scaled_dot_product_attention(
        query,
        key.repeat_interleave(group, 1),
        value.repeat_interleave(group, 1),
        attn_mask=mask,
        scale=0.3,
    )
    return output[0].transpose(0, 1)


@pytest.mark.parametrize(("heads", "shared"), [(4, 4), (4, 2), (8, 2), (6, 1)])
@pytest.mark.parametrize(("new", "tokens"), [(1, 1), (5, 5), (1, 9), (4, 9)])
def test_last_tokens_attend_to_all_earlier_ones(heads, shared, new, tokens):
    torch.manual_seed(heads)
    query = torch.randn(new, heads, 8)
    key, value = torch.randn(2, tokens, shared, 8)
    mask = torch.ones(tokens, tokens, dtype=torch.bool).tril()[-new:]
    torch.testing.assert_close(
        causal_attention(query, key, value, 0.3),
        expected(query, key, value, mask),
        atol=1e-6,
        rtol=1e-5,
    )


@pytest.mark.parametrize("scattered", [False, True])
def test_packed_prompts_and_rows_attend_only_to_their_own_pages(scattered):
    torch.manual_seed(1)
    lengths, starts = (300, 20, 513), (0, 7, 511)
    page_numbers = [[7, 2], [5], [1, 9, 3]] if scattered else [[1, 2], [3], [4, 5, 6]]
    keys, values = torch.full((2, 10, PAGE_TOKENS, 2, 8), torch.nan)
    pages = LayerPages(keys, values)
    dialogues = [torch.randn(2, length, 2, 8) for length in lengths]
    slots = [
        torch.tensor([p[t // PAGE_TOKENS] * PAGE_TOKENS + t % PAGE_TOKENS for t in range(n)])
        for p, n in zip(page_numbers, lengths, strict=True)
    ]
    for dialogue_slots, (key, value), start in zip(slots, dialogues, starts, strict=True):
        earlier = dialogue_slots[:start]
        pages.flat[0][earlier], pages.flat[1][earlier] = key[:start], value[:start]
    new = [length - start for length, start in zip(lengths, starts, strict=True)]
    query = torch.randn(sum(new), 4, 8)
    bounds = torch.tensor([0, *new]).cumsum(0).tolist()
    prompts = [
        PackedPrompt(bounds[n], bounds[n + 1], page_index(page_numbers[n], "cpu"), lengths[n])
        for n in range(3)
    ]
    call = PrefillAttention(
        [pages], torch.cat([s[start:] for s, start in zip(slots, starts, strict=True)]), prompts
    )
    key, value = (
        torch.cat([w[part][start:] for w, start in zip(dialogues, starts, strict=True)])
        for part in (0, 1)
    )
    outputs = call(0, query, key, value, 0.3).split(new)
    for rows, queries, (key, value) in zip(outputs, query.split(new), dialogues, strict=True):
        torch.testing.assert_close(rows, causal_attention(queries, key, value, 0.3))

    query, key, value = torch.randn(3, 4, 8), torch.randn(3, 2, 8), torch.randn(3, 2, 8)
    tables = torch.tensor([p + [0] * (3 - len(p)) for p in page_numbers], dtype=torch.int32)
    new_slots = page_slots(tables, torch.tensor(lengths))
    rows = [(page_index(p, "cpu"), n + 1) for p, n in zip(page_numbers, lengths, strict=True)]
    decode = DecodeAttention([pages], new_slots, tables, torch.tensor(lengths) + 1, rows)
    outputs = decode(0, query, key, value, 0.3)
    for row, (keys, values) in enumerate(dialogues):
        longer = torch.cat([keys, key[row : row + 1]]), torch.cat([values, value[row : row + 1]])
        torch.testing.assert_close(
            outputs[row], causal_attention(query[row : row + 1], *longer, 0.3)[0]
        )


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_attention_is_replaced_only_within_the_context(attention):
    options = {"attn_implementation": attention}
    loaded = open_model(str(small_model()), device="cpu", options=options)
    config = loaded.model.config
    original = config.get_text_config()._attn_implementation
    assert original in (attention, UNMASKED_SDPA)
    with attend_with(loaded.model, KeyRecorder()):
        assert config.get_text_config()._attn_implementation == PAGED
        assert config.vision_config._attn_implementation == attention
        layer = loaded.model.model.language_model.layers[0]
        assert layer.self_attn.config is config.get_text_config()
    assert config.get_text_config()._attn_implementation == original
