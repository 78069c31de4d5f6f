"""`doctor`: say what this machine can do."""

from __future__ import annotations

import rich_click as click

from render_agent.cli.options import AS_JSON, option


@click.command("doctor", panel="Other")
@AS_JSON
@option(
    "--probe",
    "probe_models",
    is_flag=True,
    help="Let the bundled model answer, and --model if it is on this machine.",
)
@click.pass_context
def doctor_command(context: click.Context, /, as_json: bool, probe_models: bool) -> None:
    """Say what this machine can do: renderers, engines, memory, data, and what to install.

    Exit code 1 if no run is possible.

    \b
    Examples:
      render-agent doctor
      render-agent doctor --probe
    """
    from render_agent.cli.commands.doctor.examine import examine

    context.exit(examine(context.obj, as_json=as_json, probe=probe_models))
