import math

import numpy as np
import pytest
from factories.runs import make_config, make_questions

from render_agent.engines.scripted import Replies, ScriptedEngine
from render_agent.runs.forecast import (
    FEWEST_TURNS,
    KNOWN_SECONDS,
    KNOWN_TURNS,
    PACE_ERROR,
    SHARP_RANGE,
    Cost,
    Dialogue,
    Forecast,
)
from render_agent.runs.log.folder import RunFolder
from render_agent.runs.phase_controller import Silent
from render_agent.runs.runner import start_run

STEP = '{"forward_meters": 0.5}'
DONE = '{"answer": "3", "done": true}'
TOKENS = 20


def fresh(count, kind=""):
    return [Dialogue(kind, active=True)] * count


def ended(turns, count=1, kind=""):
    return [Dialogue(kind, [TOKENS] * turns)] * count


def middle(forecast):
    return math.sqrt(math.prod(forecast.range))


def turns_to_come(forecast):
    return float(turns_in(forecast).mean())


def turns_in(forecast):
    return forecast.futures[:, :2].sum(1)


def take(forecast, places, clock, *, each=0.0, batch=1, ended=False):
    """Have the questions at these places take a turn, of so many seconds each; return when the last was."""
    for place in places:
        clock += each
        forecast.took(place, batch, clock, TOKENS, ended=ended)
    return clock


def play(forecast, lengths, clock=0.0, *, each=1.0):
    """Take dialogues of these lengths to their ends, one after the other, from the first place on."""
    for place, length in enumerate(lengths):
        for number in range(length):
            clock = take(forecast, [place], clock, each=each, ended=number + 1 == length)
    return clock


def played(lengths, max_turns, size, rng):
    """Yield a run's turns in batches of a size: all take the first, then those that go on the second."""
    clock = 3.0  # scans are read
    for number in range(max_turns):
        active = [place for place, length in enumerate(lengths) if length > number]
        for begin in range(0, len(active), size):
            batch = active[begin : begin + size]
            clock += 0.4 * len(batch) * rng.lognormal(0, 0.2)
            for place in batch:
                yield clock, place, len(batch), lengths[place] == number + 1


def test_what_is_told_is_as_sure_as_it_says():
    rng, inside, near, known = np.random.default_rng(0), [], [], []
    for _ in range(30):
        max_turns = int(rng.integers(4, 12))
        hazard = rng.beta(1, 4)
        lengths = np.minimum(rng.geometric(max(hazard, 0.01), 48), max_turns)
        turns = list(played(lengths, max_turns, 8, rng))
        forecast = Forecast(max_turns, fresh(48), batched_turns=max_turns)
        total, shares = turns[-1][0], iter((0.25, 0.5, 0.75, 2.0))
        share = next(shares)
        for at, place, batch, last in turns:
            if at > share * total:
                known.append(forecast.range is not None)
                if forecast.range:
                    low, high = forecast.range
                    left = (1 - share) * total
                    inside.append(low <= left <= high)
                    if high <= SHARP_RANGE * low:
                        near.append(1 / 1.5 <= middle(forecast) / left <= 1.5)
                share = next(shares)
            forecast.took(place, batch, at, TOKENS, ended=last)
    assert np.mean(known) > 0.7
    assert np.mean(inside) > 0.8
    assert len(near) > 20
    assert np.mean(near) > 0.9


def test_the_last_turn_ends_every_question():
    forecast = Forecast(4, [Dialogue("", [TOKENS] * 3, active=True)] * 5)
    assert (turns_in(forecast) == 5).all()


def test_dialogues_of_equal_length_are_told_by_their_number():
    forecast = Forecast(20, fresh(80), finish_together=1)
    play(forecast, [5] * 40)
    assert middle(forecast) == pytest.approx(40 * 5, rel=0.1)
    low, high = forecast.range
    assert high < SHARP_RANGE * low


def test_geometric_lengths_are_told_by_their_mean():
    lengths = np.random.default_rng(3).geometric(0.25, 400).clip(max=40)
    forecast = Forecast(40, fresh(800), finish_together=1)
    play(forecast, lengths)
    assert middle(forecast) == pytest.approx(400 * lengths.mean(), rel=0.1)


