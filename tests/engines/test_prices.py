"""The table of prices, and the cost of tokens."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from render_agent.dialogue.tokens import Tokens
from render_agent.engines.prices import TABLE, Price, find_price, read_prices
from render_agent.errors import UsageError

MILLION = 10**6
COUNT = st.integers(0, 10**9)
TOKENS = st.builds(Tokens, COUNT, COUNT, COUNT, COUNT, COUNT)
USD = st.floats(0, 1000)
PRICES = st.builds(Price, st.just(("m",)), USD, USD, st.none() | USD, st.none() | USD)


@st.composite
def consistent_tokens(draw):
    """Counts whose cached and written parts fit into the prompt."""
    fresh, cached, written, reply = (draw(COUNT) for _ in range(4))
    return Tokens(fresh + cached + written, reply, cached, draw(st.integers(0, reply)), written)


def test_each_kind_of_token_has_its_price():
    price = Price(("m",), 4, 20, 0.5, 5)
    assert price.cost(Tokens(MILLION)) == 4
    assert price.cost(Tokens(MILLION, cached=MILLION)) == 0.5
    assert price.cost(Tokens(MILLION, cache_written=MILLION)) == 5
    assert price.cost(Tokens(reply=MILLION, thought=MILLION)) == 20
    assert price.cost(Tokens(3 * MILLION, MILLION, MILLION, 0, MILLION)) == 4 + 0.5 + 5 + 20
    assert Price(("m",), 4, 20).cost(Tokens(MILLION, 0, MILLION // 2, 0, MILLION // 2)) == 4


@given(PRICES, st.lists(consistent_tokens(), max_size=5))
def test_cost_is_additive(price, counts):
    total = price.cost(Tokens.total(counts))
    assert total == pytest.approx(sum(map(price.cost, counts)))


@given(PRICES, TOKENS)
def test_cost_is_bounded_whatever_is_cached(price, tokens):
    highest = (tokens.prompt * price.most_per_prompt_token + tokens.reply * price.reply) / MILLION
    assert 0 <= price.cost(tokens) <= highest * (1 + 1e-9)


def test_bundled_rows_have_a_date_and_a_source():
    rows = read_prices(TABLE)
    names = [name for row in rows for name in row.models]
    assert len(names) == len(set(names))
    for row in rows:
        assert row.date is not None
        assert row.source.startswith("https://")
        assert row.cached is not None
        assert row.cached < row.prompt < row.reply
        assert row.cache_write is None or row.cache_write == pytest.approx(1.25 * row.prompt)
        assert all(find_price(name) == row for name in row.models)


@pytest.mark.parametrize(
    ("model", "plain"),
    [
        ("openai/gpt-5", "gpt-5"),
        ("gpt-5-2025-08-07", "gpt-5"),
        ("GPT-5-mini", "gpt-5-mini"),
        ("claude-haiku-4-5-20251001", "claude-haiku-4-5"),
        ("claude-haiku-4-5@20251001", "claude-haiku-4-5"),
        ("anthropic/claude-haiku-4-5", "claude-haiku-4-5"),
    ],
)
def test_provider_and_snapshot_do_not_matter(model, plain):
    assert find_price(model) == find_price(plain) is not None


@pytest.mark.parametrize("model", ["gpt-oss-120b", "gpt-5-pro", "small", "claude-opus-55", "", "5"])
def test_unknown_model_has_no_price(model):
    assert find_price(model) is None


def test_first_matching_row_of_a_file_is_used(tmp_path):
    rows = [
        {"models": ["made-mini*", "other"], "in": 1, "out": 2},
        {"models": ["made*"], "in": 3, "out": 4},
    ]
    for name, text in (("p.json", json.dumps(rows)), ("p.yaml", str(rows).replace("'", '"'))):
        file = tmp_path / name
        file.write_text(text)
        prices = [find_price(model, str(file)) for model in ("made-mini-2", "made-x", "gpt-5")]
        assert [price and price.prompt for price in prices] == [1, 3, None]


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("models: [a]", "list of rows"),
        ("", "list of rows"),
        ("[", "line 1"),
        ("- 3", "$[0]"),
        ("- {models: [a], in: 1, out: 2}\n- {models: [a], in: 1}", "$[1]"),
        ("- {models: [a], in: -1, out: 2}", "$[0].in"),
        ("- {models: [a], in: .nan, out: 2}", "$[0].in"),
        ("- {models: [], in: 1, out: 2}", "$[0].models"),
        ("- {models: [a], in: 1, out: 2, chached: 3}", "chached"),
        ("- {models: [a], in: 1, out: 2, date: soon}", "$[0].date"),
    ],
)
def test_error_in_a_table_names_the_file_and_the_place_in_one_line(tmp_path, text, detail):
    file = tmp_path / "prices.yaml"
    file.write_text(text)
    with pytest.raises(UsageError) as raised:
        find_price("a", str(file))
    assert detail in str(raised.value)
    assert str(file) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_missing_table_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="--prices"):
        find_price("a", str(tmp_path / "none.yaml"))
