"""The vLLM engine with a small real Qwen3-VL; `make test-vllm` runs this in an environment with vLLM."""

import json
from dataclasses import replace
from importlib.util import find_spec

import psutil
import pytest
from factories.models import load_random_image, small_model
from factories.runs import finish_run, make_config, make_questions, transcripts
from jsonschema import validate

from render_agent.dialogue.chat import assistant, image_piece, message, text
from render_agent.engines.checkpoint.locate import find_model
from render_agent.engines.engine import Request
from render_agent.engines.vllm.arguments import VllmOptions, prepare_environment
from render_agent.engines.vllm.core import VllmCore
from render_agent.engines.vllm.vllm_engine import VllmEngine
from render_agent.errors import EngineError
from render_agent.runs.runner import start_run

pytestmark = [
    pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not here: make test-vllm"),
    # vLLM and its dependencies emit warnings at import.
    pytest.mark.filterwarnings("default"),
]

INSTRUCTIONS = "You look at pictures of one room and say what you see in them. " * 6


@pytest.fixture(scope="module")
def engine():
    # Small enough to refuse long prompts; the dialogues below have up to 1,500 tokens.
    engine = VllmEngine(str(small_model()), options=VllmOptions(max_model_len=4096, sequences=8))
    yield engine
    engine.close()


def make_request(name, *files, turn=0, history=(), **options):
    """Return a request whose last message has these images."""
    messages = list(history) or [message("system", text(INSTRUCTIONS))]
    messages.append(
        message("user", text(f"What is this, {name}?"), *[image_piece(file) for file in files])
    )
    options = {"max_new_tokens": 16} | options
    return Request(name, turn, messages, load_random_image, **options)


def requests_of_several_sizes():
    """Return requests with 0 to 3 images of several sizes."""
    files = ["64x96-0.png", "128x64-1.png", "96x96-2.png"]
    return [make_request(f"q{count}", *files[:count]) for count in range(4)]


def texts(replies):
    assert [reply.error for reply in replies] == [None] * len(replies)
    return [reply.samples for reply in replies]


def test_batch_equals_single_requests(engine):
    batched = texts(engine.generate(requests_of_several_sizes()))
    engine.core.clear_caches()
    single = [texts(engine.generate([request]))[0] for request in requests_of_several_sizes()]
    assert batched == single
    assert len(set(batched)) == len(batched)


def test_streaming_returns_each_reply_once(engine):
    expected = dict(
        zip(
            [r.dialogue_id for r in requests_of_several_sizes()],
            texts(engine.generate(requests_of_several_sizes())),
            strict=True,
        )
    )
    engine.submit(requests_of_several_sizes())
    replies = {}
    while len(replies) < len(expected):
        for request, reply in engine.ready(timeout=0.001):
            assert request.dialogue_id not in replies
            replies[request.dialogue_id] = reply.samples
    assert replies == expected
    assert list(engine.ready()) == []


def test_wake_ends_the_wait_without_losing_replies(engine):
    engine.submit([make_request("q", max_new_tokens=200)])
    engine.wake()
    assert list(engine.ready()) == []
    ((_, reply),) = engine.ready()
    assert reply.error is None
    assert reply.tokens.reply > 1


def play_dialogue(engine, turns=5):
    """Run a dialogue with a new image in every turn; return its requests and replies."""
    turns = []
    history = ()
    for turn in range(turns):
        request = make_request(
            "room", f"96x64-{turn}.png", turn=turn, history=history, max_new_tokens=8
        )
        (reply,) = engine.generate([request])
        assert reply.error is None
        turns.append((request, reply))
        history = [*request.messages, assistant(reply.text)]
    return turns


def test_most_tokens_of_a_dialogue_come_from_the_cache(engine):
    engine.core.clear_caches()
    turns = play_dialogue(engine)
    prompt_tokens = sum(reply.tokens.prompt for _, reply in turns)
    cached_tokens = sum(reply.tokens.cached for _, reply in turns)
    assert turns[0][1].tokens.cached == 0
    assert cached_tokens / prompt_tokens > 0.7
    for request, reply in turns:
        engine.core.clear_caches()
        (recomputed,) = engine.generate([request])
        assert recomputed.tokens.cached == 0
        assert (recomputed.samples, recomputed.tokens.prompt) == (
            reply.samples,
            reply.tokens.prompt,
        )


def test_images_with_the_same_name_are_distinguished_by_content(engine):
    request = make_request("q", "64x64-1.png")
    swapped = replace(request, load_image=lambda file: load_random_image("64x64-2.png"))
    first, second = (texts(engine.generate([each]))[0] for each in (request, swapped))
    assert first != second
    assert texts(engine.generate([make_request("q", "64x64-2.png")]))[0] == second
    assert texts(engine.generate([request, swapped])) == [first, second]


def test_replies_match_their_schema(engine):
    schema = {
        "type": "object",
        "properties": {
            "view": {"enum": ["ego", "top"]},
            "degrees": {"type": "integer", "minimum": -20, "maximum": 20},
            "done": {"type": "boolean"},
        },
        "required": ["view", "degrees", "done"],
        "additionalProperties": False,
    }
    free, constrained = (
        make_request("q", "64x64-1.png", max_new_tokens=80, schema=s) for s in (None, schema)
    )
    samples = make_request(
        "q", "64x64-1.png", max_new_tokens=80, schema=schema, temperature=1.5, num_samples=4
    )
    first, second, third = engine.generate([free, constrained, samples])
    with pytest.raises(ValueError, match=r"Expecting|Extra|Invalid"):
        json.loads(first.text)
    for sample in (*second.samples, *third.samples):
        validate(json.loads(sample), schema)
    assert second.finish == "stop"
    assert len(third.samples) == 4


