"""Runs from Python match those of the command line, with any engine, when stopped and when resumed."""

import asyncio
import dataclasses
import json
import queue
import threading

import numpy as np
import pytest
from factories.models import small_model
from factories.runs import SMALL, STEP, comparable_results, make_questions, transcripts
from factories.scans import mesh_ply
from factories.scenes import room, write_ply

import render_agent
from render_agent.agents.verifiers.judge.batch_score import scorer
from render_agent.api.engines import SharedEngine
from render_agent.cli.main import cli
from render_agent.engines.engine import Capabilities, Scores
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.engines.token_estimate import image_tokens
from render_agent.errors import RunStoppedError, SceneError, SetupError, UsageError
from render_agent.report.diagnosis.model import Cause
from render_agent.runs.read import RunData, list_runs
from render_agent.util import display

QUESTION = "Is the red box left or right of the blue one?"
SMALL_WORDS = "--engine scripted --image-size 96x72 --start middle".split()  # SMALL as options
SMALL_VIEWS = {"image_size": SMALL["image_size"]}
DONE = json.dumps({"answer": "B", "done": True})


def run_command(*words):
    """Run the command line in this process; return the exit code and the run folder."""
    code = cli.main([str(word) for word in words], "render-agent", standalone_mode=False)
    output = words[words.index("--output") + 1]
    return code, list_runs(output)[-1]


def read_record(path):
    """Return the entries of config.json that do not depend on time and machine."""
    record = RunData(path).record
    return {name: record[name] for name in ("config", "fingerprint", "engine", "sha256", "notes")}


def without_output(record):
    return {**record, "config": {**record["config"], "output": ""}}


@pytest.fixture
def scan(tmp_path):
    return write_ply(tmp_path / "room.ply", *room())


def test_ask_matches_the_command_line(tmp_path, scan, capsys):
    options = {"max_turns": 5, "seed": 3, "output": tmp_path / "python", **SMALL}
    dialogue = render_agent.ask(scan, QUESTION, options=["left", "right"], **options)
    assert capsys.readouterr() == ("", "")
    words = "--option left --option right --max-turns 5 --seed 3 --quiet"
    code, path = run_command(
        *("--ply", scan, "--question", QUESTION, *words.split(), *SMALL_WORDS),
        *("--output", tmp_path / "command"),
    )
    assert code == 0
    expected = dialogue.folder.path
    assert transcripts(path) == transcripts(expected)
    assert comparable_results(path) == comparable_results(expected)
    ours, theirs = read_record(expected), read_record(path)
    assert theirs["config"].pop("quiet")
    assert not ours["config"].pop("quiet")
    assert without_output(ours) == without_output(theirs)
    names = [{file.name for file in folder.iterdir()} for folder in (path, expected)]
    assert names[0] - {"run.log"} == names[1] - {"run.log"}


def test_run_matches_the_command_line(tmp_path):
    questions = make_questions(tmp_path)
    result = render_agent.run(
        benchmark=questions, output=tmp_path / "python", max_turns=3, limit=3, **SMALL
    )
    words = (*SMALL_WORDS, *"--max-turns 3 --limit 3 --quiet".split())
    code, path = run_command(
        "--batch", "--benchmark", questions, *words, "--output", tmp_path / "command"
    )
    assert code == 0
    assert transcripts(path) == transcripts(result.path)
    assert comparable_results(path) == comparable_results(result.path)
    assert RunData(path).record["fingerprint"] == result.folder.record["fingerprint"]


def test_options_are_validated_like_flags(tmp_path):
    questions = make_questions(tmp_path)
    common = {"benchmark": questions, "output": tmp_path / "runs", "engine": "scripted"}
    for options, message in (
        ({"view": "none"}, "'views'"),
        ({"views": "nonsense"}, "'nonsense'"),
        ({"image_size": (3, 4)}, "32 to 4096"),
        ({"max_turns": 0}, "--max-turns"),
        ({"view_types": ["ego", "map"]}, "'map'"),
        ({"limit": [1, 2]}, "--limit"),
        ({"limit": 2.5}, "--limit.*2.5"),
        ({"json": True}, "command line"),
        ({"repeat": 2}, "'repeat'"),
    ):
        with pytest.raises(UsageError, match=message):
            render_agent.run(**common, **options)
    assert not (tmp_path / "runs").exists()


def test_progress_is_shown_only_on_request(tmp_path, capsys):
    questions = make_questions(tmp_path, 1)
    options = {"benchmark": questions, "output": tmp_path / "runs", "max_turns": 2, **SMALL}
    render_agent.run(**options)
    assert capsys.readouterr() == ("", "")
    render_agent.run(**options, progress=True)
    assert "turn 1 of 2" in capsys.readouterr().err


