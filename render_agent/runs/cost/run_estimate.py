"""Upper bounds on the requests and tokens of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from render_agent.dialogue.chat import Message, image_files
from render_agent.engines.prices import PER_TOKENS
from render_agent.engines.token_estimate import CHARACTERS_PER_TOKEN, image_tokens, text_tokens
from render_agent.runs.build import Parts
from render_agent.runs.cost.billing import BATCH_RATE
from render_agent.runs.run_part import after_turn
from render_agent.util.display import count_noun

FOLLOWING_TOKENS = 60  # per later turn, including chat markup; most turns take about 40

REWORDING_TOKENS = 300  # per request to reword a question

RESTATE_TOKENS = (
    100  # message that requests the answer once more, with the feedback on the last reply
)

JUDGE_PROMPT_TOKENS = 300  # per judge request: rubric, question and reply format, without images

JUDGE_REPLY_TOKENS = 400  # per judge reply: criteria with reasons; none in mode yes


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """Upper bounds for a run in which every question uses all its turns, and every reply all its tokens."""

    requests: int
    prompt_tokens: int
    """Prompt tokens of all requests, counted for each sample."""
    cached_tokens: int
    """Part of `prompt_tokens` that a server with a prefix cache has read before."""
    reply_tokens: int
    batch_prompt_tokens: int = 0
    """Part of `prompt_tokens` in batched turns, if `--batch-jobs` sends them as jobs."""
    batch_reply_tokens: int = 0
    judge_requests: int = 0
    """Requests to judges. They and their tokens are not included in the other numbers."""
    judge_prompt_tokens: int = 0
    judge_reply_tokens: int = 0
    judge_model: str | None = None
    """Model of the judge; None if it is that of the run."""


def estimate(
    parts: Parts,
    num_questions: int,
    opening: Sequence[Message],  # messages of the first turn of a question
) -> RunEstimate:
    """Return upper bounds on the requests and tokens of a run.

    With a prefix cache, instructions are cached from the second question on, each turn's prompt starts with that of the
    previous turn, and the samples of a turn share their prompt.
    """
    config, agent = parts.config, parts.agent
    turns, reply = config.max_turns, config.max_new_tokens
    thinking = config.thinking_budget or 0
    # Some APIs read earlier thoughts again.
    resent = thinking if parts.engine.uses_server else 0
    image = image_tokens(parts.model_name, *config.image_size)
    first_prompt = text_tokens(opening) + len(image_files(list(opening))) * image
    images_per_turn = agent.samples if agent.shows_all else int(parts.free)
    growth = reply + resent + FOLLOWING_TOKENS + images_per_turn * image
    prompts = [first_prompt + growth * turn for turn in range(turns)]
    instructions = text_tokens([message for message in opening if message["role"] == "system"])
    dialogues = num_questions * agent.wordings
    num_batched = min(config.max_batched_turns, turns) if config.batch_jobs else 0
    is_last_batched = num_batched == turns
    rewordings = num_questions if agent.wordings > 1 else 0
    sides = after_turn(parts)
    side_prompts = sum(sum(prompts) + turns * (reply + side.prompt_tokens) for side in sides)
    side_replies = turns * sum(side.reply_tokens + thinking for side in sides)
    restated = 0 if config.no_restate else num_questions
    restated_tokens = restated * (prompts[-1] + reply + resent + RESTATE_TOKENS)
    prompt_tokens = dialogues * agent.samples * sum(prompts) + rewordings * REWORDING_TOKENS
    prompt_tokens += restated_tokens + num_questions * side_prompts
    return RunEstimate(
        requests=dialogues * turns + rewordings + num_questions * turns * len(sides) + restated,
        prompt_tokens=prompt_tokens,
        cached_tokens=dialogues * (sum(prompts[:-1]) + (agent.samples - 1) * sum(prompts))
        + max(0, dialogues - 1) * instructions
        + restated * prompts[-1],
        reply_tokens=(dialogues * agent.samples * turns + rewordings + restated)
        * (reply + thinking)
        + num_questions * side_replies,
        batch_prompt_tokens=dialogues * agent.samples * sum(prompts[:num_batched])
        + is_last_batched * restated_tokens,
        batch_reply_tokens=(dialogues * agent.samples * num_batched + is_last_batched * restated)
        * (reply + thinking),
        **_judge_estimate(parts, num_questions, image),
    )


def _judge_estimate(parts: Parts, num_questions: int, image: int) -> dict[str, Any]:
    """Return upper bounds on judge requests; empty without judges. `image` is the number of tokens of an image."""
    config, judges = parts.config, parts.judges
    if not judges:
        return {}
    candidates = parts.agent.candidates * (config.max_turns - 1) * num_questions
    requests = candidates * len(judges)
    prompts = sum(JUDGE_PROMPT_TOKENS + judge.max_images * image for judge in judges)
    return {
        "judge_requests": requests,
        "judge_prompt_tokens": candidates * prompts,
        "judge_reply_tokens": 0 if config.judge_mode == "yes" else requests * JUDGE_REPLY_TOKENS,
        "judge_model": next((judge.argument for judge in judges if judge.argument), None),
    }


def describe_estimate(estimate: RunEstimate) -> str:
    text = (
        f"at most {count_noun(estimate.requests, 'request')}, about {estimate.prompt_tokens:,} tokens read"
        f" ({estimate.cached_tokens:,} of them from a prefix cache, if the server has one) and"
        f" {estimate.reply_tokens:,} written (estimated at {CHARACTERS_PER_TOKEN} characters per token and the model's"
        " usual tokens per image)"
    )
    if estimate.judge_requests:
        model = "" if estimate.judge_model is None else f" {estimate.judge_model}"
        text += (
            f"; plus at most {count_noun(estimate.judge_requests, 'request')} to the judge{model}, about"
            f" {estimate.judge_prompt_tokens:,} tokens read and {estimate.judge_reply_tokens:,} written"
        )
    return text


def cost_bound(parts: Parts, estimate: RunEstimate, *, has_batch_api: bool = False) -> float | None:
    """Return an upper bound on the cost of a run in USD; None if the price of its model is unknown.

    Every prompt token is charged the highest price, as if nothing were read from a cache. If the server has a batch
    API, batch jobs are discounted.
    """
    price = parts.price
    if price is None:
        return None
    read, written = float(estimate.prompt_tokens), float(estimate.reply_tokens)
    if has_batch_api:
        read -= (1 - BATCH_RATE) * estimate.batch_prompt_tokens
        written -= (1 - BATCH_RATE) * estimate.batch_reply_tokens
    if parts.billing.includes_verifiers:
        read += estimate.judge_prompt_tokens
        written += estimate.judge_reply_tokens
    return (read * price.most_per_prompt_token + written * price.reply) / PER_TOKENS
