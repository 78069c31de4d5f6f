"""One arm of the grid over several files of rooms, taken together as one run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from render_agent.analysis.export.selection import whole_run
from render_agent.dialogue.prompt import reply_schema
from render_agent.dialogue.reply import KINDS, Action, Malformed
from render_agent.dialogue.state import Question, QuestionState, Turn
from render_agent.runs.log.folder import RunFolder
from render_agent.runs.log.reading import UNREAD, notes, read_states
from render_agent.runs.log.results import results
from render_agent.runs.log.work import totals
from render_agent.score.comparison import Side
from render_agent.score.means import MACRO, MICRO, Scored
from render_agent.score.summary import summary

FIELDS = frozenset(reply_schema(KINDS)["properties"])
"""The fields that the protocol has."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Pooled:
    """What an arm came to over all rooms.

    results: as a run's own. rows: a row a question, with `score_as_shown` too. questions: by id; ids and
    scenes have the name of their rooms before them. well_formed, work: figures over all turns. parts: by the
    name of the rooms, how many questions and scenes, and the seconds of drawing and generating. records: the
    `config.json` of the runs.
    """

    label: str
    results: Mapping[str, Any]
    rows: Sequence[Row]
    questions: Mapping[str, Question]
    well_formed: Mapping[str, Any]
    work: Mapping[str, float]
    parts: Mapping[str, Mapping[str, float]]
    records: Sequence[Mapping[str, Any]]

    def side(self, score: str = "score", only: Iterable[str] | None = None) -> Side:
        """Return it as one side of a comparison.

        score: the entry of the rows that counts. only: ids of questions; by default all.
        """
        kept = None if only is None else set(only)
        rows = [
            {**row, "score": row[score]}
            for row in self.rows
            if kept is None or row["question_id"] in kept
        ]
        return Side(self.label, {"questions": rows}, {})


def pool(label: str, folders: Mapping[str, RunFolder]) -> Pooled:
    """Return the runs of one arm as one; folders: by the name of their rooms.

    RunLogError where a log is damaged.
    """
    by_rooms = {
        name: [_named(state, name) for state in read_states(folder)]
        for name, folder in folders.items()
    }
    states = [state for part in by_rooms.values() for state in part]
    first = next(iter(folders.values()))
    config = first.config
    found = results(
        states,
        partial=any(folder.config.partial for folder in folders.values()),
        notes=list(dict.fromkeys(note for f in folders.values() for note in notes(f.record))),
        stress=config.picture_stress,
    )
    return Pooled(
        label,
        found,
        whole_run(first, states).rows,
        {state.id: state.question for state in states},
        well_formed(states),
        work(states),
        {
            name: {
                "questions": len(part),
                "scenes": len({state.question.scene for state in part}),
                "seconds": round(seconds(part), 1),
            }
            for name, part in by_rooms.items()
        },
        [folder.record for folder in folders.values()],
    )


def _named(state: QuestionState, name: str) -> QuestionState:
    """Return a state whose question and scene are told from those of other rooms."""
    question = state.question
    told = replace(question, id=f"{name} {question.id}", scene=f"{name} {question.scene}")
    return QuestionState(
        told,
        UNREAD,
        state.max_turns,
        blind=state.blind,
        turns=state.turns,
        error=state.error,
        lost_events=state.lost_events,
    )


def well_formed(states: Sequence[QuestionState]) -> dict[str, Any]:
    """Return how many of all replies could be read, in percent with the 95 % interval over scenes.

    `bare`: of those that are one JSON object of the protocol's fields and nothing else. `reasons`: why
    others could not be read, by how often. `cut_off`: replies that the limit of tokens ended.
    """
    turns = [(state.question, turn) for state in states for turn in state.turns]
    read = summary(
        [Scored(q.type, q.dataset, q.scene, float(_read(turn))) for q, turn in turns], MACRO
    )
    bare = sum(_read(turn) and is_bare(turn.reply) for _, turn in turns)
    faults = (turn.action.reason for _, turn in turns if isinstance(turn.action, Malformed))
    return {
        "replies": len(turns),
        "share": read[MICRO],
        "interval": read["intervals"].get(MICRO),
        "bare": 100 * bare / len(turns) if turns else None,
        "cut_off": sum(turn.finish == "length" for _, turn in turns),
        "reasons": dict(Counter(faults).most_common(5)),
    }


def _read(turn: Turn) -> bool:
    return isinstance(turn.action, Action)


def is_bare(reply: str) -> bool:
    """Whether a reply is one JSON object of the protocol's fields, with nothing around it."""
    try:
        found = json.loads(reply)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.keys() <= FIELDS


def seconds(states: Sequence[QuestionState]) -> float:
    """Return the seconds that drawing and generating took; a turn counts its share of its batch."""
    found = totals(states)["seconds"]
    return float(found["rendering"] + found["generating"])


def work(states: Sequence[QuestionState]) -> dict[str, float]:
    """Return what a question took on average, over those that were asked; pictures: those that were shown."""
    asked = [state for state in states if state.turns]
    if not asked:
        return {}
    shown = sum(len(turn.views) for state in asked for turn in state.turns)
    return {
        **totals(asked)["per_question"],
        "pictures": shown / len(asked),
        "seconds": seconds(asked) / len(asked),
    }
