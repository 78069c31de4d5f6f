"""Fixed shapes make replies independent of what shares a call, tested with results that depend on the shape of a call."""

import dataclasses

import pytest
import torch
from conftest import mostly_slow
from factories import documentation
from factories.dialogues import Dialogues, load
from factories.families import SMALL_FAMILIES, small_family
from factories.models import small_model
from factories.runs import (
    NullObserver,
    make_config,
    make_questions,
    resume,
    spread_over_rooms,
    transcripts,
    truncate_log,
)

from render_agent.dialogue import chat
from render_agent.engines.families.model_families import FAMILIES
from render_agent.engines.transformers import attention, fixed_shapes, scheduler
from render_agent.engines.transformers.factory import build_engine
from render_agent.engines.transformers.model.load import open_model
from render_agent.engines.transformers.start_check import check_composition
from render_agent.engines.transformers.transformers_engine import ContinuousEngine
from render_agent.errors import SetupError
from render_agent.runs.runner import start_run

pytestmark = pytest.mark.usefixtures("freeze_earlier_objects")

LARGE_BUDGET = 1 << 30
LONG = {"count": 5, "turns": 3, "instructions": "Explore the room. " * 90, "max_new_tokens": 8}


@pytest.fixture(scope="module", autouse=True)
def single_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def loaded():
    return load(small_model())


