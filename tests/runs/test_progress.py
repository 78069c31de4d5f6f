import io

import pytest
from factories.states import question, turn
from msgspec.structs import replace
from rich.console import Console

from render_agent.dialogue.reply import Action
from render_agent.dialogue.state import QuestionState
from render_agent.runs.progress import Progress
from render_agent.util.display import Display, display_on, format_duration, stage, stage_bar_class

STEP, DONE = Action(forward=1.0), Action(answer="4", answer_text="4", done=True)


def states(count, max_turns=4, **fields):
    return [
        QuestionState(question(id=str(n), **fields), scenes=None, max_turns=max_turns)
        for n in range(count)
    ]


def plain():
    return Display(Console(file=io.StringIO(), width=200))


def output_of(display):
    return display.console.file.getvalue()


def take(progress, state, action, batch=1):
    state.take(replace(turn(len(state.turns), action), batch_size=batch))
    progress.on_turn(state, state.turns[-1])


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("render_agent.runs.progress.time.monotonic", lambda: now[0])
    return now


def progress_of(some_states, batched=2):
    return Progress(some_states, plain(), max_batched_turns=batched)


def take_all(progress, some_states, clock, seconds, answered=()):
    for state in [state for state in some_states if state.active]:
        clock[0] += seconds
        take(progress, state, DONE if state.id in answered else STEP)


def test_line_counts_questions_and_turns():
    some_states = states(4)
    progress = progress_of(some_states)
    progress.on_phase_start("batched", some_states)
    take(progress, some_states[0], STEP)
    take(progress, some_states[1], DONE)
    some_states[2].fail("broken")
    progress.on_failure(some_states[2])
    parts = progress.line.split(" · ")
    assert parts[:2] == ["2/4 questions", "1 failed"]
    assert {"batched turn 1 of 2", "2 turns"} <= set(parts)
    assert "question 2 failed: broken" in output_of(progress.display)


def test_remaining_time_follows_the_mean_dialogue_length(clock):
    some_states = states(40, max_turns=4)
    progress = progress_of(some_states)
    clock[0] = 500.0  # the model was loaded
    progress.on_phase_start("batched", some_states)
    take_all(progress, some_states[:5], clock, 5.0)
    assert progress.remaining_seconds() is None  # before 5 % of the turns
    take_all(progress, some_states[5:], clock, 5.0, answered={str(n) for n in range(20, 40)})
    assert progress.remaining_seconds() == pytest.approx(20 * 2 * 5.0)
    assert f"about {format_duration(200)} left" in progress.line
    take_all(progress, some_states, clock, 5.0)
    take_all(progress, some_states, clock, 10.0)
    assert progress.remaining_seconds() == pytest.approx(20 * 1 * (20 * 10 + 60 * 5) / 80)
    take_all(progress, some_states, clock, 5.0)
    assert progress.remaining_seconds() is None


def test_speed_is_that_of_recent_turns(clock):
    some_states = states(300, max_turns=2)
    progress = progress_of(some_states)
    progress.on_phase_start("batched", some_states)
    take_all(progress, some_states, clock, 9.0)
    take_all(progress, some_states[:290], clock, 1.0)
    assert progress.remaining_seconds() == pytest.approx(10)


def test_line_fits_a_narrow_terminal(clock):
    console = Console(file=io.StringIO(), force_terminal=True, width=60, color_system=None)
    some_states = states(400, ground_truth="4", scene="room00", type="object_counting")
    with display_on(console) as display:
        progress = Progress(some_states, display, max_batched_turns=2)
        progress.on_phase_start("batched", some_states)
        take_all(progress, some_states[:200], clock, 2.0, answered={s.id for s in some_states})
    output = console.file.getvalue()
    assert "/400 questions · about" in output
    assert "turns" not in output.split("questions · ")[-1]  # cut off at the end of the line


def test_progress_of_resumed_run_includes_earlier_turns():
    some_states = states(2)
    some_states[0].take(turn(0, DONE))
    some_states[1].take(turn(0, STEP))
    progress = progress_of(some_states)
    progress.on_phase_start("finishing", some_states[1:])
    assert progress.line.startswith("1/2 questions · finishing · 0 turns")
    take(progress, some_states[1], DONE)
    assert progress.line.startswith("2/2 questions")


def test_plain_lines_are_throttled_and_have_no_control_characters(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("render_agent.runs.progress.time.monotonic", lambda: clock[0])
    display = plain()
    for _ in range(100):
        clock[0] += 1.0
        display.update("here")
    assert output_of(display) == "here\n" * 10


def test_stage_shows_progress_on_a_terminal():
    console = Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)
    with display_on(console) as display:
        with stage("fetching a model", in_bytes=True) as fetching:
            bar = stage_bar_class(fetching)(total=4e9, unit="B", desc="Reconstructing")
            bar.update(1e9)
            bar.refresh()
            display.progress.refresh()
        with stage("measuring", 288) as measuring:
            measuring.advance(72)
            display.progress.refresh()
    output = console.file.getvalue()
    assert "fetching a model 1.0 GB of 4.0 GB" in output
    assert "measuring 72 of 288" in output


def test_only_announced_stages_are_shown_without_a_terminal():
    console = Console(file=io.StringIO(), width=200)
    with display_on(console), stage("fetching a model", announce=True), stage("writing pages", 3):
        pass
    assert console.file.getvalue() == "fetching a model\n"


def test_stages_are_silent_without_a_display(capfd):
    with stage("loading", 2, announce=True) as loading:
        loading.advance(2)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("seconds", "text"), [(12, "12 s"), (600, "10 min"), (3 * 3600 + 300, "3 h 05 min")]
)
def test_durations_as_text(seconds, text):
    assert format_duration(seconds) == text
