"""Scores of pictures by a vision-language model, a batch at a time."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf, isnan
from typing import Any

from PIL import Image, ImageOps

from render_agent.agents.verifiers.judge.rubric import Criterion, Mode, Rubric
from render_agent.dialogue import chat
from render_agent.dialogue.chat import Message
from render_agent.dialogue.json_object import unfenced
from render_agent.dialogue.reply import object_schema
from render_agent.dialogue.tokens import Tokens
from render_agent.engines.engine import Engine, Reply, Request, Scorer, Scores
from render_agent.errors import UsageError
from render_agent.options import AUTO
from render_agent.util.reasons import reason_of
from render_agent.util.safe_parse import parse_json

YES_FORMAT = "Reply with one word: yes or no."

YES_WORDS = ("yes", "Yes", " yes", " Yes")
NO_WORDS = ("no", "No", " no", " No")
"""How a reply of yes or no may begin. Models differ in which of them they are used to."""

MAX_REASON_CHARACTERS = 160
"""Characters of the reason that is asked for with every criterion."""

CRITERION_TOKENS = 32
"""Of its name, value and brackets, beside its reason."""

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
"""The kinds of files that are read; reading some others would start programs."""

MAX_SIDE_PIXELS = 1024
"""A picture of a file that is longer is scaled down, as a photograph may cost 16,000 tokens."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a picture is found to be by one criterion: 0 to 1, and why."""

    value: float
    reason: str


@dataclass(frozen=True, slots=True)
class Score:
    """How well one picture helps, 0 to 1; None, never a number, where that could not be found out.

    reason: why there is no value; empty where there is one. criteria: by name, in mode json. support: in
    mode yes the probability that a reply begins with yes or no at all. tokens: of its request. seconds:
    its share of its batch's time.
    """

    value: float | None
    reason: str = ""
    criteria: Mapping[str, Finding] = field(default_factory=dict)
    support: float | None = None
    tokens: Tokens = Tokens()
    seconds: float = 0.0


def read_picture(file: str) -> Image.Image:
    """Return the RGB picture of a file, turned as its camera says. Raises whatever the file causes."""
    with warnings.catch_warnings():
        # So many pixels that the library warns of them are far more than it needs to judge.
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(file, formats=FORMATS) as opened:
            opened.draft("RGB", (MAX_SIDE_PIXELS, MAX_SIDE_PIXELS))
            picture = ImageOps.exif_transpose(opened).convert("RGB")
    picture.thumbnail((MAX_SIDE_PIXELS, MAX_SIDE_PIXELS))
    return picture


def batch_score(
    images: Sequence[str],
    system_prompts: Sequence[str],
    user_prompts: Sequence[str],
    batch_size: int | str = AUTO,
    *,
    engine: Engine,
    mode: Mode = "yes",
    rubric: Rubric | None = None,
    earlier: Sequence[Sequence[str]] | None = None,
    read: Callable[[str], Image.Image] = read_picture,
    max_new_tokens: int = 0,
) -> list[Score]:
    """Return a score for every picture, in their order.

    images: files, or names of pictures that `read` knows. system_prompts, user_prompts: one a picture; how
    a reply looks is added. batch_size: requests handed to the engine at once; auto leaves that to the
    engine, which halves a batch that does not fit its memory. mode: yes for the probability of yes against
    no, from reading the prompts alone; json for the mean of the criteria of `rubric`, which is needed then.
    earlier: of each picture, the views that came before it. max_new_tokens: of a written reply, for models
    that think first; as many as the longest reply of the rubric needs are always allowed.

    Scores of different prompts are not comparable. What cannot be judged has no value, and a reason:
    a picture that cannot be read, a reply that is not what was asked for, a fault of the engine. UsageError
    where the engine cannot do the mode; EngineError where the engine is gone.
    """
    before = earlier or [()] * len(images)
    faults = _faults({*images, *(name for names in before for name in names)}, read)
    broken = {
        number: next(faults[name] for name in (image, *names) if name in faults)
        for number, (image, names) in enumerate(zip(images, before, strict=True))
        if faults.keys() & {image, *names}
    }
    able = [number for number in range(len(images)) if number not in broken]
    form = YES_FORMAT if rubric is None or mode == "yes" else criteria_form(rubric)
    messages = [
        _messages(system_prompts[n], user_prompts[n], before[n], images[n], form) for n in able
    ]
    if mode == "yes":
        scores = _by_yes(scorer(engine), _requests(messages, read, batch_size))
    elif rubric is not None and rubric.criteria:
        tokens = len(rubric.criteria) * (CRITERION_TOKENS + MAX_REASON_CHARACTERS)
        limits = {
            "max_new_tokens": max(max_new_tokens, tokens),
            "schema": criteria_schema(rubric),
        }
        scores = _by_criteria(engine, rubric, _requests(messages, read, batch_size, **limits))
    else:
        raise UsageError("mode json needs a rubric with criteria")
    judged = {n: Score(None, reason) for n, reason in broken.items()}
    judged |= zip(able, scores, strict=True)
    return [judged[number] for number in range(len(images))]


