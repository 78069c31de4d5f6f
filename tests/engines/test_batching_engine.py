"""How a batching engine divides requests, and the order of its replies."""

import pytest

from render_agent.engines.engine import BatchingEngine, Reply, Request


class CountingEngine(BatchingEngine):
    """Replies with the question id and records the size of every batch."""

    def __init__(self, batch_size):
        super().__init__(batch_size)
        self.batches = []

    def answer(self, requests):
        self.batches.append(len(requests))
        return [Reply((request.dialogue_id,), batch_size=len(requests)) for request in requests]


def requests(count):
    return [Request(str(number), 0, [], load_image=lambda file: None) for number in range(count)]


@pytest.mark.parametrize(
    ("count", "size", "batches"),
    [(0, 4, []), (1, 4, [1]), (4, 4, [4]), (5, 4, [4, 1]), (3, 1, [1, 1, 1]), (2, 100, [2])],
)
def test_generate_splits_requests_into_batches_and_keeps_their_order(count, size, batches):
    engine = CountingEngine(size)
    replies = engine.generate(requests(count))
    assert [reply.text for reply in replies] == [str(number) for number in range(count)]
    assert engine.batches == batches
    assert engine.calls == len(batches)
    assert [reply.batch_size for reply in replies] == [
        size for size in batches for _ in range(size)
    ]


def test_ready_answers_one_batch_of_submitted_requests():
    engine = CountingEngine(3)
    submitted = requests(5)
    engine.submit(submitted[:1])
    engine.submit(submitted[1:])
    first = list(engine.ready())
    assert [request for request, _ in first] == submitted[:3]
    assert all(request.dialogue_id == reply.text for request, reply in first)
    assert [reply.text for _, reply in engine.ready()] == ["3", "4"]
    assert list(engine.ready()) == []
    assert engine.calls == 2


class ParityEngine(CountingEngine):
    """Batches requests with odd and with even indices separately."""

    def arrange(self, requests):
        indices = range(len(requests))
        return [list(indices[1::2]), list(indices[0::2])]

    def choose(self, requests):
        return list(range(len(requests)))[::2][: self.batch_size]


def test_replies_keep_the_order_of_requests_when_batches_are_rearranged():
    engine = ParityEngine(3)
    batch_of_seven = requests(7)
    replies = engine.generate(batch_of_seven)
    assert [reply.text for reply in replies] == [str(number) for number in range(7)]
    assert engine.batches == [3, 4]
    engine.submit(batch_of_seven)
    answered = []
    while batch := list(engine.ready()):
        assert all(request.dialogue_id == reply.text for request, reply in batch)
        answered.append([reply.text for _, reply in batch])
    assert answered == [["0", "2", "4"], ["1", "5"], ["3"], ["6"]]
