"""Caveats that accompany scores: about the questions and scans of a run, and about its turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from render_agent.dialogue.events import (
    CONTENT_FILTER,
    CONTEXT_EXCEEDED,
    JUDGE,
    NO_USAGE,
    PROMPT_TRUNCATED,
    SHORTER_PROMPTS,
    adaptation,
)
from render_agent.dialogue.parsing.unreadable import CAUSES, describe_unreadable, likely_cause
from render_agent.dialogue.question import Question
from render_agent.dialogue.reply import Malformed
from render_agent.dialogue.turn import Turn
from render_agent.options import OPTIONS, RunConfig
from render_agent.runs.run_part import run_parts
from render_agent.tasks.boxes.annotations import is_annotation_file

Events = tuple[str, ...]  # events of one reply

EVENT_CAVEATS = {
    CONTENT_FILTER: "the server's content filter ended the reply",
    CONTEXT_EXCEEDED: f"the reply ended at the end of the model's context window: {SHORTER_PROMPTS}",
    NO_USAGE: "tokens: not reported by the server, so token totals do not include them",
    PROMPT_TRUNCATED: (
        "the server's count of prompt tokens did not grow with the dialogue: it probably dropped earlier turns; raise its"
        f" context length (Ollama: num_ctx or OLLAMA_CONTEXT_LENGTH), or {SHORTER_PROMPTS}"
    ),
}

# Consequence of each adaptation; adaptations without consequences are absent.
CONSEQUENCES = {
    "temperature": "so the server's default applied instead of --temperature",
    "seed": "so sampled replies cannot be reproduced",
    **dict.fromkeys(
        ("response_format", "output_config", "response_json_schema", "text"),
        "so the server did not enforce the form of replies",
    ),
    "system message": "because the server has no system role",
}


def event_caveat(event: str) -> str | None:
    """Return the caveat for an event; None for events that do not affect results."""
    if event.startswith(JUDGE):
        sentence = event_caveat(event.removeprefix(JUDGE))
        return sentence and f"requests of the verifier: {sentence}"
    if field_and_change := adaptation(event):
        name, how = field_and_change
        if name not in CONSEQUENCES:
            return None
        return f"adapted to the server: {name} {how}, {CONSEQUENCES[name]}"
    return EVENT_CAVEATS.get(event)


def caveats(turns: Sequence[Turn]) -> list[str]:
    """Return the caveats of the given turns and their side replies, most important first."""
    events = {"turns": [turn.events for turn in turns]}
    for reply in (reply for turn in turns for reply in turn.side_replies):
        events.setdefault(reply.noun, []).append(reply.events)
    return [
        *filter(None, [unreadable_caveat(turns)]),
        *(caveat for part in run_parts() for caveat in part.caveats(turns)),
        *_event_caveats(events),
    ]


def _event_caveats(groups: Mapping[str, Sequence[Events]]) -> Iterator[str]:
    """Yield each caveat about events once, with its number in every group."""
    numbers: dict[str, list[str]] = {}
    for noun, all_events in groups.items():
        for event, number in sorted(_event_counts(all_events).items()):
            if sentence := event_caveat(event):
                numbers.setdefault(sentence, []).append(f"{number} of {len(all_events)} {noun}")
    yield from (f"{sentence} ({', '.join(counts)})" for sentence, counts in numbers.items())


def adapted_fields(turns: Iterable[Turn]) -> dict[str, dict[str, Any]]:
    """Return adaptations to a server by request field: `how`, and the number of `turns`."""
    adaptations = (
        (adaptation(event), number)
        for event, number in sorted(_event_counts(turn.events for turn in turns).items())
    )
    return {
        adapted[0]: {"how": adapted[1], "turns": number}
        for adapted, number in adaptations
        if adapted
    }


def _event_counts(all_events: Iterable[Events]) -> Counter[str]:
    return Counter(event for events in all_events for event in set(events))


def is_unreadable(turn: Turn) -> bool:
    """Return True if the reply of a turn was unreadable."""
    return isinstance(turn.action, Malformed)


def unreadable_caveat(turns: Sequence[Turn]) -> str | None:
    """Return the number of unreadable replies and the main cause; None unless most replies are unreadable."""
    return describe_unreadable("replies", [*map(_cause_of_turn, turns)], CAUSES)


def _cause_of_turn(turn: Turn) -> str | None:
    if not isinstance(turn.action, Malformed):
        return None
    return likely_cause(turn.reply, turn.finish, turn.events, turn.action.reason)


STAND_INS = (
    "stand-ins instead of scans: rooms of coloured boxes built from the official annotations"
)
MISSING_SCANS = "missing scans, questions skipped (--allow-missing)"


def scene_kinds(questions: Sequence[Question]) -> dict[str, int]:
    """Count the scenes with scans, with rooms built from annotations, and with neither."""
    kinds = Counter({(q.dataset, q.unchanged.scene): _kind(q) for q in questions}.values())
    return {kind: kinds[kind] for kind in ("scans", "annotations", "missing")}


def question_notes(config: RunConfig, questions: Sequence[Question], *, blind: bool) -> list[str]:
    """Return the caveats due to a subset of the benchmark, counterparts, stand-ins for scans, or missing scans."""
    notes = (
        []
        if config.subset == OPTIONS["subset"].default
        else [f"subset {config.subset} of VSI-Bench"]
    )
    originals = [question for question in questions if not question.is_counterpart]
    if num_counterparts := len(questions) - len(originals):
        notes.append(
            f"{num_counterparts} of {len(questions)} questions are counterparts (--change): they are only scored as pairs"
        )
    questions = originals
    scenes = len({(question.dataset, question.scene) for question in questions})
    caveats = {} if blind else {"annotations": STAND_INS}
    if config.allow_missing and not blind:
        caveats["missing"] = MISSING_SCANS
    for kind, caveat in caveats.items():
        affected_questions = [question for question in questions if _kind(question) == kind]
        if affected_questions:
            count = len({(question.dataset, question.scene) for question in affected_questions})
            notes.append(
                f"{caveat}: {count} of {scenes} scenes, {len(affected_questions)} of {len(questions)} questions"
            )
    return notes


def _kind(question: Question) -> str:
    if question.scan is None:
        return "missing"
    return "annotations" if is_annotation_file(question.scan) else "scans"
