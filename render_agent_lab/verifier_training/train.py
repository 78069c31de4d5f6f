"""Trains a verifier on the user's own runs: decisions, features, split by scene, fit, and card."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from render_agent.errors import SetupError, UsageError, os_errors
from render_agent.runs.read import RunData
from render_agent.util.display import count_noun
from render_agent.util.file_digests import sha256
from render_agent_lab.learned_verifier.card import CARD
from render_agent_lab.learned_verifier.encoder import Encoder
from render_agent_lab.learned_verifier.encoder_registry import make_encoder
from render_agent_lab.learned_verifier.ensemble import Ensemble, torch_device
from render_agent_lab.learned_verifier.shape import VerifierShape
from render_agent_lab.verifier_training.card import card_text, save_verifier
from render_agent_lab.verifier_training.choice_accuracy import scores_of
from render_agent_lab.verifier_training.decision import Decision, scene_names
from render_agent_lab.verifier_training.decisions import read_decisions
from render_agent_lab.verifier_training.examples import Example, make_examples
from render_agent_lab.verifier_training.fit import Settings, fit_ensemble
from render_agent_lab.verifier_training.held_out import measure_success, summarize_held_out

MIN_DECISIONS = 20  # minimum number of training decisions with good and bad moves

README = "README.md"

# For low-dimensional features.
SMALL = {"width": 64, "heads": 4, "blocks": 1, "layers": 2, "inner": 128}

# For features of a large encoder.
LARGE = {"width": 512, "heads": 8, "blocks": 4, "layers": 4, "inner": 2048}

LARGE_FEATURES = 256  # feature dimension from which members are large


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """Options of verifier training."""

    encoder: str = "pixels"
    """Value of `--encoder`."""
    held_out: float | tuple[str, ...] = 0.25
    """Share of scenes to hold out, or their names."""
    device: str = "auto"
    """Device to train on, as in `--device` of a run."""
    settings: Settings = field(default_factory=lambda: Settings(epochs=12, rate=1e-3))


def train(
    folders: Sequence[RunData],
    output: Path,
    wishes: TrainingOptions = TrainingOptions(),
    report: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Train a verifier on runs, write it to `output`, and return the data of its card."""
    if (output / CARD).exists():
        raise SetupError(f"{output} already contains a verifier. Choose another --to.")
    encoder = make_encoder(wishes.encoder, wishes.device)
    decisions = _decisions(folders, report)
    names = scene_names(decisions)
    held = choose_held_out(sorted(set(names)), wishes.held_out, wishes.settings.seed)
    learning = [d for d, name in zip(decisions, names, strict=True) if name not in held]
    testing = [d for d, name in zip(decisions, names, strict=True) if name in held]
    _check_enough(learning, testing)
    report(
        f"computing features: {len(learning)} training decisions, {len(testing)} in held-out scenes"
    )
    shape = _shape(encoder)
    examples = make_examples([*learning, *testing], encoder, shape.history)
    result = fit_ensemble(
        shape,
        examples[: len(learning)],
        examples[len(learning) :],
        wishes.settings,
        device=torch_device(wishes.device),
        after_epoch=lambda line: report(_epoch_line(line, wishes.settings.epochs)),
    )
    learned = {
        "encoder": {"label": encoder.label, **encoder.describe()},
        "learned_from": _training_data(folders, learning, set(names) - held),
        "settings": wishes.settings.to_json(),
        "epochs": result.epochs,
        "held_out": _evaluate(result.ensemble, testing, examples[len(learning) :], held, wishes),
    }
    save_verifier(result.ensemble, output, learned)
    with os_errors(SetupError, f"write {output / README}"):
        (output / README).write_text(card_text(learned, shape), "utf-8")
    return learned


def choose_held_out(
    scenes: Sequence[str], requested: float | tuple[str, ...], seed: int
) -> set[str]:
    """Return the held-out scenes: the named ones, or a random share.

    Raises UsageError for an unknown scene, and SetupError if either side of the split would be empty.
    """
    if isinstance(requested, tuple):
        if unknown := sorted(set(requested) - set(scenes)):
            raise UsageError(f"--held-out {unknown[0]}: the runs have no decisions in this scene")
        held = set(requested)
    else:
        count = max(1, math.ceil(requested * len(scenes)))
        order = np.random.default_rng(seed).permutation(len(scenes))
        held = {scenes[place] for place in order[:count]}
    if not 0 < len(held) < len(scenes):
        raise SetupError(
            f"cannot split {count_noun(len(scenes), 'scene')} into training and held-out scenes: both need at least one"
        )
    return held


def _decisions(folders: Sequence[RunData], report: Callable[[str], None]) -> list[Decision]:
    """Return the decisions of all runs that have good and bad moves."""
    decisions: list[Decision] = []
    for folder in folders:
        report(f"{folder.name}: labelling candidates")
        decisions += read_decisions(folder, report)
    return [decision for decision in decisions if decision.is_a_choice]


def _check_enough(learning: Sequence[Decision], testing: Sequence[Decision]) -> None:
    if len(learning) < MIN_DECISIONS or not testing:
        raise SetupError(
            f"too few decisions with good and bad moves: {len(learning)} for training and {len(testing)} in held-out"
            f" scenes (at least {MIN_DECISIONS} and 1 needed). Add runs, preferably with --agent lookahead:8"
            " --verifier random."
        )


def _shape(encoder: Encoder) -> VerifierShape:
    sizes = LARGE if encoder.features >= LARGE_FEATURES else SMALL
    return VerifierShape(
        rows=encoder.rows,
        columns=encoder.columns,
        text=encoder.text,
        features=encoder.features,
        **sizes,
    )


def _epoch_line(line: dict[str, Any], epochs: int) -> str:
    loss = sum(line["loss"]) / len(line["loss"])
    return (
        f"epoch {line['epoch']} of {epochs}: loss {loss:.3f},"
        f" {line['chosen']:.1%} good choices in held-out scenes (random {line['chance']:.1%})"
    )


def _training_data(
    folders: Sequence[RunData], decisions: Sequence[Decision], scenes: set[str]
) -> dict[str, Any]:
    scans = {decision.context.state.question.scan for decision in decisions}
    return {
        "runs": [
            {
                "name": folder.name,
                "fingerprint": folder.record["fingerprint"],
                "agent": folder.config.agent,
                "model": folder.parts.model_name,
            }
            for folder in folders
        ],
        "scenes": sorted(scenes),
        "scans": sorted({sha256(scan) for scan in scans if scan is not None}),
        "questions": len({(d.run, d.context.state.id) for d in decisions}),
        "decisions": len(decisions),
    }


def _evaluate(
    ensemble: Ensemble,
    decisions: Sequence[Decision],
    examples: Sequence[Example],
    held: set[str],
    wishes: TrainingOptions,
) -> dict[str, Any]:
    """Return the ensemble's success in held-out scenes, compared with random, new surface and geometry."""
    scores = scores_of(ensemble, examples)
    names = scene_names(decisions)
    finding = [place for place, d in enumerate(decisions) if d.finds.any() and not d.finds.all()]
    measured: dict[str, Any] = {
        "scenes": sorted(held),
        "good": summarize_held_out(measure_success(decisions, scores), names),
        "named": None,
    }
    if finding:
        rows = measure_success(
            [decisions[place] for place in finding],
            [scores[place] for place in finding],
            named=True,
        )
        measured["named"] = summarize_held_out(rows, [names[place] for place in finding])
    return measured
