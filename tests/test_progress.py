import io

import pytest
from rich.console import Console
from test_state import question, turn

from render_agent.dialogue.reply import Action
from render_agent.dialogue.state import QuestionState
from render_agent.runs.progress import Plain, Progress, Terminal, duration

STEP, DONE = Action(forward=1.0), Action(answer="4", answer_text="4", done=True)


def states(count, max_turns=4):
    return [
        QuestionState(question(id=str(n)), scenes=None, max_turns=max_turns) for n in range(count)
    ]


def plain():
    return Plain(Console(file=io.StringIO(), width=200))


def printed(display):
    return display.console.file.getvalue()


def take(progress, state, action):
    state.take(turn(len(state.turns), action))
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


def test_the_time_left_counts_the_turns_to_come(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("render_agent.runs.progress.time.monotonic", lambda: clock[0])
    some = states(3)
    progress = Progress(some, plain(), max_batched_turns=2, max_turns=4)
    assert progress.seconds_left is None
    clock[0] = 10.0
    take(progress, some[0], STEP)
    assert progress.seconds_left == pytest.approx(10 * (3 * 4 - 1))
    clock[0] = 20.0
    take(progress, some[0], DONE)
    assert progress.seconds_left == pytest.approx(10 * 2 * 2), "one question took two turns"
    assert progress.questions_a_minute == pytest.approx(3)


def test_a_continued_run_begins_where_it_was():
    some = states(2)
    some[0].take(turn(0, DONE))
    some[1].take(turn(0, STEP))
    progress = Progress(some, plain(), max_batched_turns=2, max_turns=4)
    progress.began("finishing", some[1:])
    assert "active 1 · answered 1" in progress.line
    assert progress.questions_a_minute == 0
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
    with Terminal(console) as display:
        display.update("batched turn 1 of 4 · active 3")
        display.note("batched turn 2 of 4: 3 questions")
    assert "batched turn 2 of 4: 3 questions" in console.file.getvalue()


@pytest.mark.parametrize(
    ("seconds", "words"), [(12, "12 s"), (600, "10 min"), (3 * 3600 + 300, "3 h 05 min")]
)
def test_times_in_words(seconds, words):
    assert duration(seconds) == words
