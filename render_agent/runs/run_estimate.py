"""The upper bound of a run's requests and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from render_agent.dialogue.chat import Message, pictures
from render_agent.engines.token_estimate import CHARACTERS_A_TOKEN, picture_tokens, text_tokens
from render_agent.runs.build import Parts

FOLLOWING_TOKENS = 60
"""Of the text of a later turn and its place in the chat; most take about 40."""

REWORDING_TOKENS = 300
"""Of the request for other wordings of a question."""

JUDGE_PROMPT_TOKENS = 300
"""Of the texts that a judge reads: the rubric, the question, and how the reply must look."""

JUDGE_REPLY_TOKENS = 400
"""Tokens of the criteria that a judge writes, with their reasons; in mode yes it writes nothing."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The upper bound of a run: every question uses all its turns and all the tokens of a reply.

    prompt_tokens: read over all requests, for each of its samples. cached_tokens: those of them that a
    server with a prefix cache has read before. reply_tokens: written. judge_requests: those in which a
    judge is asked about candidates, with the tokens that it reads and writes; none of them is among the
    others. judge_model: the judge's own, None where it is the run's.
    """

    requests: int
    prompt_tokens: int
    cached_tokens: int
    reply_tokens: int
    judge_requests: int = 0
    judge_prompt_tokens: int = 0
    judge_reply_tokens: int = 0
    judge_model: str | None = None


def estimate(parts: Parts, questions: int, opening: Sequence[Message]) -> Estimate:
    """Return the upper bound of the requests and tokens of a run of so many questions.

    opening: the messages of the first turn of one of them. Its instructions are the same for all, so
    that a prefix cache has them from the second question on; a turn's prompt begins with that of the
    turn before, and the samples of a turn share theirs.
    """
    config, agent = parts.config, parts.agent
    turns, reply = config.max_turns, config.max_new_tokens
    thought = config.thinking_budget or 0
    picture = picture_tokens(parts.model_name, *config.image_size)
    first = text_tokens(opening) + len(pictures(list(opening))) * picture
    following = reply + FOLLOWING_TOKENS + (picture if parts.free else 0)
    step = following + (picture * (agent.samples - 1) if agent.shows_all else 0)
    shared = text_tokens([message for message in opening if message["role"] == "system"])
    prompts = [first + step * turn for turn in range(turns)]
    dialogues = questions * agent.wordings
    reworded = questions if agent.wordings > 1 else 0
    return Estimate(
        requests=dialogues * turns + reworded,
        prompt_tokens=dialogues * agent.samples * sum(prompts) + reworded * REWORDING_TOKENS,
        cached_tokens=dialogues * (sum(prompts[:-1]) + (agent.samples - 1) * sum(prompts))
        + max(0, dialogues - 1) * shared,
        reply_tokens=(dialogues * agent.samples * turns + reworded) * (reply + thought),
        **_judged(parts, questions, picture),
    )


def _judged(parts: Parts, questions: int, picture: int) -> dict[str, Any]:
    """Return what judges are asked at the most; nothing where there is none."""
    config, judges = parts.config, parts.judges
    if not judges:
        return {}
    each = parts.agent.candidates * (config.max_turns - 1) * questions
    requests = each * len(judges)
    prompts = sum(JUDGE_PROMPT_TOKENS + judge.pictures * picture for judge in judges)
    return {
        "judge_requests": requests,
        "judge_prompt_tokens": each * prompts,
        "judge_reply_tokens": 0 if config.judge_mode == "yes" else requests * JUDGE_REPLY_TOKENS,
        "judge_model": next((judge.argument for judge in judges if judge.argument), None),
    }


def sentence(estimate: Estimate) -> str:
    """Return an estimate in words."""
    text = (
        f"at most {estimate.requests:,} requests, about {estimate.prompt_tokens:,} tokens read"
        f" ({estimate.cached_tokens:,} of them from a prefix cache, if the server has one) and"
        f" {estimate.reply_tokens:,} written; an estimate from {CHARACTERS_A_TOKEN} characters a token and"
        " the model's usual cost of a picture"
    )
    if estimate.judge_requests:
        whose = "" if estimate.judge_model is None else f" {estimate.judge_model}"
        text += (
            f"; the judge{whose} is asked at most {estimate.judge_requests:,} times, and reads about"
            f" {estimate.judge_prompt_tokens:,} tokens and writes {estimate.judge_reply_tokens:,}"
        )
    return text
