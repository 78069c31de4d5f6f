"""Scores images with a vision-language model, in batches."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf, isnan
from typing import Any, TypeVar

from PIL import Image, ImageOps

from render_agent.agents.verifiers.judge.rubric import Criterion, Mode, Rubric
from render_agent.dialogue import chat
from render_agent.dialogue.chat import Message
from render_agent.dialogue.parsing.replies import strip_fence
from render_agent.dialogue.reply import object_schema
from render_agent.dialogue.tokens import Tokens
from render_agent.engines.engine import Engine, Reply, Request, Scorer, Scores
from render_agent.errors import UsageError
from render_agent.options import AUTO
from render_agent.util.reasons import reason_of
from render_agent.util.safe_parse import parse_json

YES_FORMAT = "Reply with one word: yes or no."

# First words of a yes/no reply. Models prefer different spellings, so the probabilities are summed.
YES_WORDS = ("yes", "Yes", " yes", " Yes")
NO_WORDS = ("no", "No", " no", " No")

MAX_REASON_CHARACTERS = 160  # per criterion
CRITERION_TOKENS = 32  # name, value and brackets of a criterion, without its reason

# Accepted file formats. For others, decoding could start external programs.
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")

# Larger images are scaled down; a full-size photograph can cost 16,000 tokens.
MAX_SIDE_PIXELS = 1024


Answer = TypeVar("Answer", Reply, Scores)


@dataclass(frozen=True, slots=True)
class CriterionScore:
    """The value of one criterion for an image, from 0 to 1, and the reason."""

    value: float
    reason: str


@dataclass(frozen=True, slots=True)
class Score:
    value: float | None  # how useful the image is, from 0 to 1; None if it could not be judged
    reason: str = ""  # why there is no value; otherwise empty
    criteria: Mapping[str, CriterionScore] = field(default_factory=dict)
    """Findings by criterion, in mode json."""
    support: float | None = None
    """In mode yes, the probability that the reply begins with yes or no."""
    tokens: Tokens = Tokens()
    seconds: float = 0.0  # share of the time of its batch
    events: tuple[str, ...] = ()  # kinds of recovered faults and adaptations, as in `Reply.events`


def read_image(file: str) -> Image.Image:
    """Read an image file as RGB, rotated according to its EXIF data. Exceptions of the decoder propagate."""
    with warnings.catch_warnings():
        # reject decompression bombs, about which Pillow only warns
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(file, formats=FORMATS) as image:
            image.draft("RGB", (MAX_SIDE_PIXELS, MAX_SIDE_PIXELS))
            picture = ImageOps.exif_transpose(image).convert("RGB")
    picture.thumbnail((MAX_SIDE_PIXELS, MAX_SIDE_PIXELS))
    return picture


def batch_score(
    images: Sequence[str],
    system_prompts: Sequence[str],  # one per image
    user_prompts: Sequence[str],  # one per image; the reply format is appended
    batch_size: int | str = AUTO,
    *,
    engine: Engine,
    mode: Mode = "yes",
    rubric: Rubric | None = None,
    earlier: Sequence[Sequence[str]] | None = None,
    load_image: Callable[[str], Image.Image] = read_image,  # returns the RGB image for a name
    max_new_tokens: int = 0,
) -> list[Score]:
    """Score each image with a vision-language model; `earlier` are the views that precede each.

    Scores of different prompts are not comparable. If an image or a reply cannot be read, or the engine fails for a
    request, the score has a reason instead of a value.
    """
    before = earlier or [()] * len(images)
    faults = _faults({*images, *(name for names in before for name in names)}, load_image)
    unreadable = {
        index: next(faults[name] for name in (image, *names) if name in faults)
        for index, (image, names) in enumerate(zip(images, before, strict=True))
        if faults.keys() & {image, *names}
    }
    readable = [index for index in range(len(images)) if index not in unreadable]
    form = YES_FORMAT if rubric is None or mode == "yes" else criteria_form(rubric)
    messages = [
        _messages(system_prompts[i], user_prompts[i], before[i], images[i], form) for i in readable
    ]
    if mode == "yes":
        scores = _score_by_yes(scorer(engine), _requests(messages, load_image, batch_size))
    elif rubric is not None and rubric.criteria:
        tokens = len(rubric.criteria) * (CRITERION_TOKENS + MAX_REASON_CHARACTERS)
        limits = {
            "max_new_tokens": max(max_new_tokens, tokens),
            "schema": criteria_schema(rubric),
        }
        scores = _score_by_criteria(
            engine, rubric, _requests(messages, load_image, batch_size, **limits)
        )
    else:
        raise UsageError("mode json requires a rubric with criteria")
    by_index = {index: Score(None, reason) for index, reason in unreadable.items()}
    by_index |= zip(readable, scores, strict=True)
    return [by_index[index] for index in range(len(images))]


def scorer(engine: Engine) -> Scorer:
    if not engine.capabilities.scoring:
        raise UsageError(
            f"mode yes needs token probabilities, which --engine {engine.name} does not return."
            " Use mode json, or --engine transformers or vllm."
        )
    return engine  # type: ignore[return-value]  # checked by its capability


def criteria_form(rubric: Rubric) -> str:
    """Return the prompt text that lists the criteria of a rubric and the reply format."""
    lines = ["Criteria:"]
    for name, entry in rubric.criteria.items():
        lines.append(f"- {name}: {entry.text.strip()} ({_value_form(entry)})")
    names = ", ".join(f'"{name}": {{"reason": "…", "value": …}}' for name in rubric.criteria)
    lines.append(f"Reply with one JSON object: {{{names}}}. Reasons are one short sentence each.")
    return "\n".join(lines)


def criteria_schema(rubric: Rubric) -> dict[str, Any]:
    """Return the JSON schema of a reply to a rubric; each reason precedes its value.

    Fractions are limited to tenths, because guided decoding of a number can produce endless digits.
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


