"""The bench command: its figures match the log, and all schedules give the same transcripts."""

import json
from statistics import median

import pytest
from click.testing import CliRunner
from factories.models import small_model

from render_agent.cli.main import cli
from render_agent.engines.engine import Request
from render_agent.engines.transformers.model.load import open_model
from render_agent.errors import SetupError, UsageError
from render_agent.options import RunConfig
from render_agent.tasks.rooms import load_bundled_rooms
from render_agent_lab.bench.schedules import figures, lower_bound
from render_agent_lab.bench.schedules.compared_engines import EngineFactory, make_tokenize
from render_agent_lab.bench.schedules.measure import Bench
from render_agent_lab.bench.schedules.report import COLUMNS, markdown
from render_agent_lab.bench.schedules.script import LengthDistributions, ScriptedWalk
from render_agent_lab.bench.schedules.variants import Variant, make_variants
from render_agent_lab.random_models.published_shapes import find_shape


def request(question_id, turn=0, is_last_turn=False):
    return Request(question_id, turn, [], lambda file: None, is_last_turn=is_last_turn)


def walk(lengths=LengthDistributions(), seed=0):  # noqa: B008 - frozen
    return ScriptedWalk(load_bundled_rooms(), lengths, str.split, seed)


def test_reply_lengths_are_log_normal_and_reproducible():
    lengths = LengthDistributions((2, 5), reply_tokens=100, spread=0.45, most=400)
    samples = [lengths.tokens_of("q", turn, seed=1) for turn in range(2000)]
    assert samples == [lengths.tokens_of("q", turn, seed=1) for turn in range(2000)]
    assert 95 < median(samples) < 105
    above = sum(length > 100 * 2.718**0.45 for length in samples) / len(samples)
    assert 0.13 < above < 0.19  # 15.9 % are more than one standard deviation above the median
    assert {lengths.turns_of(str(number), 0) for number in range(100)} == {2, 3, 4, 5}


def test_walk_answers_after_the_drawn_number_of_turns():
    script, question = walk(LengthDistributions((3, 3), reply_tokens=60)), load_bundled_rooms()[0]
    replies = [json.loads(script.reply(request(question.id, turn))) for turn in range(3)]
    assert [reply.get("done", False) for reply in replies] == [False, False, True]
    assert json.loads(script.reply(request(question.id, 0, is_last_turn=True)))["done"]


def test_baselines_appear_once_among_the_variants():
    schedules = ["sequential", "two-phase", "refill"]
    variants = make_variants(["transformers"], schedules, ["none"], [8, 32])
    pairs = [(variant.schedule, variant.batch_size) for variant in variants]
    assert pairs == [("sequential", 1), ("two-phase", 16), ("refill", 8), ("refill", 32)]
    two_phase = variants[1].options(max_turns=9)
    assert two_phase["max_batched_turns"] == 4
    assert two_phase["finish_together"] == 1
    variants = make_variants(["transformers", "scripted"], ["sequential", "refill"], ["keys"], [8])
    assert [(variant.engine, variant.schedule, variant.reuse) for variant in variants] == [
        ("transformers", "sequential", "keys"),
        ("transformers", "refill", "keys"),
        ("scripted", "sequential", "own"),
        ("scripted", "refill", "own"),
    ]
    with pytest.raises(UsageError, match="zigzag"):
        make_variants(["transformers"], ["zigzag"], ["none"], [8])


def line(question, turn, prompt, written, cached=0, reply="x"):
    """Return the fields of a turns.jsonl line that the figures need."""
    empty = dict.fromkeys(("messages", "action", "happened", "stood", "camera", "finish"))
    tokens = {"in": prompt, "out": written, "from_cache": cached}
    return {**empty, "question_id": question, "turn": turn, "reply": reply, "tokens": tokens, "error": None, "events": [], "views": [{}, {}], "batch_size": 2}  # fmt: skip


def test_first_seen_tokens_are_counted_once():
    lines = [line("a", 0, 100, 10), line("b", 0, 50, 5), line("a", 1, 150, 10, cached=110)]
    work = figures.read_work(lines)
    assert work.first_seen == 100 + 50 + (150 - 110)
    assert work.prefilled == 100 + 50 + 40
    assert (work.prompt, work.cached, work.written, work.questions) == (300, 110, 25, 2)
    pairs = (100 * 50, 50 * 25, 40 * 130)
    assert work.attended == sum(pairs)
    assert work.contexts == (10 * 100 + 50) + (5 * 50 + 12) + (10 * 150 + 50)
    assert work.steps == 12.5
    assert figures.read_work(lines, patches=1200).patches == 6 * 1200


def test_lower_bound_is_proportional_to_the_work(monkeypatch):
    model = open_model(str(small_model()), device="cpu").model
    monkeypatch.setattr(lower_bound, "measure_rates", lambda *_: lower_bound.DeviceRates(1e9, 1e10))
    lines = [line("a", 0, 1000, 10), line("a", 1, 1500, 100)]
    once = lower_bound.lower_bound_seconds(model, figures.read_work(lines))
    twice = lower_bound.lower_bound_seconds(
        model, figures.read_work([*lines, line("b", 0, 1000, 10), line("b", 1, 1500, 100)])
    )
    assert twice == pytest.approx(2 * once)
    text = model.model.language_model.layers
    weights = sum(weight.numel() for weight in text.parameters() if weight.dim() > 1)
    assert once > 2 * weights * (1000 + 490) / 1e10


