"""Dialogues as chat messages, a line a question, for whoever trains on them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from render_agent.analysis.export.selection import ChosenRun
from render_agent.dialogue.candidates import Standing, members, standings, wordings_of
from render_agent.dialogue.chat import Message, assistant, encodable, harmless, message
from render_agent.dialogue.state import Evidence, Question, QuestionState
from render_agent.system.whole_files import json_lines


def write_messages(
    runs: Sequence[ChosenRun],
    file: Path,
    beside: Path,
    *,
    absolute: bool = False,
    thinking: bool = True,
    truth: bool = False,
) -> int:
    """Write the dialogues as JSON lines and return how many.

    Questions without a reply are left out. beside: the folder that paths of pictures start from;
    absolute: they start from the root. thinking: whether think blocks stay in the replies as they were
    logged. truth: whether a line has it, beside the messages; it and the score are those of the room as
    shown, which may be mirrored. OSError where it cannot be written.
    """

    def lines() -> Iterator[dict[str, Any]]:
        for run in runs:
            folder = run.folder.path.resolve()
            base = folder if absolute else Path(os.path.relpath(folder, beside.resolve()))
            for state, row in zip(run.states, run.rows, strict=True):
                if state.turns:
                    yield {
                        "id": state.id,
                        "run": run.name,
                        "messages": [placed(entry, base) for entry in dialogue(state, thinking)],
                        **{name: row[name] for name in ("type", "scene", "status")},
                        "answer": row["answer"],
                        "score": row["score_as_shown"],
                        **({"truth": row["truth_as_shown"]} if truth else {}),
                    }

    written = list(lines())
    file.write_bytes(json_lines(written))
    return len(written)


def dialogue(state: QuestionState, thinking: bool) -> list[Message]:
    """Return the messages as they were sent, each turn's reply after them.

    thinking: whether replies keep their think blocks, which are never fed back.
    """
    messages: list[Message] = []
    for turn in state.turns:
        reply = message("assistant", logged(turn.reply)) if thinking else assistant(turn.reply)
        messages += [*turn.messages, reply]
    return messages


def placed(entry: Message, base: Path) -> Message:
    """Return a message whose pictures lie in `base` instead of in the run folder."""
    content = [
        {**piece, "image": (base / piece["image"]).as_posix()} if "image" in piece else piece
        for piece in entry["content"]
    ]
    return {**entry, "content": content}


def logged(reply: str) -> dict[str, str]:
    """Return a reply as a piece of text with its think blocks, all else harmless to tokenizers."""
    parts = re.split("(</?think>)", reply.strip() or "(no reply)")
    kept = [encodable(part) if number % 2 else harmless(part) for number, part in enumerate(parts)]
    return {"type": "text", "text": "".join(kept)}


def write_pairs(
    runs: Sequence[ChosenRun],
    file: Path,
    beside: Path,
    *,
    absolute: bool = False,
    thinking: bool = True,
) -> int:
    """Write a JSON line a pair and return how many.

    Of every turn whose candidates were scored: the move that was taken against each that scored less and
    answers the same wording. `prompt` is the dialogue up to there, `chosen` and `rejected` are one reply
    each; `scores` has both sides' by verifier and member, which compare within the line only. beside,
    absolute, thinking: as of `write_messages`. OSError where it cannot be written.
    """

    def lines() -> Iterator[dict[str, Any]]:
        for run in runs:
            folder = run.folder.path.resolve()
            base = folder if absolute else Path(os.path.relpath(folder, beside.resolve()))
            for state, row in zip(run.states, run.rows, strict=True):
                about = {name: row[name] for name in ("type", "scene", "status")}
                for pair in pairs_of(state, base, thinking=thinking):
                    yield {"id": state.id, "run": run.name, **pair, **about}

    written = list(lines())
    file.write_bytes(json_lines(written))
    return len(written)


def pairs_of(state: QuestionState, base: Path, *, thinking: bool) -> Iterator[dict[str, Any]]:
    """Give the pairs of a question; base: the folder that paths of pictures start from."""
    wordings = wordings_of(state)
    for turn in state.turns:
        evidence = turn.evidence
        if evidence is None or not evidence.fused:
            continue
        found = [one for one in standings(evidence) if one.candidate.follows is None]
        best = next(one for one in found if one.chosen)
        before = replace(state, turns=state.turns[: turn.number])
        prompt = [*dialogue(before, thinking), *turn.messages]
        if group := best.candidate.group:
            prompt = _reworded(prompt, state.question, wordings[group])
        for other in found:
            if not _worse(other, best):
                continue
            yield {
                "turn": turn.number,
                "prompt": [placed(entry, base) for entry in prompt],
                "chosen": [_reply(best, thinking)],
                "rejected": [_reply(other, thinking)],
                "views": {"chosen": _view(best, base), "rejected": _view(other, base)},
                "scores": {
                    "chosen": _scores(evidence, best),
                    "rejected": _scores(evidence, other),
                },
            }


def _worse(other: Standing, best: Standing) -> bool:
    """Return whether a candidate scored less than the one that was taken, for the same prompt."""
    if best.led is None or other.led is None or other.led >= best.led:
        return False
    same = other.candidate.group == best.candidate.group
    return same and other.candidate.reply != best.candidate.reply


def _reply(standing: Standing, thinking: bool) -> Message:
    reply = standing.candidate.reply
    return message("assistant", logged(reply)) if thinking else assistant(reply)


def _view(standing: Standing, base: Path) -> str | None:
    view = standing.candidate.view
    return None if view is None else (base / view.file).as_posix()


def _scores(evidence: Evidence, standing: Standing) -> dict[str, Any]:
    by_verifier: dict[str, Any] = {"fused": standing.led}
    for member, score in zip(members(evidence), standing.scores, strict=True):
        by_verifier.setdefault(member.verifier, {})[member.name] = score
    return by_verifier


def _reworded(prompt: Sequence[Message], question: Question, wording: str) -> list[Message]:
    """Return a prompt in which the question stands in another wording."""
    return [
        {
            **entry,
            "content": [
                {**piece, "text": piece["text"].replace(question.text, wording)}
                if entry["role"] == "user" and "text" in piece
                else piece
                for piece in entry["content"]
            ],
        }
        for entry in prompt
    ]