def scorer(engine: Engine) -> Scorer:
    """Return the engine as one that gives probabilities. UsageError where it gives none."""
    if not engine.capabilities.score:
        raise UsageError(
            f"mode yes reads the model's probabilities, which --engine {engine.name} does not give:"
            " use mode json, or --engine transformers or vllm"
        )
    return engine  # type: ignore[return-value]  # it says that it is one


def criteria_form(rubric: Rubric) -> str:
    """Return the text that lists the criteria of a rubric and the form of the reply."""
    lines = ["Criteria:"]
    for name, entry in rubric.criteria.items():
        lines.append(f"- {name}: {entry.text.strip()} ({_wanted(entry)})")
    names = ", ".join(f'"{name}": {{"reason": "…", "value": …}}' for name in rubric.criteria)
    lines.append(f"Reply with one JSON object: {{{names}}}. Reasons are one short sentence each.")
    return "\n".join(lines)


def criteria_schema(rubric: Rubric) -> dict[str, Any]:
    """Return the JSON schema of a reply to a rubric's criteria: the reason of each before its value.

    A fraction is held to tenths: a guided number may otherwise have digits without end.
    """
    reason = {"type": "string", "maxLength": MAX_REASON_CHARACTERS}
    values: Mapping[str, dict[str, Any]] = {
        "boolean": {"type": "boolean"},
        "fraction": {"enum": [tenth / 10 for tenth in range(11)]},
    }
    return object_schema(
        {
            name: object_schema({"reason": reason, "value": values[entry.kind]})
            for name, entry in rubric.criteria.items()
        }
    )


def read_criteria(reply: Reply, rubric: Rubric) -> dict[str, Finding]:
    """Parse the findings of a reply, one a criterion of a rubric. ValueError with the reason where there are none.

    Every criterion must be there, with a value of its kind. Names that the rubric does not have are
    left alone; a reason may be missing.
    """
    text = unfenced(reply.text)
    if not text:
        raise ValueError("the reply is empty")
    try:
        data = parse_json(text)
    except ValueError as error:
        if reply.finish == "length":
            raise ValueError("the reply was cut off by the token limit") from error
        raise ValueError(f"the reply is no JSON: {reason_of(error)}") from error
    if not isinstance(data, dict):
        raise ValueError("the reply is no JSON object")
    return {name: _finding(name, data.get(name), entry) for name, entry in rubric.criteria.items()}


def yes_score(logs: Sequence[float]) -> Score:
    """Return the score of the log-probabilities of YES_WORDS, then NO_WORDS."""
    from scipy.special import expit, logsumexp

    yes, no = logsumexp(logs[: len(YES_WORDS)]), logsumexp(logs[len(YES_WORDS) :])
    if isnan(yes) or isnan(no) or max(yes, no) == -inf:
        return Score(None, "the model gives neither yes nor no any probability")
    return Score(float(expit(yes - no)), support=min(1.0, exp(yes) + exp(no)))


