"""Answer parsing as in VLMEvalKit: letters in seven stages, numbers from the end."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from render_agent.util.numbers import SMALL_NUMBERS

TAIL_LINES, TAIL_CHARACTERS = 6, 800  # size of the end of an answer that is inspected

_INVISIBLE = re.compile("[\u200b\u200c\u200d\ufeff]")
_OPENING_TAG = re.compile(r"<\s*+answer\b[^>]*+>", re.IGNORECASE)
_CLOSING_TAG = re.compile(r"<\s*/\s*answer\s*>", re.IGNORECASE)
_TAGGED_LETTER = re.compile(r"\s*([A-J])", re.IGNORECASE)
_BEFORE_CLOSING = [
    re.compile(rf"(?<![A-Za-z])([A-F])\s*[)\]}}）】]?\s*</\s*{tag}\s*>", re.IGNORECASE)
    for tag in ("answer", "think")
]
_THINKING = [re.compile(tag, re.IGNORECASE) for tag in (r"</\s*think\s*>", r"<\s*think\s*>")]
_OPTION_LISTED = re.compile(r"[*_>\-\s]*(?:option|选项)\s+[A-J]\s*[:：]", re.IGNORECASE)
_ALONE = re.compile(r"\s*+[*_`>（）\[\]【】()]*+\s*+([A-Fa-f])\s*+[*_`（）\[\]【】()]*+\s*+")
_LABEL = re.compile(r"([A-F])\s*[.．:：)\]】、-]\s+", re.IGNORECASE)
_IN_LINE = re.compile(r"(?<![A-Za-z])([A-F])\s*[*_`）\])}]*(?=$|[\s.,:;!?)\]】》」』，。；、：）])")
_CONCLUSION = re.compile(
    r"(?:final\s*answer|the\s*answer\s*is|answer(?:\s*is)?|correct\s*answer"
    r"|答案|最终答案|结论|所以|因此|我选(?:择)?|选择|选)"
    r"\s*+[:：>＝=]?\s*+[(\[{（【]?\s*+([A-F])\s*[)\]}）】]?(?:\b|[.)、。])",
    re.IGNORECASE,
)
_CAPITAL = re.compile(r"(?<![A-Za-z])([A-F])\s*[)\]}）】]?(?![A-Za-z])")

_DIGITS = r"[-+]?(?:\d*\.\d+|\d+)(?:[eE][-+]?\d+)?"
_NUMBER = re.compile(_DIGITS)
_TAGGED_NUMBER = re.compile(rf"\s*({_DIGITS})(?:[^\d<][^<]*)?{_CLOSING_TAG.pattern}", re.IGNORECASE)
_WORD = re.compile(rf"\b(?:{'|'.join(SMALL_NUMBERS)})\b", re.IGNORECASE)


def letter(answer: str) -> str | None:
    """Return the letter found by the first successful stage, or None.

    The stages are: a tagged answer; a letter before a closing tag (two stages); the last lines after the thinking,
    then of the whole answer; a phrase such as "the answer is B"; the only stand-alone capital letter. As in
    VLMEvalKit, letters beyond the question's options count too.
    """
    text = _INVISIBLE.sub("", answer.strip())
    end = text[-TAIL_CHARACTERS:]
    return (
        _tagged_letter(text)
        or _find_first(_BEFORE_CLOSING[0], end)
        or _find_first(_BEFORE_CLOSING[1], end)
        or _last_line(_after_thinking(text))
        or _last_line(end)
        or _find_first(_CONCLUSION, text)
        or _only(_CAPITAL.findall("\n".join(_skip_listed_options(text.splitlines()))))
    )


def tagged_number(answer: str) -> float | None:
    """Return a tagged number, or else the last number after the thinking, or else the last number; None if there is
    none.

    Number words up to twenty count. "twenty-one" is read as 20 and -1, so its last number is -1.
    """
    text = _INVISIBLE.sub("", _first_of_list(answer).strip())
    text = _WORD.sub(lambda word: str(SMALL_NUMBERS[word[0].lower()]), text)
    for tag in _opening_tags(text):
        if match := _TAGGED_NUMBER.match(text, tag.end()):
            return float(match[1])
    numbers = _NUMBER.findall(_after_thinking(text)) or _NUMBER.findall(text)
    return float(numbers[-1]) if numbers else None


def _opening_tags(text: str) -> Iterator[re.Match[str]]:
    """Return the opening tags before the last ">", because a search beyond it would take quadratic time."""
    return _OPENING_TAG.finditer(text, 0, text.rfind(">") + 1)


def _tagged_letter(text: str) -> str | None:
    for tag in _opening_tags(text):
        if match := _TAGGED_LETTER.match(text, tag.end()):
            return match[1].upper() if _CLOSING_TAG.search(text, match.end()) else None
    return None


def _find_first(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return match[1].upper() if match else None


def _last_line(text: str) -> str | None:
    """Return the letter named by the last of the final lines that names exactly one letter."""
    lines = [line.strip() for line in text.splitlines()[-TAIL_LINES:]]
    for line in reversed(_skip_listed_options(lines)):
        whole = _ALONE.fullmatch(line) or _LABEL.match(line)
        letter = whole[1].upper() if whole else _only(_IN_LINE.findall(line))
        if letter:
            return letter
    return None


def _skip_listed_options(lines: Iterable[str]) -> list[str]:
    """Return the lines that do not repeat an option."""
    return [line for line in lines if not _OPTION_LISTED.match(line)]


def _only(letters: list[str]) -> str | None:
    return letters[0] if len(set(letters)) == 1 else None


def _after_thinking(text: str) -> str:
    for tag in _THINKING:
        *_, last_match = [None, *tag.finditer(text)]
        if last_match is not None:
            return text[last_match.end() :].strip()
    return text


def _first_of_list(answer: str) -> str:
    """Return the first entry of an answer that is formatted as a Python list."""
    if not (answer.strip().startswith("[") and answer.strip().endswith("]")):
        return answer
    try:
        entries = ast.literal_eval(answer)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return ""  # VLMEvalKit gives up on such answers
    return str(entries[0]) if isinstance(entries, list) and entries else answer
