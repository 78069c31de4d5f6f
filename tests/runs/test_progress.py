import io
import math

import pytest
from factories.states import question, turn
from msgspec.structs import replace
from rich.console import Console

from render_agent.dialogue.reply import Action
from render_agent.dialogue.state import QuestionState
from render_agent.runs.forecast import SHARP_RANGE
from render_agent.runs.progress import Progress
from render_agent.text import display as shown
from render_agent.text.display import Display, Terminal, bar_class, duration, shown_on, stage

STEP, DONE = Action(forward=1.0), Action(answer="4", answer_text="4", done=True)


def states(count, max_turns=4, **fields):
    return [
        QuestionState(question(id=str(n), **fields), scenes=None, max_turns=max_turns)
        for n in range(count)
    ]


def plain():
    return Display(Console(file=io.StringIO(), width=200))


def printed(display):
    return display.console.file.getvalue()


def take(progress, state, action, batch=1):
    state.take(replace(turn(len(state.turns), action), batch_size=batch))
    progress.took(state, state.turns[-1])


def test_the_line_counts_what_happened():
    some = states(4)
    progress = Progress(some, plain(), max_batched_turns=2, max_turns=4)
    progress.began("batched", some)
    take(progress, some[0], STEP)
    take(progress, some[1], DONE)
    some[2].fail("broken")
    progress.failed(some[2])
    assert progress.line.startswith(
        "batched turn 1 of 2 · active 2 · answered 1 · exhausted 0 · failed 1 · batch 1"
    )
    assert "question 2 failed: broken" in printed(progress.display)


def take_all(progress, some, clock, *, seconds, batch=0, done=()):
    """Have every active question take a turn: each after so many seconds, or all at the end of their batch."""
    active = [state for state in some if state.active]
    for state in active:
        clock[0] += seconds
        take(progress, state, DONE if state.id in done else STEP, batch or 1)
        seconds = 0.0 if batch else seconds


def middle(progress):
    return math.sqrt(math.prod(progress.forecast.range))


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("render_agent.runs.progress.time.monotonic", lambda: now[0])
    return now


def test_the_time_left_follows_the_turns_in_which_questions_end(clock):
    some = states(40, max_turns=4)
    progress = Progress(some, plain(), max_batched_turns=2, max_turns=4)
    clock[0] = 500.0  # the model is loaded
    progress.began("batched", some)
    take_all(progress, some, clock, seconds=5.0, done={str(n) for n in range(0, 40, 2)})
    # nothing is known of later turns but how often questions usually end
    low, high = progress.forecast.range
    assert low < 5 * 20 * (1 + 0.8 + 0.8**2) < high
    assert high > SHARP_RANGE * low
    assert f"about {duration(low)} to {duration(high)} left" in progress.line
    take_all(progress, some, clock, seconds=5.0)
    # nobody ended in the second: two turns each at the most, and nearly that
    assert middle(progress) == pytest.approx(20 * 2 * 5.0, rel=0.15)
    take_all(progress, some, clock, seconds=5.0)
    assert middle(progress) == pytest.approx(20 * 5.0, rel=0.05)
    assert f"about {duration(middle(progress))} left" in progress.line
    take_all(progress, some, clock, seconds=5.0)
    assert progress.forecast.range is None


def test_the_time_left_is_predicted_anew_after_a_second(clock):
    some = states(200)
    progress = Progress(some, plain(), max_batched_turns=4, max_turns=4)
    progress.began("batched", some)
    take_all(progress, some[:100], clock, seconds=1.0, done={s.id for s in some})
    told = progress.told
    assert told == progress.forecast.range
    clock[0] += 0.4
    take(progress, some[100], DONE)
    assert progress.told == told != progress.forecast.range
    clock[0] += 0.6
    take(progress, some[101], DONE)
    assert progress.told == progress.forecast.range


def test_one_number_is_told_when_the_range_is_narrow(clock):
    some = states(64, max_turns=24)
    progress = Progress(some, plain(), max_batched_turns=4, max_turns=24)
    progress.began("batched", some)
    told = []
    for _ in range(23):
        take_all(progress, some, clock, seconds=60.0, batch=64)
        told.append(progress.forecast.range)
    # nobody ended yet: whether all go to the end is not known at first, and what is told at last is not far off
    ranges = {number: both for number, both in enumerate(told) if both is not None}
    sharp = [number for number, (low, high) in ranges.items() if high <= SHARP_RANGE * low]
    assert sharp[0] > 3
    assert sharp[-5:] == list(range(18, 23))
    for number in sharp:
        assert 1 / 1.5 < math.prod(ranges[number]) ** 0.5 / (60.0 * (23 - number)) < 1.5, number


