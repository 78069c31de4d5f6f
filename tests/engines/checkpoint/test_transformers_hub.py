"""A model on a hub: fetched, kept, found again without the hub; each refusal in one sentence.

The hub is a local server that answers as the real one does; the programs that ask it are processes
of their own, because the hub's library reads its environment when it is imported.
"""

import hashlib
import json
import os
import subprocess
import sys

import pytest
from factories import TREE
from factories.hub import COMMIT, REFUSALS, Hub, refusal, serving
from factories.models import small_model

FIND = """\
import json, sys
from render_agent.engines.checkpoint.locate import describe_model
from render_agent.errors import SetupError
for given in sys.argv[1:]:
    try:
        print(json.dumps(describe_model(*given.split())))
    except SetupError as error:
        print(error)
"""
"""Names of models, each with a revision or none."""

ASK = """\
import json, sys
from render_agent.dialogue import chat
from render_agent.engines.engine import Request
from render_agent.engines.transformers.generate_engine import TransformersEngine
from render_agent.engines.transformers.model.load import open_model
engine = TransformersEngine(open_model(sys.argv[1], device="cpu"))
message = chat.message("user", chat.text("Where is the chair?"))
reply = engine.generate([Request("q", 0, [message], None, max_new_tokens=8)])[0]
print(json.dumps([engine.describe()["revision"], reply.text, reply.error]))
"""


class Models(Hub):
    """Two models, one of them without weights, and refusals for other names."""

    def found(self, parts):
        is_api = parts[:2] == ["api", "models"]
        name = "/".join(parts[2:4] if is_api else parts[:2])
        if name in REFUSALS:
            return refusal(name)
        rest = parts[4:] if is_api else parts[2:]
        if not is_api and len(rest) < 3:
            return 404, {"X-Error-Code": "EntryNotFound"}, b""
        if len(rest) > 1 and rest[1] not in ("main", COMMIT):
            return 404, {"X-Error-Code": "RevisionNotFound"}, b""
        files = {file.name: file for file in small_model().iterdir()}
        if name == "team/no-weights":
            del files["model.safetensors"]
        if rest[:1] == ["tree"]:
            entries = [
                {"type": "file", "path": name, "size": file.stat().st_size, "oid": "0" * 40}
                for name, file in files.items()
            ]
            return 200, {"Content-Type": "application/json"}, json.dumps(entries).encode()
        if is_api:
            listed = [{"rfilename": file} for file in files]
            told = {"id": name, "modelId": name, "sha": COMMIT, "siblings": listed}
            return 200, {"Content-Type": "application/json"}, json.dumps(told).encode()
        if rest[0] != "resolve" or rest[-1] not in files:
            return 404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT}, b""
        body = files[rest[-1]].read_bytes()
        tag = hashlib.sha256(body).hexdigest()
        return 200, {"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT}, body


@pytest.fixture(scope="module")
def hub():
    small_model()
    with serving(Models) as address:
        yield address


def run(program, home, hub, *arguments, offline=False):
    """Return what a process prints that knows this hub alone; it must say nothing else."""
    environment = {
        **os.environ,
        "HF_HOME": str(home),
        "HF_ENDPOINT": hub,
        "HF_HUB_OFFLINE": str(int(offline)),
        "PYTHONPATH": os.pathsep.join([str(TREE), os.environ.get("PYTHONPATH", "")]),
        "NO_PROXY": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_a_model_is_asked_about_without_its_weights(hub, tmp_path):
    described = json.loads(run(FIND, tmp_path, hub, "team/small"))
    assert described["revision"] == COMMIT
    assert described["weights"] is None
    partly = run(FIND, tmp_path, hub, "team/small", offline=True)
    assert "holds no weights" in partly


@pytest.mark.slow
def test_a_model_that_was_fetched_answers_and_is_found_again_without_the_hub(hub, tmp_path):
    described = json.loads(run(FIND, tmp_path, hub, "team/small"))
    online = json.loads(run(ASK, tmp_path, hub, "team/small"))
    assert online[0] == COMMIT
    assert online[1]
    assert online[2] is None
    assert json.loads(run(FIND, tmp_path, hub, "team/small", offline=True)) == described
    away = "http://127.0.0.1:9"
    assert json.loads(run(FIND, tmp_path, away, "team/small"))["revision"] == COMMIT


REFUSED = [
    "team/gated",
    "team/unknown",
    "team/small v9",
    "team/no-weights",
    "team/broken",
    "team/a--b",
]


def test_a_refusal_names_the_model_and_the_way_out(hub, tmp_path):
    lines = run(FIND, tmp_path, hub, *REFUSED).splitlines()
    for told, given in zip(lines, REFUSED, strict=True):
        assert all(part in told for part in given.split())
        assert "--engine scripted" in told


def test_a_hub_out_of_reach_is_said_at_once(tmp_path):
    told = run(FIND, tmp_path, "http://127.0.0.1:9", "team/small")
    assert "team/small" in told
    assert "hub" in told
