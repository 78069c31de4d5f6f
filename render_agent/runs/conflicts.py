"""Refuses options that contradict each other or have no effect. A part checks its own requirements (`Choice.check`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from render_agent.dialogue.question import Question
from render_agent.errors import UsageError
from render_agent.options import AUTO, BENCHMARK_OPTIONS, OPTIONS, flag_of
from render_agent.runs.run_part import run_parts

if TYPE_CHECKING:
    from render_agent.runs.build import Parts


def refuse_conflicts(parts: Parts) -> None:
    """Raise UsageError if options of a run contradict each other."""
    for check in (_check_questions, _check_engine, _check_schedule, _check_views, _check_agent):
        check(parts)
    for part in run_parts():
        part.refuse_conflicts(parts)


def refuse_fixed_views(parts: Parts, questions: Iterable[Question]) -> None:
    """Raise UsageError if a question's answer is a pose that the model cannot reach."""
    has_target = any(question.answer_form == "pose" for question in questions)
    if has_target and not (parts.free and parts.image_stress.shows_own_scene):
        raise UsageError(
            "in questions of the type reach_view the model moves the camera through the target's scan. Pass --views free,"
            " and omit --tools graph and --image-stress shuffled."
        )


def refuse_idle_options(parts: Parts, option_names: Iterable[str]) -> None:
    """Raise UsageError if an option typed for a new run has no effect, which the user would not notice.

    Options from the environment or a file are not checked, because they may be meant for other runs.
    """
    config = parts.config
    for name in option_names:
        if getattr(config, name) == OPTIONS[name].default:
            continue
        if name in BENCHMARK_OPTIONS and config.ply is not None:
            raise UsageError(
                f"{flag_of(name)} selects questions of a benchmark. Omit it with ask and --ply."
            )
        if name == "base_url" and not (parts.engine.uses_server or parts.judges):
            raise UsageError(f"--base-url needs --engine openai, not --engine {config.engine}")
        # Some verifiers load a model of their own.
        if OPTIONS[name].metadata.get("local") and not (parts.engine.uses_model or parts.verifiers):
            raise UsageError(
                f"{flag_of(name)} describes a model, and --engine {config.engine} has none. Omit it."
            )


def _check_questions(parts: Parts) -> None:
    config = parts.config
    if config.batch == (config.ply is not None):
        raise UsageError("pass either --batch, or --ply FILE with --question TEXT")
    if config.ply is not None and not (config.question or "").strip():
        raise UsageError("--ply needs --question TEXT")
    if config.batch and (config.question or config.option):
        raise UsageError("--question and --option need --ply, not --batch")


def _check_engine(parts: Parts) -> None:
    config = parts.config
    if not parts.engine.uses_model and (config.thinking != AUTO or config.thinking_budget is not None):  # fmt: skip
        flag = "--thinking-budget" if config.thinking == AUTO else "--thinking"
        raise UsageError(f"{flag} applies to models, not to --engine {config.engine}. Omit it.")
    if config.reproducible == "on" and not parts.engine.can_reproduce:
        raise UsageError(
            f"--reproducible on needs --engine transformers or vllm, not --engine {config.engine}. Omit it."
        )
    if config.engine == "transformers" and config.tensor_parallel > 1:
        raise UsageError(
            f"--tensor-parallel {config.tensor_parallel} needs --engine vllm. With transformers, --engine-option"
            " device_map=auto distributes a model over several GPUs, which then work one after another."
        )


def _check_schedule(parts: Parts) -> None:
    config = parts.config
    if parts.engine.single_sample and not config.alone:
        raise UsageError(
            f"--engine {config.engine} runs in a single process. Omit --workers, --devices and --ray."
        )
    if config.batch_jobs and not (parts.engine.has_batch_jobs and config.alone):
        raise UsageError(
            "--batch-jobs needs --engine openai, anthropic or gemini, and a run in one process. Omit it."
        )
    if config.devices and config.workers not in (1, len(config.devices)):
        raise UsageError(
            f"--devices names {len(config.devices)} devices with one worker each. Omit --workers"
            f" {config.workers}."
        )
    if config.max_cost is not None and not config.alone:
        raise UsageError(
            "--max-cost needs a run in one process. Omit --workers, --devices and --ray, or split the run with --shard,"
            " which gives each part its own limit."
        )


def _check_views(parts: Parts) -> None:
    config, stress = parts.config, parts.image_stress
    _ = parts.opening_kinds  # raises if the opening needs a view type that is not allowed
    if config.confidence == "on" and not parts.prompt.wording.templates["fields.confidence"]:
        raise UsageError(
            f"--confidence on asks for a confidence, which --model {parts.model_name} was not trained to state. Omit it, or"
            " use another model."
        )
    if parts.toolset.note and not (parts.view_policy.free and stress.note is None):
        raise UsageError(
            f"--tools {config.tools} needs --views free and --image-stress real. Omit other values."
        )
    shows_scene = stress.shows_own_scene and not stress.changes_ground_truth
    if config.frames and not (parts.view_policy.is_video and shows_scene):
        raise UsageError(
            f"--frames shows the recorded images of --views recorded, not of --views {config.views} or --image-stress"
            f" {config.image_stress}. Omit one of them."
        )
    if parts.pose_faults.any and not parts.free:
        raise UsageError(
            f"--feedback {config.feedback} needs a model that moves the camera. Omit it, or pass --views free."
        )
    if parts.pose_faults.any and parts.agent.shows_all:
        raise UsageError(
            f"--feedback {config.feedback} has no effect with --agent {config.agent}, which reports the poses of several views. Omit"
            " one of them."
        )
    if stress.note is not None and parts.blind:
        raise UsageError(
            f"--image-stress {config.image_stress} changes images, but --views none shows none. Omit one of them."
        )


def _check_agent(parts: Parts) -> None:
    config, agent, verifiers = parts.config, parts.agent, parts.verifiers
    if agent.verifiers is None:
        if config.verifier:
            raise UsageError(
                f"--agent {config.agent} takes no verifier. Omit --verifier {config.verifier[0]}."
            )
    elif not verifiers:
        raise UsageError(f"--agent {config.agent} needs --verifier random or learned:DIR")
    looking = [verifier for verifier in verifiers if verifier.needs_views]
    if looking and not agent.draws:
        raise UsageError(
            f"--verifier {looking[0].label} scores rendered moves, but {agent.form} renders none."
            f" Use --agent lookahead:{agent.samples}."
        )
    if not agent.chooses:
        return
    if parts.engine.single_sample:
        raise UsageError(
            f"--agent {config.agent} needs several replies per turn, but --engine {config.engine} gives one"
        )
    if not config.temperature:
        raise UsageError(
            f"--agent {config.agent} needs replies that differ. Pass --temperature above 0."
        )
    if agent.chooses_moves and not parts.free:
        raise UsageError(f"--agent {config.agent} chooses among moves. Use it with --views free.")
