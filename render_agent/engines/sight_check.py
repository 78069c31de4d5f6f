"""The sight check: whether a model behind a server is shown the images that it is sent, and not others.

The model reads a random four-digit code in one image, then answers the same text with a second image.
"""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from string import ascii_lowercase
from typing import Any, Literal, NotRequired, TypedDict, get_args

from PIL import Image, ImageDraw

from render_agent.dialogue.chat import image_piece, message, text, without_thinking
from render_agent.dialogue.events import CONTENT_FILTER
from render_agent.engines.bundled_models import bundled_model
from render_agent.engines.engine import Engine, Reply, Request, limit_reply
from render_agent.engines.make_engine import EngineMaker
from render_agent.errors import EngineError
from render_agent.options import RunConfig
from render_agent.render.map_view.overlay import font
from render_agent.util.display import stage
from render_agent.util.interrupts import reraise
from render_agent.util.reasons import truncate
from render_agent.util.safe_parse import parse_yaml

Finding = Literal["blind", "stale", "unknown", "sighted", "exempt"]  # the worst first

# The caveat of each finding that needs one.
CAVEATS: dict[str, str] = {
    "blind": "the model did not read the code in a test image, so it probably does not see the images of the run",
    "stale": (
        "the model answered a second test image with the code of the first, so replies may be about earlier images:"
        " probably a cache confuses images that have the same text"
    ),
    "unknown": "there was no reply to a test image, so the model may not see the images of the run",
}

PROMPT = "Check {nonce}. Which four digits does the image show? Reply with the digits only. If you see no image, say so."
STAGE = "checking that the model sees images"
MAX_REPLY_CHARS = 200  # of a recorded reply or reason

MAX_NUMBERS = 5  # four-digit numbers in a reply, such as years; more of them are guesses

_FOUR_DIGITS = re.compile(r"(?<![0-9])[0-9](?:[\W_]?[0-9]){3}(?![0-9])")
_WORDS = "zero one two three four five six seven eight nine".split()
_WORD = re.compile(rf"\b(?:{'|'.join(_WORDS)})\b", re.IGNORECASE)
# A code in digits: together, in two groups ("5,470"), and one by one ("5 4 7 0"); not part of more digits.
_FORMS = (
    "(?<![0-9])(?<![0-9][.,]){0}{1}{2}{3}(?![0-9])",
    "(?<![0-9])(?<![0-9][.,]){0}(?:{1}{gap}|{gap}{1}){2}{3}(?![0-9])(?!{gap}[0-9]{{3}}(?![0-9]))",
    "(?<![0-9])(?<![0-9][ ,-])(?<![0-9], ){0}(?P<g>{gap}){1}(?P=g){2}(?P=g){3}(?![0-9])(?!(?P=g)[0-9])",
)
_GAP = r"[\W_]{1,4}"


class SightRecord(TypedDict):
    """The result of a sight check in `config.json`."""

    finding: Finding
    url: NotRequired[str]
    codes: NotRequired[list[str]]
    replies: NotRequired[list[str]]
    reason: NotRequired[str]


CheckServers = Callable[[EngineMaker, RunConfig], list[SightRecord]]