@pytest.mark.parametrize("kind", ["short", "long"])
def test_types_of_unlike_length_are_told_apart(kind):
    shapes = {"short": 1, "long": 8}
    asked = [*fresh(60, "short"), *fresh(20, "long"), *fresh(40, kind)]
    forecast = Forecast(12, asked, finish_together=1)
    play(forecast, [*[1] * 60, *[8] * 20])
    assert middle(forecast) == pytest.approx(40 * shapes[kind], rel=0.25)


def test_a_last_dialogue_of_long_replies_takes_its_own_time():
    # a turn takes 0.1 s and a step 0.01 s: side by side sixteen replies share their steps
    forecast, clock, tokens = Forecast(9, fresh(161), batched_turns=9), 0.0, 20
    for number in range(8):
        for begin in range(0, 160, 16):
            batch = range(begin, begin + 16)
            clock += 16 * 0.1 + tokens * 0.01
            for place in batch:
                forecast.took(place, 16, clock, tokens, ended=number == 7)
        if number < 5:
            clock += 0.1 + 500 * 0.01
            forecast.took(160, 1, clock, 500, ended=False)
    left = 3 * (0.1 + 500 * 0.01)  # all end in their eighth turn
    assert middle(forecast) == pytest.approx(left, rel=0.2)
    assert left > 10 * 3 * (0.1 + tokens * 0.01)  # what other turns took


def rates_of(batches, seconds_of):
    """Return what a first turn, a later one and a step take on the average, where batches take first turns, later ones and steps so."""
    cost, clock, done = Cost(), 0.0, np.zeros(3)
    for number, (firsts, later) in enumerate(batches):
        steps = TOKENS * (1 + number % 3)
        clock += seconds_of(firsts, later, steps)
        for turn in range(firsts + later):
            done = np.add(done, [turn < firsts, turn >= firsts, steps / (firsts + later)])
            cost.add(firsts + later, steps, done, clock, one_by_one=False)
    return cost.rates(256)


def test_what_a_turn_and_a_step_take_is_found_where_batches_differ():
    batches = [(16, 0), (0, 16), (8, 2), (0, 4), (1, 1), (1, 0), (0, 1)] * 30
    rates = rates_of(
        batches, lambda firsts, later, steps: 0.5 * firsts + 0.2 * later + 0.02 * steps
    )
    first, later, step = rates.mean(0)
    assert first == pytest.approx(0.5, rel=0.1)
    assert later == pytest.approx(0.2, rel=0.15)
    assert step == pytest.approx(0.02, rel=0.3)  # a guess weighs as much as a block
    alike = rates_of([(16, 0)] * 200, lambda firsts, *_: 0.5 * firsts)
    # what a later turn takes is as sure as the guess where none was taken
    assert alike[:, 1].std() > 5 * alike[:, 0].std()


def test_neither_a_turn_nor_a_step_takes_less_than_nothing():
    # a batch costs more than its turns alone
    batches = [(0, size) for size in [16, 8, 4, 2, 1] * 40]
    rates = rates_of(batches, lambda _, later, steps: 1.0 * later**2)
    assert rates.min() >= 0
    assert rates.mean() > 0


def side_by_side(replies, rows, prompt, step):
    """Yield the turns of an engine that reads a prompt as soon as a reply ends: when, whose, of how many rows, its tokens, if the last.

    replies: the tokens of each reply of each dialogue.
    """
    waiting, clock, places, taken = iter(range(len(replies))), 0.0, {}, [0] * len(replies)
    going = True
    while going:
        while len(places) < rows and (place := next(waiting, None)) is not None:
            places[place] = []
            clock += prompt
        clock += step
        for place in sorted(places):
            places[place].append(len(places))
            if len(places[place]) == replies[place][taken[place]]:
                written = places.pop(place)
                taken[place] += 1
                ends = taken[place] == len(replies[place])
                yield clock, place, round(np.mean(written)), len(written), ends
                if not ends:
                    places[place] = []
                    clock += prompt
        going = bool(places)


def told_of(replies, shares, *, rows=8, longest=512):
    """Return what was told over what was true at shares of a run whose dialogues go on side by side; nan for nothing."""
    turns = list(side_by_side(replies, rows, prompt=0.5, step=0.03))
    forecast, total, told = Forecast(9, fresh(len(replies)), longest=longest), turns[-1][0], []
    for at, place, batch, tokens, ends in turns:
        forecast.took(place, batch, at, tokens, ended=ends)
        if len(told) < len(shares) and at > shares[len(told)] * total:
            told.append(middle(forecast) / (total - at) if forecast.range else math.nan)
    return np.array(told)


