"""The prepared GPU session runs to its end on a CPU, and the start check finds every part that it breaks."""

import re

import pytest
from click.testing import CliRunner

from render_agent_lab.bench import gpu_session, gpu_start_check

SMALL = ["--device", "cpu", "--model", "small"]


def run(command, *arguments):
    return CliRunner().invoke(command.main, [*SMALL, *map(str, arguments)], catch_exceptions=False)


def results(page):
    """Return the cells of each row of a page's table by its first cell."""
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    return {first: cells for first, *cells in rows}


@pytest.mark.slow
def test_start_check_finds_each_broken_part(tmp_path):
    done = run(gpu_start_check, "--output", tmp_path / "page.md")
    assert done.exit_code == 0
    rows = results((tmp_path / "page.md").read_text())
    assert rows["nothing"][:2] == ["nothing", "yes"]
    assert rows["graph inputs"][0] == "absent", "there is no GPU"
    assert rows["pages between turns"][:2] == ["prefix reuse", "yes"]
    assert rows["positions"][:2] == ["pages", "yes"]
    assert rows["a weight (NaN)"][:2] == [gpu_start_check.REFUSED, "yes"]


@pytest.mark.slow
def test_part_that_is_not_found_is_a_failure(monkeypatch):
    sound = gpu_start_check.BREAKAGES["nothing"][0]
    monkeypatch.setattr(gpu_start_check, "BREAKAGES", {"positions": (sound, "pages")})
    assert run(gpu_start_check).exit_code == 1


@pytest.mark.slow
def test_session_runs_to_its_end(tmp_path):
    done = run(gpu_session, "--questions", 2, "--image-size", "64x48", "--output", tmp_path)
    assert done.exit_code == 0, done.output
    for *_, page in gpu_session.STEPS:
        text = (tmp_path / page).read_text()
        assert re.search(r"^render_agent \d+\.\d+\.\d+\.$", text, re.MULTILINE), (
            "nothing is skipped"
        )


def test_session_without_time_cuts_every_step_off():
    done = run(gpu_session, "--minutes", 0)
    assert done.exit_code == 1
    assert done.stdout.count(": cut off") == len(gpu_session.STEPS)
