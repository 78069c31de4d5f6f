"""Normalises the text of an answer, and finds the part of it that states the answer.

Both letters and numbers are read by `read_stated`; docs/explanation/scores.md states the full rule.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import islice

FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}  # full-width ASCII -> ASCII
_BRACKETS = dict(zip("（）［］｛｝【】〔〕「」『』《》〈〉«»‹›", "()[]{}" + "()" * 8, strict=True))
_QUOTES = dict.fromkeys("“”„‟", '"') | dict.fromkeys("‘’‚‛", "'")
_SPACES = dict.fromkeys(
    "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000",
    " ",
)
_INVISIBLE = dict.fromkeys("\0\u00ad\u200b\u200c\u200d\u2060\ufeff", "")
_ARABIC_SEPARATORS = {"٫": ".", "٬": ","}
_ASCII = FULL_WIDTH | str.maketrans(_ARABIC_SEPARATORS | _BRACKETS | _QUOTES | _SPACES | _INVISIBLE)

CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"  # scripts without spaces between words

WORD_CHARACTER = rf"[^\W{CJK}]"

_BOXED = re.compile(r"\\f?box(?:ed)?\s*\{([^{}]*)\}")
_BOX = re.compile("⟦([^⟦⟧]*)⟧")
_LATEX_TEXT = re.compile(r"\\(?:text|math|operatorname)[a-z]*\s*\{([^{}]*)\}")
_LATEX_MARKS = re.compile(r"\\[()\[\]]|\$+")
_LATEX_EXPONENT = re.compile(r"\^\s*\{([^{}]*)\}")
_DIGIT = re.compile(r"(?![0-9])\d")  # decimal digits of other scripts
_LATEX_SPACE = re.compile(r"\\[,;:! ]|(?<=[0-9])\{,\}(?=[0-9])|~")
# <B> on its own is option B.
_TAGS = re.compile(r"</?(?:[A-Za-z][\w-]+|[a-z])\s*/?>|<([A-Z])>(?=[^<]*</\1>)|</[A-Z]>")

# Phrases that announce the answer, in the languages that models often reply in.
_STATED = re.compile(
    r"(?:\b(?:answer|solution|conclusion|(?:final|best|correct|right|my)\s+(?:choice|option)|antwort|lösung|réponse|respuesta"
    r"|resposta|risposta|antwoord|ответ|cevap|jawaban|đáp án)\b|答案|答え|正解|回答|정답)"
    r"(?:\s+(?:to|of|for)\s+(?:the|this|your)\s+\w+)?(?:\s+(?:should|would|must|will|here|then|therefore))*"
    r"(?:\W*\b(?:is|are|be|was|ist|est|es|é|è)\b|[\s*_\"'`)\]]*(?::|=>?|->|→|—|–|-(?=\s)|应?是|应?为|應?為|は|은|는)"
    r"|[\s*_\"'`(\[{|]*(?=[A-Za-z0-9](?![A-Za-z0-9])))"
    r"|\btotal\s+of\b|\btotal(?:\s+\w+){0,5}?\s*(?:\b(?:is|are)\b|[:=])",
    re.IGNORECASE,
)
_REASON = re.compile(
    r"\b(?:because|since|due to|given that|weil|parce que|porque|потому)\b|因为|因為|由于|由於|なぜなら",
    re.IGNORECASE,
)
_CORRECTION = re.compile(
    r"\b(?:correction|scratch\s+that|on\s+second\s+thoughts?|wait,?\s+no|no,?\s+wait)\b",
    re.IGNORECASE,
)
# A full stop after a single letter does not end a sentence.
_SENTENCE_END = re.compile(r"\n|(?:(?<![^\W\d_])|(?<=\w[^\W\d_]))[.!?](?=\s|\Z)|[。！？;]")

MAX_STATEMENTS = 20  # announcing phrases inspected per text


def normalise(text: str) -> str:
    """Replace full-width characters, digits of other scripts, typographic quotes and spaces by ASCII, and remove
    LaTeX and HTML markup.

    LaTeX boxes become ⟦…⟧. Emphasis is kept.
    """
    text = _DIGIT.sub(lambda match: str(unicodedata.decimal(match[0])), text.translate(_ASCII))
    text = _LATEX_EXPONENT.sub(r"^\1", text)
    text = _LATEX_SPACE.sub(lambda match: "," if "," in match[0] and "{" in match[0] else " ", text)
    for _ in range(3):  # nested markup
        text = _BOXED.sub(r" ⟦\1⟧ ", _LATEX_TEXT.sub(r"\1", text))
    return _TAGS.sub(" ", _LATEX_MARKS.sub("", text)).strip()


def read_stated(text: str, read_part: Callable[[str], set[str | None]]) -> str | None:
    """Read an answer from the part of a text that states it.

    Args:
        text: A normalised text.
        read_part: Returns the answers in a part of the text; None stands for an answer that is invalid or ruled out.

    Returns:
        The only answer in the first of these parts that contains any: the text after "wait, no" or another correction;
        the rest of a sentence after a phrase such as "the answer is"; the text before the reason ("because"); the whole
        text. None if that part contains several answers.
    """
    *_, corrected = _CORRECTION.split(text)
    for parts in (
        [corrected] if corrected != text else [],
        [*_statements(text)],
        [_without_reason(text)],
        [text],
    ):
        answers = {answer for part in parts for answer in read_part(part)}
        if answers:
            return answers.pop() if len(answers) == 1 else None
    return None


def _statements(text: str) -> Iterator[str]:
    """Yield the contents of boxes and the rest of each sentence that announces the answer, both without the reason."""
    yield from _BOX.findall(text)
    for phrase in islice(_STATED.finditer(text), MAX_STATEMENTS):
        end = _SENTENCE_END.search(text, _start_of_statement(text, phrase.end()))
        yield _without_reason(text[phrase.end() : end.start() if end else None])


def _start_of_statement(text: str, position: int) -> int:
    """Skip punctuation, markup and line breaks between the phrase and the answer ("**Answer:**\nB")."""
    match = re.compile(r"[\W_]*").match(text, position)
    return match.end() if match else position


def _without_reason(text: str) -> str:
    reason = _REASON.search(text)
    return text[: reason.start()] if reason else text
