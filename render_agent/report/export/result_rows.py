"""Tables of runs with typed columns: one row per question or turn, as CSV or Parquet."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from render_agent.dialogue.candidates import standings
from render_agent.dialogue.reply import Action, Malformed
from render_agent.dialogue.tokens import Tokens
from render_agent.dialogue.turn import Turn
from render_agent.extras import require
from render_agent.report.diagnosis.model import Diagnosis, TurnDiagnosis
from render_agent.report.export.selection import SelectedRun
from render_agent.scans.camera import Camera

Kind = Literal["text", "int", "float", "bool"]
Columns = Mapping[str, Kind]


def write_csv(file: Path, columns: Columns, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as CSV (UTF-8); what is not known stays empty. OSError where it cannot be written."""
    with file.open("w", encoding="utf-8", errors="backslashreplace", newline="") as opened:
        writer = csv.DictWriter(opened, list(columns), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_parquet(file: Path, columns: Columns, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as Parquet; what is not known is null. SetupError without pyarrow."""
    require("Parquet", "pyarrow", instead="take --format csv")
    import pyarrow
    from pyarrow import parquet

    types = {
        "text": pyarrow.string(),
        "int": pyarrow.int64(),
        "float": pyarrow.float64(),
        "bool": pyarrow.bool_(),
    }
    schema = pyarrow.schema([(name, types[kind]) for name, kind in columns.items()])
    plain = [
        {name: _storable(row.get(name), kind) for name, kind in columns.items()} for row in rows
    ]
    parquet.write_table(pyarrow.Table.from_pylist(plain, schema=schema), file)


def _storable(value: Any, kind: Kind) -> Any:
    """Return a value as its column holds it; a lone surrogate, which UTF-8 lacks, as its escape."""
    if kind == "text" and value is not None:
        return str(value).encode("utf-8", "backslashreplace").decode()
    return value


POSE = ("x", "y", "z", "yaw", "pitch")
"""The columns of a pose, behind its name: metres and degrees."""


def _columns(kind: Kind, names: str) -> dict[str, Kind]:
    return dict.fromkeys(names.split(), kind)


def _pose_columns(name: str) -> dict[str, Kind]:
    return dict.fromkeys((f"{name}_{part}" for part in POSE), "float")


QUESTION_COLUMNS: Columns = _columns("text", "run question_id type dataset scene")
"""What every row says of its question."""

SPENT_COLUMNS: Columns = {
    **_columns("int", "tokens_in tokens_out tokens_from_cache"),
    **_columns("float", "seconds_rendering seconds_waiting seconds_generating"),
}
"""What a question or a turn took. Seconds of generating are its share of the batches it was in."""

RESULT_COLUMNS: Columns = {
    **QUESTION_COLUMNS,
    **_columns("text", "question options status answer_text answer truth"),
    **{"score": "float", "truth_as_shown": "text", "score_as_shown": "float"},
    **_columns("int", "turns repairs pictures_shown places_measured renders"),
    **SPENT_COLUMNS,
    **_columns("text", "error change"),
}
"""A row a question. change: what makes it the counterpart of another. renders: distinct pictures drawn for it, those
of candidates too. What is right as shown differs where rooms were mirrored. places_measured: those that replies
asked to be measured."""

OPTION_COLUMNS: Columns = {
    **_columns("text", "benchmark subset engine model revision views tools pictures kinds start"),
    **_columns("int", "image_width image_height"),
    **{"field_of_view": "float", "max_turns": "int", "temperature": "float", "seed": "int"},
    **_columns("text", "agent verifier"),
}
"""The options of its run, beside every question."""

COLUMNS_OF_QUESTIONS: Columns = {
    **RESULT_COLUMNS,
    **OPTION_COLUMNS,
    **_columns("text", "cause named never_seen"),
    **_columns("float", "coverage path_metres"),
    **_columns("int", "blocked returns"),
}
"""A question's results, the options of its run, and its diagnosis where there is one."""

COLUMNS_OF_TURNS: Columns = {
    **QUESTION_COLUMNS,
    **{"turn": "int", "phase": "text", "views": "text"},
    **_columns("int", "pictures_shown places_measured"),
    **_pose_columns("stood"),
    **_pose_columns("camera"),
    **_columns("text", "reply malformed answer"),
    **{"done": "bool", "happened": "text"},
    **SPENT_COLUMNS,
    **{"batch_size": "int", "finish": "text", "events": "text"},
    **{"candidates": "int", "chosen": "int", "chosen_score": "float"},
    **_columns("float", "coverage path_metres turned_degrees"),
    **_columns("bool", "blocked returned"),
    **_columns("float", "largest_share largest_area"),
}
"""A row a turn: where it stood when its views were taken, and where the camera was after it; of how many
candidates which one, from 0, was taken, and the fused score that it led to. From coverage on it is what the
diagnosis says: of the named object seen best, the share and the pixels."""

Diagnoses = Mapping[str, Diagnosis]
"""Diagnoses by question id; a question without one has empty cells."""


Rows = Callable[[SelectedRun, Diagnoses], Iterator[dict[str, Any]]]
"""What gives the rows of a run for one of these tables."""


def question_rows(run: SelectedRun, diagnoses: Diagnoses) -> Iterator[dict[str, Any]]:
    """Give a row for every chosen question of a run; diagnoses: by id, those that are there."""
    options = _options(run)
    for state, row in run.entries:
        yield {
            "run": run.name,
            **{name: row[name] for name in RESULT_COLUMNS if name in row},
            "question": state.question.text,
            "options": " | ".join(state.question.options) or None,
            "repairs": state.repairs,
            **_cost_row(state.turns),
            "error": state.error,
            **options,
            **_diagnosed(diagnoses.get(state.id)),
        }


def turn_rows(run: SelectedRun, diagnoses: Diagnoses) -> Iterator[dict[str, Any]]:
    """Give a row for every turn of the chosen questions of a run."""
    for state, row in run.entries:
        diagnosis = diagnoses.get(state.id)
        by_turn = {} if diagnosis is None else {turn.turn: turn for turn in diagnosis.turns}
        for turn in state.turns:
            yield {
                "run": run.name,
                **_question(row),
                **_turn(turn),
                **_turn_diagnosed(by_turn.get(turn.number)),
            }


def _question(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in QUESTION_COLUMNS if name != "run"}


def _pose(name: str, camera: Camera) -> dict[str, float]:
    values = (*camera.position, camera.yaw, camera.pitch)
    return {f"{name}_{part}": value for part, value in zip(POSE, values, strict=True)}


def _reply(action: Action | Malformed) -> dict[str, Any]:
    """Return the columns of a reply: its answer, or why it could not be read."""
    if isinstance(action, Malformed):
        return {"malformed": action.reason, "answer": action.answer, "done": False}
    return {"malformed": None, "answer": action.answer, "done": action.done}


def _options(run: SelectedRun) -> dict[str, Any]:
    config = run.config
    width, height = config.image_size
    named = {name: getattr(config, name) for name in OPTION_COLUMNS if hasattr(config, name)}
    return {
        **named,
        "model": run.model,
        "kinds": ",".join(config.kinds),
        "verifier": ",".join(verifier.label for verifier in config.verifiers) or None,
        "image_width": width,
        "image_height": height,
    }


def _cost_row(turns: Sequence[Turn]) -> dict[str, Any]:
    """Return the columns of the cost of turns: pictures, tokens and seconds."""
    tokens = Tokens.total(turn.tokens for turn in turns)
    return {
        "pictures_shown": sum(len(turn.views) for turn in turns),
        "places_measured": sum(
            len(turn.action.measure) for turn in turns if isinstance(turn.action, Action)
        ),
        "tokens_in": tokens.prompt,
        "tokens_out": tokens.reply,
        "tokens_from_cache": tokens.cached,
        "seconds_rendering": round(sum(turn.seconds.rendering for turn in turns), 4),
        "seconds_waiting": round(sum(turn.seconds.waiting for turn in turns), 4),
        "seconds_generating": round(
            sum(turn.seconds.generating / turn.batch_size for turn in turns), 4
        ),
    }


def _turn(turn: Turn) -> dict[str, Any]:
    return {
        "turn": turn.number,
        "phase": turn.phase,
        "views": ",".join(f"{view.number}:{view.kind}" for view in turn.views) or None,
        **_pose("stood", turn.stood),
        **_pose("camera", turn.camera),
        "reply": turn.reply,
        **_reply(turn.action),
        "happened": turn.feedback,
        **_cost_row([turn]),
        "batch_size": turn.batch_size,
        "finish": turn.finish,
        "events": ",".join(turn.events) or None,
        **_choice(turn),
    }


def _choice(turn: Turn) -> dict[str, Any]:
    """Return the columns of a choice: the number of candidates, and the chosen one; empty for a turn with one reply."""
    if turn.evidence is None:
        return {}
    taken = standings(turn.evidence)[turn.evidence.chosen]
    count = len(turn.evidence.candidates)
    return {"candidates": count, "chosen": taken.candidate.number, "chosen_score": taken.fused}


def _diagnosed(diagnosis: Diagnosis | None) -> dict[str, Any]:
    if diagnosis is None:
        return {}
    return {
        "cause": str(diagnosis.cause),
        "named": ", ".join(diagnosis.named) or None,
        "never_seen": ", ".join(diagnosis.never_seen) or None,
        "coverage": diagnosis.coverage,
        "path_metres": diagnosis.path,
        "blocked": diagnosis.blocked,
        "returns": diagnosis.returns,
    }


def _turn_diagnosed(diagnosis: TurnDiagnosis | None) -> dict[str, Any]:
    if diagnosis is None:
        return {}
    best = max(diagnosis.sightings, key=lambda sighting: sighting.share, default=None)
    return {
        "coverage": diagnosis.coverage,
        "path_metres": diagnosis.path,
        "turned_degrees": diagnosis.turned,
        "blocked": diagnosis.blocked,
        "returned": diagnosis.returned,
        "largest_share": None if best is None else best.share,
        "largest_area": None if best is None else best.area,
    }