def short_replies(count, seed=5):
    """Return dialogues of one to three turns of few tokens."""
    rng = np.random.default_rng(seed)
    return [list(rng.integers(10, 40, rng.integers(1, 4))) for _ in range(count)]


def test_a_reply_that_is_not_there_yet_is_known_to_be_long():
    replies = short_replies(120)
    replies[4] = [512] * 9  # its first is there after more than a third of the run
    told = told_of(replies, (0.25, 0.5, 0.75))
    assert np.allclose(np.log(told), 0, atol=math.log(1.5))


@pytest.mark.parametrize("seed", range(6))
def test_few_long_replies_are_foreseen_where_some_were_seen(seed):
    replies, rng = short_replies(240, seed), np.random.default_rng(seed)
    for place in rng.choice(240, 24, replace=False):
        replies[place] = [int(min(500, 100 * rng.pareto(1) + 100))] * 3
    told = told_of(replies, (0.25, 0.5, 0.75))
    assert np.allclose(np.log(told), 0, atol=math.log(1.5))


@pytest.mark.parametrize("rows", [4, 32])
def test_turns_that_were_begun_cost_no_prompt_any_more(rows):
    told = told_of(short_replies(10 * rows), (0.5, 0.75, 0.9), rows=rows)
    assert np.allclose(np.log(told), 0, atol=math.log(1.5))


def test_a_reply_that_reaches_its_limit_ends_no_dialogue():
    short = [Dialogue("", [TOKENS] * 2)] * 40
    for tokens, least in ((100, 8), (99, 1)):
        forecast = Forecast(10, [*short, Dialogue("", [tokens] * 2, active=True)], longest=100)
        assert turns_in(forecast).min() == least


def test_nothing_is_told_while_no_dialogue_has_ended():
    def told(places, **earlier):
        forecast = Forecast(20, fresh(64), **earlier, batched_turns=20)
        clock = 0.0
        for _ in range(4):
            clock = take(forecast, range(64), clock + 64.0, batch=64)
        take(forecast, places, clock + 64.0, batch=64, ended=True)
        return forecast.range

    assert told([]) is None
    # no end is seen in less than a quarter of the turns; then all may go on to the last
    forecast = Forecast(20, fresh(64), batched_turns=20)
    clock = 0.0
    for number in range(1, 19):
        clock = take(forecast, range(64), clock + 64.0, batch=64)
        assert forecast.range is None or number >= KNOWN_TURNS * 20
    assert middle(forecast) == pytest.approx(2 * 64.0, rel=0.3)
    # an earlier run, whose dialogues ended, tells
    assert told([], earlier=ended(5, 40)) is not None
    assert told(range(64)[:48]) is not None


def test_how_often_questions_end_may_grow_from_turn_to_turn():
    hazards = [0, 0, 0.2, 0.25, 0.35]
    told = {}
    for name, shares in ("growing", hazards), ("level", [0, 0, 0.25, 0.25, 0.25]):
        active, dialogues = 400, []
        for number, share in enumerate(shares):
            dialogues += ended(number + 1, round(share * active))
            active -= round(share * active)
        dialogues += [Dialogue("", [TOKENS] * len(shares), active=True)] * 100
        told[name] = turns_to_come(Forecast(20, dialogues))
    assert told["growing"] < told["level"]
    assert told["level"] == pytest.approx(100 / 0.25, rel=0.35)


def test_a_continued_run_knows_how_long_its_dialogues_were():
    before = ended(3, 40)
    first = Forecast(20, fresh(20))
    continued = Forecast(20, [*before, *fresh(20)])
    assert turns_to_come(continued) == pytest.approx(60, rel=0.1)
    assert turns_in(continued).std() < turns_in(first).std() / 3
    # those that go on are no evidence of an end
    going_on = [Dialogue("", [TOKENS] * 3, active=True)] * 40
    assert turns_to_come(Forecast(20, going_on)) > 40 * 6