def test_samples_depend_on_the_seed_only(engine):
    requests = [
        make_request(f"q{number}", "64x64-1.png", temperature=1.0, num_samples=3, seed=number)
        for number in range(3)
    ]
    batched = texts(engine.generate(requests))
    assert [len(samples) for samples in batched] == [3, 3, 3]
    assert len({sample for samples in batched for sample in samples}) == 9
    assert [texts(engine.generate([request]))[0] for request in requests] == batched
    assert texts(engine.generate([replace(requests[0], seed=7)]))[0] != batched[0]
    greedy = replace(requests[0], temperature=0.0)
    assert len(set(texts(engine.generate([greedy]))[0])) == 1


def test_rejected_request_does_not_affect_others(engine):
    def fail_to_load(file):
        raise OSError("the disk is gone")

    valid = make_request("good", "64x64-1.png")
    expected = texts(engine.generate([valid]))
    long = make_request("long", history=[message("user", text("word " * 5000))])
    blind = replace(make_request("blind", "64x64-1.png"), load_image=fail_to_load)
    crowded = make_request("many", *["32x32-1.png"] * 40)
    replies = engine.generate([long, valid, blind, crowded])
    assert texts(replies[1:2]) == expected
    for reply, expected_text in zip(
        replies[:1] + replies[2:], ("4096", "the disk is gone", "32"), strict=True
    ):
        assert expected_text in reply.error
        assert "\n" not in reply.error
    engine.submit([long])
    assert [reply.error is None for _, reply in engine.ready()] == [False]


def reference_scores(request, choices):
    """Return the log-probabilities by transformers, with a forward pass per choice."""
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor

    processor = AutoProcessor.from_pretrained(small_model())
    model = AutoModelForImageTextToText.from_pretrained(small_model(), dtype=torch.float32).eval()
    prompt = processor.apply_chat_template(
        request.messages, tokenize=False, add_generation_prompt=True
    )
    files = [p["image"] for m in request.messages for p in m["content"] if p["type"] == "image"]
    scores = []
    for choice in choices:
        inputs = processor(
            text=[prompt + choice],
            images=[[load_random_image(f) for f in files]],
            return_tensors="pt",
        )
        tokens = processor.tokenizer(choice)["input_ids"]
        ids = inputs["input_ids"][0]
        assert ids[-len(tokens) :].tolist() == tokens
        with torch.inference_mode():
            logits = model(**inputs).logits[0].double().log_softmax(-1)
        positions = range(len(ids) - len(tokens), len(ids))
        scores.append(sum(float(logits[position - 1, ids[position]]) for position in positions))
    return scores


def test_scores_are_summed_log_probabilities(engine):
    choices = ["A", "B", "true", "trap", "the view is in the room", "Z"]
    request = make_request("q", "64x96-3.png", "96x64-4.png")
    (scores, second) = engine.score([request, make_request("p")], [choices, ["yes"]])
    assert scores.error is None
    assert scores.log_probabilities == pytest.approx(reference_scores(request, choices), abs=1e-3)
    assert len(second.log_probabilities) == 1
    (repeated,) = engine.score([request], [choices[:2]])
    assert repeated.log_probabilities == pytest.approx(scores.log_probabilities[:2], abs=1e-5)
    assert repeated.tokens.cached > 0.7 * repeated.tokens.prompt
    long = make_request("long", history=[message("user", text("word " * 5000))])
    failed, right = engine.score([long, request], [["A"], ["A"]])
    assert "4096" in failed.error
    assert right.log_probabilities == pytest.approx(scores.log_probabilities[:1], abs=1e-5)


def test_prefix_cache_does_not_change_tokens_and_dead_process_raises(engine):
    expected = texts(engine.generate(requests_of_several_sizes()))
    before = set(psutil.Process().children())
    files = find_model(str(small_model()))
    options = VllmOptions(max_model_len=4096, sequences=8, options={"enable_prefix_caching": False})
    core_with_cache, engine.core = (
        engine.core,
        VllmCore(files, options, prepare_environment("auto")),
    )
    try:
        replies = engine.generate(requests_of_several_sizes())
        assert texts(replies) == expected
        assert {reply.tokens.cached for reply in replies} == {0}
        for process in set(psutil.Process().children()) - before:
            if "EngineCore" in " ".join(process.cmdline()):
                process.kill()
                process.wait(10)
        with pytest.raises(EngineError, match="--continue recent"):
            engine.generate(requests_of_several_sizes()[:1])
    finally:
        engine.core.close()
        engine.core = core_with_cache
        engine._in_flight.clear()


def test_run_gives_the_replies_of_transformers(tmp_path):
    questions = make_questions(tmp_path, 4)
    options = {
        "model": str(small_model()),
        "dtype": "float32",
        "device": "cpu",
        "max_turns": 3,
        "max_new_tokens": 12,
        "image_size": (96, 64),
    }
    outcomes = []
    for engine, schedule in (("transformers", {}), ("vllm", {"max_batched_turns": 0})):
        config = make_config(tmp_path, questions, **options | schedule | {"engine": engine})
        run = start_run(config.absolute())
        results = finish_run(run)
        assert results["counts"]["failed"] == 0
        outcomes.append((transcripts(run.path), results["questions"], results["totals"]))
    (theirs, rows, _), (ours, our_rows, totals) = outcomes
    for turns in (*theirs.values(), *ours.values()):
        for turn in turns:
            turn["tokens"].pop("from_cache", None)
    assert ours == theirs
    assert our_rows == rows
    assert totals["tokens"]["from_cache"] > 0.5 * totals["tokens"]["in"]
