"""The `make-questions` command: questions about scans whose objects are known."""

from __future__ import annotations

from typing import Any

import rich_click as click

from render_agent.cli.shared_options import option, run_option
from render_agent.errors import UsageError
from render_agent.options import OPTIONS

BOX_OPTIONS = ("up", "unit", "boxes", "boxes_unit", "boxes_up")


@click.command(
    "make-questions", panel="Other", params=[run_option(OPTIONS[name]) for name in BOX_OPTIONS]
)
@click.argument("scans", nargs=-1, required=True, metavar="SCAN…")
@option("--to", "file", required=True, metavar="FILE", help="Question file, next to the scans.")
@option("--types", metavar="LIST", help="Only these question types, separated by commas.")
@option(
    "--per-type",
    type=click.IntRange(1),
    default=3,
    help="Maximum number of questions per room and type.",
)
@option(
    "--seed", type=click.IntRange(0), default=1, help="Seed; the same seed gives the same file."
)
def make_questions_command(
    scans: tuple[str, ...], file: str, types: str | None, per_type: int, seed: int, **options: Any
) -> None:
    """Write questions about scans from their boxes.

    They have the types of VSI-Bench. Boxes are read as for a run: from NAME.boxes.json next to a scan, or RoomPlan's
    NAME.json. Only questions with an unambiguous answer are written, with balanced answers.

    \b
    Examples:
      render-agent make-questions scans/*.ply --to scans/questions.jsonl
      render-agent --batch --benchmark scans/questions.jsonl --model MODEL
    """
    from collections import Counter
    from pathlib import Path

    from render_agent.options import RunConfig
    from render_agent.tasks.question_types import type_label, type_named
    from render_agent_lab.room_generator.questions.balanced import (
        balanced_questions,
        generated_types,
    )
    from render_agent_lab.room_generator.questions.draft import unused_labels
    from render_agent_lab.room_generator.questions.own_rooms import truth_of
    from render_agent_lab.room_generator.write import write_questions

    target = Path(file)
    for scan in scans:
        if Path(scan).parent.resolve() != target.parent.resolve():
            raise UsageError(f"--to {file} must be in the folder of the scan {scan}")
    if options["boxes"] is not None and len(scans) > 1:
        raise UsageError(
            "--boxes names the boxes of one scan. Put NAME.boxes.json next to each scan."
        )
    kinds = generated_types()
    if types is not None:
        names = [type_named(name.strip()) for name in types.split(",")]
        known = [kind.name for kind in kinds]
        if unknown := [name for name in names if name not in known]:
            raise UsageError(
                f"--types {unknown[0]} is not generated. Choose from {', '.join(known)}."
            )
        kinds = [kind for kind in kinds if kind.name in names]
    config = RunConfig(batch=True, **options)
    truths = [truth_of(Path(scan), config) for scan in scans]
    rows = balanced_questions(truths, seed, per_type, kinds)
    if not rows:
        raise UsageError("no question has an unambiguous answer. Add boxes of more objects.")
    numbers: Counter[tuple[str, str]] = Counter()
    for row in rows:
        key = row["scene_name"], row["question_type"]
        row |= {"id": f"{'-'.join(key)}-{numbers[key]}", "dataset": "own"}
        numbers[key] += 1
    write_questions(rows, target)
    for kind in kinds:
        empty = [truth.scene for truth in truths if not numbers[truth.scene, kind.name]]
        need = "a floor plan" if kind.needs == "room" else "objects with an unambiguous answer"
        missing = f"; none in {', '.join(empty)} (needs {need})" if empty else ""
        written = sum(row["question_type"] == kind.name for row in rows)
        click.echo(f"{type_label(kind.name)}: {written}{missing}", err=True)
    for truth in truths:
        for reason, labels in unused_labels(truth).items():
            click.echo(f"{truth.scene}: not asked about ({reason}): {', '.join(labels)}", err=True)
    click.echo(file)
