"""Export of runs as Inspect AI logs, with one sample per question."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from render_agent.dialogue.chat import split_thinking
from render_agent.dialogue.events import CONTENT_FILTER, CONTEXT_EXCEEDED
from render_agent.dialogue.state import QuestionState, Status
from render_agent.dialogue.tokens import Tokens
from render_agent.dialogue.turn import Turn
from render_agent.extras import require
from render_agent.options import OPTIONS
from render_agent.report.result_rows import Diagnoses, questions_with_progress
from render_agent.runs.log.caveats import adapted_fields
from render_agent.runs.log.row import Row
from render_agent.runs.read import RunData
from render_agent.util.contained_paths import image_path

SCORER = "vsi_bench"  # name of the scores in a log
MEANS = ("official_raw", "official", "without_order", "micro", "mean_of_types")

ImageUrl = Callable[[str], str]


def write_inspect(run: RunData, file: Path, diagnoses: Diagnoses, *, embed: bool = False) -> None:
    """Write a run as an Inspect AI log. Scores are from 0 to 1, as usual in Inspect."""
    require("an Inspect log", "inspect_ai")
    from inspect_ai import log

    folder = run.path.resolve()

    def image_url(image: str) -> str:
        if not embed:
            return str(folder / image)
        data = base64.b64encode(image_path(folder, image).read_bytes()).decode()
        return f"data:image/png;base64,{data}"

    samples = [
        _sample(run, state, row, diagnoses, image_url)
        for state, row in questions_with_progress(run)
    ]
    started_at = _modification_time(run.path / "config.json")
    results_file = run.path / "results.json"
    is_complete = not run.results["counts"]["active"]
    log.write_eval_log(
        log.EvalLog(
            status="success" if is_complete else "cancelled",
            eval=_spec(run, started_at),
            results=_results(run),
            stats=log.EvalStats(
                started_at=started_at,
                completed_at=_modification_time(results_file) if results_file.exists() else "",
                model_usage=_by_model(
                    run, _usage(turn for state in run.dialogues for turn in state.turns)
                ),
            ),
            samples=samples,
        ),
        str(file),
    )


def _spec(run: RunData, created: str) -> Any:
    from inspect_ai.log import EvalConfig, EvalDataset, EvalSpec
    from inspect_ai.model import GenerateConfig

    config = run.config
    name = Path(config.benchmark).stem if config.batch else "question"
    ids = [state.id for state in run.dialogues]
    return EvalSpec(
        eval_id=_id("eval", run.name),
        run_id=_id("run", run.name),
        task_id=_id("task", run.name),
        created=created,
        task=name,
        task_display_name=f"{name} · {run.name}",
        task_args={
            option: value
            for option, value in config.to_json().items()
            if value != OPTIONS[option].default
        },
        dataset=EvalDataset(name=name, samples=len(ids), sample_ids=list(ids)),
        model=f"{config.engine}/{run.model}",
        model_generate_config=GenerateConfig(
            temperature=config.temperature, max_tokens=config.max_new_tokens, seed=config.seed
        )
        if not run.parts.engine.single_sample
        else GenerateConfig(),
        config=EvalConfig(),
        packages={"render_agent": str(run.record["program"])},
        metadata={
            "run": run.name,
            "fingerprint": run.record["fingerprint"],
            "notes": run.notes,
            "adapted": adapted_fields(turn for state in run.dialogues for turn in state.turns),
        },
    )


def _results(run: RunData) -> Any:
    from inspect_ai.log import EvalMetric, EvalResults, EvalScore

    figures = run.results
    means = {name: figures[name] for name in MEANS}
    if figures["official"] is None:
        means["official_over_scored"] = figures["official_over_scored"]["score"]
    num_scored = sum(row.score is not None for row in run.rows.values())
    metrics = {
        name: EvalMetric(name=name, value=value / 100)
        for name, value in means.items()
        if value is not None
    }
    return EvalResults(
        total_samples=len(run.dialogues),
        completed_samples=sum(not state.active for state in run.dialogues),
        scores=[
            EvalScore(
                name=SCORER,
                scorer=SCORER,
                scored_samples=num_scored,
                unscored_samples=len(run.rows) - num_scored,
                metrics=metrics,
            )
        ],
    )


def _sample(
    run: RunData, state: QuestionState, row: Row, diagnoses: Diagnoses, image_url: ImageUrl
) -> Any:
    from inspect_ai.log import EvalError, EvalSample
    from inspect_ai.scorer import Score

    question, diagnosis = state.question, diagnoses.get(state.id)
    usage = _usage(state.turns)
    is_failed = state.status is Status.FAILED
    seconds = sum(turn.seconds.rendering + turn.seconds.generating for turn in state.turns)
    return EvalSample(
        id=state.id,
        epoch=1,
        input="\n".join([question.text, *question.options]),
        choices=list(question.options) or None,
        target=row.truth or "",
        messages=_messages(run, state, image_url),
        output=_output(run, state, usage),
        scores=None if row.score is None else {SCORER: Score(value=row.score, answer=row.answer)},
        metadata={
            **{
                name: getattr(row, name) for name in ("type", "scene", "dataset", "status", "turns")
            },
            "repairs": state.repairs,
            **({} if diagnosis is None else {"cause": str(diagnosis.cause)}),
        },
        model_usage=_by_model(run, usage),
        total_time=seconds,
        working_time=seconds,
        turn_count=len(state.turns),
        error=EvalError(message=state.error or "", traceback="", traceback_ansi="")
        if is_failed
        else None,
        uuid=_id("sample", run.name, state.id),
    )


def _messages(run: RunData, state: QuestionState, image_url: ImageUrl) -> list[Any]:
    from inspect_ai import model

    message_classes = {
        "system": model.ChatMessageSystem,
        "user": model.ChatMessageUser,
        "tool": model.ChatMessageTool,
    }
    messages: list[Any] = []
    exchanges = [
        (f"{turn.number}.{name}", *exchange)
        for turn in state.turns
        for name, exchange in zip(("", "restated."), turn.exchanges, strict=False)
    ]
    for prefix, sent, reply in exchanges:
        for number, entry in enumerate(sent):
            content = [
                model.ContentImage(image=image_url(piece["image"]))
                if piece["type"] == "image"
                else model.ContentText(text=piece["text"])
                for piece in entry["content"]
            ]
            name = _id("message", run.name, state.id, f"{prefix}{number}")
            messages.append(message_classes[entry["role"]](id=name, content=content))
        reasoning, text = _split_thinking(reply)
        thinking = [model.ContentReasoning(reasoning=reasoning)] if reasoning else []
        messages.append(
            model.ChatMessageAssistant(
                id=_id("message", run.name, state.id, f"{prefix}reply"),
                content=[*thinking, model.ContentText(text=text)],
                model=run.model,
                source="generate",
            )
        )
    return messages


def _output(run: RunData, state: QuestionState, usage: Any) -> Any:
    from inspect_ai.model import ModelOutput

    if not state.turns:
        return ModelOutput(model=run.model)
    last_turn = state.turns[-1]
    stop: Any = "max_tokens" if last_turn.finish == "length" else "stop"
    stop = "model_length" if CONTEXT_EXCEEDED in last_turn.events else stop
    stop = "content_filter" if CONTENT_FILTER in last_turn.events else stop
    output = ModelOutput.from_content(
        run.model, _split_thinking(last_turn.exchanges[-1][1])[1], stop_reason=stop
    )
    output.choices[0].message.id = _id("message", run.name, state.id, "output")
    output.usage = usage
    return output


def _usage(turns: Iterable[Turn]) -> Any:
    """Return the token usage of the turns; None if not reported. Inspect counts cached tokens separately."""
    from inspect_ai.model import ModelUsage

    tokens = Tokens.total(turn.tokens for turn in turns)
    if not tokens.prompt:
        return None
    return ModelUsage(
        input_tokens=tokens.prompt - tokens.cached - tokens.cache_written,
        output_tokens=tokens.reply,
        total_tokens=tokens.prompt + tokens.reply,
        input_tokens_cache_read=tokens.cached,
        input_tokens_cache_write=tokens.cache_written,
        reasoning_tokens=tokens.thought,
    )


def _by_model(run: RunData, usage: Any) -> dict[str, Any]:
    return {} if usage is None else {run.model: usage}


def _split_thinking(reply: str) -> tuple[str, str]:
    """Return the reasoning and the remaining text of a reply."""
    blocks, text = split_thinking(reply)
    return "\n".join(filter(None, map(str.strip, blocks))), text.strip()


def _id(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:22]


def _modification_time(file: Path) -> str:
    return datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat(timespec="seconds")