@pytest.mark.parametrize("batch", [1, 10])
def test_where_all_end_at_once_the_first_turns_tell_the_pace(clock, batch):
    some = states(100)
    progress = Progress(some, plain(), max_batched_turns=4, max_turns=4)
    progress.began("batched", some)
    for number in range(0, 50, batch):
        part = some[number : number + batch]
        take_all(progress, part, clock, seconds=1.0 * batch, batch=batch, done={s.id for s in some})
    assert middle(progress) == pytest.approx(50, rel=0.15)


def test_small_batches_take_longer_for_a_turn(clock):
    some = states(100, max_turns=6)
    progress = Progress(some, plain(), max_batched_turns=4, max_turns=6)
    progress.began("batched", some)
    for number in range(3):
        done = {str(n) for n in range(8, 100)} if number == 2 else ()
        take_all(progress, some, clock, seconds=30.0, batch=100, done=done)
    # eight questions are left, at 0.3 seconds a turn; beside each other they cost more, but less than a batch
    assert 8 * 0.3 * 1.2 < middle(progress) < 3 * 30.0


@pytest.mark.parametrize("total", [40, 1200])
def test_the_live_line_fits_80_columns_and_holds_what_matters(monkeypatch, clock, total):
    monkeypatch.setattr("render_agent.runs.progress._gpu_memory", lambda: "73 GB")
    some = states(total, truth="4", scene="room00", type="object_counting")
    progress = Progress(some, plain(), max_batched_turns=2, max_turns=4)
    progress.began("batched", some)
    for state in some[: (total + 1) // 2]:
        clock[0] += 2.0
        take(progress, state, DONE)
    line = progress.short_line
    assert len(line) <= 80
    assert f"{(total + 1) // 2}/{total}  " in line
    assert all(word in line for word in (" turns", "score 100", "img/s", "73 GB", " left"))


def test_a_continued_run_begins_where_it_was():
    some = states(2)
    some[0].take(turn(0, DONE))
    some[1].take(turn(0, STEP))
    progress = Progress(some, plain(), max_batched_turns=2, max_turns=4)
    progress.began("finishing", some[1:])
    assert "active 1 · answered 1" in progress.line
    assert progress.questions_a_minute == 0
    assert (progress.forecast.futures[:, :2].sum(1) >= 1).all()
    take(progress, some[1], DONE)
    assert "active 0 · answered 2" in progress.line


def test_plain_lines_come_every_few_seconds_and_hold_no_control_characters(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("render_agent.runs.progress.time.monotonic", lambda: clock[0])
    display = plain()
    for _ in range(100):
        clock[0] += 1.0
        display.update("here")
    assert printed(display) == "here\n" * 10


def test_a_terminal_shows_one_line_and_clears_it():
    console = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)
    with shown_on(console) as display:
        assert isinstance(display, Terminal)
        display.update("batched turn 1 of 4 · active 3")
        display.note("batched turn 2 of 4: 3 questions")
    assert "batched turn 2 of 4: 3 questions" in console.file.getvalue()


def test_what_takes_long_says_how_far_it_is_and_what_is_short_says_nothing(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("render_agent.text.display.time.monotonic", lambda: clock[0])
    console = Console(file=io.StringIO(), width=200)
    with shown_on(console):
        with stage("writing pages", 100) as short:
            short.advance()
        with stage("fetching a model", in_bytes=True, announced=True) as fetching:
            bar = bar_class(fetching)(total=4e9, unit="B", desc="Reconstructing")
            clock[0] += shown.PLAIN_LINE_SECONDS
            bar.update(1e9)
            bar.refresh()
        with stage("measuring", 288) as measuring:
            clock[0] += shown.PLAIN_LINE_SECONDS
            measuring.advance()  # how long one takes says nothing of the rest
            clock[0] += shown.PLAIN_LINE_SECONDS
            measuring.advance(71)
    assert console.file.getvalue().splitlines() == [
        "fetching a model",
        "fetching a model · 1.0 GB of 4.0 GB · 100 MB/s · about 30 s left",
        "measuring · 1 of 288",
        "measuring · 72 of 288 · about 60 s left",
    ]


def test_stages_are_silent_where_nothing_is_shown(capfd):
    with stage("loading", 2, announced=True) as loading:
        loading.advance(2)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("seconds", "words"), [(12, "12 s"), (600, "10 min"), (3 * 3600 + 300, "3 h 05 min")]
)
def test_times_in_words(seconds, words):
    assert duration(seconds) == words
