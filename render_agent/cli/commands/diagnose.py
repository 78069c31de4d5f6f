"""`diagnose`: explain low scores."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from render_agent.cli.shared_options import AS_JSON, RUN, RUNS_FOLDER, option


@click.command("diagnose", panel="Inspect runs")
@RUN
@RUNS_FOLDER
@option(
    "--processes",
    type=click.IntRange(1),
    help="Processes that analyse scenes (default: one per core if worthwhile).",
)
@AS_JSON
def diagnose_command(run: str, output: Path, processes: int | None, as_json: bool) -> None:
    """Explain why answers of RUN score below 50 %.

    Tells apart objects never seen, objects seen but misjudged, and missing answers. Object boxes come from official
    annotations or the ground truth of the bundled rooms. RUN is recent, a name or a path.

    \b
    Examples:
      render-agent diagnose recent
      render-agent diagnose recent --json
    """

    from render_agent.report.diagnosis.diagnose import diagnose_run
    from render_agent.report.diagnosis.summary import cause_table, summarize_diagnoses
    from render_agent.report.sentences.causes import summary_sentences
    from render_agent.report.sentences.contrasts import contrast_sentences
    from render_agent.runs.read import find_run
    from render_agent.util.console import plain_console
    from render_agent.util.sanitize import printable_json

    folder = find_run(output, run)
    diagnoses = diagnose_run(folder, processes)
    figures = summarize_diagnoses(folder.states, diagnoses, folder.config.image_size)
    if as_json:
        notes = {"notes": folder.scene_notes} if folder.scene_notes else {}
        document = {"reading": " ".join(contrast_sentences(figures)), **figures, **notes}
        click.echo(printable_json(document))
        return
    console = plain_console()
    console.print(cause_table(figures))
    for line in summary_sentences(figures):
        console.print(line, soft_wrap=True)
