"""Questions on a hub: fetched by name, found again without it; each refusal in one sentence.

The hub is a local server that answers as the real one does; what asks it is a process of its own,
because the hub's library reads its environment when it is imported.
"""

import hashlib
import json
import os
import subprocess
import sys

import pytest
from factories import TREE
from factories.hub import COMMIT, REFUSALS, Hub, refusal, serving

ROW = {"id": 1, "dataset": "scannet", "scene_name": "s", "question_type": "object_counting", "question": "?",
       "options": None, "ground_truth": "2"}  # fmt: skip
LOAD = """\
import sys
from render_agent.errors import SetupError
from render_agent.tasks.vsibench import load_vsibench
for name in sys.argv[1:] or [None]:
    try:
        print([question.id for question in load_vsibench(name)])
    except SetupError as error:
        print(error)
"""


class DataSets(Hub):
    """Two data sets, one of them without questions, and refusals for other names."""

    def found(self, parts):
        is_api = parts[0] == "api"
        parts = parts[1:] if is_api else parts
        name = "/".join(parts[1:3])
        if parts[0] != "datasets":
            return 404, {"X-Error-Code": "RepoNotFound"}, b""
        if name in REFUSALS:
            return refusal(name)
        if is_api:
            told = {"id": name, "sha": COMMIT, "siblings": []}
            return 200, {"Content-Type": "application/json"}, json.dumps(told).encode()
        if name == "team/empty" or parts[-1] != "test.jsonl":
            return 404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT}, b""
        body = json.dumps(ROW | {"id": "fetched"}).encode()
        tag = hashlib.sha256(body).hexdigest()
        return 200, {"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT}, body


@pytest.fixture(scope="module")
def hub():
    with serving(DataSets) as address:
        yield address


def load(home, hub, *arguments, offline=False):
    """Return what a process prints that knows this hub alone; it must say nothing else."""
    tree = str(TREE)
    environment = {
        **os.environ,
        "HF_HOME": str(home),
        "HF_ENDPOINT": hub,
        "HF_HUB_OFFLINE": str(int(offline)),
        "PYTHONPATH": os.pathsep.join([tree, os.environ.get("PYTHONPATH", "")]),
        "NO_PROXY": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOAD, *arguments],
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        pytest.param(("nyu-visionx/VSI-Bench",), marks=pytest.mark.slow),
        pytest.param(("team/copy",), marks=pytest.mark.slow),
    ],
)
def test_questions_are_fetched_and_found_again_without_the_hub(hub, tmp_path, arguments):
    assert load(tmp_path, hub, *arguments) == "['fetched']"
    assert load(tmp_path, hub, *arguments, offline=True) == "['fetched']"
    assert load(tmp_path, "http://127.0.0.1:9", *arguments) == "['fetched']"


REFUSED = {
    "gated": "gated",
    "unknown": "on the hub",
    "empty": "test.jsonl",
    "broken": "reached",
    "a--b": "neither",
}


def test_each_refusal_is_one_line_with_its_name_its_reason_and_the_way_out(hub, tmp_path):
    names = [f"team/{name}" for name in REFUSED]
    lines = load(tmp_path, hub, *names).splitlines()
    for told, name, reason in zip(lines, names, REFUSED.values(), strict=True):
        assert all(words in told for words in (name, reason, "--questions FILE"))


@pytest.mark.slow
def test_without_a_hub_the_way_out_is_named(tmp_path):
    for offline, why in ((False, "the hub cannot be reached"), (True, "HF_HUB_OFFLINE is set")):
        told = load(tmp_path, "http://127.0.0.1:9", offline=offline)
        assert all(words in told for words in ("nyu-visionx/VSI-Bench", why, "--benchmark rooms"))
        assert "\n" not in told
