"""Batches fit what memory was seen to hold; whatever fails, every row is answered once."""

from itertools import pairwise

import pytest
from factories.memory import FakeMemory
from hypothesis import given, settings
from hypothesis import strategies as st

from render_agent.engines.transformers.memory.faults import Fault
from render_agent.engines.transformers.memory.oom_backoff import fit_rows
from render_agent.engines.transformers.memory.sizing import (
    GROW_AFTER,
    LONG_AGO,
    REACH,
    Ceiling,
    Sizing,
    grouped,
    line_above,
)

lengths_of_rows = st.lists(st.integers(1, 4000), min_size=1, max_size=60)


def padded(batch, lengths):
    return len(batch) * max(lengths[place] for place in batch)


class Device:
    """A model whose batches need fixed + per_token × tokens bytes of a fake memory."""

    def __init__(self, memory, fixed=1000, per_token=10, faults=()):
        self.memory = memory
        self.fixed, self.per_token = fixed, per_token
        self.faults = set(faults)
        self.tried = []
        self.failed = []

    def sized(self, most_rows=64):
        sizing = Sizing(self.memory, most_rows)
        self.sizing = sizing
        return sizing

    def attempt(self, lengths):
        def attempt(batch):
            call = len(self.tried)
            self.tried.append(list(batch))
            tokens = padded(batch, lengths)
            try:
                if call in self.faults:
                    raise MemoryError
                self.memory.reset_peak()
                self.memory.need(self.fixed + self.per_token * tokens)
            except MemoryError:
                self.failed.append(list(batch))
                return Fault("MemoryError", True)
            self.sizing.observe(tokens, self.memory.peak() - self.memory.used())
            return [f"row {place}" for place in batch]

        return attempt


@given(lengths_of_rows, st.integers(1, 20_000), st.integers(1, 70))
def test_batches_hold_every_row_once_within_the_limits(lengths, budget, limit):
    batches = grouped(range(len(lengths)), lengths, budget, limit)
    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    for batch in batches:
        assert batch == sorted(batch)
        assert len(batch) <= limit
        assert len(batch) == 1 or padded(batch, lengths) <= budget
    longest = [max(lengths[place] for place in batch) for batch in batches]
    shortest = [min(lengths[place] for place in batch) for batch in batches]
    assert all(low >= high for low, high in zip(shortest, longest[1:], strict=False))
    for batch, tokens, after in zip(batches, longest, batches[1:], strict=False):
        fuller = len(batch) + 1
        assert fuller > limit or fuller * tokens > budget, f"{after} begins too soon"


@given(st.lists(st.integers(1, 5), min_size=1, max_size=40), st.integers(1, 10))
def test_rows_of_one_length_keep_their_order(lengths, limit):
    flat = [p for batch in grouped(range(len(lengths)), lengths, None, limit) for p in batch]
    for length in set(lengths):
        same = [place for place in flat if lengths[place] == length]
        assert same == sorted(same)


@given(lengths_of_rows, st.one_of(st.none(), st.integers(1, 20_000)), st.integers(1, 70))
def test_the_next_batch_holds_who_waits_longest_and_the_most_alike(lengths, ceiling, limit):
    sizing = Sizing(FakeMemory(10**9), 64, ceiling=Ceiling(ceiling))
    batch = sizing.next_batch(lengths, limit)
    assert 0 in batch
    assert len(batch) == len(set(batch)) <= min(limit, 64)
    assert len(batch) == 1 or ceiling is None or padded(batch, lengths) <= ceiling
    held = [lengths[place] for place in batch]
    between = [p for p, length in enumerate(lengths) if min(held) < length < max(held)]
    assert set(between) <= set(batch), "no row is passed over for one that is less alike"
    if ceiling is None:
        assert len(batch) == min(limit, 64, len(lengths)), "full, where there are enough"


def test_nobody_starves_where_others_keep_coming():
    sizing = Sizing(FakeMemory(10**9), 4)
    waiting = [(0, 900)] + [(number, 10) for number in range(1, 8)]
    for arrival in range(8, 40, 4):
        batch = sizing.next_batch([tokens for _, tokens in waiting])
        oldest = waiting[0][0]
        assert oldest in {waiting[place][0] for place in batch}
        waiting = [entry for place, entry in enumerate(waiting) if place not in batch]
        waiting += [(arrival + more, 10) for more in range(4)]


@given(
    st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 10**12)), min_size=1, max_size=30),
)
def test_no_observation_lies_above_the_line(points):
    line = line_above(points)
    assert line.fixed >= 0
    assert line.per_token >= 1
    for tokens, count in points:
        assert line.needed(tokens) >= count * (1 - 1e-9) - 1
    assert line.tokens(line.fixed - 1) == 0


