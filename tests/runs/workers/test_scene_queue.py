"""How scenes are dispatched: each to one worker at a time, evenly, and none lost with a worker that dies."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from render_agent.runs.workers.scene_queue import (
    MAX_BATCHES_PER_TASK,
    MAX_DEATHS_IN_A_ROW,
    SceneQueue,
    share,
)

SIZES = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.integers(1, 60), min_size=1)


def queue_of(sizes):
    return SceneQueue(sizes, lambda scene: sizes[scene])


@given(SIZES, st.integers(1, 6), st.integers(1, 40))
def test_every_scene_is_taken_once_largest_first(sizes, workers, batch_size):
    queue = queue_of(sizes)
    taken = []
    while queue:
        task = queue.take(0, batch_size, range(workers), workers)
        assert task
        taken += task
    assert Counter(taken) == Counter(list(sizes))
    assert [sizes[scene] for scene in taken] == sorted(sizes.values(), reverse=True)


def test_tasks_fill_two_batches_while_there_is_plenty_and_shrink_to_an_even_end():
    sizes = {f"{number:03d}": 1 for number in range(1000)}
    queue = queue_of(sizes)
    tasks = []
    while queue:
        tasks.append(len(queue.take(0, 16, range(2), 1)))
    assert tasks[:4] == [MAX_BATCHES_PER_TASK * 16] * 4
    assert tasks == sorted(tasks, reverse=True)
    before = [1000 - sum(tasks[:number]) for number in range(len(tasks))]
    assert all(task >= 32 for task, left in zip(tasks, before, strict=True) if left > 128)
    assert set(tasks[-4:-1]) == {16}


@given(st.integers(1, 5000), st.integers(1, 128), st.integers(1, 16), st.data())
def test_a_share_is_of_what_is_there(questions, batch_size, workers, data):
    free = data.draw(st.integers(1, workers))
    got = share(questions, batch_size, workers, free)
    assert 1 <= got <= questions
    assert got <= MAX_BATCHES_PER_TASK * batch_size
    if questions >= 4 * batch_size * workers:
        assert got >= 2 * batch_size
    if free == workers and questions <= workers * batch_size:
        assert got == -(-questions // workers)


def play(sizes, workers, kills):
    """Hand scenes to workers in turn; kills(worker, task) says who dies. Give the scenes done and given up."""
    left = dict(sizes)
    queue = SceneQueue(sizes, lambda scene: left[scene])
    in_a_row = Counter()
    places = set(range(workers))
    done, given_up = [], []
    while queue and places:
        taken = False
        for worker in sorted(places):
            task = queue.take(worker, 4, places, 1)
            taken = taken or bool(task)
            if not task:
                continue
            if kills(worker, task):
                lost = queue.give_back(worker, task)
                given_up += lost
                in_a_row[worker] = 0 if lost else in_a_row[worker] + 1
                if in_a_row[worker] >= MAX_DEATHS_IN_A_ROW:
                    places.remove(worker)
            else:
                in_a_row[worker] = 0
                done += task
        assert taken or not queue, "all wait for each other"
    return done, given_up, places


@given(SIZES, st.integers(1, 4), st.data())
def test_only_the_scenes_that_kill_are_given_up(sizes, workers, data):
    deadly = data.draw(st.sets(st.sampled_from(sorted(sizes)), max_size=2))
    done, given_up, places = play(sizes, workers, lambda worker, task: deadly & {*task})
    assert places
    assert Counter(done) == Counter(sizes.keys() - deadly)
    assert Counter(given_up) == Counter(deadly)


@given(SIZES, st.integers(2, 4))
def test_a_worker_that_dies_of_anything_spoils_no_scene(sizes, workers):
    done, given_up, _ = play(sizes, workers, lambda worker, task: worker == 0)
    assert not given_up
    assert Counter(done) == Counter(list(sizes))
