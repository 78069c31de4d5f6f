"""Statistics of one run, read from its log, and a summary over the rounds of a variant."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from render_agent_lab.bench.schedules.variants import Variant

# log fields that no schedule may change
TRANSCRIPT_FIELDS = ("turn", "messages", "reply", "action", "happened", "stood", "camera", "finish")


@dataclass(frozen=True, slots=True)
class RunStatistics:
    """The work recorded in a run's log."""

    questions: int
    failed: int
    turns: int
    prompt: int
    """Prompt tokens."""
    cached: int
    """Prompt tokens taken from the KV cache."""
    prefilled: int
    """Prompt tokens computed by the model."""
    first_seen: int
    """Prompt tokens that no earlier turn of the same question contained."""
    written: int
    """Generated tokens."""
    events: Mapping[str, int]
    transcripts: Mapping[str, str]
    """Digest of the transcript, by question id."""
    openings: Mapping[str, str]
    """First reply, by question id."""
    attended: int = 0
    """Attention pairs of first-seen tokens and the tokens before them."""
    contexts: int = 0
    """Context lengths summed over all generated tokens."""
    steps: float = 0.0
    """Decoding steps, assuming every token of a turn was decoded at the batch size of the turn."""
    patches: int = 0
    """Image patches of 16 x 16 pixels."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of one variant."""

    variant: Variant
    seconds: float
    cpu_seconds: float
    """CPU seconds of this process."""
    calls: int
    memory: int | None
    """Peak memory in bytes, None if unknown."""
    work: RunStatistics
    floor: float | None = None
    """Lower bound in seconds for this work on the device, None if unknown."""


def read_work(lines: Iterable[Mapping[str, Any]], patches: int = 0) -> RunStatistics:
    """Return the work recorded in the lines of a `turns.jsonl`, with `patches` per image.

    The prompt of a turn begins with the prompt and reply of the previous turn; the tokens after them are first seen.
    """
    turns: dict[str, list[Mapping[str, Any]]] = {}
    failed_ids = set()
    events: Counter[str] = Counter()
    for line in lines:
        if line["error"] is not None:
            failed_ids.add(line["question_id"])
            continue
        turns.setdefault(line["question_id"], []).append(line)
        events.update(line["events"])
    tokens = [line["tokens"] for turn_lines in turns.values() for line in turn_lines]
    news = [_count_first_seen(turn_lines) for turn_lines in turns.values()]
    prompt, cached_tokens = sum(t["in"] for t in tokens), sum(t["from_cache"] for t in tokens)
    return RunStatistics(
        questions=len(turns.keys() | failed_ids),
        failed=len(failed_ids),
        turns=len(tokens),
        prompt=prompt,
        cached=cached_tokens,
        prefilled=prompt - cached_tokens,
        first_seen=sum(seen for seen, _ in news),
        written=sum(t["out"] for t in tokens),
        events=dict(sorted(events.items())),
        transcripts={question: _digest(log) for question, log in turns.items()},
        openings={q: min(log, key=_turn_number)["reply"] for q, log in turns.items()},
        attended=sum(pairs for _, pairs in news),
        contexts=sum(t["out"] * t["in"] + t["out"] ** 2 // 2 for t in tokens),
        steps=sum(t["tokens"]["out"] / t["batch_size"] for log in turns.values() for t in log),
        patches=patches * sum(len(t["views"]) for log in turns.values() for t in log),
    )


def summarize_trials(
    trials: Sequence[Trial],  # one run per round
    baselines: Mapping[str, float],  # median seconds of the baseline schedules, by name
    reference: RunStatistics,
) -> dict[str, Any]:
    """Summarize the rounds of one variant."""
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
        "processor_seconds": round(median(trial.cpu_seconds for trial in trials), 3),
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
        "prefilled_over_first_seen": _ratio(work.prefilled, work.first_seen),
        "cached_share": _ratio(work.cached, work.prompt),
        "peak_bytes": max(memory) if memory else None,
        **_lower_bound(trials, seconds),
        "events": dict(sum((Counter(trial.work.events) for trial in trials), Counter[str]())),
        "same_transcripts": all(t.work.transcripts == reference.transcripts for t in trials),
        "questions_that_differ": max(
            _count_differences(t.work.transcripts, reference.transcripts) for t in trials
        ),
        "first_replies_that_differ": max(
            _count_differences(t.work.openings, reference.openings) for t in trials
        ),
    }


def _lower_bound(trials: Sequence[Trial], seconds: float) -> dict[str, float | None]:
    """Return the lower bound in seconds for the work on the device, and its share of the measured time."""
    floors = [trial.floor for trial in trials if trial.floor is not None]
    floor = median(floors) if floors else None
    share = None if floor is None else _ratio(floor, seconds)
    return {"floor_seconds": None if floor is None else round(floor, 2), "floor_share": share}


def baseline_seconds(trials: Sequence[Trial]) -> dict[str, float]:
    """Return the median seconds of the sequential and two-phase schedules that were run, without reuse if measured."""
    medians = {}
    for name in ("sequential", "two-phase"):
        plain = [t for t in trials if t.variant.schedule == name]
        trials_of_first = [t for t in plain if t.variant == plain[0].variant]
        if trials_of_first:
            medians[name.replace("-", "_")] = median(trial.seconds for trial in trials_of_first)
    return medians


def _count_first_seen(turns: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Return the first-seen tokens of a question and their attention pairs with the tokens before them."""
    num_seen = pairs = before = 0
    for line in sorted(turns, key=_turn_number):
        tokens = line["tokens"]
        new = max(0, tokens["in"] - before)
        num_seen += new
        pairs += new * (tokens["in"] - new // 2)
        before = tokens["in"] + tokens["out"]
    return num_seen, pairs


def _digest(turns: Sequence[Mapping[str, Any]]) -> str:
    replies = [
        {name: line[name] for name in TRANSCRIPT_FIELDS} for line in sorted(turns, key=_turn_number)
    ]
    return hashlib.sha256(json.dumps(replies, sort_keys=True).encode()).hexdigest()


def _count_differences(a: Mapping[str, str], b: Mapping[str, str]) -> int:
    return sum(a.get(name) != b.get(name) for name in a.keys() | b.keys())


def _turn_number(line: Mapping[str, Any]) -> int:
    return int(line["turn"])


def _ratio(part: float, whole: float) -> float:
    return round(part / whole, 3) if whole else 0.0