@pytest.fixture(autouse=True)
def shape_dependent(monkeypatch):
    """Make every product and every attention depend on the shape of its call, more than the kernels of a GPU do."""
    linear, attend = torch.nn.functional.linear, torch.nn.functional.scaled_dot_product_attention

    def shifted(result, *sizes):
        return result * (1 + hash(sizes) % 61 * 2e-4)

    def shifted_linear(states, weight, bias=None):
        return shifted(linear(states, weight, bias), states.numel() // states.shape[-1])

    def shifted_attention(query, key, value, *args, **kwargs):
        output = attend(query, key, value, *args, **kwargs)
        return shifted(output, tuple(query.shape), tuple(key.shape))

    monkeypatch.setattr(torch.nn.functional, "linear", shifted_linear)
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", shifted_attention)
    monkeypatch.setattr(attention, "scaled_dot_product_attention", shifted_attention)


@pytest.fixture
def results(loaded, monkeypatch):
    """Return a function that runs dialogues and returns the exact logits that chose every token of every turn."""

    def run(
        max_concurrent=None,
        budget=LARGE_BUDGET,
        most_rows=64,
        reproducible=True,
        forget=False,
        only=None,
        loaded=loaded,
        **options,
    ):
        recorded_logits = {}
        choose = scheduler.choose_tokens

        def record(logits, likely, rows, truncation):
            for row, values in zip(rows, logits, strict=True):
                key = row.request.dialogue_id, row.request.turn, row.number
                recorded_logits.setdefault(key, []).append(values.clone())
            return choose(logits, likely, rows, truncation)

        with monkeypatch.context() as patch:
            patch.setattr(scheduler, "choose_tokens", record)
            engine = ContinuousEngine(
                dataclasses.replace(loaded),
                budget=budget,
                most_rows=most_rows,
                reproducible=reproducible,
            )
            if forget:
                unpin = engine.cache.unpin

                def forgetful(sequence):
                    unpin(sequence)
                    # The names of further samples begin with \0, and they are evicted anyway.
                    if not sequence.question_id.startswith("\0"):
                        engine.cache.evict(sequence)

                patch.setattr(engine.cache, "unpin", forgetful)
            dialogues = Dialogues(**LONG | options)
            dialogues.ids = only or dialogues.ids
            dialogues.run(engine, max_concurrent)
        assert not [r.error for replies in dialogues.replies.values() for r in replies if r.error]
        logits = {key: torch.stack(values) for key, values in recorded_logits.items()}
        return dialogues, logits, engine

    return run


@pytest.fixture(scope="module")
def reference():
    return {}


@pytest.fixture
def expected(results, reference):
    if not reference:
        reference["all"] = results()
    return reference["all"]


def same(first, second):
    assert first.keys() == second.keys()
    return all(first[key].equal(second[key]) for key in first)


def test_without_fixed_shapes_logits_depend_on_the_schedule(results):
    _, first, _ = results(reproducible=False)
    _, second, _ = results(max_concurrent=1, reproducible=False)
    assert not same(first, second)


@pytest.mark.parametrize(
    "schedule",
    [{"max_concurrent": 1}, {"max_concurrent": 3}, {"most_rows": 2}, {"forget": True}],
    ids=["one", "three", "two_rows", "evicted"],
)
def test_logits_depend_on_the_dialogue_alone(results, expected, schedule):
    dialogues, logits, _ = results(**schedule)
    assert dialogues.texts == expected[0].texts
    assert same(logits, expected[1])


def test_small_cache_evicts_and_changes_nothing(results, expected):
    bytes_per_page = expected[2].cache.page_bytes
    dialogues, logits, engine = results(budget=20 * bytes_per_page)
    assert engine.cache.evicted
    assert same(logits, expected[1])
    assert dialogues.texts == expected[0].texts


def test_resumed_turns_are_equal(results, expected, loaded):
    """A resumed run computes every turn again from its messages, with an empty cache."""
    dialogues = Dialogues(**LONG)
    for turn in range(2):
        engine = ContinuousEngine(
            dataclasses.replace(loaded), budget=LARGE_BUDGET, most_rows=3, reproducible=True
        )
        names = [name for name in dialogues.ids if dialogues.turns[name] > turn]
        requests = [dialogues.request(name) for name in names]
        for name, reply in zip(names, engine.generate(requests), strict=True):
            dialogues.replies[name].append(reply)
            dialogues.messages[name] = [*dialogues.messages[name], chat.assistant(reply.text)]
        del engine
    assert {name: texts[:2] for name, texts in expected[0].texts.items()} == dialogues.texts


def test_running_out_of_memory_changes_nothing(results, expected, monkeypatch):
    prefill, failures = scheduler.prefill, iter([False, True, False, False, True] * 2)

    def failing(*args):
        if next(failures, False):
            raise torch.OutOfMemoryError("CUDA out of memory")
        return prefill(*args)

    monkeypatch.setattr(scheduler, "prefill", failing)
    dialogues, logits, _ = results()
    assert dialogues.events.count("out_of_memory") == 4
    # A call repeated after a fault chooses its tokens only once.
    assert same(logits, expected[1])


@pytest.mark.parametrize("call", ["prefill", "step"])
def test_question_that_never_fits_fails_alone(expected, loaded, monkeypatch, call):
    """A dialogue that runs out of memory in every call, even alone, fails, and no other does."""
    engine = ContinuousEngine(
        dataclasses.replace(loaded), budget=LARGE_BUDGET, most_rows=64, reproducible=True
    )
    prefill, step = scheduler.prefill, engine.scheduler.decoder.step

    def refuse(sequences):
        if "q3" in {sequence.question_id for sequence in sequences}:
            raise torch.OutOfMemoryError("CUDA out of memory")

    def refusing_prefill(model, cache, entries, *args):
        refuse([entry.sequence for entry in entries])
        return prefill(model, cache, entries, *args)

    def refusing_step(rows):
        refuse([row.sequence for row in rows])
        return step(rows)

    if call == "prefill":
        monkeypatch.setattr(scheduler, "prefill", refusing_prefill)
    else:
        monkeypatch.setattr(engine.scheduler.decoder, "step", refusing_step)
    texts = Dialogues(**LONG).run(engine).texts
    for error in texts.pop("q3"):
        assert "does not fit in the memory of cpu" in error
        assert "--reproducible on" in error
    assert texts == {name: turns for name, turns in expected[0].texts.items() if name != "q3"}


def test_complete_blocks_are_reused(expected):
    total, new, cached = expected[0].tokens
    assert cached > 0.5 * total
    assert new < total


SCHEMA = {
    "type": "object",
    "properties": {"forward": {"type": "integer"}, "answer": {"enum": ["left", "right"]}},
    "required": ["forward", "answer"],
    "additionalProperties": False,
}
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}]
REQUESTS = {
    "sampled": {"temperature": 0.9, "num_samples": 3},
    "guided": {"schema": SCHEMA},
    "guided and sampled": {"schema": SCHEMA, "temperature": 1.5, "num_samples": 2},
    "tools": {"tools": TOOLS},
}


@pytest.mark.parametrize("kind", REQUESTS)
def test_other_requests_depend_on_the_dialogue_alone(results, loaded, monkeypatch, kind):
    """Workers and shards divide the questions among several engines, here two."""
    processor = loaded.inputs.processor
    monkeypatch.setattr(processor, "chat_template", "{{ tools }}" + processor.chat_template)
    options = {"count": 3, "turns": 2, "max_new_tokens": 6} | REQUESTS[kind]
    dialogues, logits, _ = results(**options)
    for schedule in ({"max_concurrent": 1}, {"most_rows": 2, "forget": True}):
        other, other_logits, _ = results(**schedule, **options)
        assert other.texts == dialogues.texts
        assert same(other_logits, logits)
    halves = [results(only=dialogues.ids[half::2], **options) for half in (0, 1)]
    assert same(halves[0][1] | halves[1][1], logits)