def test_an_earlier_run_tells_how_long_dialogues_are_until_this_one_does():
    earlier = [*ended(3, 30), *ended(6, 10)]
    told = Forecast(20, fresh(20), earlier)
    assert turns_to_come(told) == pytest.approx(20 * 3.75, rel=0.2)
    assert turns_in(told).std() < turns_in(Forecast(20, fresh(20))).std() / 2
    # dialogues of this run went on after the third turn, whatever comes of them
    longer = Forecast(20, [*[Dialogue("", [TOKENS] * 4)] * 40, *fresh(20)], earlier)
    assert turns_to_come(longer) > 20 * 3.75


def test_a_run_knows_the_newest_finished_one_of_its_model_beside_it(tmp_path):
    questions, replies = make_questions(tmp_path), Replies({id: [STEP, DONE] for id in "0123"})

    def played(finish=True, **options):
        run = start_run(make_config(tmp_path, questions, **options))
        try:
            if finish:
                run.go(Silent(), lambda config, asked: ScriptedEngine(replies, 4))
            return run.path, run.earlier_dialogues()
        finally:
            run.close()

    first, earlier = played(max_turns=4)
    assert earlier == []
    # "3" is no option of every other one
    told = played(finish=False, max_turns=4)[1]
    assert [len(dialogue.replies) for dialogue in told] == [2, 4, 2, 4]
    assert {dialogue.active for dialogue in told} == {False}
    rows = RunFolder(first).results()["questions"]
    assert [d.kind for d in told] == [row["type"] for row in rows]
    assert [sum(d.replies) for d in told] == pytest.approx([row["tokens_out"] for row in rows])
    assert played(finish=False, max_turns=5)[1] == []
    assert played(finish=False, max_turns=4, temperature=0.7)[1] == []
    (first / "results.json").write_text("{}")
    assert played(finish=False, max_turns=4)[1] == []


def test_a_question_that_fails_says_nothing_of_others():
    forecast = Forecast(10, fresh(20))
    take(forecast, range(20), 1.0)
    expected = turns_to_come(forecast)
    for place in range(10):
        forecast.failed(place)
    assert turns_to_come(forecast) == pytest.approx(expected / 2, rel=0.1)


def test_nothing_is_told_where_nothing_goes_on():
    forecast = Forecast(10, fresh(40))
    take(forecast, range(39), 0.0, each=9.0, ended=True)
    assert forecast.range is not None
    take(forecast, [39], 400.0, ended=True)
    assert forecast.range is None


def test_the_first_batch_says_little_of_the_pace():
    forecast = Forecast(2, fresh(80), batched_turns=2)
    clock = take(forecast, range(16), 300.0, batch=16)  # kernels were compiled meanwhile
    for begin in (16, 32, 48):
        clock = take(forecast, range(begin, begin + 16), clock + 16.0, batch=16)
    assert middle(forecast) == pytest.approx(16 + 80, rel=0.05)


def test_what_turns_take_now_counts_more_than_what_they_took():
    forecast = Forecast(2, fresh(400), finish_together=1)
    for place in range(200):
        forecast.took(place, 1, 1.0 * (place + 1), TOKENS, ended=True)
    for place in range(200, 380):
        forecast.took(place, 1, 200 + 9.0 * (place - 199), TOKENS, ended=True)
    assert middle(forecast) == pytest.approx(9 * 20, rel=0.35)


@pytest.mark.parametrize("each", [0.1, 1.0, 30.0])
def test_nothing_is_told_in_the_first_seconds_and_the_first_share(each):
    forecast = Forecast(1, fresh(2000))
    clock = told = 0.0
    for place in range(400):
        clock = take(forecast, [place], clock, each=each, ended=True)
        told = told or clock * bool(forecast.range)
    assert told >= KNOWN_SECONDS
    assert told >= 0.03 * 2000 * each * (1 - 1e-9)  # but for rounding
    # the pace is known from a first block of turns on
    assert told <= max(KNOWN_SECONDS, 0.04 * 2000 * each) + FEWEST_TURNS * each


def test_the_range_is_never_narrower_than_the_pace_is_sure():
    forecast = Forecast(1, fresh(400))
    play(forecast, [1] * 200)
    low, high = forecast.range
    surest = 2 * 1.28 * PACE_ERROR
    assert surest <= math.log(high / low) < 1.1 * surest
