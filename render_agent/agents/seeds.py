"""Names and seeds of dialogues: whatever is drawn at random in a turn depends on these alone."""

from __future__ import annotations

import hashlib

SEPARATOR = "\x1f"
"""Stands between a question's id and what tells its dialogues apart; no id that is written has it."""


def turn_seed(seed: int, question_id: str, turn: int) -> int:
    """Return the seed of one turn of one dialogue: it depends on nothing but these three."""
    name = f"{seed} {question_id} {turn}".encode("utf-8", "backslashreplace")
    return int.from_bytes(hashlib.sha256(name).digest()[:4], "big")


def wording_id(question_id: str, group: int) -> str:
    """Return the id of the dialogue of a wording, from 0; the first is the question's own."""
    return f"{question_id}{SEPARATOR}wording {group}" if group else question_id


def rewording_id(question_id: str) -> str:
    """Return the id of the dialogue in which a question's wordings are asked for."""
    return f"{question_id}{SEPARATOR}wordings"


def dialogue_id(question_id: str, turn: int, candidate: int) -> str:
    """Return the id of the dialogue in which a candidate of a turn was made; no question has it as its own."""
    return f"{question_id}{SEPARATOR}turn {turn} candidate {candidate}"
