"""Scores of pictures by a vision-language model, a batch at a time."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import closing, nullcontext
from functools import partial
from typing import get_args

from render_agent.agents.verifiers.judge import prompts
from render_agent.agents.verifiers.judge.model_queries import JudgedPicture, ModelQueries, log_odds
from render_agent.agents.verifiers.judge.pairwise import probability, score_by_pairs
from render_agent.agents.verifiers.judge.pictures import MAX_SIDE_PIXELS, Pictures, Source
from render_agent.agents.verifiers.judge.reply_parser import read_criteria
from render_agent.agents.verifiers.judge.rubric import MAX_REASON_CHARACTERS, Mode, Rubric
from render_agent.agents.verifiers.judge.score import Fault, Score, Unreadable, score_of
from render_agent.config import AUTO, RunConfig
from render_agent.dialogue.chat import Message
from render_agent.engines.base import Engine, Reply, Scores
from render_agent.errors import UsageError

CRITERION_TOKENS = 32
"""Of its name, value and brackets, beside its reason."""


def batch_score(
    images: Sequence[Source],
    system_prompts: Sequence[str],
    user_prompts: Sequence[str],
    batch_size: int | str = AUTO,
    *,
    engine: Engine | None = None,
    model: str | None = None,
    mode: Mode = "yes",
    rubric: Rubric | None = None,
    earlier: Sequence[Sequence[Source]] | None = None,
    states: Sequence[Hashable] | None = None,
    longest_side: int = MAX_SIDE_PIXELS,
    max_new_tokens: int = 0,
) -> list[Score]:
    """Return a score for every picture, in their order.

    images: pictures or files. system_prompts, user_prompts: one a picture; how a reply looks is added.
    batch_size: requests handed to the engine at once; auto leaves that to the engine, which makes
    batches of what memory holds and halves one that does not fit. engine: asked, and left open;
    without one the transformers model `model` is loaded for this call. mode: yes for the probability
    of yes against no, from reading the prompts alone; json for the weighted mean of the criteria of
    `rubric`, which is needed then; pairwise for the win share among the pictures with the same
    prompts and earlier views. earlier: of each picture, the views that came before it. states: what
    each is of, where only pictures of the same may be compared. longest_side: pixels of pictures from
    files. max_new_tokens: of a written reply, for models that think first; as many as the longest reply
    of the rubric needs are always allowed.

    Scores of different prompts are not comparable. What cannot be judged has no value, and a reason:
    a picture that cannot be read, a reply that is not what was asked for, a fault of the engine. UsageError
    where the arguments contradict each other or the engine cannot do the mode; EngineError where the
    engine is gone.
    """
    earlier_views = list(earlier) if earlier is not None else [()] * len(images)
    within = list(states) if states is not None else [None] * len(images)
    if (
        not len(images)
        == len(system_prompts)
        == len(user_prompts)
        == len(earlier_views)
        == len(within)
    ):
        raise UsageError("there must be as many prompts, earlier views and states as pictures")
    if mode not in get_args(Mode):
        raise UsageError(f"there is no mode {mode!r}: use one of {', '.join(get_args(Mode))}")
    if mode == "json" and not (rubric and rubric.criteria):
        raise UsageError("mode json needs a rubric with criteria")
    pictures = Pictures(longest_side)
    shown = [
        JudgedPicture(
            (system, user), tuple(map(pictures.name, before)), pictures.name(image), state
        )
        for image, system, user, before, state in zip(
            images, system_prompts, user_prompts, earlier_views, within, strict=True
        )
    ]
    scores = _unreadable(pictures, shown)
    able = {number: entry for number, entry in enumerate(shown) if number not in scores}
    if able:
        with nullcontext(engine) if engine is not None else closing(_open(model)) as answering:
            limit = max(max_new_tokens, _reply_tokens(rubric))
            asking = ModelQueries(answering, pictures, batch_size, limit)
            judged = _judged(asking, list(able.values()), mode, rubric)
        scores.update(zip(able, judged, strict=True))
    return [scores[number] for number in range(len(shown))]


def _unreadable(pictures: Pictures, shown: Sequence[JudgedPicture]) -> dict[int, Score]:
    """Return the scores, by number, of what cannot be shown whole."""
    broken = pictures.faults()
    scores = {}
    for number, entry in enumerate(shown):
        before = [broken[name] for name in entry.earlier if name in broken]
        if entry.picture in broken:
            scores[number] = Score(None, broken[entry.picture], Fault.PICTURE)
        elif before:
            scores[number] = Score(None, f"of an earlier view, {before[0]}", Fault.PICTURE)
    return scores


def _judged(
    asking: ModelQueries, shown: Sequence[JudgedPicture], mode: Mode, rubric: Rubric | None
) -> list[Score]:
    if mode == "yes":
        return _by_yes(asking, shown)
    if mode == "json" and rubric is not None:
        return _by_criteria(asking, shown, rubric)
    return score_by_pairs(asking, shown, rubric)


def _open(model: str | None) -> Engine:
    from render_agent.engines.registry import make_engine

    return make_engine(RunConfig(batch=True, benchmark="rooms", model=model, max_turns=1), [])


def _reply_tokens(rubric: Rubric | None) -> int:
    """Return the tokens that a written reply may have, should a reason need one for every character."""
    longest = rubric.longest_reason if rubric else MAX_REASON_CHARACTERS
    criteria = len(rubric.criteria or ()) if rubric else 0
    return max(1, criteria) * (CRITERION_TOKENS + longest)


def _about(shown: Sequence[JudgedPicture], form: str) -> list[list[Message]]:
    return [
        prompts.about(entry.prompts, entry.earlier, {"The view to judge:": entry.picture}, form)
        for entry in shown
    ]


def _by_yes(asking: ModelQueries, shown: Sequence[JudgedPicture]) -> list[Score]:
    messages = _about(shown, prompts.YES_FORMAT)
    words = (*prompts.YES_WORDS, *prompts.NO_WORDS)
    return [score_of(scores, _yes) for scores in asking.likely(messages, words)]


def _yes(scores: Scores) -> Score | Unreadable:
    odds = log_odds(scores.log_probabilities, len(prompts.YES_WORDS))
    if odds is None:
        return Unreadable("the model gives neither yes nor no any probability")
    return Score(probability(odds[0]), support=odds[1])


def _by_criteria(
    asking: ModelQueries, shown: Sequence[JudgedPicture], rubric: Rubric
) -> list[Score]:
    messages = _about(shown, prompts.criteria_form(rubric))
    replies = asking.written(messages, prompts.criteria_schema(rubric))
    return [score_of(reply, partial(_criteria, rubric)) for reply in replies]


def _criteria(rubric: Rubric, reply: Reply) -> Score | Unreadable:
    findings = read_criteria(reply, rubric)
    if isinstance(findings, Unreadable):
        return findings
    value = rubric.value({name: finding.value for name, finding in findings.items()})
    return Score(value, criteria=findings)