def test_failed_question_reports_its_error(tmp_path, capsys):
    (tmp_path / "broken.ply").write_bytes(b"ply\n")
    dialogue = render_agent.ask(tmp_path / "broken.ply", "Why?", output=tmp_path / "runs", **SMALL)
    assert capsys.readouterr() == ("", "")
    assert str(dialogue.status) == "failed"
    assert "broken.ply" in dialogue.error
    assert (dialogue.answer, dialogue.score, dialogue.turns) == (None, None, ())
    assert dialogue.error in (dialogue.folder.path / "run.log").read_text()
    with pytest.raises(SetupError, match=r"gone\.ply"):
        render_agent.ask(tmp_path / "gone.ply", "Why?", output=tmp_path / "runs", **SMALL)


class Policy:
    """Takes a step, then finishes."""

    def reply(self, request):
        return DONE if request.turn else STEP


def by_function(request):
    """The same policy as a function."""
    return DONE if request.turn else STEP


async def by_coroutine(request):
    """The same policy as a coroutine function."""
    await asyncio.sleep(0)
    return by_function(request)


def by_batch(requests):
    """The same policy for a batch of requests."""
    return [by_function(request) for request in requests]


CUSTOM_ENGINES = {
    "policy": Policy,
    "function": lambda: by_function,
    "coroutine": lambda: by_coroutine,
    "batch": lambda: by_batch,
    "engine": lambda: ScriptedEngine(
        ReplayPolicy({"*": [STEP, DONE]}), image_tokens=image_tokens("", 96, 72)
    ),
}


@pytest.mark.parametrize("kind", CUSTOM_ENGINES)
def test_custom_engines_match_a_reply_file(tmp_path, scan, kind):
    replies = tmp_path / "replies.json"
    replies.write_text(json.dumps({"id": "*", "replies": [STEP, DONE]}))
    options = {"options": ["left", "right"], "output": tmp_path / "runs", "image_size": (96, 72)}
    expected = render_agent.ask(scan, QUESTION, engine="scripted", model=replies, **options)
    engine = CUSTOM_ENGINES[kind]()
    assert expected.answer == "B"
    for _ in range(2):
        dialogue = render_agent.ask(scan, QUESTION, engine=engine, **options)
        assert transcripts(dialogue.folder.path) == transcripts(expected.folder.path)
        assert dialogue.folder.record["engine"]["name"] == "python"
        assert dialogue.folder.record["config"]["model"].startswith("python:")
    with pytest.raises(UsageError, match="model"):
        render_agent.ask(scan, QUESTION, engine=engine, model="explorer", **options)
    with pytest.raises(UsageError, match="workers"):
        render_agent.ask(scan, QUESTION, engine=engine, workers=2, **options)
    with pytest.raises(UsageError, match="engine"):
        render_agent.ask(scan, QUESTION, engine=3, **options)


def test_coroutines_and_batch_functions_receive_whole_batches(tmp_path):
    questions = make_questions(tmp_path, 4)
    sizes, waiting = [], []

    def batch(requests):
        sizes.append(len(requests))
        return [DONE] * len(requests)

    async def coroutine(request):
        waiting.append(request.question_id)
        while len(waiting) < 4:  # ends only if all four are awaited at once
            await asyncio.sleep(0.001)
        return DONE

    for engine in (batch, coroutine):
        results = render_agent.run(
            benchmark=questions, engine=engine, output=tmp_path / "runs", image_size=(96, 72)
        )
        assert results.finished
    assert sizes[0] == 4


def mapping_function(request):
    """State a map if a probe asks for it; the map names the turn."""
    if request.probe is None:
        return STEP if request.turn == 0 else DONE
    return json.dumps({"objects": [{"category": f"chair {request.turn}", "position": [1, 2]}]})


async def mapping_coroutine(request):
    return mapping_function(request)


def mapping_batch(requests):
    return [mapping_function(request) for request in requests]


@pytest.mark.parametrize("engine", [mapping_function, mapping_coroutine, mapping_batch])
def test_functions_answer_probes_themselves(tmp_path, scan, engine):
    dialogue = render_agent.ask(
        scan, QUESTION, engine=engine, probe="map", output=tmp_path / "runs", **SMALL_VIEWS
    )
    beliefs = [turn.probe.parsed_belief for turn in dialogue.folder.turns]
    assert [[thing.category for thing in belief.objects] for belief in beliefs] == [
        ["chair 0"],
        ["chair 1"],
    ]
    assert [belief.position for belief in beliefs] == [None, None], "it did not state its position"


