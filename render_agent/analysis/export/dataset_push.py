"""A run as a data set on the hub: a card with its score and its command, the results, the dialogues, their pictures."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from render_agent.analysis.export.chat_messages import message_lines
from render_agent.analysis.export.result_rows import COLUMNS_OF_QUESTIONS, question_rows, write_csv
from render_agent.analysis.export.selection import SelectedRun
from render_agent.config import OPTIONS
from render_agent.config.paths import public_options
from render_agent.errors import SetupError
from render_agent.runs.log.reader import results_of
from render_agent.system.contained_paths import picture_path
from render_agent.system.whole_files import json_bytes
from render_agent.text.reasons import LONGEST_REASON, shortened
from render_agent.text.redact import public, without_keys

DISPLAY = ("log_to", "json", "quiet", "verbose")
"""Options that say only what is told of a run: the command on its card does without them."""


def stage(run: SelectedRun, to: Path, *, pictures: bool = True) -> None:
    """Write the files of a run's data set into a folder: nothing in them names a key or a place on this machine.

    pictures: whether those that turns name are copied. RunLogError where one would lie outside the run; OSError
    where one is gone or the folder cannot be written.
    """
    results = results_of(run.folder, states=run.states)
    options = public_options(run.config.to_json())
    about = {"run": run.name, "model": run.model, "program": run.folder.record["program"], "commit": run.folder.record["commit"], "fingerprint": run.folder.record["fingerprint"], "options": options}  # fmt: skip
    (to / "config.json").write_bytes(json_bytes(public(about)))
    (to / "results.json").write_bytes(json_bytes(public(results)))
    write_csv(to / "questions.csv", COLUMNS_OF_QUESTIONS, map(public, question_rows(run, {})))
    with (to / "dialogues.jsonl").open("w", encoding="utf-8", errors="backslashreplace") as file:
        for line in message_lines([run], run.folder.path, truth=True):
            file.write(json.dumps(public(line), ensure_ascii=False) + "\n")
    drawn = {file for state in run.states for turn in state.turns for file in turn.drawn}
    for name in sorted(drawn) if pictures else ():
        target = to / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture_path(run.folder.path, name), target)
    (to / "README.md").write_text(public(card(run, results)), "utf-8")


def push(folder: Path, repo: str, *, public: bool) -> str:
    """Upload a staged folder as a data set and return its address; what it had of these files is replaced.

    public: whether a new data set may be seen by everybody. SetupError where the hub does not take it.
    """
    from huggingface_hub import HfApi, errors

    api = HfApi()
    try:
        made = api.create_repo(repo, repo_type="dataset", private=not public, exist_ok=True)
        api.upload_folder(
            repo_id=made.repo_id,
            repo_type="dataset",
            folder_path=folder,
            commit_message="Add a run of render_agent",
            delete_patterns=["views/**"],
        )
    except (errors.HfHubHTTPError, errors.HFValidationError) as error:
        raise SetupError(
            f"the hub does not take {repo}: {_reason(error)}; a token that may write is set by HF_TOKEN or hf auth login"
        ) from error
    # The root of its client's errors, whichever client this version of the library uses.
    except (OSError, errors.HTTPError) as error:  # type: ignore[attr-defined]
        raise SetupError(f"{repo} could not be sent to the hub: {_reason(error)}; try again when it can be reached") from error  # fmt: skip
    return str(made)


def _reason(error: Exception) -> str:
    words = re.sub(r"\[Errno -?\d+\] ", "", " ".join(str(error).split())).rstrip(".")
    return shortened(without_keys(words), LONGEST_REASON)


def card(run: SelectedRun, results: Mapping[str, Any]) -> str:
    """Return the card of a run's data set, as Markdown with the hub's head."""
    score, n = results["official_over_scored"]["score"], results["official_over_scored"]["n"]
    interval = results["intervals"].get("official")
    spread = f" (95 % interval {interval[0]:.1f} to {interval[1]:.1f})" if interval else ""
    rows = [f"| {name} | {entry['score']:.1f} | {entry['n']} |" for name, entry in results["types"].items() if entry["score"] is not None]  # fmt: skip
    stamp = (
        ""
        if results["status"] == "complete"
        else "**PARTIAL**: this is not the score of the whole benchmark.\n\n"
    )
    notes = "".join(f"- {note}\n" for note in results["notes"])
    head = "configs:\n- config_name: questions\n  data_files: questions.csv\n- config_name: dialogues\n  data_files: dialogues.jsonl\ntags:\n- render_agent\n- spatial-reasoning\n"
    return (
        f"---\n{head}---\n\n# {run.model} explores 3D scans\n\n{stamp}"
        f"Official score: **{'none' if score is None else f'{score:.1f}'}** over {n} questions{spread}.\n\n{notes}\n"
        "| type | score | questions |\n|---|---|---|\n" + "\n".join(rows) + "\n\n"
        f"Made by render_agent {run.folder.record['program']} with\n\n```\n{command(run)}\n```\n\n"
        "`questions.csv` has a row a question, `dialogues.jsonl` what was said, `views/` the pictures that were shown,\n"
        "`config.json` all options, `results.json` every figure. The scans belong to their owners and are not here.\n"
    )


def command(run: SelectedRun) -> str:
    """Return the command line of the same run, without defaults, and with paths cut to their last part."""
    words = ["render-agent"]
    for name, value in public_options(run.config.to_json()).items():
        default: Any = OPTIONS[name].default
        several = isinstance(default, tuple)
        if value == (list(default) if several else default) or name in DISPLAY:
            continue
        flag = f"--{name.replace('_', '-')}"
        separator = OPTIONS[name].metadata.get("separator")
        if isinstance(default, bool):
            words.append(flag)
        elif several and separator is None:
            words += [word for part in value for word in (flag, str(part))]
        else:
            words += [flag, (separator or "").join(map(str, value)) if several else str(value)]
    return shlex.join(words)
