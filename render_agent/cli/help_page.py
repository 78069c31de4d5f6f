"""The pages of --help: options and commands under headings, then exit codes, environment and files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from render_agent import registry
from render_agent.config import OPTIONS

HEADINGS = {
    "questions": "Which questions",
    "engine": "What answers",
    "dialogue": "What is shown, and how the dialogue goes",
    "choosing": "Choosing among several moves",
    "speed": "Speed",
    "place": "Places",
    "display": "What is printed",
}
"""The heading of each group of options of a run, in order."""

OTHERS = "Other options"

OTHER_COMMANDS = "Other commands"

COMMANDS = {
    "Commands that look at runs": (
        "ls",
        "show",
        "report",
        "bundle",
        "view",
        "diagnose",
        "compare",
        "power",
    ),
    "Commands that go on from runs": (
        "rescore",
        "merge",
        "export",
        "sweep",
        "train-verifier",
    ),
    OTHER_COMMANDS: (
        "doctor",
        "play",
        "score",
        "judge",
        "llm-match",
        "audit",
        "make-rooms",
        "bench",
        "completion",
    ),
}
"""The commands by heading."""

EXIT_CODES = (
    ("0", "Complete."),
    (
        "1",
        "A question failed, or the set-up or the engine did; judge: a picture has no score; doctor: no run"
        " is possible.",
    ),
    ("2", "The command line contradicts itself."),
    ("130", "Interrupted (Ctrl-C); the line that continues the run was printed."),
    ("143", "Ended by SIGTERM; the same."),
)

ENVIRONMENT = (
    (
        "RENDER_AGENT_…",
        "Any option: RENDER_AGENT_MAX_TURNS=6 is --max-turns 6; one that may be given more than once has"
        " semicolons between its values. A flag beats it; it beats --config.",
    ),
    (
        "RENDER_AGENT_API_KEY, OPENAI_API_KEY",
        "The key of the server of --engine openai; it is written nowhere.",
    ),
    ("OPENAI_BASE_URL", "The address of that server, where none is given."),
    ("HF_HUB_OFFLINE", "1 keeps the program off the network."),
    ("HF_HOME", "Where models and questions of the hub are kept (~/.cache/huggingface)."),
    ("NUMBA_CACHE_DIR", "Where compiled kernels are kept (~/.cache/render_agent)."),
    (
        "RENDER_AGENT_SCAN_CACHE",
        "Where runs and reports keep what reports need of scans, at most 2 GiB (~/.cache/render_agent/scans); empty: nowhere, and runs make none of it.",
    ),
    ("NO_COLOR", "Anything: no colours."),
)

FILES = (
    (
        "experiment_logs/NAME/",
        "A run: config.json, questions.jsonl, turns.jsonl, views/, results.json, results.csv, run.log and"
        " report/.",
    ),
    ("FILE.yaml", "Options for --config, one a line, such as max_turns: 6."),
    ("test.jsonl", "VSI-Bench's questions, where --questions is not given."),
)

USES = (
    ("render-agent --batch --benchmark rooms --model small", "run a benchmark"),
    ('render-agent --ply SCAN.ply --question "How many chairs?"', "ask one question of one scan"),
    ("render-agent --continue recent", "go on with a run that was cut off"),
)
"""The three uses."""

Rows = Sequence[tuple[str, str]]


def write_options(
    context: click.Context, formatter: click.HelpFormatter, parameters: Iterable[click.Parameter]
) -> None:
    """Write options under the headings of their groups, in the order in which they are declared."""
    by_heading: dict[str, list[tuple[str, str]]] = {
        name: [] for name in (*HEADINGS.values(), OTHERS)
    }
    for parameter in parameters:
        row = parameter.get_help_record(context)
        if row is None or isinstance(parameter, click.Argument):
            continue
        entry = OPTIONS.get(parameter.name or "")
        by_heading[OTHERS if entry is None else HEADINGS[entry.metadata["group"]]].append(row)
    for heading, rows in by_heading.items():
        _write(formatter, heading, rows)


def overview(context: click.Context) -> str:
    """Return the page for a call without arguments: the three uses, the commands, and where to read on."""
    formatter = context.make_formatter()
    formatter.write_text((context.command.help or "").partition("\n")[0])
    with formatter.section("Three uses"):
        formatter.write_dl(USES)
    for heading, listed in COMMANDS.items():
        with formatter.section(heading):
            formatter.write_text(", ".join(listed))
    formatter.write_paragraph()
    formatter.write_text(
        "render-agent --help has all options, render-agent COMMAND --help those of a command,"
        " render-agent doctor says what works on this machine."
    )
    return formatter.getvalue().rstrip()


def write_commands(formatter: click.HelpFormatter, names: Sequence[str]) -> None:
    """Write what commands do, in a sentence each, under headings; none is imported.

    Those of packages stand under the last heading.
    """
    placed = {name for listed in COMMANDS.values() for name in listed}
    others = [name for name in names if name not in placed]
    for heading, listed in COMMANDS.items():
        listed_here = [name for name in listed if name in names]
        rows = listed_here if heading != OTHER_COMMANDS else [*listed_here, *others]
        _write(formatter, heading, [(name, registry.summary("command", name)) for name in rows])


def write_rest(formatter: click.HelpFormatter) -> None:
    """Write what stands below the options and commands."""
    _write(formatter, "Exit codes", EXIT_CODES)
    _write(formatter, "Environment", ENVIRONMENT)
    _write(formatter, "Files", FILES)


class RunPage(click.Command):
    """A command that takes options of a run; its help has them under headings."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under headings."""
        write_options(ctx, formatter, self.get_params(ctx))


class GroupPage(click.Group):
    """A command with commands of its own; its help tells what they do in whole sentences."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands below the options."""
        rows = [
            (name, registry.first_sentence(command.help or ""))
            for name, command in sorted(self.commands.items())
        ]
        _write(formatter, "Commands", rows)


def _write(formatter: click.HelpFormatter, heading: str, rows: Rows) -> None:
    if rows:
        with formatter.section(heading):
            formatter.write_dl(rows)
