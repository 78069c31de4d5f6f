"""Scripted policies, from the registry and from files."""

import json
import random
import textwrap
from dataclasses import replace

import pytest
from conftest import test_data
from factories.replies import parse_reply

from render_agent import registry
from render_agent.dialogue.question import Question
from render_agent.dialogue.reply import Action
from render_agent.engines.engine import Request
from render_agent.engines.make_engine import describe_engine
from render_agent.engines.scripted import make_scripted
from render_agent.engines.scripted.blind_policies import ExplorerPolicy, RandomPolicy
from render_agent.errors import SetupError, UsageError
from render_agent.options import RunConfig
from render_agent.parts.beliefs.part import Beliefs
from render_agent.score.means import AnswerScore, tally_scores
from render_agent.score.questions import score_answer
from render_agent.tasks.row_files import load_questions

OPTIONS = ("A. left", "B. right", "C. back", "D. front")


def make_question(number, kind="route_planning", form="letter", options=OPTIONS, truth="B"):
    return Question(str(number), "b", "d", "s", kind, "?", form, options, truth)


MIXED = [make_question(n) for n in range(20)] + [
    make_question(n, "object_counting", "number", (), str(n % 5)) for n in range(20, 40)
] + [make_question(40, "single", "text", (), None), make_question(41, "single", "letter", ("A. yes", "B. no"), None)]  # fmt: skip


def request(question_id, turn=0, is_last_turn=False):
    message = {"role": "user", "content": [{"type": "text", "text": "how many chairs"}]}
    return Request(
        str(question_id), turn, [message], load_image=lambda file: None, is_last_turn=is_last_turn
    )


def play(policy, question, turns):
    """Play a question and return the actions."""
    actions = []
    for turn in range(turns):
        reply = policy.reply(request(question.id, turn, is_last_turn=turn + 1 == turns))
        actions.append(parse_reply(reply, question.answer_form, question.options))
        if actions[-1].done:
            break
    return actions


@pytest.mark.parametrize("turns", [1, 2, 11])
@pytest.mark.parametrize("name", registry.names("scripted policy"))
def test_policy_ends_with_an_answer_within_its_turns(name, turns):
    policy = registry.load("scripted policy", name)(MIXED, 3, None)
    for question in MIXED:
        *earlier, last = play(policy, question, turns)
        assert (last.done, last.requests_move, last.notes) == (True, False, ())
        assert last.answer is not None
        assert all(isinstance(action, Action) and not action.done for action in earlier)
        assert all(action.requests_move or action.view for action in earlier)


def test_explorer_turns_walks_and_requests_maps():
    steps = [action for question in MIXED for action in play(ExplorerPolicy(MIXED), question, 9)]
    assert {step.view for step in steps} == {None, "around", "top"}
    assert any(step.forward for step in steps)
    assert any(step.rotation < 0 for step in steps)
    assert {len(play(ExplorerPolicy(MIXED), question, 9)) for question in MIXED} > {3, 7}


@pytest.mark.parametrize("name", registry.names("scripted policy"))
def test_replies_are_independent_of_batch_size_and_order(name):
    requests = [request(question.id, turn) for question in MIXED[::3] for turn in (0, 4)]
    replies = {
        (r.dialogue_id, r.turn): make_scripted(name, MIXED, 5).policy.reply(r) for r in requests
    }
    random.Random(1).shuffle(requests)
    for size in (1, 7, 64):
        engine = make_scripted(name, MIXED[::-1], 5, size)
        for r, reply in zip(requests, engine.generate(requests), strict=True):
            assert reply.text == replies[r.dialogue_id, r.turn]


def test_random_answers_depend_only_on_seed_and_question_id():
    def answers(questions, seed):
        policy = RandomPolicy(questions, seed)
        return [policy.reply(request(question.id)) for question in questions]

    many = [make_question(n) for n in range(100)]
    assert answers(many, 0) == answers(many, 0) != answers(many, 1)
    assert answers(many[:50], 0) == answers(many, 0)[:50]


def test_random_answers_match_the_chance_level_of_the_paper():
    questions = [
        question
        for question in load_questions(test_data("vsibench", "test.jsonl"), "vsibench")
        if question.answer_form == "letter"
    ]
    scored = []
    for seed in range(8):
        policy = RandomPolicy(questions, seed)
        for q in questions:
            answer = json.loads(policy.reply(request(q.id)))["answer"]
            scored.append(AnswerScore(q.type, q.dataset, q.scene, 100 * score_answer(q, answer)))
    means = tally_scores(scored).means
    assert means["object_rel_distance"] == pytest.approx(25.0, abs=1)
    assert means["object_rel_direction"] == pytest.approx(36.1, abs=1)
    assert means["route_planning"] == pytest.approx(28.3, abs=2)
    assert means["obj_appearance_order"] == pytest.approx(25.0, abs=1)


