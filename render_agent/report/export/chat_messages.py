"""Training data from dialogues: chat messages and preference pairs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from render_agent.dialogue.chat import (
    Message,
    assistant,
    escape_special_tokens,
    message,
    replace_unencodable,
)
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Evidence
from render_agent.report.candidate_scores import CandidateScore, candidate_scores, members
from render_agent.report.result_rows import questions_with_progress
from render_agent.runs.log.row import Row
from render_agent.runs.read import RunData


def message_lines(
    runs: Sequence[RunData],
    folder: Path,
    *,
    absolute: bool = False,
    thinking: bool = True,
    truth: bool = False,
) -> Iterator[dict[str, Any]]:
    """Yield one record per dialogue. Questions without a reply are skipped."""
    for run, state, row, base in _questions(runs, folder, absolute):
        if state.turns:
            yield {
                "id": state.id,
                "run": run,
                "messages": [relocate(entry, base) for entry in dialogue(state, thinking)],
                **{name: getattr(row, name) for name in ("type", "scene", "status", "answer")},
                "score": row.score_as_shown,
                **({"truth": row.truth_as_shown} if truth else {}),
            }


def pair_lines(
    runs: Sequence[RunData], folder: Path, *, absolute: bool = False, thinking: bool = True
) -> Iterator[dict[str, Any]]:
    """Yield preference pairs: the chosen reply and a candidate with a lower score for the same prompt.

    Each record has the dialogue so far as `prompt`, one reply each as `chosen` and `rejected`, and
    the `scores` of both by verifier and member. Scores are comparable only within a record.
    """
    for run, state, row, base in _questions(runs, folder, absolute):
        metadata = {name: getattr(row, name) for name in ("type", "scene", "status")}
        for pair in _pairs(state, base, thinking=thinking):
            yield {"id": state.id, "run": run, **pair, **metadata}


def _questions(
    runs: Sequence[RunData], folder: Path, absolute: bool
) -> Iterator[tuple[str, QuestionState, Row, Path]]:
    """Yield the run's name, the state, the row and the base folder of image paths for every question."""
    for run in runs:
        run_folder = run.path.resolve()
        base = run_folder if absolute else Path(os.path.relpath(run_folder, folder.resolve()))
        for state, row in questions_with_progress(run):
            yield run.name, state, row, base


def dialogue(state: QuestionState, thinking: bool) -> list[Message]:
    """Return all messages as sent to the model, with the reply of each turn."""
    messages: list[Message] = []
    for turn in state.turns:
        for sent, reply in turn.exchanges:
            messages += [*sent, _reply(reply, thinking)]
    return messages


def relocate(entry: Message, base: Path) -> Message:
    """Return a message whose image paths start with `base`."""
    content = [
        {**piece, "image": (base / piece["image"]).as_posix()} if "image" in piece else piece
        for piece in entry["content"]
    ]
    return {**entry, "content": content}


def reply_piece(reply: str) -> dict[str, str]:
    """Return a reply as a text entry. Keeps thinking tags and escapes all other special tokens."""
    parts = re.split("(</?think>)", reply.strip() or "(no reply)")
    pieces = [
        replace_unencodable(part) if index % 2 else escape_special_tokens(part)
        for index, part in enumerate(parts)
    ]
    return {"type": "text", "text": "".join(pieces)}


def _pairs(state: QuestionState, base: Path, *, thinking: bool) -> Iterator[dict[str, Any]]:
    for turn in state.turns:
        evidence = turn.evidence
        if evidence is None or not evidence.fused:
            continue
        candidates = candidate_scores(evidence)
        winner = candidates[evidence.chosen]
        if winner.candidate.group:  # the candidate answers a different wording of the question
            continue
        earlier = replace(state, turns=state.turns[: turn.number])
        prompt = [*dialogue(earlier, thinking), *turn.messages]
        for loser in candidates:
            if not _is_worse(loser, winner):
                continue
            sides = {"chosen": winner, "rejected": loser}
            yield {
                "turn": turn.number,
                "prompt": [relocate(entry, base) for entry in prompt],
                **{
                    side: [_reply(scored.candidate.reply, thinking)]
                    for side, scored in sides.items()
                },
                "views": {side: _view(scored, base) for side, scored in sides.items()},
                "scores": {side: _scores(evidence, scored) for side, scored in sides.items()},
            }


def _is_worse(candidate: CandidateScore, winner: CandidateScore) -> bool:
    """Return True if a candidate scored less than the chosen one for the same prompt."""
    if winner.fused is None or candidate.fused is None or candidate.fused >= winner.fused:
        return False
    same_prompt = candidate.candidate.group == winner.candidate.group
    return same_prompt and candidate.candidate.reply != winner.candidate.reply


def _reply(reply: str, thinking: bool) -> Message:
    return message("assistant", reply_piece(reply)) if thinking else assistant(reply)


def _view(scored: CandidateScore, base: Path) -> str | None:
    view = scored.candidate.view
    return None if view is None else (base / view.file).as_posix()


def _scores(evidence: Evidence, scored: CandidateScore) -> dict[str, Any]:
    by_verifier: dict[str, Any] = {"fused": scored.fused}
    for member, score in zip(members(evidence), scored.scores, strict=True):
        by_verifier.setdefault(member.verifier, {})[member.name] = score
    return by_verifier