def read_criteria(reply: Reply, rubric: Rubric) -> dict[str, CriterionScore]:
    """Parse the findings of a reply, one per criterion. Raises ValueError.

    Every criterion is required, with a value of its kind. Reasons are optional; unknown names are ignored.
    """
    text = strip_fence(reply.text)
    if not text:
        raise ValueError("the reply is empty")
    try:
        data = parse_json(text)
    except ValueError as error:
        if reply.finish == "length":
            raise ValueError("the reply was cut off by the token limit") from error
        raise ValueError(f"the reply is not JSON: {reason_of(error)}") from error
    if not isinstance(data, dict):
        raise ValueError("the reply is not a JSON object")
    return {name: _finding(name, data.get(name), entry) for name, entry in rubric.criteria.items()}


def yes_score(logs: Sequence[float]) -> Score:
    """Return the score for log probabilities of YES_WORDS followed by NO_WORDS."""
    from scipy.special import expit, logsumexp

    yes, no = logsumexp(logs[: len(YES_WORDS)]), logsumexp(logs[len(YES_WORDS) :])
    if isnan(yes) or isnan(no) or max(yes, no) == -inf:
        return Score(None, "the model assigns no probability to yes or no")
    return Score(float(expit(yes - no)), support=min(1.0, exp(yes) + exp(no)))


def _faults(names: set[str], load_image: Callable[[str], Image.Image]) -> dict[str, str]:
    """Return an error message for each image that cannot be read, by name."""
    faults = {}
    for name in names:
        try:
            load_image(name)
        except Exception as error:  # noqa: BLE001 - decoders of untrusted files can raise anything
            faults[name] = f"the image {name} cannot be read: {reason_of(error)}"
    return faults


def _messages(
    system: str, user: str, earlier: Sequence[str], image: str, form: str
) -> list[Message]:
    """Return the messages about an image: the fixed prompt, the earlier views, then the image to judge."""
    pieces = [chat.text("Earlier views:"), *map(chat.image_piece, earlier)] if earlier else []
    pieces += [chat.text("The view to judge:"), chat.image_piece(image)]
    message = chat.message("user", chat.text(user), *pieces, chat.text(form))
    return [chat.message("system", chat.text(system)), message] if system.strip() else [message]


def _requests(
    dialogues: Sequence[Sequence[Message]],
    load_image: Callable[[str], Image.Image],
    batch_size: int | str,
    **limits: Any,
) -> Iterator[list[Request]]:
    """Yield batches of requests; each request is a separate dialogue."""
    requests = [
        Request(f"judge/{number}", 0, messages, load_image, is_last_turn=True, **limits)
        for number, messages in enumerate(dialogues)
    ]
    size = max(1, len(requests)) if batch_size == AUTO else int(batch_size)
    for start in range(0, len(requests), size):
        yield requests[start : start + size]


def _score_by_yes(engine: Scorer, batches: Iterator[list[Request]]) -> list[Score]:
    choices = (*YES_WORDS, *NO_WORDS)
    return [
        _with_costs(answer, lambda answer: yes_score(answer.log_probabilities))
        for requests in batches
        for answer in _retired(engine, requests, engine.score(requests, [choices] * len(requests)))
    ]


def _score_by_criteria(
    engine: Engine, rubric: Rubric, batches: Iterator[list[Request]]
) -> list[Score]:
    return [
        _with_costs(reply, lambda reply: _criteria_score(reply, rubric))
        for requests in batches
        for reply in _retired(engine, requests, engine.generate(requests))
    ]


def _retired(engine: Any, requests: Sequence[Request], answers: list[Answer]) -> list[Answer]:
    """Let the engine free its caches for the requests, and return the answers."""
    for request in requests:
        engine.retire(request.dialogue_id)
    return answers


def _with_costs(answer: Answer, read: Callable[[Answer], Score]) -> Score:
    """Return the score of an answer with its tokens, time and events; if the engine failed, with the error."""
    score = read(answer) if answer.error is None else Score(None, answer.error)
    seconds = answer.seconds / answer.batch_size
    return replace(score, tokens=answer.tokens, seconds=seconds, events=answer.events)


def _criteria_score(reply: Reply, rubric: Rubric) -> Score:
    try:
        findings = read_criteria(reply, rubric)
    except ValueError as error:
        return Score(None, str(error))
    mean = sum(finding.value for finding in findings.values()) / len(findings)
    return Score(mean, criteria=findings)


def _finding(name: str, entry: object, criterion: Criterion) -> CriterionScore:
    if not isinstance(entry, dict) or "value" not in entry:
        raise ValueError(f"the reply does not mention {name}")
    value, reason = entry["value"], entry.get("reason")
    has_kind = isinstance(value, bool) == (criterion.kind == "boolean")
    if not (has_kind and isinstance(value, int | float) and 0 <= value <= 1):
        actual = json.dumps(value)[:40]
        raise ValueError(f"{name} is {actual}, not {_value_form(criterion)}")
    return CriterionScore(float(value), reason.strip() if isinstance(reason, str) else "")


def _value_form(criterion: Criterion) -> str:
    return "true or false" if criterion.kind == "boolean" else "a number from 0 to 1"
