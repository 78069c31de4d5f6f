"""A run that is killed with -9, anywhere, continues to the transcripts of an undisturbed one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from factories.runs import choices, outcome, pictures, transcripts

from render_agent.run.log.folder import RunFolder

LINES = sum(number % 4 + 2 for number in range(5))

CHOOSING = ("lines,6,lookahead:3", "pictures,10,lookahead:3:2", "moments,10,show:3")

LOOPS = (f"lines,{LINES},single", "moments,30,single", *CHOOSING)


@pytest.fixture(scope="module")
def loops(tmp_path_factory):
    script, folder = Path(__file__).with_name("kill_loop.py"), tmp_path_factory.mktemp("runs")
    command = [sys.executable, script, folder, "7", *LOOPS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", LOOPS)
def test_killed_and_continued_equals_undisturbed(loops, name):
    whole = Path(loops[name]["whole"])
    count = len(RunFolder(whole).lines())
    assert loops[name]["killed"]
    for runs in loops[name]["killed"]:
        (path,) = map(Path, runs)
        assert transcripts(path) == transcripts(whole)
        assert choices(path) == choices(whole)
        assert outcome(path) == outcome(whole)
        assert pictures(path) == pictures(whole)
        numbers = [(line["question_id"], line["turn"]) for line in RunFolder(path).lines()]
        assert len(numbers) == len(set(numbers)) == count
    if name in CHOOSING:
        assert any("candidate" in file for file in pictures(whole))
    else:
        assert count == LINES
