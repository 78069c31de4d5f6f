"""How scenes are dealt: each to one worker at a time, evenly, and none lost with a worker that dies."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from render_agent.runs.workers.scene_queue import MOST_BATCHES, MOST_IN_A_ROW, Deck, share

SIZES = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.integers(1, 60), min_size=1)


def deck_of(sizes):
    return Deck(sizes, lambda scene: sizes[scene])


@given(SIZES, st.integers(1, 6), st.integers(1, 40))
def test_every_scene_is_dealt_once_largest_first(sizes, workers, batch_size):
    deck = deck_of(sizes)
    dealt = []
    while deck:
        hand = deck.deal(0, batch_size, range(workers), workers)
        assert hand
        dealt += hand
    assert Counter(dealt) == Counter(list(sizes))
    assert [sizes[scene] for scene in dealt] == sorted(sizes.values(), reverse=True)


def test_hands_fill_two_batches_while_there_is_plenty_and_shrink_to_an_even_end():
    sizes = {f"{number:03d}": 1 for number in range(1000)}
    deck = deck_of(sizes)
    hands = []
    while deck:
        hands.append(len(deck.deal(0, 16, range(2), 1)))
    assert hands[:4] == [MOST_BATCHES * 16] * 4
    assert hands == sorted(hands, reverse=True)
    before = [1000 - sum(hands[:number]) for number in range(len(hands))]
    assert all(hand >= 32 for hand, left in zip(hands, before, strict=True) if left > 128)
    assert set(hands[-4:-1]) == {16}


@given(st.integers(1, 5000), st.integers(1, 128), st.integers(1, 16), st.data())
def test_a_share_is_of_what_is_there(questions, batch_size, workers, data):
    free = data.draw(st.integers(1, workers))
    got = share(questions, batch_size, workers, free)
    assert 1 <= got <= questions
    assert got <= MOST_BATCHES * batch_size
    if questions >= 4 * batch_size * workers:
        assert got >= 2 * batch_size
    if free == workers and questions <= workers * batch_size:
        assert got == -(-questions // workers)


def play(sizes, workers, kills):
    """Deal to workers in turn; kills(worker, hand) says who dies. Give the scenes done and given up."""
    left = dict(sizes)
    deck = Deck(sizes, lambda scene: left[scene])
    in_a_row = Counter()
    places = set(range(workers))
    done, given_up = [], []
    while deck and places:
        dealt = False
        for worker in sorted(places):
            hand = deck.deal(worker, 4, places, 1)
            dealt = dealt or bool(hand)
            if not hand:
                continue
            if kills(worker, hand):
                lost = deck.lost(worker, hand)
                given_up += lost
                in_a_row[worker] = 0 if lost else in_a_row[worker] + 1
                if in_a_row[worker] >= MOST_IN_A_ROW:
                    places.remove(worker)
            else:
                in_a_row[worker] = 0
                done += hand
        assert dealt or not deck, "all wait for each other"
    return done, given_up, places


@given(SIZES, st.integers(1, 4), st.data())
def test_only_the_scenes_that_kill_are_given_up(sizes, workers, data):
    deadly = data.draw(st.sets(st.sampled_from(sorted(sizes)), max_size=2))
    done, given_up, places = play(sizes, workers, lambda worker, hand: deadly & {*hand})
    assert places
    assert Counter(done) == Counter(sizes.keys() - deadly)
    assert Counter(given_up) == Counter(deadly)


@given(SIZES, st.integers(2, 4))
def test_a_worker_that_dies_of_anything_spoils_no_scene(sizes, workers):
    done, given_up, _ = play(sizes, workers, lambda worker, hand: worker == 0)
    assert not given_up
    assert Counter(done) == Counter(list(sizes))
