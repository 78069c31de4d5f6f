"""Training data from dialogues: chat messages, and preference pairs of a better and a worse reply."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from render_agent.dialogue.chat import Message, assistant, encodable, harmless, message
from render_agent.dialogue.evidence import Evidence
from render_agent.dialogue.state import QuestionState
from render_agent.report.result_rows import exported
from render_agent.report.standings import Standing, members, standings
from render_agent.runs.log.row import Row
from render_agent.runs.read import RunData


def message_lines(
    runs: Sequence[RunData],
    beside: Path,
    *,
    absolute: bool = False,
    thinking: bool = True,
    truth: bool = False,
) -> Iterator[dict[str, Any]]:
    """Give a line a dialogue; questions without a reply are left out.

    beside: the folder that paths of pictures start from; absolute: they start from the root. thinking:
    whether think blocks stay in the replies as they were logged. truth: whether a line has it, beside
    the messages; it and the score are those of the room as shown, which may be mirrored.
    """
    for run, state, row, base in _questions(runs, beside, absolute):
        if state.turns:
            yield {
                "id": state.id,
                "run": run,
                "messages": [relocated(entry, base) for entry in dialogue(state, thinking)],
                **{name: getattr(row, name) for name in ("type", "scene", "status", "answer")},
                "score": row.score_as_shown,
                **({"truth": row.truth_as_shown} if truth else {}),
            }


def pair_lines(
    runs: Sequence[RunData], beside: Path, *, absolute: bool = False, thinking: bool = True
) -> Iterator[dict[str, Any]]:
    """Give a line a pair of replies to the same prompt, one better and one worse.

    Of every turn whose candidates were scored: the move that was taken against each that scored less, where
    both answer the question as it stands. `prompt` is the dialogue up to there, `chosen` and `rejected` are one reply
    each; `scores` has both sides' by verifier and member, which compare within the line only. beside,
    absolute, thinking: as of `message_lines`.
    """
    for run, state, row, base in _questions(runs, beside, absolute):
        about = {name: getattr(row, name) for name in ("type", "scene", "status")}
        for pair in _pairs(state, base, thinking=thinking):
            yield {"id": state.id, "run": run, **pair, **about}


def _questions(
    runs: Sequence[RunData], beside: Path, absolute: bool
) -> Iterator[tuple[str, QuestionState, Row, Path]]:
    """Give of every question the run's name, its state, its row, and the folder that pictures start from."""
    for run in runs:
        folder = run.path.resolve()
        base = folder if absolute else Path(os.path.relpath(folder, beside.resolve()))
        for state, row in exported(run):
            yield run.name, state, row, base


def dialogue(state: QuestionState, thinking: bool) -> list[Message]:
    """Return the messages as they were sent, each turn's reply after them.

    thinking: whether replies keep their think blocks, which are never fed back.
    """
    messages: list[Message] = []
    for turn in state.turns:
        messages += [*turn.messages, _reply(turn.reply, thinking)]
    return messages


def relocated(entry: Message, base: Path) -> Message:
    """Return a message whose pictures lie in `base` instead of in the run folder."""
    content = [
        {**piece, "image": (base / piece["image"]).as_posix()} if "image" in piece else piece
        for piece in entry["content"]
    ]
    return {**entry, "content": content}


def reply_piece(reply: str) -> dict[str, str]:
    """Return a reply as a piece of text with its think blocks, all else harmless to tokenizers."""
    parts = re.split("(</?think>)", reply.strip() or "(no reply)")
    kept = [encodable(part) if number % 2 else harmless(part) for number, part in enumerate(parts)]
    return {"type": "text", "text": "".join(kept)}


def _pairs(state: QuestionState, base: Path, *, thinking: bool) -> Iterator[dict[str, Any]]:
    for turn in state.turns:
        evidence = turn.evidence
        if evidence is None or not evidence.fused:
            continue
        own = standings(evidence)
        best = own[evidence.chosen]
        if best.candidate.group:  # the prompt was another wording
            continue
        before = replace(state, turns=state.turns[: turn.number])
        prompt = [*dialogue(before, thinking), *turn.messages]
        for worse in own:
            if not _is_worse(worse, best):
                continue
            sides = {"chosen": best, "rejected": worse}
            yield {
                "turn": turn.number,
                "prompt": [relocated(entry, base) for entry in prompt],
                **{
                    side: [_reply(standing.candidate.reply, thinking)]
                    for side, standing in sides.items()
                },
                "views": {side: _view(standing, base) for side, standing in sides.items()},
                "scores": {side: _scores(evidence, standing) for side, standing in sides.items()},
            }


def _is_worse(other: Standing, best: Standing) -> bool:
    """Return whether a candidate scored less than the one that was taken, for the same prompt."""
    if best.fused is None or other.fused is None or other.fused >= best.fused:
        return False
    same = other.candidate.group == best.candidate.group
    return same and other.candidate.reply != best.candidate.reply


def _reply(reply: str, thinking: bool) -> Message:
    return message("assistant", reply_piece(reply)) if thinking else assistant(reply)


def _view(standing: Standing, base: Path) -> str | None:
    view = standing.candidate.view
    return None if view is None else (base / view.file).as_posix()


def _scores(evidence: Evidence, standing: Standing) -> dict[str, Any]:
    by_verifier: dict[str, Any] = {"fused": standing.fused}
    for member, score in zip(members(evidence), standing.scores, strict=True):
        by_verifier.setdefault(member.verifier, {})[member.name] = score
    return by_verifier
