"""One line of `turns.jsonl`: a turn, or the error that stopped its question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from render_agent.dialogue.reply import from_json as action_from_json
from render_agent.dialogue.state import Phase, Question, QuestionState, Seconds, Tokens, Turn
from render_agent.geometry.camera import Camera
from render_agent.runs.log.evidence_lines import evidence_from_json, evidence_to_json, taken_from
from render_agent.runs.log.known_forms import QUESTION, STOPPED, TURN
from render_agent.runs.log.view_lines import view_from_json, view_to_json
from render_agent.text.forms import misfit
from render_agent.text.sanitize import is_plain


def turn_to_json(question_id: str, turn: Turn) -> dict[str, Any]:
    """Return the line of a turn: all that is needed to rebuild the state and to audit the turn."""
    return {
        "question_id": question_id,
        "turn": turn.number,
        "phase": turn.phase,
        "views": [view_to_json(view) for view in turn.views],
        "messages": list(turn.messages),
        "reply": turn.reply,
        "action": turn.action.to_json(),
        "happened": turn.happened,
        "stood": turn.stood.to_json(),
        "camera": turn.camera.to_json(),
        "tokens": turn.tokens.to_json(),
        "seconds": {
            "rendering": turn.seconds.rendering,
            "waiting": turn.seconds.waiting,
            "generating": turn.seconds.generating,
        },
        "batch_size": turn.batch_size,
        "finish": turn.finish,
        "events": list(turn.events),
        **({"evidence": evidence_to_json(turn.evidence)} if turn.evidence else {}),
        "error": None,
    }


def error_to_json(
    question_id: str, turn: int, phase: Phase, error: str, events: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the line of an error; the question is asked again from `turn` when the run goes on."""
    nothing = dict.fromkeys(
        (
            "reply",
            "action",
            "happened",
            "stood",
            "camera",
            "tokens",
            "seconds",
            "batch_size",
            "finish",
        )
    )
    return {
        "question_id": question_id,
        "turn": turn,
        "phase": phase,
        "views": [],
        "messages": [],
        "events": list(events),
        **nothing,
        "error": error,
    }


def check_line(line: object) -> None:
    """Raise ValueError where a line is none that `turn_to_json` or `error_to_json` wrote."""
    stopped = isinstance(line, dict) and line.get("error") is not None
    if wrong := misfit(line, STOPPED if stopped else TURN):
        raise ValueError(wrong)


def turn_from_json(line: Mapping[str, Any]) -> Turn:
    """Return the turn that `turn_to_json` wrote, of a line that `check_line` takes.

    ValueError where its parts do not fit each other.
    """
    seconds = line["seconds"]
    camera, evidence = Camera.from_json(line["camera"]), None
    if line.get("evidence"):
        evidence = taken_from(evidence_from_json(line["evidence"]), line["reply"], camera)
    return Turn(
        number=line["turn"],
        phase=line["phase"],
        views=tuple(view_from_json(view) for view in line["views"]),
        messages=tuple(line["messages"]),
        reply=line["reply"],
        action=action_from_json(line["action"]),
        happened=line["happened"],
        stood=Camera.from_json(line["stood"]),
        camera=camera,
        tokens=Tokens.from_json(line["tokens"]),
        seconds=Seconds(seconds["rendering"], seconds["waiting"], seconds["generating"]),
        batch_size=line["batch_size"],
        finish=line["finish"],
        events=tuple(line.get("events", ())),
        evidence=evidence,
    )


def replay(lines: Iterable[Mapping[str, Any]], states: Mapping[str, QuestionState]) -> None:
    """Give every turn back to its state. ValueError where a line does not fit its question.

    lines: such as `check_line` takes. A question whose last line is an error stays failed.
    """
    for number, line in enumerate(lines, start=1):
        state = states.get(line["question_id"])
        if state is None:
            raise ValueError(f"line {number}: there is no question {line['question_id']!r:.80}")
        try:
            if line["error"] is None:
                state.retry()
                state.take(turn_from_json(line))
            else:
                state.fail(line["error"], line.get("events", ()))
        except ValueError as error:
            raise ValueError(f"line {number} does not fit: {error}") from error


def question_to_json(question: Question) -> dict[str, Any]:
    """Return the line of `questions.jsonl`."""
    return {
        "id": question.id,
        "benchmark": question.benchmark,
        "dataset": question.dataset,
        "scene": question.scene,
        "type": question.type,
        "question": question.text,
        "wanted": question.wanted,
        "options": list(question.options),
        "truth": question.truth,
        "scan": None if question.scan is None else str(question.scan),
        "pruned": question.pruned,
    }


def question_from_json(line: Mapping[str, Any]) -> Question:
    """Return the question that `question_to_json` wrote. ValueError where it did not."""
    if wrong := misfit(line, QUESTION):
        raise ValueError(wrong)
    for name in ("id", "dataset", "scene"):
        if not is_plain(line[name]):
            raise ValueError(f"the {name} {line[name]!r:.80} is none that a question can have")
    if line["wanted"] == "letter" and not line["options"]:
        raise ValueError("it wants a letter and has no options")
    return Question(
        id=line["id"],
        benchmark=line["benchmark"],
        dataset=line["dataset"],
        scene=line["scene"],
        type=line["type"],
        text=line["question"],
        wanted=line["wanted"],
        options=tuple(line["options"]),
        truth=line["truth"],
        scan=None if line["scan"] is None else Path(line["scan"]),
        pruned=line.get("pruned"),
    )