def test_function_without_a_map_is_not_blamed_for_one(tmp_path):
    """It has seen the counted objects, and its reply to the probe is no map."""
    reply = json.dumps({"answer": "999", "done": True})
    options = {"probe": "map", "views": "tour", "image_size": (160, 120), "output": tmp_path}
    results = render_agent.run(
        benchmark="rooms", type="object_counting", limit=1, engine=lambda request: reply, **options
    )
    assert {turn.probe.reply for turn in RunData(results.path).turns} == {reply}
    assert [diagnosis.cause for diagnosis in results.diagnosis(1).values()] == [Cause.MISJUDGED]


def raise_error(request):
    raise KeyError("missing key")


async def raise_error_async(request):
    raise_error(request)


def reply_to_none(requests):
    return []


@pytest.mark.parametrize(
    ("engine", "cause"),
    [(raise_error, KeyError), (raise_error_async, KeyError), (reply_to_none, TypeError)],
)
def test_engine_errors_name_the_engine_and_have_a_cause(tmp_path, engine, cause):
    options = {"engine": engine, "output": tmp_path / "runs", "image_size": (96, 72)}
    with pytest.raises(RunStoppedError, match=engine.__name__) as caught:
        render_agent.run(benchmark=make_questions(tmp_path, 6), **options)
    error = caught.value
    while error.__cause__ is not None:
        error = error.__cause__
    assert isinstance(error, cause)
    dialogue = render_agent.ask(tmp_path / "room.ply", QUESTION, **options)
    assert engine.__name__ in dialogue.error


def test_progress_in_a_notebook_is_one_updated_line(tmp_path, monkeypatch):
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    InteractiveShell.instance()
    monkeypatch.setattr(display, "in_notebook", lambda: True)
    options = {"benchmark": make_questions(tmp_path, 2), "output": tmp_path / "runs"}
    with capture_output() as displayed:
        render_agent.run(engine=by_function, progress=True, image_size=(96, 72), **options)
    InteractiveShell.clear_instance()
    first, *updates = [output.data["text/plain"] for output in displayed.outputs]
    assert "questions" in first
    assert len(updates) < 4


def test_progress_shows_the_cost(tmp_path, monkeypatch):
    lines = []
    monkeypatch.setattr(display.Display, "update", lambda self, line: lines.append(line))
    prices = tmp_path / "prices.yaml"
    prices.write_text("- {models: [explorer], in: 1000, out: 1000}")
    options = {"benchmark": make_questions(tmp_path, 1), "output": tmp_path / "runs"}
    render_agent.run(
        engine="scripted", prices=prices, progress=True, image_size=(96, 72), **options
    )
    assert any(" · $" in line for line in lines)


class Scoring(ScriptedEngine):
    """An engine with all optional methods."""

    capabilities = Capabilities(scoring=True)
    reuse = "keys"

    def score(self, requests, choices):
        return [Scores((0.0,) * len(each)) for each in choices]


def test_shared_engine_keeps_optional_methods():
    shared = SharedEngine(Scoring(ReplayPolicy({"*": [DONE]})))
    assert scorer(shared).score(["a request"], [("yes", "no")]) == [Scores((0.0, 0.0))]
    assert shared.reuse == "keys"


class Interrupted(ScriptedEngine):
    """Raises KeyboardInterrupt on its third call, once."""

    closed = False

    def answer(self, requests):
        if self.calls == 3:
            raise KeyboardInterrupt
        return super().answer(requests)

    def close(self):
        self.closed = True


def test_interrupted_run_resumes_to_equal_transcripts(tmp_path):
    questions = make_questions(tmp_path)
    replies = ReplayPolicy({"*": [STEP, STEP, DONE]})
    options = {"benchmark": questions, "output": tmp_path / "runs", "image_size": (96, 72)}
    whole = render_agent.run(**options, engine=ScriptedEngine(replies, batch_size=3))
    engine = Interrupted(replies, batch_size=3)
    with pytest.raises(KeyboardInterrupt) as caught:
        render_agent.run(**options, engine=engine)
    stopped = render_agent.load_run(output=tmp_path / "runs")
    (note,) = caught.value.__notes__
    assert f"render_agent.continue_run({str(stopped.path)!r})" in note
    assert engine.closed
    assert not stopped.finished
    assert stopped.stamps[0] == "INTERRUPTED"
    assert 0 < len(stopped.turns) < len(whole.turns)
    with pytest.raises(SetupError, match="python:Interrupted"):
        render_agent.continue_run(stopped.path)
    with pytest.raises(UsageError, match=r"^model "):
        render_agent.continue_run(stopped.path, engine=by_function)
    engine.calls = 10
    done = render_agent.continue_run(output=tmp_path / "runs", engine=engine)
    assert done.path == stopped.path
    assert done.finished
    assert transcripts(done.path) == transcripts(whole.path)
    again = render_agent.continue_run(done.path)
    assert again.results == done.results
    with pytest.raises(UsageError, match="--max-turns"):
        render_agent.continue_run(done.path, max_turns=3)


