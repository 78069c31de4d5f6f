"""`--dry-run`: show what a run, or resuming one, would do."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from render_agent.dialogue.chat import Message
from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState, Status
from render_agent.options import RunConfig
from render_agent.report.sentences.facts import cost_fact, facts_line, uncounted_judges
from render_agent.runs.build import Parts, build, describe_choosing, make_views
from render_agent.runs.cost.budget import price_of
from render_agent.runs.cost.run_estimate import cost_bound, describe_estimate, estimate
from render_agent.runs.log.caveats import question_notes
from render_agent.runs.preflight import check_choices, count_images, disk_needed
from render_agent.runs.progress import remaining_turns
from render_agent.runs.read import find_run
from render_agent.runs.runner import preview_resume
from render_agent.score.tables import dollars
from render_agent.tasks.scan_folders import missing_scans, missing_text
from render_agent.util.console import plain_console
from render_agent.util.display import count_noun, format_bytes, format_duration
from render_agent.util.safe_parse import to_plain
from render_agent.util.sanitize import printable_json
from render_agent.views.free_views import FreeViews
from render_agent.views.image_store import ImageStore


def dry_run(config: RunConfig) -> int:
    """Print the questions, cost and first prompt of a run without running it or loading a model."""
    config = config.absolute()
    parts = build(config)
    parts = replace(parts, price=price_of(config, parts.model_name))
    questions = replace(parts, config=replace(config, allow_missing=True)).questions()
    check_choices(parts, questions, at_hand=False)
    with _image_folder() as folder:
        messages, bytes_per_pixel, seconds_per_view = _render_opening(parts, questions, folder)
    types = Counter(question.type for question in questions)
    missing = {} if parts.blind else missing_scans(questions)
    num_missing = sum(sum(scenes.values()) for scenes in missing.values())
    needed = disk_needed(parts, questions, bytes_per_pixel)
    num_images = count_images(parts, questions)
    rendering_seconds = seconds_per_view * num_images
    cost = estimate(parts, len(questions) - num_missing, messages)
    bound = cost_bound(parts, cost)
    discounted = cost_bound(parts, cost, has_batch_api=True)
    chosen = describe_choosing(parts, questions)
    notes = question_notes(config, questions, blind=parts.blind)
    notes += filter(None, [chosen["note"]])
    if config.json:
        summary = {
            "questions": len(questions),
            "types": types,
            "missing": num_missing,
            "missing_scenes": {dataset: [*scenes] for dataset, scenes in missing.items()},
            "notes": notes,
            "choosing": chosen,
            "pictures_at_most": num_images,
            "messages": messages,
            "pictures": str(folder),
            "disk_bytes": needed,
            "drawing_seconds": rendering_seconds,
            "estimate": asdict(cost),
            "price": to_plain(parts.price),
            "cost_usd_at_most": bound,
            "cost_usd_at_most_with_batch_api": discounted,
        }
        click.echo(printable_json(summary))
        return 0
    console = plain_console()
    for message in messages:
        console.rule(message["role"], align="left")
        for piece in message["content"]:
            words = piece.get("text") or f"[image {folder / piece['image']}]"
            console.print(words, soft_wrap=True)
    console.rule("run", align="left")
    scenes = len({question.scene for question in questions})
    scan = "all with scans" if not num_missing else f"{num_missing} without a scan"
    console.print(
        f"{count_noun(len(questions), 'question')} about {count_noun(scenes, 'scene')}, {scan}"
    )
    if num_missing:
        console.print(f"  {missing_text(questions, max_named=None)}", soft_wrap=True)
    for note in notes:
        console.print(f"  {note}", soft_wrap=True)
    for name, count in sorted(types.items()):
        console.print(f"  {name}: {count}")
    if parts.agent.chooses:
        console.print(f"  {_agent_words(chosen)}", soft_wrap=True)
    console.print(
        f"at most {count_noun(num_images, 'image')}, {format_bytes(needed)} on disk and {format_duration(rendering_seconds)} of rendering (if every"
        f" question takes {count_noun(config.max_turns, 'turn')}), plus the model's time",
        soft_wrap=True,
    )
    if parts.engine.uses_model:
        console.print(describe_estimate(cost), soft_wrap=True)
    if bound is not None and discounted is not None and parts.price is not None:
        is_less = discounted < bound
        batch = f", or {dollars(discounted)} if the server has a batch API" if is_less else ""
        console.print(
            f"cost at most {dollars(bound)}{batch}{uncounted_judges(parts)}, with nothing read from a cache; prices:"
            f" {parts.price.describe()}",
            soft_wrap=True,
        )
    elif fact := cost_fact(parts, {}):
        console.print(facts_line(fact), soft_wrap=True)
    return 0


DRY_RUN = "render-agent-dry-run-"  # prefix of temporary folders

KEPT_SECONDS = 3600.0  # age at which a later dry run deletes the images of an earlier one


@contextmanager
def _image_folder() -> Iterator[Path]:
    """Yield a new temporary folder, which is deleted on failure."""
    for earlier_folder in Path(tempfile.gettempdir()).glob(f"{DRY_RUN}*"):
        with suppress(OSError):
            status = earlier_folder.lstat()
            if status.st_uid == os.getuid() and time.time() - status.st_mtime > KEPT_SECONDS:
                shutil.rmtree(earlier_folder)
    folder = Path(tempfile.mkdtemp(prefix=DRY_RUN))
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _render_opening(
    parts: Parts, questions: Sequence[Question], folder: Path
) -> tuple[list[Message], float, float]:
    """Render the first views of a run into `folder`. Return its first prompt, the mean bytes per pixel of the images, and
    the seconds per further view.
    """
    scenes, images = parts.scenes(questions), ImageStore(folder)
    question = next((question for question in questions if question.scan is not None), questions[0])
    views = make_views(parts, scenes, images, [question])
    observation = views.observe(parts.state(question, scenes))
    start = time.perf_counter()
    if isinstance(views, FreeViews):
        views.viewer.ego(scenes.get(question), observation.camera)
    seconds = time.perf_counter() - start
    views.close()
    images.close()
    width, height = parts.config.image_size
    num_bytes = sum((folder / view.file).stat().st_size for view in observation.views)
    num_pixels = len(observation.views) * width * height
    messages = parts.prompt.opening(question, observation.views, observation.camera)
    return messages, num_bytes / max(num_pixels, 1), seconds


def _agent_words(chosen: Mapping[str, Any]) -> str:
    """Describe how moves are chosen."""
    replies = f"{chosen['samples']} replies per turn"
    if chosen["groups"] > 1:
        replies += f" to each of {chosen['groups']} wordings"
    names = ", ".join(entry["name"] for entry in chosen["verifiers"])
    return f"agent {chosen['agent']}: {replies}{f', scored by {names}' if names else ''}"


def dry_continue(output: Path, name: str, changes: Mapping[str, Any]) -> int:
    """Check that a run can be resumed and print what that would do, without writing anything or loading a model."""
    folder = find_run(output, name)
    parts, questions = preview_resume(folder, changes)
    config = parts.config
    states = folder.dialogues if folder.has_questions else []
    failed = sum(state.status is Status.FAILED for state in states)
    unfinished = failed + sum(state.active for state in states)
    unfinished += len(questions) - len(states)  # all of them if none was selected before
    turns = sum(len(state.turns) for state in states)
    spent = folder.parts.billing.total(states)
    further = _further_cost(states, spent)
    if config.json:
        counts = {
            "questions": len(questions),
            "active": unfinished,
            "failed": failed,
            "turns": turns,
        }
        costs = {"cost_usd": spent, "further_cost_usd": further}
        click.echo(printable_json({"run": str(folder.path), **counts, **costs}))
        return 0
    console = plain_console()
    if not folder.has_questions:
        console.print(
            f"{folder.name} has no questions yet; it would choose {count_noun(len(questions), 'question')} first"
        )
    elif folder.finished and not unfinished:
        console.print(f"{folder.name} is complete. Nothing to resume.")
    else:
        console.print(
            f"{folder.name} has {count_noun(turns, 'turn')} of {count_noun(len(states), 'question')}. It would resume {unfinished} of them"
            + (f", {failed} of them failed" if failed else ""),
            soft_wrap=True,
        )
        if spent is not None and further is not None:
            console.print(
                f"cost so far {dollars(spent)} in {count_noun(turns, 'turn')}; about {dollars(further)} more at the same"
                " mean cost per turn and number of turns per question",
                soft_wrap=True,
            )
    return 0


def _further_cost(states: Sequence[QuestionState], spent: float | None) -> float | None:
    """Project the cost of the unfinished questions, failed ones included, from the turns so far; None if unknown."""
    turns = sum(len(state.turns) for state in states)
    retried = [replace(state, error=None) for state in states]
    return None if spent is None or not turns else remaining_turns(retried) * spent / turns
