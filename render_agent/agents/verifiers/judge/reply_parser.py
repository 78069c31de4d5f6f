"""The strict parser of a judge's replies: a reply that is not exactly in the form asked for gives no score."""

from __future__ import annotations

import json
from typing import Any

from render_agent.agents.verifiers.judge.rubric import Criterion, Rubric
from render_agent.agents.verifiers.judge.score import Finding, Unreadable
from render_agent.dialogue.reply import unfenced
from render_agent.engines.base import Reply
from render_agent.text.safe_parse import parse_json


def read_criteria(reply: Reply, rubric: Rubric) -> dict[str, Finding] | Unreadable:
    """Parse the findings of a reply, one a criterion of a rubric; it never raises.

    Every criterion must be there, with a value of its kind. Names that the rubric does not have are
    left alone; a reason may be missing.
    """
    data = _object(reply)
    if isinstance(data, Unreadable):
        return data
    findings = {}
    for name, criterion in (rubric.criteria or {}).items():
        entry = data.get(name)
        if not isinstance(entry, dict) or "value" not in entry:
            return Unreadable(f"the reply says nothing of {name}")
        value = _value(entry["value"], criterion)
        if value is None:
            wanted = "true or false" if criterion.kind == "boolean" else "a number from 0 to 1"
            value_text = json.dumps(entry["value"])[:40]
            return Unreadable(f"the reply gives {name} as {value_text}, not as {wanted}")
        reason = entry.get("reason")
        findings[name] = Finding(value, reason.strip() if isinstance(reason, str) else "")
    return findings


def read_better(reply: Reply) -> int | Unreadable:
    """Return which of two pictures a reply names: 0 for A, 1 for B; it never raises."""
    data = _object(reply)
    if isinstance(data, Unreadable):
        return data
    if data.get("better") not in ("A", "B"):
        return Unreadable("the reply names neither A nor B as better")
    return "AB".index(data["better"])


def _value(value: Any, criterion: Criterion) -> float | None:
    if isinstance(value, bool):
        return float(value) if criterion.kind == "boolean" else None
    if criterion.kind == "fraction" and isinstance(value, int | float) and 0 <= value <= 1:
        return float(value)
    return None


def _object(reply: Reply) -> dict[str, Any] | Unreadable:
    """Return the JSON object that a reply is, think blocks and a code fence around it aside."""
    text = unfenced(reply.text)
    if not text:
        return Unreadable("the reply is empty")
    try:
        data = parse_json(text, object_pairs_hook=_once)
    # Endless brackets are an error of depth, numbers of 5000 digits one of values.
    except ValueError as error:
        if reply.finish == "length":
            return Unreadable("the reply was cut off by the token limit")
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        return Unreadable(f"the reply is no JSON: {reason[:1].lower()}{reason[1:200]}")
    return data if isinstance(data, dict) else Unreadable("the reply is no JSON object")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    if len(names) < len(pairs):
        raise ValueError("a name stands twice")
    return names
