import pytest

from render_agent.engines.engine import BatchingEngine, Reply, Request


class Counting(BatchingEngine):
    """Replies with the question's id, and keeps the size of every batch."""

    def __init__(self, batch_size):
        super().__init__(batch_size)
        self.batches = []

    def answer(self, requests):
        self.batches.append(len(requests))
        return [Reply((request.question_id,), batch_size=len(requests)) for request in requests]


def requests(count):
    return [Request(str(number), 0, [], picture=lambda file: None) for number in range(count)]


@pytest.mark.parametrize(
    ("count", "size", "batches"),
    [(0, 4, []), (1, 4, [1]), (4, 4, [4]), (5, 4, [4, 1]), (3, 1, [1, 1, 1]), (2, 100, [2])],
)
def test_generate_answers_everything_in_order_batch_after_batch(count, size, batches):
    engine = Counting(size)
    replies = engine.generate(requests(count))
    assert [reply.text for reply in replies] == [str(number) for number in range(count)]
    assert engine.batches == batches
    assert engine.calls == len(batches)
    assert [reply.batch_size for reply in replies] == [
        size for size in batches for _ in range(size)
    ]


def test_ready_gives_one_batch_of_what_was_submitted_with_its_requests():
    engine = Counting(3)
    asked = requests(5)
    engine.submit(asked[:1])
    engine.submit(asked[1:])
    first = list(engine.ready())
    assert [request for request, _ in first] == asked[:3]
    assert all(request.question_id == reply.text for request, reply in first)
    assert [reply.text for _, reply in engine.ready()] == ["3", "4"]
    assert list(engine.ready()) == []
    assert engine.calls == 2


class Sorting(Counting):
    """Puts requests of one parity together."""

    def arrange(self, requests):
        places = range(len(requests))
        return [list(places[1::2]), list(places[0::2])]

    def choose(self, requests):
        return list(range(len(requests)))[::2][: self.batch_size]


def test_however_requests_are_grouped_replies_keep_their_order():
    engine = Sorting(3)
    asked = requests(7)
    assert [reply.text for reply in engine.generate(asked)] == [str(number) for number in range(7)]
    assert engine.batches == [3, 4]
    engine.submit(asked)
    answered = []
    while batch := list(engine.ready()):
        assert all(request.question_id == reply.text for request, reply in batch)
        answered.append([reply.text for _, reply in batch])
    assert answered == [["0", "2", "4"], ["1", "5"], ["3"], ["6"]]
