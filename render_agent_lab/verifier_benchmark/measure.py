"""Verifiers over the same decisions: success, calibration, agreement and latency in one record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from render_agent.agents.verifiers.base import Verifier
from render_agent.config import RunConfig
from render_agent.config.agent_plan import VerifierPlan
from render_agent.dialogue.state import Question
from render_agent.engines.base import Engine
from render_agent.errors import SetupError
from render_agent.observation.picture_store import Pictures
from render_agent.runs.log.folder import RunFolder
from render_agent_lab.learned_verifier.learned_plan import LearnedPlan
from render_agent_lab.oracles.question_visibility import QuestionVisibility
from render_agent_lab.verifier_benchmark.agreement import agreement
from render_agent_lab.verifier_benchmark.calibration import by_probability, by_rank
from render_agent_lab.verifier_benchmark.decisions import Decision, Left, decisions_of
from render_agent_lab.verifier_benchmark.latency import latency
from render_agent_lab.verifier_benchmark.scoring import Scored, as_logged, oracle, score_anew
from render_agent_lab.verifier_benchmark.success import by_chance, difference, success

TIMED = 24
"""Decisions that are timed, spread over all of them."""


@dataclass(frozen=True, eq=False)
class Source:
    """A run, and the decisions read from it."""

    folder: RunFolder
    questions: list[Question]
    decisions: list[Decision]
    left: Left


@dataclass(frozen=True, eq=False)
class Judging:
    """What verifiers are made with that no run says: the options about judges, and the engine they ask."""

    config: RunConfig
    engine: Engine


@contextmanager
def opened(folders: Sequence[RunFolder]) -> Iterator[list[Source]]:
    """Give the decisions of runs, with what they need as long as they are looked at.

    SetupError where there are none. RunLogError, SceneError or RenderError as `decisions_of` raises them.
    """
    sources = []
    held: list[Any] = []
    try:
        for folder in folders:
            questions = folder.questions()
            eyes, pictures = QuestionVisibility.of(folder.config, questions), Pictures(folder.path)
            held += [eyes, pictures]
            decisions, left = decisions_of(folder, eyes, pictures)
            sources.append(Source(folder, questions, decisions, left))
        if not any(source.decisions for source in sources):
            raise SetupError(
                "there is no decision to measure: runs of --agent lookahead:K on scenes whose boxes are"
                " known have them"
            )
        yield sources
    finally:
        for thing in held:
            thing.close()


def measure(
    sources: Sequence[Source],
    plans: Mapping[str, VerifierPlan],
    judging: Judging,
    report: Callable[[str], None],
    *,
    logged: bool,
) -> dict[str, Any]:
    """Return the figures of every verifier over the decisions of all sources.

    plans: by the name that each has in the tables. report: is given a line on what goes on. logged: whether what the runs' own verifiers said counts, too. SetupError where what a verifier needs is not at hand.
    """
    decisions = [decision for source in sources for decision in source.decisions]
    scored: list[Scored] = []
    times: dict[str, Any] = {}
    for label, plan in plans.items():
        report(f"{label}: {len(decisions)} decisions")
        rated, spent = _one(label, plan, sources, judging)
        scored.append(rated)
        times[label] = spent
    if logged:
        scored += as_logged(decisions)
    rows = [by_chance(decisions), *scored, oracle(decisions)]
    left = sum((source.left for source in sources), Left())
    return {
        "decisions": len(decisions),
        "questions": len({(d.scene, d.context.state.id) for d in decisions}),
        "scenes": len({d.scene for d in decisions}),
        "left_out": {"questions_unknown": left.unknown, "all_shown": left.shown, "not_drawn": left.undrawn},
        "notes": notes_on(plans.values(), sources),
        "success": {rated.label: success(decisions, rated) for rated in rows},
        "differences": _differences(decisions, scored),
        "calibration": {
            rated.label: {
                "by_rank": by_rank(decisions, rated),
                "by_probability": by_probability(decisions, rated),
            }
            for rated in scored
        },
        "agreement": agreement(decisions, scored),
        "latency": times,
    }  # fmt: skip


def _one(
    label: str, plan: VerifierPlan, sources: Sequence[Source], judging: Judging
) -> tuple[Scored, dict[str, Any]]:
    """Return a verifier's scores of all decisions, and the latency of its ways to score."""
    parts = []
    spent: dict[str, Any] = {}
    for source in sources:
        with made(plan, source, judging) as verifier:
            likely = plan.asks_model and judging.config.judging.scores
            part = score_anew(label, verifier, source.decisions, probabilities=likely)
            parts.append(part)
            if plan.name != "random" and not spent and source.decisions:
                step = max(1, len(source.decisions) // TIMED)
                few = source.decisions[::step][:TIMED]
                spent = latency(verifier, few, alone=not judging.config.judging.pairs)
    verdicts = tuple(verdict for part in parts for verdict in part.verdicts)
    seconds = sum(part.seconds or 0.0 for part in parts)
    return Scored(label, verdicts, seconds, parts[0].probabilities), spent


def notes_on(plans: Iterable[VerifierPlan], sources: Sequence[Source]) -> list[str]:
    """Return the notes beside the figures: which verifiers were trained in the scenes that they are measured in."""
    questions = [question for source in sources for question in source.questions]
    config = sources[0].folder.config
    learned = [plan for plan in plans if isinstance(plan, LearnedPlan)]
    known_by = {plan.label: plan.knows(config, questions) for plan in learned}
    return [f"{label} knows {known}." for label, known in known_by.items() if known]


@contextmanager
def made(plan: VerifierPlan, source: Source, judging: Judging) -> Iterator[Verifier]:
    """Give a verifier that sees what the run of a source showed; its model is as `judging` has it."""
    run = source.folder.config
    config = replace(
        judging.config,
        image_size=run.image_size,
        annotations=run.annotations,
        pictures=run.pictures,
        seed=run.seed,
    )
    with closing(plan.build(config, source.questions, judging.engine)) as verifier:
        yield verifier


def _differences(decisions: Sequence[Decision], scored: Sequence[Scored]) -> list[dict[str, Any]]:
    """Return the paired differences in success of each verifier from each before it."""
    differences = []
    for number, first in enumerate(scored):
        for other in scored[:number]:
            apart = difference(decisions, first, other)
            differences.append({"one": first.label, "other": other.label, "difference": apart})
    return differences
