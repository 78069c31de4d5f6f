"""Estimates for runs with agents, compared with the actual tokens and disk space."""

import json
from dataclasses import replace

import pytest
from factories.dialogues import load
from factories.models import small_model
from factories.runs import make_config, make_questions, play

from render_agent.cli.dry_run import dry_run
from render_agent.dialogue.chat import image_files
from render_agent.engines.scripted import ScriptedEngine
from render_agent.engines.scripted.blind_policies import WandererPolicy
from render_agent.engines.token_estimate import image_tokens
from render_agent.engines.transformers.make_transformers import (
    FEEDBACK,
    INSTRUCTIONS,
    USUAL_REPLY,
    estimate_dialogue_tokens,
)
from render_agent.engines.vllm.arguments import vllm_options
from render_agent.runs.build import build, workload_of
from render_agent.runs.cost.run_estimate import estimate
from render_agent.runs.preflight import count_images, disk_needed

TURNS, QUESTIONS = 4, 3


class RewordingPolicy(WandererPolicy):
    """Wanders, and returns alternative wordings on request; `answers` is False for one that never answers."""

    answers = True

    def samples(self, request):
        if not self.answers and request.is_last_turn:
            return ["I see a box."] * request.num_samples
        if request.temperature == 0:
            return [json.dumps({"wordings": ["Of 3 words: which?", "Which?", "Where is it?"]})]
        return super().samples(request)


class CountingEngine(ScriptedEngine):
    """A scripted engine that counts requests, replies and images."""

    def __init__(self, policy):
        super().__init__(policy)
        self.requests = self.replies = self.images = 0

    def answer(self, requests):
        self.requests += len(requests)
        self.replies += sum(request.num_samples for request in requests)
        self.images += sum(
            request.num_samples * len(image_files(list(request.messages))) for request in requests
        )
        return super().answer(requests)


AGENTS = {
    "single": {},
    "vote:3": {},
    "best:3": {"verifier": ("random",)},
    "lookahead:3": {"verifier": ("random",)},
    "rephrase:2x2": {"verifier": ("random",)},
    "show:3": {},
}


@pytest.mark.parametrize(
    ("agent", "restates"),
    [*((agent, False) for agent in AGENTS), ("single", True), ("vote:3", True)],
)
def test_estimate_bounds_the_run(tmp_path, agent, restates):
    options = {"temperature": 1.0, "max_turns": TURNS, "agent": agent, "max_new_tokens": 64}
    options |= AGENTS[agent] | {"no_restate": not restates}
    question_file = make_questions(tmp_path, QUESTIONS)
    config = make_config(tmp_path, question_file, **options)
    parts = build(config)
    questions = parts.questions()
    engine = CountingEngine(RewordingPolicy(questions, 0))
    engine.policy.answers = not restates
    path, results = play(tmp_path, question_file, engine, **options)
    assert results["totals"]["turns"] == QUESTIONS * TURNS

    opening = json.loads((path / "turns.jsonl").read_text().splitlines()[0])["messages"]
    estimated = estimate(parts, QUESTIONS, opening)
    assert engine.requests == estimated.requests
    assert engine.replies == estimated.reply_tokens // 64
    large = replace(config, image_size=(960, 720))
    sides = [image_tokens("", *each_config.image_size) for each_config in (config, large)]
    extra_tokens = (
        estimate(build(large), QUESTIONS, opening).prompt_tokens - estimated.prompt_tokens
    )
    read, remainder = divmod(extra_tokens, sides[1] - sides[0])
    assert remainder == 0
    min_share = 0.85 if agent == "show:3" else 1  # two moves may lead to the same view
    assert min_share * read <= engine.images <= read

    stored = list((path / "views").rglob("*.png"))
    assert 0.85 * count_images(parts, questions) <= len(stored)
    assert len(stored) <= count_images(parts, questions)
    assert len(stored) == results["totals"]["renders"]
    folder_size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    lines = (path / "turns.jsonl").stat().st_size
    assert folder_size < disk_needed(parts, questions)
    assert lines < disk_needed(parts, questions, 0.0)


def config_of(tmp_path, **changes):
    options = {"temperature": 1.0, "max_turns": 5, "agent": "lookahead:4", "verifier": ("judge",)}
    return make_config(
        tmp_path, make_questions(tmp_path, 2), engine="transformers", **options | changes
    )


@pytest.mark.parametrize(
    ("options", "requests"),
    [
        ({}, 4 * 4),
        ({"judge_mode": "json"}, 4 * 4),
        ({"verifier": ("judge", "judge:some"), "agent": "rephrase:2x2"}, 2 * 4 * 4),
        ({"verifier": ("geometry",)}, 0),
    ],
)
def test_judge_requests_are_estimated_per_candidate(tmp_path, options, requests):
    config = config_of(tmp_path, **options)
    estimated = estimate(build(config), 2, [])
    assert estimated.judge_requests == 2 * requests
    assert (estimated.judge_prompt_tokens > 0) == (requests > 0)
    assert estimated.judge_reply_tokens == 0 or config.judge_mode == "json"
    assert estimated.judge_model == ("some" if "judge:some" in config.verifier else None)


def test_dry_run_includes_the_cost_of_choosing(tmp_path, capsys):
    questions = make_questions(tmp_path, 3)
    options = {"temperature": 1.0, "max_turns": 4, "agent": "lookahead:3", "verifier": ("random",)}
    assert dry_run(make_config(tmp_path, questions, **options, json=True)) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["pictures_at_most"] == 2 + 3 * 3 * 3
    assert output["choosing"]["verifiers"] == [{"name": "random"}]
    assert output["estimate"]["reply_tokens"] == (3 * 4 * 3 + 3) * 512
    assert dry_run(make_config(tmp_path, questions, **options)) == 0
    printed = capsys.readouterr().out
    assert "agent lookahead:3: 3 replies per turn, scored by random" in printed
    assert "at most 29 images" in printed


@pytest.mark.parametrize(
    ("options", "images", "candidates"),
    [
        ({"agent": "single", "verifier": ()}, 2 + 4, 1),
        ({"agent": "vote:3", "verifier": ()}, 2 + 4, 3),
        ({"agent": "show:4", "verifier": ()}, 2 + 4 * 4, 4),
        ({"agent": "rephrase:2x3", "verifier": ("random",)}, 2 + 4, 6),
        ({"max_turns": 2}, 1 + 4, 4),  # the judge sees the most: a candidate and the latest four
        ({"agent": "single", "verifier": (), "views": "four", "max_turns": 1}, 4, 1),
    ],
    ids=str,
)
def test_engine_capacity_covers_images_and_rows(tmp_path, options, images, candidates):
    config = config_of(tmp_path, **options)
    workload = workload_of(build(config))
    assert vllm_options(config, {}, workload.max_images).images == images
    loaded = load(small_model())
    tokens_per_image = loaded.inputs.family.image_tokens(
        *config.image_size, loaded.inputs.processor, {}
    )
    texts = INSTRUCTIONS + config.max_turns * (USUAL_REPLY + FEEDBACK)
    assert estimate_dialogue_tokens(loaded, config, {}, workload) == candidates * (
        texts + images * tokens_per_image
    )
