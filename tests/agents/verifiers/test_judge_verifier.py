"""End-to-end runs of the judge verifier with a small real Qwen3-VL in float32."""

import json
from dataclasses import replace
from functools import partial

import pytest
from conftest import mostly_slow
from factories.models import small_model, small_qwen3_vl
from factories.runs import evidence_by_turn, make_config, make_questions, transcripts

from render_agent.agents.verifiers.judge import verifier as module
from render_agent.agents.verifiers.judge.batch_score import Score, batch_score
from render_agent.agents.verifiers.judge.verifier import JudgeVerifier, named_words
from render_agent.agents.verifiers.verifier import Case, TurnContext
from render_agent.cli.dry_run import dry_run
from render_agent.dialogue.chat import View
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Candidate
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.engines.scripted.blind_policies import random_move
from render_agent.errors import SetupError, UsageError
from render_agent.runs.build import build, make_engine
from render_agent.runs.phase_controller import NullObserver
from render_agent.runs.runner import check, start_run
from render_agent.views.provider import NextViews

RUBRIC = """\
name: short
helps: "{question} Does it show {named}?"
introduction: "{question}"
criteria:
  a: {text: "How well?", kind: fraction}
  b: {text: "How much?", kind: fraction}
"""
MODES = ("yes", "json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("judge")
    (path / "short.yaml").write_text(RUBRIC)
    return path


@pytest.fixture(scope="module")
def questions(folder):
    return make_questions(folder, 2)


MODEL = partial(small_qwen3_vl, seed=4)  # some of its random replies can be read, others cannot


def options(folder, questions, **more):
    defaults = {
        "engine": "transformers",
        "model": str(small_model(MODEL)),
        "dtype": "float32",
        "device": "cpu",
        "agent": "lookahead:3",
        "verifier": ("judge",),
        "rubric": str(folder / "short.yaml"),
        "temperature": 1.0,
        "max_turns": 3,
        "max_new_tokens": 80,
        "image_size": (64, 64),
        "batch_size": 8,
    }
    return make_config(folder, questions, **defaults | more)


class Moves:
    """Replies with random moves, one unreadable sample in the first turn, and an answer in the last."""

    def samples(self, request):
        if request.is_last_turn:
            return [json.dumps({"answer": "A", "done": True})] * request.num_samples
        moves = [random_move(request.seed, number) for number in range(request.num_samples)]
        return moves if request.turn else [*moves[:-1], "I would rather not say."]

    def reply(self, request):
        return self.samples(request)[0]


class ScriptedTurns(ScriptedEngine):
    """Scripted turns, which are fast, combined with a real model for the judge's requests."""

    def __init__(self, config):
        super().__init__(Moves(), 8)
        self.model = make_engine(config, [])
        self.name = self.model.name
        self.capabilities = replace(self.capabilities, scoring=True)
        self.batches = []

    @property
    def calls(self):
        return self.model.calls

    @calls.setter
    def calls(self, _):
        """Ignored: scripted replies are not model calls."""

    def generate(self, requests):
        self.batches.append(len(requests))
        return self.model.generate(requests)

    def score(self, requests, choices):
        self.batches.append(len(requests))
        return self.model.score(requests, choices)

    def retire(self, question_id):
        if question_id.startswith("judge/"):
            self.model.retire(question_id)

    def close(self):
        self.model.close()


def judge(config, make=lambda config, questions: ScriptedTurns(config)):
    """Run the questions; return transcripts, evidence, and the batch size of each judge call."""
    engines = []

    def make_engine(config, questions):
        engines.append(make(config, questions))
        return engines[-1]

    run = start_run(config.absolute())
    try:
        results = run.go(NullObserver(), make_engine)
    finally:
        run.close()
    assert results["counts"]["failed"] == 0
    return transcripts(run.path), evidence_by_turn(run.path), getattr(engines[0], "batches", None)


def scores_of(evidence):
    """Return (question id, turn) -> scores, for the turns in which candidates were weighed."""
    return {
        key: entry["judgements"][0]["scores"][0]
        for key, entry in evidence.items()
        if entry["weighed"]
    }


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_schedule_does_not_change_judge_choices(folder, questions, mode):
    config = options(folder, questions, judge_mode=mode)
    turns, evidence, batches = judge(replace(config, max_batched_turns=4))
    sequential = replace(config, max_batched_turns=0, finish_together=1)
    sequential_turns, sequential_evidence, sequential_batches = judge(sequential)
    assert sequential_turns == turns
    assert sum(sequential_batches) == sum(batches)
    assert len(sequential_batches) > len(batches)  # views of both questions share a call
    scores, expected = scores_of(evidence), scores_of(sequential_evidence)
    assert scores.keys() == expected.keys()
    assert len(scores) >= 3
    for key, values in scores.items():
        assert values == pytest.approx(expected[key], abs=1e-5)
    all_values = [value for values in scores.values() for value in values]
    if mode == "json":  # a model this small writes nonsense, or always the same rating
        assert {type(value) for value in all_values} == {float, type(None)}
    else:
        assert None not in all_values
        assert len(set(all_values)) > 2
    for entry in evidence.values():
        if entry["weighed"]:
            (judgement,) = entry["judgements"]
            assert entry["tokens"]["in"] > 0
            for value, reason in zip(judgement["scores"][0], judgement["reasons"], strict=True):
                assert bool(reason) == (mode == "json")
                assert (reason == "a 0, b 0") == (value == 0.0)


@pytest.mark.slow
def test_same_model_answers_and_judges(folder, questions):
    """The model that replies also judges; both schedules give the same dialogue."""
    short = {"max_turns": 2, "max_new_tokens": 24, "judge_mode": "yes", "temperature": 2.0}
    config = options(folder, questions, **short)
    sequential = replace(config, max_batched_turns=0, finish_together=1)
    turns, evidence, _ = judge(replace(config, max_batched_turns=4), make_engine)
    sequential_turns, sequential_evidence, _ = judge(sequential, make_engine)
    assert sequential_turns == turns
    assert scores_of(sequential_evidence) == scores_of(evidence)


@pytest.fixture(scope="module")
def cases(folder, questions):
    """The options, a model, and states of two questions with different views to judge."""
    import numpy as np
    from PIL import Image

    config = options(folder, questions)
    engine = make_engine(config, [])

    def image(file):
        pixels = np.random.default_rng(len(file) + sum(map(ord, file))).integers(
            0, 256, (64, 64, 3)
        )
        return Image.fromarray(pixels.astype(np.uint8))

    cases = []
    for number, question in enumerate(check(build(config))[0]):
        earlier = tuple(view(f"{number} earlier {n}", n) for n in range(6 * number))
        state = QuestionState(question, None, 3)
        context = TurnContext(state, NextViews(earlier, None, None), image)
        files = ["a", "b", "a", None, "c"][number:]
        views = [None if file is None else view(f"{number} {file}") for file in files]
        candidates = [Candidate(n, "", None, "", None, view=each) for n, each in enumerate(views)]
        cases.append(Case(context, tuple(candidates)))
    yield config, engine, cases
    engine.close()


def view(file, number=9):
    return View(number, "ego", file, None)


@pytest.mark.parametrize("mode", mostly_slow(MODES, "yes"))
def test_batched_cases_equal_single_cases(cases, mode):
    config, engine, cases = cases
    verifier = JudgeVerifier().open(replace(config, judge_mode=mode), (), engine)
    calls = engine.calls
    verdicts = verifier.score_all(cases)
    assert sum(verdict.calls for verdict in verdicts) == pytest.approx(engine.calls - calls)
    for case, verdict in zip(cases, verdicts, strict=True):
        single = verifier.score(case.context, case.candidates)
        assert verdict.scores.shape == (1, len(case.candidates))
        expected = pytest.approx(list(single.scores[0]), abs=1e-5, nan_ok=True)
        assert list(verdict.scores[0]) == expected
        assert verdict.reasons == single.reasons
        assert verdict.tokens.prompt == single.tokens.prompt
        assert verdict.tokens.reply == single.tokens.reply
        for candidate, reason in zip(case.candidates, verdict.reasons, strict=True):
            assert candidate.view is not None or reason
    first = verdicts[0].scores[0]
    assert first[0] == first[2] or mode == "json"  # the same image is judged once


def test_judge_prompts_of_a_state(cases, monkeypatch):
    config, engine, cases = cases
    calls = []

    def recording(images, systems, users, *args, **kwargs):
        calls.append((images, systems, users, kwargs))
        return batch_score(images, systems, users, *args, **kwargs)

    monkeypatch.setattr(module, "batch_score", recording)
    JudgeVerifier().open(config, (), engine).score_all(cases)
    ((images, systems, users, kwargs),) = calls
    assert images == ["0 a", "0 b", "0 c", "1 b", "1 a", "1 c"]
    assert set(systems) == {""}
    assert users[0] == "How many box(s) are in this room? Does it show the box?"
    assert users[-1].startswith("Is the red box left or right?\nA. left\nB. right Does it show")
    assert kwargs["earlier"] == [[]] * 3 + [[f"1 earlier {n}" for n in (2, 3, 4, 5)]] * 3


def test_unjudged_views_have_a_reason_and_no_score(cases, monkeypatch):
    config, engine, cases = cases
    scores = [Score(0.25), Score(None, "unreadable"), Score(0.5)] * 2
    monkeypatch.setattr(module, "batch_score", lambda *args, **kwargs: scores)
    verdict = JudgeVerifier().open(config, (), engine).score_all(cases)[0]
    expected = pytest.approx([0.25, float("nan"), 0.25, float("nan"), 0.5], nan_ok=True)
    assert list(verdict.scores[0]) == expected
    assert verdict.reasons[1] == "unreadable"
    assert [bool(reason) for reason in verdict.reasons] == [False, True, False, True, False]


def test_objects_named_in_a_question(cases):
    *_, cases = cases
    question = replace(
        cases[0].context.state.question,
        type="object_rel_direction_easy",
        text="If I am standing by the stove and facing the sofa, is the tv to my left?",
    )
    assert named_words(question) == "the stove, the sofa and the tv"
    assert named_words(replace(question, text="Is it?")) == ""


def test_judge_with_separate_model_does_not_use_the_run_engine(folder, questions):
    name = f"judge:{small_model(MODEL)}"
    config = options(folder, questions, engine="scripted", model="wanderer", verifier=(name,))
    assert len(check(build(config.absolute()))[0]) == 2
    scripted = ScriptedEngine(Moves(), 8)
    turns, evidence, _ = judge(config, lambda config, questions: scripted)
    shared_turns, shared_evidence, _ = judge(options(folder, questions))
    assert turns == shared_turns
    assert evidence.keys() == shared_evidence.keys()
    for key, values in scores_of(evidence).items():
        assert values == pytest.approx(scores_of(shared_evidence)[key], abs=1e-5)
        (judgement,) = evidence[key]["judgements"]
        assert judgement["verifier"] == name


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"engine": "scripted", "model": "wanderer"}, SetupError, "judge:MODEL"),
        ({"engine": "openai", "model": "m"}, UsageError, "--judge-mode json"),
        ({"rubric": "none-such"}, SetupError, "'none-such'"),
        ({"rubric": "only-yes.yaml", "judge_mode": "json"}, SetupError, "'introduction'"),
        ({"rubric": "invalid.yaml"}, SetupError, "invalid.yaml"),
        ({"verifier": ("judge:/none/such",)}, SetupError, "/none/such"),
    ],
)
def test_invalid_judge_is_rejected_before_the_folder_exists(
    folder, questions, monkeypatch, changes, error, message
):
    monkeypatch.chdir(folder)
    (folder / "only-yes.yaml").write_text('name: yes only\nhelps: "{question}"\n')
    (folder / "invalid.yaml").write_text("name: [")
    config = options(folder, questions, output=str(folder / "never"), **changes)
    with pytest.raises(error, match=message):
        start_run(config.absolute(), lambda config: {})
    assert not (folder / "never").exists()
    if not changes.get("verifier"):  # a dry run does not check for the model
        with pytest.raises(error, match=message):
            dry_run(config)


def test_engines_without_model_or_probabilities_are_rejected(folder, questions):
    config = options(folder, questions)
    with pytest.raises(SetupError, match="scripted"):
        JudgeVerifier().open(config, (), ScriptedEngine(ReplayPolicy({})))
    without_scores = ScriptedTurns(config)
    without_scores.capabilities = replace(without_scores.capabilities, scoring=False)
    with pytest.raises(UsageError, match="probabilities"):
        JudgeVerifier().open(config, (), without_scores)
    without_scores.close()
