"""What one run came to, read from its log, and several runs of one variant together."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from render_agent_lab.bench.variants import Variant

SAID = ("turn", "messages", "reply", "action", "happened", "stood", "camera", "finish")
"""What makes a transcript: all that no schedule may change."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a run's log says that was done.

    prefilled: prompt tokens that the model computed. first_seen: those that no earlier turn of their
    question had. transcripts: of every question a digest of all that was said and done. openings: of
    every question its first reply.
    attended: pairs of first-seen tokens and those before them. contexts: tokens that written ones look back at,
    summed. steps: of writing, had all of a turn's tokens been written as many side by side. patches: of the
    pictures, 16 × 16 pixels each.
    """

    questions: int
    failed: int
    turns: int
    prompt: int
    cached: int
    prefilled: int
    first_seen: int
    written: int
    events: Mapping[str, int]
    transcripts: Mapping[str, str]
    openings: Mapping[str, str]
    attended: int = 0
    contexts: int = 0
    steps: float = 0.0
    patches: int = 0


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of one variant.

    processor: CPU seconds of this process. memory: peak bytes, None if unknown. floor: the least seconds that its work
    takes on the device, None if unknown.
    """

    variant: Variant
    seconds: float
    processor: float
    calls: int
    memory: int | None
    work: Work
    floor: float | None = None


def work_of(lines: Iterable[Mapping[str, Any]], patches: int = 0) -> Work:
    """Return the work in the lines of a `turns.jsonl`. patches: of one picture.

    A later turn's prompt begins with the whole prompt of the turn before and its reply: what comes
    behind them is seen for the first time.
    """
    turns: dict[str, list[Mapping[str, Any]]] = {}
    failed = set()
    events: Counter[str] = Counter()
    for line in lines:
        if line["error"] is not None:
            failed.add(line["question_id"])
            continue
        turns.setdefault(line["question_id"], []).append(line)
        events.update(line["events"])
    every = [line["tokens"] for turn_lines in turns.values() for line in turn_lines]
    news = [_first_seen(turn_lines) for turn_lines in turns.values()]
    prompt, cached = sum(t["in"] for t in every), sum(t["from_cache"] for t in every)
    return Work(
        questions=len(turns.keys() | failed),
        failed=len(failed),
        turns=len(every),
        prompt=prompt,
        cached=cached,
        prefilled=prompt - cached,
        first_seen=sum(seen for seen, _ in news),
        written=sum(t["out"] for t in every),
        events=dict(sorted(events.items())),
        transcripts={question: _digest(log) for question, log in turns.items()},
        openings={q: min(log, key=_number)["reply"] for q, log in turns.items()},
        attended=sum(pairs for _, pairs in news),
        contexts=sum(t["out"] * t["in"] + t["out"] ** 2 // 2 for t in every),
        steps=sum(t["tokens"]["out"] / t["batch_size"] for log in turns.values() for t in log),
        patches=patches * sum(len(t["views"]) for log in turns.values() for t in log),
    )


def summary(
    trials: Sequence[Trial], baselines: Mapping[str, float], agreed: Work
) -> dict[str, Any]:
    """Return the figures of one variant over its rounds: medians, and what was the same in all.

    baselines: median seconds of the schedules that others are compared with, by name. agreed: the
    run whose transcripts all others should have.
    """
    variant, work = trials[0].variant, trials[0].work
    seconds = median(trial.seconds for trial in trials)
    memory = [trial.memory for trial in trials if trial.memory is not None]
    return {
        "engine": variant.engine,
        "schedule": variant.schedule,
        "reuse": variant.reuse,
        "batch_size": variant.batch_size,
        "seconds": round(seconds, 3),
        "all_seconds": [round(trial.seconds, 3) for trial in trials],
        "processor_seconds": round(median(trial.processor for trial in trials), 3),
        "questions": work.questions,
        "failed": max(trial.work.failed for trial in trials),
        "turns": work.turns,
        "questions_an_hour": round(3600 * work.questions / seconds),
        **{f"times_{name}": round(base / seconds, 2) for name, base in baselines.items()},
        "calls": trials[0].calls,
        "tokens_prompt": work.prompt,
        "tokens_prefilled": work.prefilled,
        "tokens_first_seen": work.first_seen,
        "tokens_written": work.written,
        "prefilled_over_first_seen": _over(work.prefilled, work.first_seen),
        "cached_share": _over(work.cached, work.prompt),
        "peak_bytes": max(memory) if memory else None,
        **_floor(trials, seconds),
        "events": dict(sum((Counter(trial.work.events) for trial in trials), Counter[str]())),
        "same_transcripts": all(t.work.transcripts == agreed.transcripts for t in trials),
        "questions_that_differ": max(
            _differing(t.work.transcripts, agreed.transcripts) for t in trials
        ),
        "first_replies_that_differ": max(
            _differing(t.work.openings, agreed.openings) for t in trials
        ),
    }


def _floor(trials: Sequence[Trial], seconds: float) -> dict[str, float | None]:
    """Return the least seconds that the work takes on the device, and their share of those that it took."""
    floors = [trial.floor for trial in trials if trial.floor is not None]
    floor = median(floors) if floors else None
    share = None if floor is None else _over(floor, seconds)
    return {"floor_seconds": None if floor is None else round(floor, 2), "floor_share": share}


def baselines_of(trials: Sequence[Trial]) -> dict[str, float]:
    """Return the median seconds of sequential and two-phase without reuse, by name, where they were run."""
    medians = {}
    for name in ("sequential", "two-phase"):
        plain = [t for t in trials if t.variant.schedule == name]
        least = [t for t in plain if t.variant == plain[0].variant]
        if least:
            medians[name.replace("-", "_")] = median(trial.seconds for trial in least)
    return medians


def _first_seen(turns: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Return the tokens of a question that its turns were the first to see, and their pairs with those before them."""
    seen = pairs = before = 0
    for line in sorted(turns, key=_number):
        tokens = line["tokens"]
        new = max(0, tokens["in"] - before)
        seen += new
        pairs += new * (tokens["in"] - new // 2)
        before = tokens["in"] + tokens["out"]
    return seen, pairs


def _digest(turns: Sequence[Mapping[str, Any]]) -> str:
    kept = [{name: line[name] for name in SAID} for line in sorted(turns, key=_number)]
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def _differing(a: Mapping[str, str], b: Mapping[str, str]) -> int:
    return sum(a.get(name) != b.get(name) for name in a.keys() | b.keys())


def _number(line: Mapping[str, Any]) -> int:
    return int(line["turn"])


def _over(part: float, whole: float) -> float:
    return round(part / whole, 3) if whole else 0.0