@given(st.integers(0, 10**9), st.integers(1, 10**6), st.integers(1, 10**5), st.integers(2, 50))
def test_two_probes_give_the_true_line(fixed, per_token, tokens, factor):
    sizing = Sizing(FakeMemory(10**15), 64)
    for count in (tokens, factor * tokens):
        sizing.observe(count, fixed + per_token * count)
    assert sizing.line.fixed == pytest.approx(fixed, rel=1e-6, abs=1)
    assert sizing.line.per_token == pytest.approx(per_token, rel=1e-6)
    assert sizing.budget() == REACH * factor * tokens


def test_the_budget_is_what_memory_holds_less_what_is_kept_free():
    memory = FakeMemory(100_000, taken=20_000)
    sizing = Sizing(memory, 64, fraction=0.1)
    assert sizing.budget() is None
    assert sizing.rows_that_fit(10**9) == 64
    sizing.observe(100, 1000 + 10 * 100)
    sizing.observe(1000, 1000 + 10 * 1000)
    assert sizing.budget() == 3400, "half, as far beyond what was seen"
    sizing.observe(4000, 1000 + 10 * 4000)
    assert sizing.budget() == 5000, "a quarter beyond what was seen"
    sizing.observe(6000, 1000 + 10 * 6000)
    assert sizing.budget() == 6900
    assert [sizing.rows_that_fit(tokens) for tokens in (10, 690, 700, 10_000)] == [64, 10, 9, 1]
    memory.taken = 60_000
    assert sizing.budget() == 2900
    memory.taken = 100_000
    assert sizing.budget() == 0
    assert sizing.rows_that_fit(10) == 1


def test_later_turns_get_smaller_batches_by_themselves():
    memory = FakeMemory(100_000)
    sizing = Sizing(memory, 64)
    sizing.observe(100, 2000)
    sizing.observe(8000, 81_000)
    turns = [[200 * turn] * 40 for turn in range(1, 9)]
    sizes = [max(len(batch) for batch in sizing.batches(turn)) for turn in turns]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 40
    assert sizes[-1] == 8900 // 1600


def test_old_observations_of_a_size_give_way_to_new_ones():
    """A first call also fills caches and work spaces that are there from then on."""
    sizing = Sizing(FakeMemory(10**9), 64)
    sizing.observe(100, 10**8)
    for _ in range(4):
        sizing.observe(100, 1000)
        sizing.observe(1000, 10_000)
    assert sizing.line.needed(1000) == pytest.approx(10_000)


def test_what_a_batch_really_needed_corrects_the_fit():
    sizing = Sizing(FakeMemory(100_000), 64)
    sizing.observe(10, 100)
    sizing.observe(40, 400)
    before = sizing.line.needed(1000)
    sizing.observe(500, 50_000)
    assert before < 11_000
    assert sizing.line.needed(500) >= 50_000


@settings(max_examples=200, deadline=None)
@given(
    lengths=lengths_of_rows,
    size=st.integers(2000, 500_000),
    limit=st.integers(1, 70),
    faults=st.sets(st.integers(0, 30), max_size=12),
    observed=st.booleans(),
)
def test_every_row_is_answered_once_whatever_fails(lengths, size, limit, faults, observed):
    device = Device(FakeMemory(size), faults=faults)
    sizing = device.sized()
    if observed:
        sizing.observe(1, 1010)
        sizing.observe(100, 2000)
    fitted = fit_rows(lengths, device.attempt(lengths), sizing, limit)

    assert len(fitted) == len(lengths)
    fits = [device.fixed + device.per_token * tokens <= size for tokens in lengths]
    tried_alone = [place for batch in device.tried if len(batch) == 1 for place in batch]
    for place, row in enumerate(fitted):
        if isinstance(row.outcome, Fault):
            assert tried_alone.count(place) == 2, "given up only alone, after a second trial"
            assert not fits[place] or len(device.failed) > sum(not fit for fit in fits)
        else:
            assert row.outcome == f"row {place}", "in the order of the rows"
            assert fits[place]

    answered = [p for batch in device.tried if batch not in device.failed for p in batch]
    assert len(answered) == len(set(answered)), "what was answered is not asked again"
    for number, batch in enumerate(device.tried):
        assert len(batch) <= limit
        earlier = [set(failed) for failed in device.failed if failed in device.tried[:number]]
        assert all(
            set(batch) < failed
            or not set(batch) & failed
            or (len(batch) == 1 and failed == set(batch))
            for failed in earlier
        ), "only what failed is divided"

    told = [event for row in fitted for event in row.events]
    failed_batches = len(device.failed)
    assert told.count("out_of_memory") == failed_batches
    assert told.count("batch_halved") == sum(len(batch) > 1 for batch in device.failed)


def test_a_row_that_cannot_fit_fails_alone_and_its_neighbours_do_not():
    lengths = [100, 9000, 100, 100, 9000, 100]
    device = Device(FakeMemory(50_000))
    fitted = fit_rows(lengths, device.attempt(lengths), device.sized())
    failed = [place for place, row in enumerate(fitted) if isinstance(row.outcome, Fault)]
    assert failed == [1, 4]
    assert all(isinstance(fitted[place].outcome, str) for place in (0, 2, 3, 5))


