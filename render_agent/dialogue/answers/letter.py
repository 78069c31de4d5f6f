"""Reads which option an answer names. docs/explanation/scores.md states the rule."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from render_agent.dialogue.answers.stated import WORD_CHARACTER, normalise, read_stated

_DECORATION = " \t\r\n.*_`~|#>\"'()[]{}<>⟦⟧$:,;!?-–—=、。"

# A letter on its own, which is not part of a word, an abbreviation, a contraction or a unit.
_LETTER = re.compile(
    rf"(?<!{WORD_CHARACTER})(?<!{WORD_CHARACTER}['’.-])(?<![°\\])([A-Za-z])(?!['’-]?{WORD_CHARACTER})"
    r"(?!\.[A-Za-z](?![A-Za-z]))"
)

# "A" before another word is an article and "I" a pronoun, unless no noun can follow.
_ARTICLE = re.compile(r"[AaI][ \t]+(?=\w)")
_NOT_AFTER_ARTICLE = re.compile(
    r"(?:is|are|was|were|has|have|can|could|will|would|should|must|does|seems?|looks?|appears?|matches|fits|because|since"
    r"|as|so|and|or|nor|but|not|if|when|where|which|that|than|therefore|thus|hence|due|given|instead|in|on|at|to|by"
    r"|from|with|of|for|over|vs|the|this|it|we|they|you|i|there|[b-z])\b",
    re.IGNORECASE,
)

# Signs that a letter is a label: a word before it, brackets or emphasis around it, or the start of a line.
_OPTION_WORD = re.compile(
    r"(?:\b(?:option|choice|letter|opción|opção|opzione|вариант)|选项|選項|選択肢|보기)[\W_]*\Z",
    re.IGNORECASE,
)
_OPENING, _CLOSING = frozenset("([{<⟦\"'*_`"), frozenset(")]}>⟧\"'*_`")
_LABEL_MARK = re.compile(r"[.:;)\]、]|[\W_]*(?:\n|\Z)|[ \t]+[-–—][ \t]")

_SENTENCE = re.compile(r"[\W_]*[A-Za-z][)\]}>⟧\"'*_`]*(?:[.;]|[.:]?[ \t]*\n)")  # a single letter

_CONNECTIVE = re.compile(
    r"[\W_]*(?:[,/&+|]|\b(?:or|and|nor|oder|und|ou|et|o|y|e|или|и)\b|或者?|和)[\W_]*"
    r"(?:(?:or|and|option|choice|letter)\b[\W_]*)*",
    re.IGNORECASE,
)

_NEGATION_BEFORE = re.compile(
    r"(?:\b(?:not|never|neither|nor|cannot|except|(?:anything|everything)\s+but|(?:rather|other)\s+than"
    r"|instead\s+of|exclud(?:e|es|ed|ing)|eliminat(?:e|es|ed|ing)|rul(?:e|es|ed|ing)\s+out|nicht|kein|pas|nunca)\b|n't\b|不|非|¬)"
    r"(?:(?!\bbut\b|[,.;!?\n。；，]).)*\Z",
    re.IGNORECASE,
)
_NEGATION_AFTER = re.compile(
    r"(?:(?:\W*(?:,|&|\b(?:and|or)\b)\W*[A-Z]\b){1,9}(?=\W*are))?"  # further letters of a list
    r"[\W_]*\b(?:(?:is|are|was|ca|can|does|do|would|could|wo)(?:n't|not|\s+not)|(?:(?:is|are|was|seems?|looks?)\s+)?"
    r"(?:wrong|incorrect|impossible|false|excluded|eliminated|ruled\s+out|out(?!\s+of)))\b",
    re.IGNORECASE,
)

CONTEXT = 80  # characters inspected before a letter
MAX_MENTIONS = 40  # per part of an answer; more mentions are ambiguous anyway


# What marks a letter as a label: "listed" for its position or the option text after it, "enclosed" for brackets or a
# word such as "option".
Label = Literal["", "listed", "enclosed"]


@dataclass(frozen=True, slots=True)
class _Mention:
    """A place in a text that names an option by its letter or by its text."""

    letter: str
    start: int
    end: int
    by_letter: bool
    label: Label = ""


def letter_in(text: str, texts: Mapping[str, str]) -> str | None:
    """Return the letter of the only option that an answer names; None if it names none or several.

    Args:
        text: The answer.
        texts: Letter -> text of the options.
    """
    text = normalise(text)
    letter = bare(text).upper()
    if letter in texts:
        return letter
    by_text = [letter for letter, option in texts.items() if _same_words(text, option)]
    if by_text:
        return by_text[0] if len(by_text) == 1 else None
    plain = {letter: _words(option) for letter, option in texts.items()}
    return read_stated(text, lambda part: _find_options(part, plain))


def bare(text: str) -> str:
    """Strip punctuation, brackets and emphasis around a text."""
    return text.strip(_DECORATION)


def _find_options(text: str, texts: Mapping[str, str]) -> set[str | None]:
    """Return the options named in a part of an answer; None for an option that is contradicted.

    Options that are ruled out ("not A") do not count, unless all of them are.

    Labels such as "(B)" take precedence over letters in a sentence and over option texts. A letter at the start takes
    precedence over option texts.
    """
    letters = _find_letters(text, texts)
    if len(letters) > MAX_MENTIONS:
        return {None}
    mentions = [mention for mention in letters if mention.label]
    if mentions and mentions[0] is letters[0] and _SENTENCE.match(text):
        mentions = [
            mentions[0],
            *(mention for mention in mentions[1:] if mention.label != "enclosed"),
        ]
    elif not mentions:
        is_leading = bool(letters) and not bare(text[: letters[0].start])
        mentions = letters if is_leading else letters + _find_option_texts(text, texts)
    possible = [mention for mention in mentions if not _is_negated(text, mention)]
    if mentions and not possible:
        return {None}
    return {
        None if _is_contradicted(text, mention, texts) else mention.letter for mention in possible
    }


def _is_negated(text: str, mention: _Mention) -> bool:
    before, after = _context(text, mention.start), text[mention.end : mention.end + CONTEXT]
    return bool(_NEGATION_BEFORE.search(before) or _NEGATION_AFTER.match(after))


def _is_contradicted(text: str, mention: _Mention, texts: Mapping[str, str]) -> bool:
    """Return True if the letter is followed only by the text of another option."""
    words = _words(text[mention.end :]) if mention.by_letter else ""
    return words != "" and words != texts[mention.letter] and words in texts.values()


def _find_letters(text: str, texts: Mapping[str, str]) -> list[_Mention]:
    """Return the option letters mentioned in a text, in order."""
    mentions: list[_Mention] = []
    for match in _LETTER.finditer(text):
        letter = match[1].upper()
        own_text = texts.get(letter)
        if own_text is None or _is_article(text, match, own_text):
            continue  # not an option letter
        gap = text[mentions[-1].end : match.start()] if mentions else ""
        follows = 0 < len(gap) <= CONTEXT and _CONNECTIVE.fullmatch(gap) is not None
        label = _label(text, match, own_text) or (
            "listed" if follows and mentions[-1].label else ""
        )
        is_first = not mentions and not bare(text[: match.start()])
        if match[1].isupper() or label or is_first or follows:
            mentions.append(_Mention(letter, match.start(), match.end(), True, label))
        if len(mentions) > MAX_MENTIONS:
            break
    return mentions


def _context(text: str, position: int) -> str:
    return text[max(0, position - CONTEXT) : position]


def _is_article(text: str, letter: re.Match[str], own_text: str) -> bool:
    article = _ARTICLE.match(text, letter.start())
    if article is None or _starts_with(text[article.end() :], own_text):
        return False
    return letter[1] == "I" or not _NOT_AFTER_ARTICLE.match(text, article.end())


def _label(text: str, letter: re.Match[str], own_text: str) -> Label:
    before = _context(text, letter.start())
    after = text[letter.end() : letter.end() + CONTEXT + len(own_text)]
    line = before.rpartition("\n")[2]
    is_line_start = not bare(line) and len(line) < CONTEXT
    if (is_line_start and _LABEL_MARK.match(after)) or _starts_with(bare(after), own_text):
        return "listed"
    is_enclosed = before[-1:] in _OPENING and after[:1] in _CLOSING
    return "enclosed" if is_enclosed or _OPTION_WORD.search(before) else ""


def _find_option_texts(text: str, texts: Mapping[str, str]) -> list[_Mention]:
    """Return the option texts mentioned in a text; if mentions overlap, only the longest."""
    mentions: list[_Mention] = []
    are_lists = any("," in option for option in texts.values())
    for letter, option in sorted(texts.items(), key=lambda item: -len(item[1])):
        if not option:
            continue
        for match in islice(_phrase(option, is_list=are_lists).finditer(text), MAX_MENTIONS):
            mentions.append(_Mention(letter, match.start(), match.end(), by_letter=False))
            text = text[: match.start()] + "\0" * len(match[0]) + text[match.end() :]
    return mentions


def _phrase(words: str, *, is_list: bool = False) -> re.Pattern[str]:
    """Return a pattern that matches whole words. A list, such as a route, must not be part of a longer list."""
    before = rf"(?<!{WORD_CHARACTER})(?<![-.]){'(?<!, )' if is_list else ''}"
    after = rf"(?!{WORD_CHARACTER})(?!-)(?![.,][0-9]){'(?! ?,)' if is_list else ''}"
    return re.compile(before + re.escape(words) + after, re.IGNORECASE)


def _starts_with(text: str, words: str) -> bool:
    text = re.sub(r"^(?:the|an?)\s+", "", text.lower())
    return words != "" and _phrase(words).match(text) is not None


def _same_words(text: str, option: str) -> bool:
    return _words(text) == _words(option) != ""


def _words(text: str) -> str:
    """Lower-case a text, and strip surrounding punctuation and a leading article."""
    return re.sub(r"^(?:the|an?)\s+", "", bare(normalise(text)).lower())