MANY = pytest.param(64, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])


@pytest.mark.parametrize("count", [4, MANY])
def test_batching_sharding_and_resuming_do_not_change_transcripts(tmp_path, count):
    questions = spread_over_rooms(make_questions(tmp_path, count), 2)
    options = {
        "engine": "transformers",
        "model": str(small_model()),
        "reproducible": "on",
        "temperature": 0.8,
        "max_turns": 2 if count == 4 else 3,
        "max_new_tokens": 4,
        "image_size": (64, 48),
        "no_self_check": True,  # results that depend on the shape of a call differ from a plain forward pass
    }

    def play(**overrides):
        run = start_run(make_config(tmp_path, questions, **options, **overrides))
        run.go(NullObserver())
        run.close()
        return run.path

    path = play()
    expected = transcripts(path)
    unbatched = {"max_batched_turns": 0, "finish_together": 1, "batch_size": 1}
    assert transcripts(play(**unbatched)) == expected
    for batch_size in (3, 16) if count == 64 else ():
        assert transcripts(play(batch_size=batch_size)) == expected
    shards = [transcripts(play(shard=f"{part}/2")) for part in (1, 2)]
    assert shards[0] | shards[1] == expected
    truncate_log(path, count // 2)  # as if killed after the first turns
    resume(path)
    assert transcripts(path) == expected


def test_scores_of_choices_do_not_depend_on_other_requests(loaded):
    engine = ContinuousEngine(
        dataclasses.replace(loaded), budget=LARGE_BUDGET, most_rows=8, reproducible=True
    )
    requests = [Dialogues(**LONG).request(f"q{number}") for number in range(3)]
    choices = [("yes", "no, not at all")] * 3
    single = [engine.score([request], choices[:1])[0].log_probabilities for request in requests]
    assert [scores.log_probabilities for scores in engine.score(requests, choices)] == single


def test_check_detects_whether_logits_depend_on_the_schedule(loaded, monkeypatch):
    engine = build_engine(
        dataclasses.replace(loaded), 8, {}, 1000, image_size=(64, 64), reproducible=True
    )
    assert (engine.cache.sequences, engine.cache.needs_prefix) == ([], True)
    plain = build_engine(dataclasses.replace(loaded), 8, {}, 1000, image_size=(64, 64))
    assert "logits" in check_composition(plain)
    monkeypatch.setattr(fixed_shapes.FixedShapes, "sizes", lambda self, *sizes: sizes)
    with pytest.raises(SetupError, match="does not hold"):
        build_engine(
            dataclasses.replace(loaded), 8, {}, 1000, image_size=(64, 64), reproducible=True
        )


REJECTED = [name for name in SMALL_FAMILIES if name.endswith("_moe")] + [
    *("kimi_k25", "qwen3_5", "lfm2_vl", "minicpmv4_6", "qwen4_exp"),
    *("molmo2", "llava_onevision", "paligemma", "llama4"),
]
VERIFIED = [name for name in SMALL_FAMILIES if name not in REJECTED]


@pytest.mark.parametrize("name", mostly_slow(VERIFIED, "gemma3", "mistral3", "ovis2"))
def test_families_with_plain_layers_are_independent_of_the_schedule(results, name):
    """This includes layers with windows and with bidirectional attention for images."""
    loaded = open_model("small", pretrained=small_family(name))
    options = {"loaded": loaded, "count": 3, "turns": 2, "max_new_tokens": 4}
    dialogues, logits, _ = results(**options)
    for schedule in ({"max_concurrent": 1}, {"most_rows": 2, "forget": True}):
        other, other_logits, _ = results(**schedule, **options)
        assert other.texts == dialogues.texts
        assert same(other_logits, logits)


@pytest.mark.parametrize("name", mostly_slow(REJECTED, "qwen3_vl_moe", "qwen3_5"))
def test_models_that_depend_on_the_schedule_are_rejected(name):
    loaded = open_model("small", pretrained=small_family(name))
    with pytest.raises(SetupError, match="--reproducible on does not work with this model"):
        build_engine(loaded, 8, {}, 1000, image_size=(64, 64), reproducible=True)


def test_table_of_the_docs_lists_every_family():
    page = documentation.read("explanation/in-process-engine.md")
    table = " ".join(line for line in page.splitlines() if line.startswith("| "))
    assert [family.name for family in FAMILIES if family.name not in table] == []