def test_a_lone_row_is_tried_once_more():
    lengths = [100]
    device = Device(FakeMemory(50_000), faults={0})
    (row,) = fit_rows(lengths, device.attempt(lengths), device.sized())
    assert row.outcome == "row 0"
    assert row.events == ("out_of_memory", "retried")


def test_only_the_batch_that_failed_is_halved():
    lengths = [100] * 12
    device = Device(FakeMemory(10**9), faults={1})
    fitted = fit_rows(lengths, device.attempt(lengths), device.sized(), 4)
    assert [len(batch) for batch in device.tried] == [4, 4, 2, 2, 2, 2]
    assert device.sizing.ceiling.tokens == 200
    assert [row.events for row in fitted if row.events] == [("out_of_memory", "batch_halved")]


def test_what_the_model_refuses_is_found_without_a_ceiling():
    lengths = [100] * 11

    def attempt(batch):
        return Fault("ValueError", False) if 6 in batch else list(batch)

    sizing = Sizing(FakeMemory(10**9), 64)
    fitted = fit_rows(lengths, attempt, sizing)
    assert [row.outcome for row in fitted if not isinstance(row.outcome, Fault)] == [
        place for place in range(11) if place != 6
    ]
    assert isinstance(fitted[6].outcome, Fault)
    assert sizing.ceiling.tokens is None
    assert not any(row.events for row in fitted)


def filled(device, lengths, times):
    """Take the same rows through the device again and again; return the largest batch of each time."""
    sizes = []
    for _ in range(times):
        start = len(device.tried)
        fitted = fit_rows(lengths, device.attempt(lengths), device.sizing)
        assert not any(isinstance(row.outcome, Fault) for row in fitted)
        sizes.append(max(len(batch) for batch in device.tried[start:]))
    return sizes


def blind(device, most_rows=64):
    """A sizing that never sees what batches need, as where memory is torn into fragments."""
    sizing = device.sized(most_rows)
    sizing.observe = lambda tokens, needed: None
    return sizing


def test_the_ceiling_grows_back_slowly_and_seldom_fails_again():
    device = Device(FakeMemory(40_500), fixed=0)
    sizing = blind(device)
    sizes = filled(device, [100] * 64, 300)
    assert sizes[0] == 64, "nothing was known"
    assert sizes[1] == 32
    assert max(len(batch) for batch in device.tried if batch not in device.failed) in (38, 39, 40)
    later = sizes[150:]
    assert sum(size >= 36 for size in later) > 0.9 * len(later)
    assert len(device.failed) <= 3 + len(device.tried) // LONG_AGO
    assert sizing.ceiling.tokens < 4400


def test_the_ceiling_recovers_at_once_when_memory_comes_back():
    memory = FakeMemory(1_000_000, taken=960_000)
    device = Device(memory)
    sizing = blind(device)
    lengths = [100] * 64
    assert filled(device, lengths, 2) == [64, 32]
    assert sizing.ceiling.tokens == 3200
    memory.taken = 100_000
    failures = len(device.failed)
    assert filled(device, lengths, 3)[-1] == 64
    assert len(device.failed) == failures


def test_where_memory_was_lost_for_good_what_fitted_before_is_forgotten():
    memory = FakeMemory(70_000)
    device = Device(memory, fixed=0)
    sizing = blind(device)
    lengths = [100] * 64
    assert filled(device, lengths, 3) == [64, 64, 64]
    memory.taken = 60_000
    assert max(filled(device, lengths, 2)[1:]) <= 10
    assert sizing.ceiling.tokens <= 1000


def test_growth_stays_below_where_it_failed_until_that_is_long_ago():
    ceiling = Ceiling()
    ceiling.failed(10, 1000, free=500)
    assert ceiling.tokens == 500
    grown = []
    for number in range(1, 3 * LONG_AGO):
        rows = ceiling.tokens // 100
        if ceiling.succeeded(rows, rows * 100, free=500, total=1000):
            grown.append((number, ceiling.tokens))
    steps = [number for number, _ in grown]
    assert all(later - earlier >= GROW_AFTER for earlier, later in pairwise(steps))
    assert max(tokens for number, tokens in grown if number < LONG_AGO) == 950
    assert grown[-1][1] > 1000


def test_batches_that_the_ceiling_does_not_hold_back_teach_nothing():
    ceiling = Ceiling()
    assert not ceiling.succeeded(4, 400, free=0, total=0)
    ceiling.failed(10, 1000, free=500)
    for _ in range(10 * GROW_AFTER):
        assert not ceiling.succeeded(2, 200, free=500, total=1000)
    assert ceiling.tokens == 500


def test_a_failure_of_a_larger_batch_does_not_raise_the_ceiling():
    ceiling = Ceiling()
    ceiling.failed(4, 400, free=0)
    ceiling.failed(100, 10_000, free=0)
    assert ceiling.tokens == 200
