"""Small sweeps: their files, and the command that runs them."""

import yaml
from click.testing import CliRunner

from factories.runs import make_questions
from render_agent.cli.main import cli


def write_sweep(folder, *, count=4, options=None, **keys):
    """Write a sweep file over a number of small questions; return its path."""
    defaults = {
        "benchmark": str(make_questions(folder, count)),
        "engine": "scripted",
        "image_size": "96x72",
        "max_turns": 3,
    }
    file = folder / "sweep.yaml"
    content = {"name": "small", "options": defaults | (options or {}), **keys}
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file


def sweep(*arguments, code=0):
    """Run `render-agent sweep`; return its standard output."""
    result = CliRunner().invoke(cli, ["sweep", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.stdout
