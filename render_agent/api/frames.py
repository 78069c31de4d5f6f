"""pandas frames of a run: questions, turns, candidates, types, sightings, beliefs, differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from render_agent.analysis.diagnosis.model import Cause, Diagnosis, Failure
from render_agent.analysis.export.result_rows import (
    COLUMNS_OF_QUESTIONS,
    COLUMNS_OF_TURNS,
    OPTION_COLUMNS,
    Columns,
)
from render_agent.dialogue.state import QuestionState, Status
from render_agent.extras import require
from render_agent.runs.log.pairs import pairs_of
from render_agent.score.causal import verdict

if TYPE_CHECKING:
    import pandas

CATEGORY, NUMBER = "category", "float64"

DTYPES = {"text": "string", "int": "Int64", "float": NUMBER, "bool": "boolean", "few": CATEGORY}
"""How a frame holds the kinds of columns that `export` writes, and texts of which there are few."""

CATEGORIES = {
    *("run", "type", "dataset", "scene", "status", "cause", "phase", "finish", "member"),
    *OPTION_COLUMNS,
}
"""Columns of few different texts: those of the options of a run are the same in all its rows."""


def _typed(columns: Columns) -> dict[str, str]:
    return {
        name: DTYPES["few" if kind == "text" and name in CATEGORIES else kind]
        for name, kind in columns.items()
    }


def _columns(groups: str) -> dict[str, str]:
    """Return columns with their types; each group, up to a bar, is a kind and the columns of it."""
    return {
        name: DTYPES[kind]
        for kind, *names in (group.split() for group in groups.split("|"))
        for name in names
    }


QUESTIONS = _typed(COLUMNS_OF_QUESTIONS)
TURNS = _typed(COLUMNS_OF_TURNS)
TYPES = _columns(
    "int n | float score_percent low_percent high_percent error_percent random_percent frequency_percent | int scenes"
)
PAIRS = _columns(
    "text question_id counterpart_id | few change type dataset scene | bool must_change | few verdict"
    " | text answer answer_changed truth truth_changed | float score score_changed"
)
SIGHTINGS = _columns(
    "text question_id | int turn view | few category | int number | float area_pixels share distance_metres"
)
BELIEFS = _columns(
    "text question_id | few type scene | int turn | bool readable | int true believed found doubled invented"
    " | float position_metres | int sides_right sides nearer_right nearer | float self_metres self_degrees"
    " | text own_answer | float own_score_percent | few failure"
)
FIGURES = _columns("text part group figure | float value low high p p_holm | int n scenes")
POWER = _columns("float correlation deviation_percent | int scenes questions | float seen_percent")
COMPARED_BELIEFS = _columns("float a b difference low high p p_holm | int scenes n")
DIFFERENCES = _columns(
    "float a_percent b_percent difference_percent low_percent high_percent error_percent p p_holm | int scenes"
)
RUNGS = _columns(
    "few mean tools | float score_percent gain_percent low_percent high_percent error_percent p p_holm | int scenes"
)
CHANGED = _columns(
    "text question_id | few type dataset scene | text truth answer_a answer_b | float score_a score_b"
)
"""The columns of every frame with their types."""

LEVELS: dict[str, Sequence[str]] = {
    "status": [str(status) for status in Status],
    "cause": [str(cause) for cause in Cause],
    "failure": [str(failure) for failure in Failure],
    "phase": ["batched", "finishing"],
}
"""Columns whose categories are the same in every run, in this order."""


def types_frame(results: Mapping[str, Any]) -> pandas.DataFrame:
    """Return a row a question type, by its name, in percent; low and high are the 95 % interval,
    error the standard error, scenes how many it is over.
    """
    rows = []
    for name, entry in results["types"].items():
        ends = _ends(results["intervals"].get(name))
        chance = {level: results["chance"][level].get(name) for level in ("random", "frequency")}
        sure = results["errors"][name]
        rows.append(
            {
                "n": entry["n"],
                **_percents(score=entry["score"], **ends, error=sure["error"], **chance),
                "scenes": sure["scenes"],
            }
        )
    return frame(rows, TYPES, list(results["types"]), "type")


def pairs_frame(states: Sequence[QuestionState]) -> pandas.DataFrame:
    """Return a row a pair whose questions are both done: what became of it.

    Answers and truths of the counterpart are in the letters and the unit of the question; scores are 0 to 1.
    """
    rows = []
    for pair in pairs_of(states):
        answers, truths, scores = pair.answers, pair.truths, pair.scores
        rows.append(
            {
                **{name: getattr(pair, name) for name in PAIRS if hasattr(pair, name)},
                "change": pair.asked,
                "must_change": pair.must,
                "verdict": verdict(pair),
                **{"answer": answers[0], "answer_changed": answers[1]},
                **{"truth": truths[0], "truth_changed": truths[1]},
                **{"score": scores[0], "score_changed": scores[1]},
            }
        )
    return frame(rows, PAIRS)


def sightings_frame(diagnoses: Mapping[str, Diagnosis]) -> pandas.DataFrame:
    """Return a row a named object and view: how much of it that view shows, and from how far away.

    `share` is of what would be seen of it with nothing in the way, 0 to 1.
    """
    rows = [
        {
            "question_id": question_id,
            "turn": turn.turn,
            "view": sighting.view,
            "category": diagnosis.boxes[sighting.box].category,
            "number": diagnosis.boxes[sighting.box].number,
            "area_pixels": sighting.area,
            "share": sighting.share,
            "distance_metres": sighting.distance,
        }
        for question_id, diagnosis in diagnoses.items()
        for turn in diagnosis.turns
        for sighting in turn.sightings
    ]
    return frame(rows, SIGHTINGS)


def beliefs_frame(
    states: Sequence[QuestionState], diagnoses: Mapping[str, Diagnosis]
) -> pandas.DataFrame:
    """Return a row a probe: what its map was worth, and what broke first in its question."""
    rows = []
    for state in states:
        diagnosis = diagnoses.get(state.id)
        if diagnosis is None or (belief := diagnosis.belief) is None:
            continue
        for probe in belief.probes:
            row: dict[str, Any] = {
                "question_id": state.id,
                "type": state.question.type,
                "scene": state.question.scene,
                "turn": probe.turn,
                "readable": probe.score is not None,
                "own_answer": probe.answer,
                "own_score_percent": None if probe.worth is None else 100 * probe.worth,
                "failure": belief.failure,
            }
            if (score := probe.score) is not None:
                row |= {"self_metres": score.metres, "self_degrees": score.degrees}
            if score is not None and (matching := score.matching) is not None:
                off = [pair.metres for pair in matching.pairs]
                row |= {
                    **{name: getattr(score, name) for name in ("true", "believed", "found")},
                    "doubled": len(matching.doubled),
                    "invented": len(matching.invented),
                    "position_metres": sum(off) / len(off) if off else None,
                    "sides_right": score.sides[0],
                    "sides": score.sides[1],
                    "nearer_right": score.nearer[0],
                    "nearer": score.nearer[1],
                }
            rows.append(row)
    return frame(rows, BELIEFS)


def differences_frame(compared: Mapping[str, Any]) -> pandas.DataFrame:
    """Return a row a mean, task or type, by its name: both scores and b minus a, in points of percent.

    low and high are the 95 % interval, error the standard error, p_holm is corrected for the rows.
    """
    rows = []
    for entry in compared["differences"].values():
        scores = {name: entry[name] for name in ("a", "b", "difference", "error")}
        rows.append({**entry, **_percents(**scores, **_ends(entry["interval"]))})
    return frame(rows, DIFFERENCES, list(compared["differences"]), "mean")


def compared_beliefs_frame(beliefs: Mapping[str, Any]) -> pandas.DataFrame:
    """Return a row a figure of beliefs, by its name: both values and b minus a; shares are in percent, others as they are."""
    rows = [{**entry, **_ends(entry["interval"])} for entry in beliefs.values()]
    return frame(rows, COMPARED_BELIEFS, list(beliefs), "figure")


def figures_frame(results: Mapping[str, Any], failures: Mapping[str, Any]) -> pandas.DataFrame:
    """Return a row a figure: of scores, pairs, beliefs, what broke first, metrics of texts: its value, 95 % interval, n, scenes.

    part: of `results.json`, or `failures`, what `render-agent diagnose --json` has as `beliefs`. group: `all`, or a type,
    a change or a turn, behind its kind. figure: as it is called there. Shares and scores are in percent, as there.
    """
    rows = []
    scores = {**results["tasks"], **{name: own["score"] for name, own in results["types"].items()}}
    scores |= {"official": results["official_over_scored"]["score"]}
    parts: dict[str, Mapping[str, Any]] = {
        "scores": {
            name: {"value": scores.get(name, results.get(name)), "interval": ends}
            | {"n": results["types"].get(name, results)["n"], "scenes": results["errors"].get(name, {}).get("scenes")}
            for name, ends in results["intervals"].items()
        },
        "causal": results.get("causal", {}),
        "metrics": results.get("metrics", {}),
    }  # fmt: skip
    beliefs = {**results.get("beliefs", {})}
    parts["beliefs"] = {**beliefs.pop("last", {}), **beliefs}
    parts["failures"] = {
        **failures.get("all", {}),
        **{k: failures[k] for k in failures if k != "all"},
    }
    for part, figures in parts.items():
        groups: dict[str, Mapping[str, Any]] = {"all": figures}
        groups |= {f"type {name}": own for name, own in figures.get("types", {}).items()}
        groups |= {f"change {name}": own for name, own in figures.get("changes", {}).items()}
        groups |= {f"turn {own['turn']}": own for own in figures.get("turns", ())}
        groups |= {"all changes": figures["revision"]} if "revision" in figures else {}
        for group, own in groups.items():
            shares = {**own, **own.get("shares", {})}
            for name, entry in shares.items():
                if isinstance(entry, Mapping) and "interval" in entry:
                    value = next(
                        entry[key] for key in ("value", "share", "points", "score") if key in entry
                    )
                    rows.append({"part": part, "group": group, "figure": name, "value": value, **entry, **_ends(entry["interval"])})  # fmt: skip
    return frame(rows, FIGURES)


def power_frame(planned: Mapping[str, Any]) -> pandas.DataFrame:
    """Return a row a correlation: the scenes and questions that a difference needs, and the least difference that this run can show."""
    rows = [
        {**row, **_percents(deviation=row["deviation"], seen=row["seen"])}
        for row in planned["needs"]
    ]
    return frame(rows, POWER)


def _ends(interval: Sequence[float] | None) -> dict[str, float | None]:
    low, high = interval or (None, None)
    return {"low": low, "high": high}


def ladder_frame(gains: Mapping[str, Any]) -> pandas.DataFrame:
    """Return a row a mean, task or type and rung of the ladder of help: its score, and what it gains on the rung below.

    low and high are the 95 % interval of the gain; the lowest rung has none.
    """
    tools = [rung["tools"] for rung in gains["rungs"]]
    rows = []
    for mean, entry in gains["types"].items():
        for rung, score, gain in zip(tools, entry["scores"], [{}, *entry["gains"]], strict=True):
            shares = {"score": score, "gain": gain.get("difference"), "error": gain.get("error")}
            shown = _percents(**shares, **_ends(gain.get("interval")))
            rows.append({**gain, "mean": mean, "tools": rung, **shown})
    return frame(rows, RUNGS)


def changed_frame(compared: Mapping[str, Any]) -> pandas.DataFrame:
    """Return a row a question that is right in one run and wrong in the other."""
    sides = [(name, value) for name in ("a", "b") for value in ("answer", "score")]
    rows = [
        {
            **{name: entry[name] for name in CHANGED if name in entry},
            **{f"{value}_{side}": entry[side][value] for side, value in sides},
        }
        for entry in compared["changed"]
    ]
    return frame(rows, CHANGED)


def _percents(**values: float | None) -> dict[str, float | None]:
    return {f"{name}_percent": value for name, value in values.items()}


def frame(
    rows: Sequence[Mapping[str, Any]],
    columns: Mapping[str, str],
    index: Sequence[str] | None = None,
    name: str | None = None,
) -> pandas.DataFrame:
    """Return a frame with these columns and types, also where there are no rows."""
    require("a frame", "pandas")
    import pandas

    data = {
        column: pandas.Series(_column([row.get(column) for row in rows], column, kind))
        for column, kind in columns.items()
    }
    table = pandas.DataFrame(data)
    if index is not None:
        table.index = pandas.Index(index, dtype="object", name=name)
    return table


def _column(values: list[Any], column: str, kind: str) -> Any:
    import pandas

    if kind == CATEGORY:
        known = [value for value in values if value is not None]
        return pandas.Categorical(values, LEVELS.get(column, list(dict.fromkeys(known))))
    return pandas.array(values, dtype=kind) if kind != NUMBER else pandas.Series(values, dtype=kind)
