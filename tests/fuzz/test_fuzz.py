"""What comes from outside is read or refused in a sentence, within the bounds, whatever it says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import mostly_slow
from fuzz_bounds import MOST_BYTES, MOST_MEMORY, MOST_SECONDS
from fuzz_child import Child
from fuzz_corpus import CORPUS, corpus
from fuzz_search import Search
from fuzz_targets import TARGETS
from fuzz_trying import Outcome

INPUTS = 4
"""New inputs of every target; what takes long has as many as fit into its share of the time."""

FEW_INPUTS = 1

TAKING_LONG = ("run ", "laz", "e57", "usd", "mtl")
"""Targets that read whole runs or meshes, or a process an input, begin so."""

SLOW = ("columns", "e57", "glb", "http", "laz", "obj", "pcd", "run ", "usd")
"""Of those, what `make test-all` alone tries: each takes seconds until its first input."""

MANY = 1500
"""The same where it may take long."""


@pytest.fixture(scope="module")
def child():
    """One process that tries inputs."""
    made = Child()
    yield made
    made.close()


def told(found):
    """Return every failure with the smallest input that has it."""
    return {fault: (each.data, each.told) for fault, each in found.failures.items()}


def searched(child, name, seed, inputs):
    """Search a target from its valid inputs and its corpus; return what was found."""
    search = Search(TARGETS[name], seed, corpus(name), child.tried)
    for _ in range(inputs):
        search.step()
    return search


@pytest.mark.parametrize(
    "name", mostly_slow(TARGETS, *(n for n in TARGETS if not n.startswith(SLOW)))
)
def test_every_input_is_read_or_refused_in_a_sentence(child, name):
    search = searched(child, name, 0, FEW_INPUTS if name.startswith(TAKING_LONG) else INPUTS)
    assert told(search.found) == {}
    assert search.found.memory <= MOST_MEMORY
    assert search.found.slowest <= MOST_SECONDS
    assert search.found.taken  # what it begins with is valid


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_thousands_of_inputs_are_read_or_refused_in_a_sentence(child, name):
    search = searched(child, name, 1, MANY // 10 if name.startswith(TAKING_LONG) else MANY)
    assert told(search.found) == {}


def test_the_corpus_is_small_and_belongs_to_targets():
    files = [file for file in CORPUS.rglob("*") if file.is_file()]
    assert files
    assert {file.parent.name for file in files} <= {name.replace(" ", "-") for name in TARGETS}
    assert max(file.stat().st_size for file in files) <= MOST_BYTES
    assert sum(file.stat().st_size for file in files) < 200_000


class Made:
    """Stands for a process: every input that holds a word fails, and others reach a line a byte."""

    def __init__(self):
        self.tried = []

    def __call__(self, name, data):
        self.tried.append(data)
        new = tuple(("made.py", byte) for byte in sorted(set(data)))
        fault = "ValueError in made.py:read" if b"chair" in data else ""
        return Outcome("failed" if fault else "taken", fault, "told", new, 0.0, 0)


def test_a_failure_is_found_once_and_made_small():
    made = Made()
    search = Search(TARGETS["questions.jsonl"], 0, [], made)
    for _ in range(50):
        search.step()
    [(fault, failure)] = search.found.failures.items()
    assert fault == "ValueError in made.py:read"
    assert b"chair" in failure.data
    assert len(failure.data) < 100
    assert failure.count > 10
    assert search.found.lines == {("made.py", byte) for data in made.tried for byte in data}


def test_the_same_seed_gives_the_same_inputs():
    runs = []
    for seed in (5, 5, 6):
        made = Made()
        search = Search(TARGETS["reply"], seed, [], made)
        for _ in range(40):
            search.step()
        runs.append(made.tried)
    assert runs[0] == runs[1] != runs[2]


FAULTS = """
import sys
sys.path[:0] = {path!r}
import fuzz_bounds
fuzz_bounds.MOST_SECONDS = 0.5
import fuzz_targets, fuzz_trying
from fuzz_targets import Target

def read(data, folder):
    if data == b"raises":
        raise KeyError(data)
    if data == b"endless":
        while True:
            pass
    if data == b"memory":
        bytearray(1 << 30)
    if data == b"swallowed":
        from render_agent.errors import SceneError
        try:
            bytearray(1 << 40)
        except MemoryError:
            raise SceneError("it is too large") from None

fuzz_targets.TARGETS["made"] = Target("made", "text", lambda: (b"",), read)
trying = fuzz_trying.Trying()
for data in (b"fine", b"raises", b"endless", b"memory", b"swallowed"):
    sys.stdout.write(trying.tried("made", data).fault + "\\n")
trying.close()
"""


@pytest.mark.slow
def test_what_is_looked_for_is_seen():
    """Errors, endless loops, and memory, also where it is asked for and the refusal hidden."""
    here = Path(__file__).parent
    path = [str(folder) for folder in (here, here.parent, here.parents[1])]
    done = subprocess.run(
        [sys.executable, "-c", FAULTS.format(path=path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "",
        "KeyError in <string>:read",
        "TooLong in fuzz_trying.py:stop",
        "MemoryError in <string>:read",
        "memory in <string>:read",
    ]


@pytest.mark.slow
def test_the_command_writes_what_it_found(tmp_path):
    campaign = Path(__file__).with_name("fuzz_campaign.py")
    output = tmp_path / "found.json"
    words = ["--inputs", "20", "--target", "ids", "--target", "replies.json", "--output", output]
    done = subprocess.run(
        [sys.executable, str(campaign), *map(str, words)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(output.read_text())
    assert [*found["targets"]] == ["ids", "replies.json"]
    assert found["tried"] == 40
    assert found["failures"] == 0
    assert found["bounds"]["most_bytes"] == MOST_BYTES