class SightTest:
    """Two images of codes, shown one after the other with the same text, and what a model reads in them."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.nonce = "".join(secrets.choice(ascii_lowercase) for _ in range(8))
        self.finding: Finding | None = None
        self._size = size
        self._codes = draw_codes()
        self._replies: list[str] = []

    @property
    def image(self) -> Image.Image:
        """The image whose code is due."""
        return code_image(self._codes[len(self._replies)], self._size)

    def take(self, reply: str) -> None:
        """Record the reply to `image`; a wrong code ends the test."""
        is_right = states_code(reply, self._codes[len(self._replies)])
        self._replies.append(reply)
        if not is_right or len(self._replies) == len(self._codes):
            self.finding = judge_sight(self._codes, self._replies)

    def states_any(self, reply: str) -> bool:
        """Return True if a reply gives the code of any image of the test."""
        return any(states_code(reply, code) for code in self._codes)

    @property
    def record(self) -> SightRecord:
        """The result for `config.json`."""
        replies = [truncate(reply, MAX_REPLY_CHARS) for reply in self._replies]
        return {"finding": self.finding or "unknown", "codes": self._codes, "replies": replies}


def draw_codes(count: int = 2) -> list[str]:
    """Return random four-digit codes that differ. They do not start with 0, which a reply in JSON would lose."""
    return [str(code) for code in secrets.SystemRandom().sample(range(1000, 10000), count)]


def code_image(code: str, size: tuple[int, int]) -> Image.Image:
    """Return an image of `size` (width, height) filled by a code in black on white."""
    width, height = size
    x0, top, right, bottom = font(100).getbbox(code)
    scale = min(0.8 * width / (right - x0), 0.6 * height / (bottom - top))
    image = Image.new("RGB", size, "white")
    large = font(max(int(100 * scale), 1))
    ImageDraw.Draw(image).text((width / 2, height / 2), code, "black", large, anchor="mm")
    return image


def states_code(reply: str, code: str) -> bool:
    """Return True if a reply gives a code outside its thinking: in any script, with any separators, among other words.

    A model that sees no image gives a random code once in 9,000 replies, unless it lists many numbers.
    """
    digits = "".join(map(_to_digit, unicodedata.normalize("NFKC", without_thinking(reply))))
    digits = _WORD.sub(lambda word: str(_WORDS.index(word[0].lower())), digits)
    if len(set(_FOUR_DIGITS.findall(digits))) > MAX_NUMBERS:
        return False
    is_stated = any(re.search(form.format(*code, gap=_GAP), digits) for form in _FORMS)
    return is_stated or re.sub("[^0-9]", "", digits) == code


def _to_digit(character: str) -> str:
    """Return the ASCII digit for a digit of any script, such as "٤" or "四"; otherwise the character."""
    value = unicodedata.numeric(character, -1.0)
    return str(int(value)) if value in range(10) else character


def judge_sight(codes: Sequence[str], replies: Sequence[str]) -> Finding:
    """Return the finding from the replies to the images of the codes, in order; later ones may be missing."""
    if not replies:
        return "unknown"
    is_right = [*map(states_code, replies, codes)]
    if is_right[0] and any(
        states_code(reply, codes[0])
        for reply, right in zip(replies, is_right, strict=True)
        if not right
    ):
        return "stale"
    return "sighted" if all(is_right) and len(replies) == len(codes) else "blind"


def check_servers(maker: EngineMaker, config: RunConfig) -> list[SightRecord]:
    """Return the result for each server of an engine; none if it has no servers.

    A model whose card states that it cannot read text is exempt.
    """
    if not maker.uses_server:
        return []
    if not reads_text(maker.model_name(config)):
        return [{"finding": "exempt"}]
    records: list[SightRecord] = []
    for url, make in maker.servers(config):
        with stage(STAGE, announce=not records), closing(make()) as engine:
            records.append({**check_server(engine, config), "url": url})
            reraise()
    return records


def check_server(engine: Engine, config: RunConfig) -> SightRecord:
    """Ask a model for the codes in two images of the size of a run's views."""
    test = SightTest(config.image_size)
    question = PROMPT.format(nonce=test.nonce)
    for name in ("sight-check-1", "sight-check-2"):
        file = f"{name}.png"
        request = Request(
            name,
            0,
            [message("user", image_piece(file), text(question))],
            {file: test.image}.__getitem__,
            seed=config.seed,
            max_new_tokens=config.max_new_tokens,
            thinking_budget=config.thinking_budget,
        )
        try:
            reply = limit_reply(engine.generate([request])[0], request)
        except EngineError as error:
            reply = Reply(error=str(error))
        if reason := _why_unreadable(reply, test):
            reason = truncate(reason, MAX_REPLY_CHARS)
            return {**test.record, "finding": "unknown", "reason": reason}
        test.take(reply.text)
        if test.finding is not None:
            break
    return test.record


def _why_unreadable(reply: Reply, test: SightTest) -> str | None:
    """Return why a reply says nothing about what the model sees; None if it can be judged."""
    if reply.error is not None:
        return reply.error
    if test.states_any(reply.text):
        return None
    if CONTENT_FILTER in reply.events:
        return "the server's content filter ended the reply"
    if reply.finish == "length":
        return "the token limit cut off the reply: raise --max-new-tokens, or pass --thinking off"
    return None if without_thinking(reply.text).strip() else "the reply is empty"


def _findings(checks: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Return the findings of some checks, without unknown ones of servers that replied to another check."""
    replied = {check.get("url") for check in checks if check["finding"] != "unknown"}
    return [
        check["finding"]
        for check in checks
        if check["finding"] != "unknown" or check.get("url") not in replied
    ]


def worst_finding(checks: Sequence[Mapping[str, Any]]) -> Finding | None:
    """Return the worst finding of some checks, or None if there are none."""
    return min(_findings(checks), key=get_args(Finding).index, default=None)


def sight_caveat(checks: Sequence[Mapping[str, Any]], *, with_reason: bool = False) -> str | None:
    """Return the caveat of the worst of some checks; None without checks, or if all of them are good."""
    finding = worst_finding(checks)
    if finding is None or finding not in CAVEATS:
        return None
    findings = _findings(checks)
    share = f" ({findings.count(finding)} of {len(findings)} checks)" if len(findings) > 1 else ""
    reasons = [check["reason"] for check in checks if "reason" in check]
    reason = f" ({reasons[0]})" if with_reason and finding == "unknown" and reasons else ""
    return f"sight check: {finding}{share}: {CAVEATS[finding]}{reason}"


def reads_text(model: str) -> bool:
    """False if a model is bundled or in a local folder, and its card states `reads_text: false`."""
    try:
        folder = bundled_model(model) or Path(model).expanduser()
        card = (folder / "README.md").read_text("utf-8")
        metadata = parse_yaml(card.split("---\n")[1]) if card.startswith("---\n") else None
    except (OSError, RuntimeError, ValueError):  # no card, an unknown home directory, or not YAML
        return True
    return not (isinstance(metadata, dict) and metadata.get("reads_text") is False)