def _faults(names: set[str], read: Callable[[str], Image.Image]) -> dict[str, str]:
    """Return why pictures cannot be read, in one sentence, by their names."""
    faults = {}
    for name in names:
        try:
            read(name)
        except Exception as error:  # noqa: BLE001 - a file may be anything, and readers raise anything
            faults[name] = f"the picture {name} cannot be read: {reason_of(error)}"
    return faults


def _messages(
    system: str, user: str, earlier: Sequence[str], picture: str, form: str
) -> list[Message]:
    """Return the messages that ask about a picture: fixed texts first, then earlier views, last what is to be judged."""
    pieces = [chat.text("Earlier views:"), *map(chat.picture, earlier)] if earlier else []
    pieces += [chat.text("The view to judge:"), chat.picture(picture)]
    message = chat.message("user", chat.text(user), *pieces, chat.text(form))
    return [chat.message("system", chat.text(system)), message] if system.strip() else [message]


def _requests(
    dialogues: Sequence[Sequence[Message]],
    read: Callable[[str], Image.Image],
    batch_size: int | str,
    **limits: Any,
) -> Iterator[list[Request]]:
    """Give the requests in batches, each a question of its own."""
    requests = [
        Request(f"judge/{number}", 0, messages, read, last=True, **limits)
        for number, messages in enumerate(dialogues)
    ]
    size = max(1, len(requests)) if batch_size == AUTO else int(batch_size)
    for start in range(0, len(requests), size):
        yield requests[start : start + size]


def _by_yes(engine: Scorer, batches: Iterator[list[Request]]) -> list[Score]:
    words = (*YES_WORDS, *NO_WORDS)
    return [
        _score(answer, yes_score(answer.log_probabilities) if answer.error is None else None)
        for requests in batches
        for answer in _retired(engine, requests, engine.score(requests, [words] * len(requests)))
    ]


def _by_criteria(engine: Engine, rubric: Rubric, batches: Iterator[list[Request]]) -> list[Score]:
    return [
        _score(reply, _criteria_score(reply, rubric) if reply.error is None else None)
        for requests in batches
        for reply in _retired(engine, requests, engine.generate(requests))
    ]


def _retired(engine: Any, requests: Sequence[Request], answers: list[Any]) -> list[Any]:
    """Return the answers; the engine keeps nothing of the requests."""
    for request in requests:
        engine.retire(request.question_id)
    return answers


def _score(answer: Reply | Scores, score: Score | None) -> Score:
    """Return a score with what it took; where the engine failed, its error."""
    score = score or Score(None, answer.error or "")
    return replace(score, tokens=answer.tokens, seconds=answer.seconds / answer.batch_size)


def _criteria_score(reply: Reply, rubric: Rubric) -> Score:
    try:
        findings = read_criteria(reply, rubric)
    except ValueError as error:
        return Score(None, str(error))
    mean = sum(finding.value for finding in findings.values()) / len(findings)
    return Score(mean, criteria=findings)


def _finding(name: str, entry: object, criterion: Criterion) -> Finding:
    if not isinstance(entry, dict) or "value" not in entry:
        raise ValueError(f"the reply says nothing of {name}")
    value, reason = entry["value"], entry.get("reason")
    fits = isinstance(value, bool) == (criterion.kind == "boolean")
    if not (fits and isinstance(value, int | float) and 0 <= value <= 1):
        given = json.dumps(value)[:40]
        raise ValueError(f"the reply gives {name} as {given}, not as {_wanted(criterion)}")
    return Finding(float(value), reason.strip() if isinstance(reason, str) else "")


def _wanted(criterion: Criterion) -> str:
    return "true or false" if criterion.kind == "boolean" else "a number from 0 to 1"