def test_loaded_model_answers_like_a_fresh_one(tmp_path, scan):
    options = {"dtype": "float32", "device": "cpu"}
    common = {"output": tmp_path / "runs", "image_size": (64, 48), "max_turns": 2}
    common["max_new_tokens"] = 8
    questions = [QUESTION, "What colour is the tallest box of all?"]
    with render_agent.load_engine(model=small_model(), **options) as engine:
        shared = [render_agent.ask(scan, text, engine=engine, **common) for text in questions]
        with pytest.raises(UsageError, match="dtype"):
            render_agent.ask(scan, QUESTION, engine=engine, dtype="bfloat16", **common)
    fresh = render_agent.ask(scan, questions[1], model=small_model(), **options, **common)
    assert transcripts(shared[0].folder.path) != transcripts(fresh.folder.path)
    assert transcripts(shared[1].folder.path) == transcripts(fresh.folder.path)
    assert read_record(shared[1].folder.path) == read_record(fresh.folder.path)
    assert repr(engine).endswith("closed>")
    with pytest.raises(UsageError, match="closed"):
        render_agent.ask(scan, QUESTION, engine=engine, **common)


def test_scan_errors_name_the_option(tmp_path):
    points = np.random.default_rng(0).random((2000, 3)) * 6000
    with pytest.raises(SceneError, match="--unit mm"):
        render_agent.open_scene((points, np.zeros((2000, 3), np.uint8)))
    path = tmp_path / "a.ply"
    path.write_bytes(mesh_ply(points, np.empty((0, 3), int), np.zeros((2000, 3), int)))
    dialogue = render_agent.ask(path, "Why?", output=tmp_path, **SMALL)
    assert "--unit mm" in dialogue.error


def test_human_engine_announces_its_page(tmp_path, scan, page, capsys, monkeypatch):
    addresses, dialogues = queue.Queue(), queue.Queue()
    monkeypatch.setattr("render_agent.util.web.browser.open_page", addresses.put)
    options = {"options": ["left", "right"], "output": tmp_path / "runs", "image_size": (96, 72)}

    def ask():
        dialogues.put(render_agent.ask(scan, QUESTION, engine="human", **options))

    threading.Thread(target=ask, daemon=True).start()
    address = addresses.get(timeout=60)
    page.goto(address)
    page.get_by_label("B. right").check()
    page.get_by_label("I am done").check()
    page.locator("#send").click()
    dialogue = dialogues.get(timeout=60)
    assert dialogue.answer == "B"
    assert len(dialogue.turns) == 1
    assert address in capsys.readouterr().err


def test_scans_in_memory_give_the_run_of_their_file(tmp_path, scan):
    options = {"output": tmp_path / "runs", "max_turns": 3, **SMALL}
    expected = render_agent.ask(scan, QUESTION, **options)
    opened = render_agent.open_scene(scan)
    points, colours, faces = (np.asarray(part) for part in room())
    generated = dataclasses.replace(opened.scene, source=None)
    cameras = [turn.camera_before for turn in expected.turns]
    for form in (str(scan), opened, opened.scene, generated, (points, colours, faces)):
        dialogue = render_agent.ask(form, QUESTION, **options)
        assert [turn.camera_before for turn in dialogue.turns] == cameras
        for ours, theirs in zip(dialogue.views, expected.views, strict=True):
            assert (ours.pixels == theirs.pixels).all()
    written = list((tmp_path / "runs" / "scans").iterdir())
    assert 1 <= len(written) <= 2
    assert dialogue.question.scan in written


def test_failed_questions_are_reported(tmp_path, caplog):
    def stops(request):
        raise ValueError("no idea")

    results = render_agent.run(benchmark="rooms", limit=2, output=tmp_path, engine=stops)
    assert results.results["counts"]["failed"] == 2
    (warning,) = [r.getMessage() for r in caplog.records if r.name == "render_agent.api.ask"]
    assert "no idea" in warning
    assert str(results.path) in warning


def test_run_cannot_resume_with_changed_engine_source(tmp_path):
    def policy(request):
        raise RuntimeError("stopped")

    original = policy
    options = {"benchmark": "rooms", "limit": 1, "output": tmp_path, "max_turns": 2}
    assert render_agent.run(engine=policy, **options).dialogues()[0].error

    def policy(request):
        return '{"answer": "1", "done": true}'

    with pytest.raises(SetupError, match="python:policy"):
        render_agent.continue_run("recent", output=tmp_path, engine=policy)
    again = render_agent.continue_run("recent", output=tmp_path, engine=original)
    assert "stopped" in str(again.dialogues()[0].error)
