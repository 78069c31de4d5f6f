"""Questions from the hub: downloaded by name, cached, and reported in one sentence on errors.

The hub is a local server with the responses of the real one. Questions are loaded in a subprocess, because
huggingface_hub reads its environment variables at import.
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
    """Two data sets, one of them without questions, and error responses for other names."""

    def respond(self, parts):
        is_api = parts[0] == "api"
        parts = parts[1:] if is_api else parts
        name = "/".join(parts[1:3])
        if parts[0] != "datasets":
            return 404, {"X-Error-Code": "RepoNotFound"}, b""
        if name in REFUSALS:
            return refusal(name)
        if is_api:
            info = {"id": name, "sha": COMMIT, "siblings": []}
            return 200, {"Content-Type": "application/json"}, json.dumps(info).encode()
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
    """Load questions in a subprocess that uses this hub, and return its output; stderr must be empty."""
    tree = str(TREE)
    environment = {
        **os.environ,
        "HF_HOME": str(home),
        "HF_ENDPOINT": hub,
        "HF_HUB_OFFLINE": str(int(offline)),
        "PYTHONPATH": os.pathsep.join([tree, os.environ.get("PYTHONPATH", "")]),
        "NO_PROXY": "127.0.0.1",
    }
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOAD, *arguments],
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.strip()


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        pytest.param(("nyu-visionx/VSI-Bench",), marks=pytest.mark.slow),
        pytest.param(("team/copy",), marks=pytest.mark.slow),
    ],
)
def test_questions_are_downloaded_and_cached(hub, tmp_path, arguments):
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


def test_hub_errors_are_one_line_with_name_reason_and_remedy(hub, tmp_path):
    names = [f"team/{name}" for name in REFUSED]
    lines = load(tmp_path, hub, *names).splitlines()
    for line, name, reason in zip(lines, names, REFUSED.values(), strict=True):
        assert all(part in line for part in (name, reason, "--questions"))


@pytest.mark.slow
def test_missing_hub_error_names_alternatives(tmp_path):
    for offline, reason in ((False, "hub"), (True, "HF_HUB_OFFLINE")):
        message = load(tmp_path, "http://127.0.0.1:9", offline=offline)
        assert all(p in message for p in ("nyu-visionx/VSI-Bench", reason, "--benchmark rooms"))
        assert "\n" not in message
