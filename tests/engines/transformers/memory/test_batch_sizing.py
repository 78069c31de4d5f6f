"""Batches fit what memory was seen to hold; whatever fails, every row is answered once."""

from factories.memory import FakeMemory
from hypothesis import given, settings
from hypothesis import strategies as st

from render_agent.engines.memory.faults import Fault
from render_agent.engines.transformers.memory.budget import line_above
from render_agent.engines.transformers.memory.sizing import (
    GROW_AFTER,
    MAX_GROWTH,
    Sizing,
    fit_rows,
    grouped,
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


@given(st.tuples(*[st.integers(1, 10**5)] * 2), st.tuples(*[st.integers(0, 10**10)] * 2))
def test_no_observation_lies_above_the_line(tokens, bytes_taken):
    points = sorted(zip(tokens, bytes_taken, strict=True))
    for seen in (points, points[:1]):
        line = line_above(seen)
        assert line.fixed >= 0
        assert line.per_token >= 1
        assert line.tokens(line.fixed - 1) == 0
        for count, needed in seen:
            assert line.needed(count) >= needed * (1 - 1e-9) - 1


@given(lengths_of_rows, st.one_of(st.none(), st.integers(1, 20_000)))
def test_the_next_batch_holds_who_waits_longest_and_is_full(lengths, most):
    sizing = Sizing(FakeMemory(10**9), 16)
    sizing.ceiling.most = most
    batch = sizing.next_batch(lengths)
    assert 0 in batch
    assert len(batch) == len(set(batch)) <= 16
    assert len(batch) == 1 or most is None or padded(batch, lengths) <= most
    if most is None:
        assert len(batch) == min(16, len(lengths))


def test_the_budget_is_what_memory_holds_less_what_is_kept_free():
    memory = FakeMemory(100_000, taken=20_000)
    sizing = Sizing(memory, 64, fraction=0.1)
    assert sizing.budget() is None
    assert sizing.rows_that_fit(10**9) == 64
    sizing.observe(100, 1000)
    assert sizing.budget() == MAX_GROWTH * 100, "so far is dared beyond what was seen"
    sizing.observe(4000, 40_000)
    assert sizing.budget() == 7000
    sizing.observe(100, 90_000)
    assert sizing.budget() == 7000, "a smaller batch teaches nothing"
    assert [sizing.rows_that_fit(tokens) for tokens in (10, 700, 701, 10_000)] == [64, 10, 9, 1]
    memory.taken = 60_000
    assert sizing.budget() == 3000
    memory.taken = 100_000
    assert sizing.budget() == 0
    assert sizing.rows_that_fit(10) == 1


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
    sizing = device.sized(limit)
    if observed:
        sizing.observe(1, 1010)
        sizing.observe(100, 2000)
    fitted = fit_rows(lengths, device.attempt(lengths), sizing)

    assert len(fitted) == len(lengths)
    fits = [device.fixed + device.per_token * tokens <= size for tokens in lengths]
    tried_alone = [place for batch in device.tried if len(batch) == 1 for place in batch]
    for place, row in enumerate(fitted):
        if isinstance(row, Fault):
            assert tried_alone.count(place) == 2, "given up only alone, after a second trial"
            assert not fits[place] or len(device.failed) > sum(not fit for fit in fits)
        else:
            assert row == f"row {place}", "in the order of the rows"
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

    told = sizing.take_events()
    failed_batches = len(device.failed)
    assert told.count("out_of_memory") == failed_batches
    assert told.count("batch_halved") == sum(len(batch) > 1 for batch in device.failed)


def test_the_ceiling_grows_back_and_seldom_fails_again():
    device = Device(FakeMemory(40_500), fixed=0)
    sizing = device.sized()
    sizing.observe = lambda tokens, needed: None  # as where memory is torn into fragments
    sizes = []
    for _ in range(100):
        start = len(device.tried)
        fitted = fit_rows([100] * 64, device.attempt([100] * 64), sizing)
        assert not any(isinstance(row, Fault) for row in fitted)
        sizes.append(max(len(batch) for batch in device.tried[start:]))
    assert sizes[:2] == [64, 32], "nothing was known"
    assert set(sizes[2:]) == {32, 64}
    assert len(device.failed) <= 1 + len(device.tried) // GROW_AFTER