def test_tokens_and_samples_are_counted():
    engine = make_scripted("random", MIXED, 0)
    [reply] = engine.generate(
        [Request("1", 0, request(1).messages, lambda file: None, num_samples=3)]
    )
    assert len(reply.samples) == 3
    assert (reply.tokens.prompt, reply.tokens.reply) == (3, len(reply.text.split()))
    wanderer = make_scripted("wanderer", MIXED, 0)
    [reply] = wanderer.generate(
        [Request("1", 0, request(1).messages, lambda file: None, num_samples=3)]
    )
    assert len(set(reply.samples)) == 3
    assert (reply.tokens.prompt, reply.tokens.cached) == (9, 6)
    assert reply.tokens.reply == sum(len(text.split()) for text in reply.samples)
    [single] = wanderer.generate([Request("1", 0, request(1).messages, lambda file: None)])
    assert single.samples == reply.samples[:1]


def write(path, content):
    path.write_text(textwrap.dedent(content))
    return str(path)


def replies_of(model, *requests):
    replies = make_scripted(model, MIXED, 0).generate(list(requests))
    return [reply.text if reply.error is None else None for reply in replies]


def test_replies_from_a_jsonl_file(tmp_path):
    model = write(
        tmp_path / "replies.jsonl",
        """\
        {"id": 1, "replies": ["not JSON", {"answer": "B", "done": true}]}

        {"id": "*", "replies": [{"view": "top"}]}
        {"id": "3", "replies": []}
        """,
    )
    assert replies_of(model, request(1), request(1, 1), request(1, 5)) == [
        "not JSON",
        '{"answer": "B", "done": true}',
        '{"answer": "B", "done": true}',
    ]
    assert replies_of(model, request(2), request(3)) == ['{"view": "top"}', None]


@pytest.mark.parametrize(
    "content",
    [
        '[{"id": 1, "replies": ["x"]}]',
        '{"id": 1, "replies": ["x"]}',
        '\ufeff{"id": 1, "replies": ["x"]}',
    ],
)
def test_replies_from_a_json_file(tmp_path, content):
    model = write(tmp_path / "replies.json", content)
    assert replies_of(model, request(1), request(2)) == ["x", None]


POLICY = """\
    from __future__ import annotations
    from dataclasses import dataclass

    @dataclass
    class Mine:
        known: dict[str, str]

        def reply(self, request):
            return {"0": "zero", "1": 1}.get(request.question_id) or self.known[request.question_id]

    def policy(questions, seed):
        return Mine({question.id: question.ground_truth for question in questions if question.id != "3"})
"""


def test_python_policy_gets_the_questions(tmp_path):
    assert replies_of(write(tmp_path / "mine.py", POLICY), request(0), request(2)) == ["zero", "B"]


def test_policy_exception_fails_only_that_question(tmp_path, caplog):
    engine = make_scripted(write(tmp_path / "mine.py", POLICY), MIXED, 0)
    replies = engine.generate([request(0), request(1), request(2), request(3)])
    assert [bool(reply.error) for reply in replies] == [False, True, False, True]
    assert "int" in replies[1].error
    assert "KeyError('3')" in replies[3].error
    assert "KeyError" in caplog.text


@pytest.mark.parametrize(
    ("name", "content", "pattern"),
    [
        ("a.py", "import nothing_of_this_name", "a.py.*nothing_of_this_name"),
        ("b.py", "def policy(:", "b.py.*SyntaxError"),
        ("c.py", "x = 1", r"policy\(questions, seed\)"),
        ("d.py", "def policy(questions, seed): return questions[1000]", "d.py.*IndexError"),
        ("e.py", "def policy(questions, seed): return 'x'", r"reply\(request\)"),
        ("f.py", "def policy(): ...", "TypeError"),
        ("a.json", "[", "a.json"),
        ("b.json", "[1]", "entry 1"),
        ("c.json", '{"1": ["x"]}', "entry 1"),
        ("d.jsonl", '{"id": 1, "replies": []}\n{"id": 2, "replies": "x"}', "entry 2"),
        ("e.jsonl", '{"id": 1}', "entry 1"),
        ("f.json", "\ud800", "f.json"),
        ("f.txt", "", "explorer, random"),
    ],
)
def test_invalid_policy_file_is_reported(tmp_path, name, content, pattern):
    path = tmp_path / name
    path.write_text(textwrap.dedent(content), "utf-8", "surrogatepass")
    with pytest.raises(SetupError, match=pattern):
        make_scripted(str(path), MIXED, 0)


@pytest.mark.parametrize("model", ["nothing", "missing.json", "oracle.py", "", "Explorer"])
def test_unknown_policy_error_lists_the_available_ones(model):
    with pytest.raises(SetupError, match="explorer, random"):
        make_scripted(model, MIXED, 0)


@pytest.mark.parametrize("model", [*registry.names("scripted policy"), "replies.jsonl"])
def test_policies_without_beliefs_refuse_probes(model):
    config = RunConfig(batch=True, benchmark="rooms", engine="scripted", model=model)
    Beliefs().check(config, ())
    probed = replace(config, probe=("map",))
    if model in ("seeker", "witness"):
        Beliefs().check(probed, ())
        return
    with pytest.raises(UsageError, match=f"--probe map.*{model}"):
        Beliefs().check(probed, ())


@pytest.mark.parametrize("engine", ["scripted", "human"])
def test_engine_options_of_other_engines_are_rejected(engine):
    config = RunConfig(batch=True, benchmark="rooms", engine=engine, engine_option=("top_k=3",))
    with pytest.raises(UsageError, match=f"top_k.*{engine}"):
        describe_engine(config)
