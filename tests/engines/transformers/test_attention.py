"""Attention over pages gives what attention over whole dialogues gives, with nothing repeated."""

import pytest
import torch
from factories.models import small_model
from torch.nn.functional import scaled_dot_product_attention

from render_agent.engines.transformers.attention import (
    PAGED,
    SEEING,
    DecodeAttention,
    KeyRecorder,
    PackedPrompt,
    PrefillAttention,
    attending,
    causal,
    page_index,
    page_slots,
)
from render_agent.engines.transformers.kv_cache import PAGE_TOKENS, LayerPages
from render_agent.engines.transformers.model.load import open_model


def expected(query, key, value, mask):
    """What the library computes: keys repeated for every head, (tokens, heads, width)."""
    times = query.shape[1] // key.shape[1]
    query, key, value = (part.transpose(0, 1)[None] for part in (query, key, value))
    found = scaled_dot_product_attention(
        query,
        key.repeat_interleave(times, 1),
        value.repeat_interleave(times, 1),
        attn_mask=mask,
        scale=0.3,
    )
    return found[0].transpose(0, 1)


@pytest.mark.parametrize(("heads", "shared"), [(4, 4), (4, 2), (8, 2), (6, 1)])
@pytest.mark.parametrize(("new", "tokens"), [(1, 1), (5, 5), (1, 9), (4, 9)])
def test_the_last_tokens_attend_to_all_before_them(heads, shared, new, tokens):
    torch.manual_seed(heads)
    query = torch.randn(new, heads, 8)
    key, value = torch.randn(2, tokens, shared, 8)
    mask = torch.ones(tokens, tokens, dtype=torch.bool).tril()[-new:]
    torch.testing.assert_close(
        causal(query, key, value, 0.3), expected(query, key, value, mask), atol=1e-6, rtol=1e-5
    )


@pytest.mark.parametrize("scattered", [False, True])
def test_packed_prompts_and_rows_see_their_own_pages_alone(scattered):
    torch.manual_seed(1)
    lengths, starts = (300, 20, 513), (0, 7, 511)
    own = [[7, 2], [5], [1, 9, 3]] if scattered else [[1, 2], [3], [4, 5, 6]]
    keys, values = torch.full((2, 10, PAGE_TOKENS, 2, 8), torch.nan)
    pages = LayerPages(keys, values)
    whole = [torch.randn(2, length, 2, 8) for length in lengths]
    slots = [
        torch.tensor([p[t // PAGE_TOKENS] * PAGE_TOKENS + t % PAGE_TOKENS for t in range(n)])
        for p, n in zip(own, lengths, strict=True)
    ]
    for place, (key, value), start in zip(slots, whole, starts, strict=True):
        pages.flat[0][place[:start]], pages.flat[1][place[:start]] = key[:start], value[:start]
    new = [length - start for length, start in zip(lengths, starts, strict=True)]
    query = torch.randn(sum(new), 4, 8)
    bounds = torch.tensor([0, *new]).cumsum(0).tolist()
    prompts = [
        PackedPrompt(bounds[n], bounds[n + 1], page_index(own[n], "cpu"), lengths[n])
        for n in range(3)
    ]
    call = PrefillAttention(
        [pages], torch.cat([s[start:] for s, start in zip(slots, starts, strict=True)]), prompts
    )
    key, value = (
        torch.cat([w[part][start:] for w, start in zip(whole, starts, strict=True)])
        for part in (0, 1)
    )
    found = call(0, query, key, value, 0.3).split(new)
    for rows, queries, (key, value) in zip(found, query.split(new), whole, strict=True):
        torch.testing.assert_close(rows, causal(queries, key, value, 0.3))

    query, key, value = torch.randn(3, 4, 8), torch.randn(3, 2, 8), torch.randn(3, 2, 8)
    tables = torch.tensor([p + [0] * (3 - len(p)) for p in own], dtype=torch.int32)
    places = page_slots(tables, torch.tensor(lengths))
    rows = [(page_index(p, "cpu"), n + 1) for p, n in zip(own, lengths, strict=True)]
    decode = DecodeAttention([pages], places, tables, torch.tensor(lengths) + 1, rows)
    found = decode(0, query, key, value, 0.3)
    for row, (keys, values) in enumerate(whole):
        longer = torch.cat([keys, key[row : row + 1]]), torch.cat([values, value[row : row + 1]])
        torch.testing.assert_close(found[row], causal(query[row : row + 1], *longer, 0.3)[0])


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_model_attends_so_within_only(attention):
    options = {"attn_implementation": attention}
    loaded = open_model(str(small_model()), device="cpu", options=options)
    config = loaded.model.config
    own_words = config.get_text_config()._attn_implementation
    assert own_words in (attention, SEEING)
    with attending(loaded.model, KeyRecorder()):
        assert config.get_text_config()._attn_implementation == PAGED
        assert config.vision_config._attn_implementation == attention
        own = loaded.model.model.language_model.layers[0].self_attn.config
        assert own is config.get_text_config()
    assert config.get_text_config()._attn_implementation == own_words
