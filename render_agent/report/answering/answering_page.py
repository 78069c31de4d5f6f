"""Page and report part *Answers over turns*: any-time score, changed answers, search for evidence, calibration, instruments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from render_agent.report.answering.evidence import LABELS as EVIDENCE
from render_agent.report.answering.evidence import evidence_terms
from render_agent.report.diagnosis.model import Diagnosis
from render_agent.report.pages.plots import palette
from render_agent.report.pages.plots.run_plots import Plot, interval_note, write_plots
from render_agent.report.pages.plots.svg import draw_svg, label_curve_axes, legend
from render_agent.report.pages.report_page import ReportPage
from render_agent.report.report_part import ReportPart
from render_agent.report.sentences.contrasts import describe_difference
from render_agent.runs.read import RunData
from render_agent.score.dialogues.answering import (
    LABELS,
    answering_terms,
    answers_by_turn,
    compare_answering,
)
from render_agent.score.dialogues.instruments import LABELS as INSTRUMENTS
from render_agent.score.intervals import add_holm
from render_agent.score.tables import figure, interval_cell
from render_agent.score.terms import Term, estimate_terms, summarize_terms


class AnsweringPage(ReportPage):
    """How the answers of a run developed over its turns."""

    title = "Answers over turns"
    description = "Score after each turn, changed answers, search for evidence"
    template = Path(__file__).with_name("templates") / "answering.html"

    def variables(
        self, run: RunData, diagnoses: Mapping[str, Diagnosis], folder: Path
    ) -> Mapping[str, Any] | None:
        """Return the figures and plots; None if all questions ended in their first turn, without a confidence or an
        instrument that can be wrong.
        """
        answering, instruments = (run.results.get(key, {}) for key in ("answering", "instruments"))
        if not (answering or instruments):
            return None
        terms = (
            evidence_terms(run.states, diagnoses, run.config.image_size) if run.parts.free else {}
        )
        evidence = {name: summarize_terms(entries) for name, entries in terms.items()}
        entries = {**answering, **evidence, **instruments}
        plots = [plot_turns(answering), *plot_reliability(answering)] if answering else []
        write_plots(folder, *plots)
        return {
            "plots": plots,
            "sentences": tested_sentences(answering_terms(answers_by_turn(run.states))),
            "rows": [
                (label, figure(entry["value"]), interval_cell(entry["interval"]), f"{entry['n']:,}")
                for name, label in (LABELS | EVIDENCE | INSTRUMENTS).items()
                if (entry := entries.get(name)) is not None
            ],
        }


class AnsweringPart(ReportPart):
    """Any-time scores, changes, calibration and, on pages, the search for evidence."""

    comparison_title = AnsweringPage.title
    labels = LABELS | EVIDENCE

    def compare(self, a: RunData, b: RunData) -> Mapping[str, dict[str, Any]]:
        """Return the differences over the questions that both runs have scored; empty if all dialogues have one turn
        without a confidence.
        """
        return compare_answering(a.states, b.states)


def tested_sentences(terms: Mapping[str, Sequence[Term]]) -> list[str]:
    """Return a sentence about changed answers and one about confidence, each with its test, corrected for their number."""
    pairs = {
        "Changes made {} % of the changed answers right and {} % wrong": (
            "became_right",
            "became_wrong",
        ),
        "The mean confidence is {} %, and {} % of these answers are right": ("confidence", "right"),
    }
    tests: list[dict[str, Any]] = []
    for words, names in pairs.items():
        first, second = (terms[name] for name in names)
        gaps = [Term(a.scene, a.top - b.top) for a, b in zip(first, second, strict=True)]
        if (estimate := estimate_terms(gaps)) is not None:
            values = [figure((summarize_terms(side) or {})["value"]) for side in (first, second)]
            tests.append({"words": words.format(*values), "p": estimate.interval_and_p()[1]})
    add_holm(tests)
    return [f"{test['words']} ({describe_difference(test['p_holm'])})." for test in tests]


def plot_turns(answering: Mapping[str, Any]) -> Plot:
    """Plot the any-time score, and the confidence and the share of right answers, by turn."""
    curves = {
        "score": ("any-time score", palette.BLUE, "o-"),
        "confidence": ("mean confidence", palette.VERMILLION, "s--"),
        "right": ("right answers", palette.GREEN, "^:"),
    }
    turns = answering["turns"]

    def paint(axes: Any) -> None:
        for name, (label, colour, mark) in curves.items():
            points = [(turn["turn"] + 1, turn[name]) for turn in turns if name in turn]
            values = [point["value"] for _, point in points]
            if points:
                axes.plot([x for x, _ in points], values, mark, color=colour, ms=4, label=label)
            for x, point in points:
                if point["interval"]:
                    axes.vlines(x, *point["interval"], color=colour, lw=1)
        axes.set_ylim(0, 101)
        label_curve_axes(axes, "turn", "percent")

    heads = [LABELS.get(name, "any-time score (%)") for name in (*curves, "ece")]
    return Plot(
        "answering",
        "Answers by turn",
        "Curves over the turns: the score if every dialogue had ended there, the mean confidence, and the share of right answers.",
        draw_svg(paint),
        f"A dialogue that has ended keeps its answer; no answer scores 0. {interval_note()}",
        ("turn", "answered", *heads),
        [
            (
                t["turn"] + 1,
                t["answered"],
                *(figure(t[n]["value"]) if n in t else "–" for n in (*curves, "ece")),
            )
            for t in turns
        ],
    )


def plot_reliability(answering: Mapping[str, Any]) -> list[Plot]:
    """Plot the share of right last answers over their confidence; empty without any confidence."""
    points = [(point["confidence"]["value"], point["right"]) for point in answering["calibration"]]
    if not points:
        return []

    def paint(axes: Any) -> None:
        axes.plot([0, 100], [0, 100], "--", color=palette.GREY, lw=1, label="calibrated")
        for x, point in points:
            if point["interval"]:
                axes.vlines(x, *point["interval"], color=palette.BLUE, lw=1.2)
        values = [point["value"] for _, point in points]
        axes.plot(
            [x for x, _ in points], values, "o", color=palette.BLUE, label="this run", clip_on=False
        )
        axes.set(xlim=(0, 101), ylim=(0, 101), xlabel="confidence (%)", ylabel="right answers (%)")
        axes.grid()
        legend(axes)

    return [
        Plot(
            "reliability",
            "Reliability of the last answers",
            "One dot per bin of answers with similar confidence; dots below the diagonal are overconfident.",
            draw_svg(paint),
            f"Bins with about the same number of answers. An answer is right if it scores at least 50 %. {interval_note()}",
            ("confidence (%)", "n", "right (%)", "95 % CI"),
            [
                (figure(x), p["n"], figure(p["value"]), interval_cell(p["interval"]))
                for x, p in points
            ],
        )
    ]
