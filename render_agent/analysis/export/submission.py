"""Results in the forms of other harnesses and of EASI's leaderboard, to be handed in.

lmms-eval's files are those that its tracker writes (lmms_eval/loggers/evaluation_tracker.py, task vsibench, read in
version 0.7 of 2026); EASI's are `easi_results.json` and `easi_results.zip` of its scripts/submissions/postprocess.py and
backends/lmmseval.py (commits 1dcff78 and 1376bca). Neither leaderboard was sent one.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from render_agent.analysis.export.selection import SelectedRun
from render_agent.config.paths import public_options
from render_agent.config.questions import VSIBENCH
from render_agent.errors import UsageError
from render_agent.runs.log.reader import results_of
from render_agent.score.official import NUMBER_TYPES

TASKS = {"full": "vsibench", "debiased": "vsibench_debiased"}
"""lmms-eval's task of each subset of VSI-Bench."""

EASI_TASKS = {
    "full": ("vsi_bench", "vsibench_multiimage"),
    "debiased": ("vsi_debiased", "vsibench_debiased_multiimage"),
}
"""EASI's name of each subset, and that of the task of lmms-eval that EASI reads it from."""

ACCURACY, MRA = "accuracy", "MRA:.5:.95:.05"
"""What lmms-eval calls the scores of choices and of numbers."""


def lmms_eval_files(run: SelectedRun, task: str | None = None) -> dict[str, bytes]:
    """Return the two files that lmms-eval writes of a task, by name: scores, and a line a question.

    task: its name, that of the subset unless given. Scores are the official ones, 0 to 1.
    """
    task = task or TASKS.get(run.config.subset, TASKS["full"])
    stamp = run.name[:15].replace("T", "_")
    results = results_of(run.folder, states=run.states)
    document = {
        "results": {
            task: {
                "alias": task,
                **{f"{name},none": value for name, value in _metrics(results).items()},
            }
        },
        "configs": {
            task: {
                "task": task,
                "metadata": {
                    "harness": "render_agent",
                    "options": public_options(run.config.to_json()),
                },
            }
        },
        "versions": {task: "render_agent"},
        "n-samples": {
            task: {"original": len(run.rows), "effective": results["official_over_scored"]["n"]}
        },
        "model_name": run.model,
        "notes": [*_what_it_is_not(run, results), *results["notes"]],
    }
    lines = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in _samples(run))
    return {
        f"{stamp}_results.json": json.dumps(document, indent=2, ensure_ascii=False).encode(),
        f"{stamp}_samples_{task}.jsonl": lines.encode("utf-8", "backslashreplace"),
    }


def easi_files(run: SelectedRun) -> dict[str, bytes]:
    """Return EASI's payload and archive by name. UsageError where the run is no whole one of VSI-Bench.

    What only a person knows (the model's type and number format) is empty, as in EASI's own script.
    """
    config = run.config
    results = results_of(run.folder, states=run.states)
    if (
        config.benchmark != VSIBENCH
        or config.subset not in EASI_TASKS
        or results["official"] is None
        or results["status"] != "complete"
    ):
        raise UsageError(
            f"{run.name} is no whole run of VSI-Bench (full or debiased): EASI's leaderboard takes no other"
        )
    key, task = EASI_TASKS[config.subset]
    metrics = {name: round(100 * value, 4) for name, value in _metrics(results).items()}
    shown = (
        f"The model explores each scan by rendered views over up to {config.max_turns} turns"
        if config.free
        else f"The views of each scan are those of --views {config.views}"
    )
    payload = {
        "modelName": run.model,
        "modelType": "",
        "precision": "" if config.dtype == "auto" else config.dtype,
        "revision": config.revision or "main",
        "weightType": "",
        "baseModel": "",
        "backend": "render_agent",
        "remarks": f"{shown}; no video is shown. {'; '.join(results['notes'])}".strip(),
        "scores": {key: metrics.pop("vsibench_overall")},
        "subScores": {key: {name.removesuffix("_mra"): value for name, value in metrics.items()}},
    }
    archive = BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, data in lmms_eval_files(run, task).items():
            opened.writestr(
                zipfile.ZipInfo(f"{Path(run.model).name}/{name}"), data, zipfile.ZIP_DEFLATED
            )
    return {
        "easi_results.json": json.dumps(payload, indent=2, ensure_ascii=False).encode(),
        "easi_results.zip": archive.getvalue(),
    }


def _what_it_is_not(run: SelectedRun, results: Mapping[str, Any]) -> Iterator[str]:
    """Give what a file that bears VSI-Bench's name has to say of a run that is not the whole of it."""
    if run.config.benchmark != VSIBENCH:
        yield f"the questions are those of {Path(run.config.benchmark).name}, not VSI-Bench's"
    if results["status"] != "complete":
        yield "PARTIAL: only some of the questions were asked, or some have no answer yet"


def _metrics(results: Mapping[str, Any]) -> dict[str, float]:
    """Return the official scores under lmms-eval's names, 0 to 1."""
    metrics = {
        f"{task}_{'mra' if task in NUMBER_TYPES else 'accuracy'}": score / 100
        for task, score in results["tasks"].items()
        if score is not None
    }
    overall = results["official_over_scored"]["score"]
    return metrics if overall is None else {"vsibench_overall": overall / 100, **metrics}


def _samples(run: SelectedRun) -> Iterator[dict[str, Any]]:
    """Give the sample of every question as lmms-eval logs it; its answer stands for the replies of the dialogue."""
    for number, (state, row) in enumerate(run.entries):
        question = state.question
        known = {
            "id": question.id,
            "dataset": question.dataset,
            "scene_name": question.scene,
            "question_type": question.type,
            "question": question.text,
            "options": list(question.options) or None,
            "ground_truth": question.truth,
        }
        answer = row["answer_text"] or ""
        metric = MRA if question.type in NUMBER_TYPES else ACCURACY
        yield {
            "doc_id": number,
            "target": str(question.truth),
            "filtered_resps": [answer],
            "input": "\n".join([question.text, *question.options]),
            "doc_hash": hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest(),
            "vsibench_score": {**known, "prediction": answer, metric: row["score"]},
        }