def test_transcripts_do_not_depend_on_the_order_of_the_log():
    lines = [line("a", 0, 9, 1), line("b", 0, 9, 1), line("a", 1, 20, 1)]
    assert figures.read_work(lines).transcripts == figures.read_work(lines[::-1]).transcripts
    other = [line("a", 0, 9, 1, reply="y"), *lines[1:]]
    assert figures.read_work(lines).transcripts["b"] == figures.read_work(other).transcripts["b"]
    assert figures.read_work(lines).transcripts["a"] != figures.read_work(other).transcripts["a"]


def compare(variants, config, pretrained, own_replies=False):
    """Return the figures of some variants on a few questions."""
    lengths = LengthDistributions((2, 3), 6)
    script = ScriptedWalk(load_bundled_rooms(), lengths, make_tokenize(pretrained))
    engines = EngineFactory(config, pretrained, None if own_replies else script)
    return Bench(config, engines, lambda words: None).compare(variants, rounds=1)


def make_config(**options):
    small = {"batch": True, "benchmark": "rooms", "scene": ("room00",), "limit": 3, "max_turns": 3}
    return RunConfig(**small | {"image_size": (64, 48), "no_guide": True} | options)


@pytest.fixture(scope="module")
def small():
    import torch

    from render_agent_lab.random_models.random_model import random_model

    torch.set_num_threads(1)
    return random_model("small", "cpu")


@pytest.mark.slow
def test_schedules_give_the_same_transcripts_with_scripted_replies(small):
    variants = [
        Variant("transformers", name, "none", size)
        for name, size in (("sequential", 1), ("two-phase", 16), ("refill", 3))
    ]
    rows = compare(variants, make_config(limit=2), small)
    assert [row["questions_that_differ"] for row in rows] == [0, 0, 0]
    assert [row["failed"] for row in rows] == [0, 0, 0]
    assert rows[0]["calls"] == rows[0]["turns"] > rows[1]["calls"] >= rows[2]["calls"]
    assert rows[0]["times_sequential"] == 1
    assert len({row["tokens_written"] for row in rows}) == 1
    for row in rows:
        assert 0 < row["floor_share"] < 1
        assert row["floor_seconds"] == pytest.approx(
            row["floor_share"] * row["seconds"], abs=0.01 + 0.001 * row["seconds"]
        )  # both are rounded
    # Recomputed prompts exceed the new tokens.
    assert rows[0]["tokens_prefilled"] == rows[0]["tokens_prompt"] > rows[0]["tokens_first_seen"]


@pytest.mark.slow
def test_schedules_give_the_same_transcripts_with_generated_replies(small):
    variants = [
        Variant("transformers", name, "none", size)
        for name, size in (("sequential", 1), ("lockstep", 3))
    ]
    rows = compare(variants, make_config(max_turns=2, max_new_tokens=6), small, own_replies=True)
    assert [row["questions_that_differ"] for row in rows] == [0, 0]
    assert rows[0]["turns"] == 6
    assert rows[0]["tokens_written"] > 0


def test_shapes_have_the_parameter_counts_of_the_published_models():
    import torch

    from render_agent.engines.checkpoint.torchvision_compat import patch_torchvision
    from render_agent_lab.random_models.random_model import build_tokenizer, make_config

    patch_torchvision()
    from transformers import AutoModelForImageTextToText

    published = {"2B": 2_127_532_032, "4B": 4_437_815_808, "8B": 8_767_123_696}
    tokenizer = build_tokenizer()
    for size, count in published.items():
        shape = find_shape(f"Qwen3-VL-{size}-Instruct")
        with torch.device("meta"):
            model = AutoModelForImageTextToText.from_config(make_config(shape, tokenizer))
        assert sum(weight.numel() for weight in model.parameters()) == count
    with pytest.raises(SetupError, match="nobody/knows"):
        find_shape("nobody/knows")


def test_command_writes_json_and_markdown(tmp_path):
    words = "--image-size 64x48 --scene room00 bench --engines scripted --questions 3 --json"
    words += f" --schedules sequential,refill --batch-sizes 2 --output {tmp_path}"
    done = CliRunner().invoke(cli, words.split(), catch_exceptions=False)
    result = json.loads(done.stdout)
    assert result == json.loads((tmp_path / "bench.json").read_text())
    sequential, refill = result["variants"]
    assert (sequential["schedule"], refill["batch_size"]) == ("sequential", 2)
    assert sequential["questions"] == refill["questions"] == 3
    assert refill["same_transcripts"]
    page = (tmp_path / "bench.md").read_text()
    assert page == markdown(result)
    assert COLUMNS["questions_an_hour"][0] in page


def test_run_options_set_by_bench_are_rejected():
    done = CliRunner().invoke(cli, ["--batch-size", "4", "bench"])
    assert isinstance(done.exception, UsageError)
    assert "--batch-size" in str(done.exception)


def test_run_killed_twice_has_the_same_transcripts():
    script = walk(LengthDistributions((3, 3), reply_tokens=20))
    config = make_config()
    bench = Bench(config, EngineFactory(config, None, script), lambda words: None)
    variant = Variant("scripted", "refill", "own", 2)
    whole, killed = bench.measure(variant, config), bench.measure(variant, config, (2, 3))
    assert killed.work.transcripts == whole.work.transcripts
    assert killed.calls >= whole.calls
    assert killed.work.questions == 3
