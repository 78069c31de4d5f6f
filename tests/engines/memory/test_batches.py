"""Rows are divided into batches that fit in memory, and each is answered once despite faults."""

from hypothesis import given, settings
from hypothesis import strategies as st

from render_agent.engines.memory.batches import GROW_AFTER, Batches
from render_agent.engines.memory.faults import Fault

OUT_OF_MEMORY, REJECTED = Fault("MemoryError", True), Fault("ValueError", False)


class Device:
    """A fake model whose batches fit up to a number of rows; some calls run out of memory, some rows are rejected."""

    def __init__(self, most_rows, faults=(), rejected=()):
        self.most_rows, self.faults, self.rejected = most_rows, set(faults), set(rejected)
        self.tried, self.failed = [], []

    def call(self, rows):
        number = len(self.tried)
        self.tried.append(list(rows))
        fault = None
        if number in self.faults or len(rows) > self.most_rows:
            fault = OUT_OF_MEMORY
            self.failed.append(list(rows))
        elif self.rejected & set(rows):
            fault = REJECTED
        return fault or [f"row {row}" for row in rows]


@settings(max_examples=200)
@given(
    count=st.integers(0, 40),
    limit=st.integers(1, 50),
    fitting=st.integers(0, 50),
    faults=st.sets(st.integers(0, 30), max_size=12),
    rejected=st.sets(st.integers(0, 39), max_size=3),
)
def test_every_row_is_answered_once_despite_faults(count, limit, fitting, faults, rejected):
    device, batches = Device(fitting, faults, rejected), Batches(limit)
    outcomes = batches.run(range(count), device.call)
    assert len(outcomes) == count
    for row, outcome in enumerate(outcomes):
        alone = device.tried.count([row])
        if outcome is OUT_OF_MEMORY:
            assert device.failed.count([row]) == 2, "a single row fails only after one retry"
        elif outcome is REJECTED:
            assert row in rejected
            assert alone >= 1, "a row is rejected only alone"
        else:
            assert outcome == f"row {row}"
            assert row not in rejected
    assert all(len(batch) <= limit for batch in device.tried)
    events = batches.take_events()
    assert events.count("out_of_memory") == len(device.failed)
    assert events.count("batch_halved") == sum(len(batch) > 1 for batch in device.failed)
    assert batches.take_events() == ()


def test_limit_is_remembered_and_raised_after_successes():
    device, batches = Device(40), Batches(64)
    sizes = []
    for _ in range(100):
        start = len(device.tried)
        assert OUT_OF_MEMORY not in batches.run(range(64), device.call)
        sizes.append(max(len(batch) for batch in device.tried[start:]))
    assert set(sizes) == {32, 64}
    assert len(device.failed) <= 1 + len(device.tried) // GROW_AFTER
