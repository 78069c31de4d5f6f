"""Batches fit in the measured memory, and every row is answered once despite faults."""

from factories.memory import FakeMemory
from hypothesis import given, settings
from hypothesis import strategies as st

from render_agent.engines.memory.faults import Fault
from render_agent.engines.transformers.factory import fit_cost
from render_agent.engines.transformers.sizing import (
    GROW_AFTER,
    MAX_GROWTH,
    Sizing,
    fit_rows,
    split_by_length,
)

row_lengths = st.lists(st.integers(1, 4000), min_size=1, max_size=60)


def padded(batch, lengths):
    return len(batch) * max(lengths[index] for index in batch)


class Device:
    """A fake model whose batches need fixed + per_token × tokens bytes of a fake memory."""

    def __init__(self, memory, fixed=1000, per_token=10, faults=()):
        self.memory = memory
        self.fixed, self.per_token = fixed, per_token
        self.faults = set(faults)
        self.tried = []
        self.failed = []

    def make_sizing(self, most_rows=64):
        self.sizing = Sizing(self.memory, most_rows)
        return self.sizing

    def attempt(self, lengths):
        def attempt(batch):
            call = len(self.tried)
            self.tried.append(list(batch))
            tokens = padded(batch, lengths)
            try:
                if call in self.faults:
                    raise MemoryError
                self.memory.reset_peak()
                self.memory.allocate(self.fixed + self.per_token * tokens)
            except MemoryError:
                self.failed.append(list(batch))
                return Fault("MemoryError", True)
            self.sizing.observe(tokens, self.memory.peak() - self.memory.used())
            return [f"row {index}" for index in batch]

        return attempt


@given(row_lengths, st.integers(1, 20_000), st.integers(1, 70))
def test_batches_contain_every_row_once_within_the_limits(lengths, budget, limit):
    batches = split_by_length(range(len(lengths)), lengths, budget, limit)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert batch == sorted(batch)
        assert len(batch) <= limit
        assert len(batch) == 1 or padded(batch, lengths) <= budget
    longest = [max(lengths[index] for index in batch) for batch in batches]
    shortest = [min(lengths[index] for index in batch) for batch in batches]
    assert all(low >= high for low, high in zip(shortest, longest[1:], strict=False))
    for batch, tokens, following in zip(batches, longest, batches[1:], strict=False):
        larger = len(batch) + 1
        assert larger > limit or larger * tokens > budget, f"{following} starts too early"


@given(st.tuples(*[st.integers(1, 10**5)] * 2), st.tuples(*[st.integers(0, 10**10)] * 2))
def test_fitted_cost_is_an_upper_bound(tokens, bytes_taken):
    points = sorted(zip(tokens, bytes_taken, strict=True))
    for observed in (points, points[:1]):
        fixed, per_token = fit_cost(observed)
        assert fixed >= 0
        assert per_token >= 1
        for count, needed in observed:
            assert fixed + per_token * count >= needed * (1 - 1e-9) - 1


@given(row_lengths, st.one_of(st.none(), st.integers(1, 20_000)))
def test_next_batch_is_full_and_contains_the_first_row(lengths, limit):
    sizing = Sizing(FakeMemory(10**9), 16)
    sizing.ceiling.limit = limit
    batch = sizing.next_batch(lengths)
    assert 0 in batch
    assert len(batch) == len(set(batch)) <= 16
    assert len(batch) == 1 or limit is None or padded(batch, lengths) <= limit
    if limit is None:
        assert len(batch) == min(16, len(lengths))


def test_budget_leaves_a_fraction_of_memory_free():
    memory = FakeMemory(100_000, taken=20_000)
    sizing = Sizing(memory, 64, fraction=0.1)
    assert sizing.budget() is None
    assert sizing.rows_that_fit(10**9) == 64
    sizing.observe(100, 1000)
    assert sizing.budget() == MAX_GROWTH * 100, "limited relative to the largest batch so far"
    sizing.observe(4000, 40_000)
    assert sizing.budget() == 7000
    sizing.observe(100, 90_000)
    assert sizing.budget() == 7000, "smaller batches are ignored"
    assert [sizing.rows_that_fit(tokens) for tokens in (10, 700, 701, 10_000)] == [64, 10, 9, 1]
    memory.taken = 60_000
    assert sizing.budget() == 3000
    memory.taken = 100_000
    assert sizing.budget() == 0
    assert sizing.rows_that_fit(10) == 1


@settings(max_examples=200, deadline=None)
@given(
    lengths=row_lengths,
    size=st.integers(2000, 500_000),
    limit=st.integers(1, 70),
    faults=st.sets(st.integers(0, 30), max_size=12),
    observed=st.booleans(),
)
def test_every_row_is_answered_once_despite_faults(lengths, size, limit, faults, observed):
    device = Device(FakeMemory(size), faults=faults)
    sizing = device.make_sizing(limit)
    if observed:
        sizing.observe(1, 1010)
        sizing.observe(100, 2000)
    results = fit_rows(lengths, device.attempt(lengths), sizing)

    assert len(results) == len(lengths)
    fits = [device.fixed + device.per_token * tokens <= size for tokens in lengths]
    tried_alone = [index for batch in device.tried if len(batch) == 1 for index in batch]
    for index, row in enumerate(results):
        if isinstance(row, Fault):
            assert tried_alone.count(index) == 2, "a single row fails only after one retry"
            assert not fits[index] or len(device.failed) > sum(not fit for fit in fits)
        else:
            assert row == f"row {index}", "results are in the order of the rows"
            assert fits[index]

    answered = [p for batch in device.tried if batch not in device.failed for p in batch]
    assert len(answered) == len(set(answered)), "no row is answered twice"
    for number, batch in enumerate(device.tried):
        assert len(batch) <= limit
        earlier = [set(failed) for failed in device.failed if failed in device.tried[:number]]
        assert all(
            set(batch) < failed
            or not set(batch) & failed
            or (len(batch) == 1 and failed == set(batch))
            for failed in earlier
        ), "only failed batches are divided"

    events = sizing.take_events()
    assert events.count("out_of_memory") == len(device.failed)
    assert events.count("batch_halved") == sum(len(batch) > 1 for batch in device.failed)


def test_ceiling_recovers_and_rarely_fails_again():
    device = Device(FakeMemory(40_500), fixed=0)
    sizing = device.make_sizing()
    sizing.observe = lambda tokens, needed: None  # imitates fragmented memory
    sizes = []
    for _ in range(100):
        start = len(device.tried)
        results = fit_rows([100] * 64, device.attempt([100] * 64), sizing)
        assert not any(isinstance(row, Fault) for row in results)
        sizes.append(max(len(batch) for batch in device.tried[start:]))
    assert sizes[:2] == [64, 32], "before any observation"
    assert set(sizes[2:]) == {32, 64}
    assert len(device.failed) <= 1 + len(device.tried) // GROW_AFTER
