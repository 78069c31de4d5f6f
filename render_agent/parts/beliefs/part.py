"""The run part of beliefs (`--probe`): probes after turns, and their entries of `results.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from render_agent import registry
from render_agent.dialogue.parsing.unreadable import (
    CAUSES,
    MAX_REASON_CHARS,
    THOUGHT_OPTIONS,
    describe_unreadable,
    likely_cause,
)
from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.tokens import reported_total
from render_agent.dialogue.turn import Probe, Turn
from render_agent.engines.make_engine import engine_traits
from render_agent.errors import QuestionsError, UsageError
from render_agent.options import RunConfig
from render_agent.parts.beliefs.ask_beliefs import MAX_TOKENS, BeliefProbe, probe_keys
from render_agent.parts.beliefs.belief_figures import belief_figures, summarize_beliefs
from render_agent.parts.beliefs.scored_probe import ScoredProbe, probes_of
from render_agent.runs.run_part import RunPart
from render_agent.tasks.ground_truth import Facts
from render_agent.util.display import count_noun
from render_agent.util.reasons import truncate

if TYPE_CHECKING:
    from render_agent.runs.build import Parts
    from render_agent.runs.read import RunData


# `--max-new-tokens` does not apply to belief probes.
PROBE_THOUGHT_OPTIONS = "set --thinking-budget, or pass --thinking off"
PROBE_CAUSES = {
    name: text.replace(THOUGHT_OPTIONS, PROBE_THOUGHT_OPTIONS) for name, text in CAUSES.items()
} | {
    "cut": (
        f"most were cut off at the token limit of a probe, {MAX_TOKENS:,}, which is fixed: ask for fewer beliefs with"
        " --probe, or set --thinking-budget if the model thinks"
    ),
}


class Beliefs(RunPart):
    """What a model believes about the scene after every turn."""

    def refuse_conflicts(self, parts: Parts) -> None:
        """Refuse probes that the model cannot answer."""
        config, probe = parts.config, f"--probe {','.join(parts.config.probe)}"
        if not config.probe:
            return
        if parts.blind:
            raise UsageError("--probe needs views, but --views none shows none. Omit one of them.")
        if parts.prompt.wording.templates.get("about.beliefs") == "none":
            raise UsageError(
                f"{probe} asks for beliefs, which --model {parts.model_name} was not trained to state. Omit it, or use"
                " another model."
            )
        if not probe_keys(config.probe, free=parts.free):
            raise UsageError(
                f"{probe} asks where the camera is, but --views {config.views} moves it. Add map, counts or seen, or let"
                " the model choose its views."
            )

    def check(self, config: RunConfig, questions: Sequence[Question]) -> None:
        """Refuse a scripted policy that states no beliefs."""
        if not config.probe or config.engine != "scripted":
            return
        name = engine_traits(config.engine).model_name(config)
        is_registered = name in registry.names("scripted policy")
        policy = registry.load("scripted policy", name) if is_registered else None
        if not getattr(policy, "answers_probes", not name.endswith((".json", ".jsonl"))):
            raise UsageError(
                f"--probe {','.join(config.probe)} asks for beliefs, which the policy {name} does not have. Omit it,"
                " or pass a model or a policy with a method believe."
            )

    def after_turn(self, parts: Parts) -> BeliefProbe | None:
        if not parts.config.probe:
            return None
        keys = probe_keys(parts.config.probe, free=parts.free)
        return BeliefProbe(keys, parts.prompt.wording, parts.config.seed)

    def results(
        self, run: RunData, states: Sequence[QuestionState], counterparts: Sequence[QuestionState]
    ) -> Mapping[str, Any]:
        """Return belief scores under the key `beliefs` if questions were probed."""
        probed_states = _probed_states(states)
        if not probed_states:
            return {}
        try:
            known = _known_facts(run, probed_states)
            return {"beliefs": belief_figures(probed_states, *known)}
        except QuestionsError as error:  # box files were moved or edited since the run started
            return {"beliefs": {"note": str(error), **belief_figures(probed_states, {}, {})}}

    def summary(self, results: Mapping[str, Any]) -> str | None:
        if "beliefs" not in results:
            return None
        return summarize_beliefs(results["beliefs"], results["totals"]["probes"])

    def totals(self, turns: Sequence[Turn]) -> Mapping[str, Any]:
        """Return the number and cost of all probes under the key `probes`; other totals exclude them."""
        probes = [turn.probe for turn in turns if turn.probe]
        if not probes:
            return {}
        num_failed = sum(probe.error is not None for probe in probes)
        return {
            "probes": {
                "asked": len(probes),
                "unreadable": sum(probe.parsed_belief is None for probe in probes) - num_failed,
                "failed": num_failed,
                "calls": round(sum(1 / probe.batch_size for probe in probes)),
                "tokens": reported_total(probe.tokens for probe in probes),
                "seconds": round(sum(probe.seconds / probe.batch_size for probe in probes), 3),
            }
        }

    def caveats(self, turns: Sequence[Turn]) -> Iterable[str]:
        caveat = unreadable_probes([turn.probe for turn in turns if turn.probe])
        return () if caveat is None else (caveat,)

    def notes(self, run: RunData) -> Iterable[str]:
        """Yield the caveat that boxes are missing because their files have changed."""
        if run.config.probe and run.changed_annotations:
            yield (
                f"{count_noun(len(run.changed_annotations), 'annotation file')} changed since the run started (different"
                " SHA-256): beliefs about their scenes are not scored"
            )


def beliefs_of(run: RunData, states: Sequence[QuestionState]) -> dict[str, list[ScoredProbe]]:
    """Return the scored probes of the probed questions among those of a run, by id."""
    probed_states = _probed_states(states)
    known_facts, truths = _known_facts(run, probed_states)
    return {state.id: probes_of(state, known_facts, truths) for state in probed_states}


def _probed_states(states: Sequence[QuestionState]) -> list[QuestionState]:
    return [state for state in states if any(turn.probe for turn in state.turns)]


def _known_facts(
    run: RunData, states: Sequence[QuestionState]
) -> tuple[dict[str, Facts], dict[str, str | None]]:
    """Return the facts of the questions' scenes by name, and the ground truths for the rooms as shown by question id."""
    questions, stress = [state.question for state in states], run.parts.image_stress
    truths = {question.id: stress.ground_truth(question) for question in questions}
    return run.facts(questions), truths


def unreadable_probes(probes: Sequence[Probe]) -> str | None:
    """Return the number of unreadable belief probes and the main cause; None unless most probes are unreadable."""
    return describe_unreadable(Probe.noun, [*map(_cause_of_probe, probes)], PROBE_CAUSES)


def _cause_of_probe(probe: Probe) -> str | None:
    if probe.parsed_belief is not None:
        return None
    if probe.error is not None:
        return f"most frequent error: {truncate(probe.error, MAX_REASON_CHARS)}"
    reason = str(getattr(probe.belief, "reason", "not parsed"))
    return likely_cause(probe.reply, probe.finish, probe.events, reason)
