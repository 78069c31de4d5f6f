"""Models on the hub: downloading, the local cache, and errors.

The hub is a local server that imitates the real one. Its clients run in subprocesses, because huggingface_hub reads the
environment when it is imported.
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

# Prints the description of every model in argv ("name" or "name revision").
FIND = """\
import json, sys
from render_agent.engines.checkpoint.locate import describe_model
from render_agent.errors import SetupError
for name in sys.argv[1:]:
    try:
        print(json.dumps(describe_model(*name.split())))
    except SetupError as error:
        print(error)
"""

# Prints the reply and error of one request to the model in argv.
ASK = """\
import json, sys
from render_agent.dialogue import chat
from render_agent.engines.engine import Request
from render_agent.engines.transformers.generate_engine import TransformersEngine
from render_agent.engines.transformers.model.load import open_model
engine = TransformersEngine(open_model(sys.argv[1], device="cpu"))
message = chat.message("user", chat.text("Where is the chair?"))
reply = engine.generate([Request("q", 0, [message], None, max_new_tokens=8)])[0]
print(json.dumps([reply.text, reply.error]))
"""


class ModelHub(Hub):
    """Serves two models, one of them without weights, and errors for other names."""

    def respond(self, parts):
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
            info = {"id": name, "modelId": name, "sha": COMMIT, "siblings": listed}
            return 200, {"Content-Type": "application/json"}, json.dumps(info).encode()
        if rest[0] != "resolve" or rest[-1] not in files:
            return 404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT}, b""
        body = files[rest[-1]].read_bytes()
        tag = hashlib.sha256(body).hexdigest()
        return 200, {"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT}, body


@pytest.fixture(scope="module")
def hub():
    small_model()
    with serving(ModelHub) as address:
        yield address


def run(program, home, hub, *arguments, offline=False):
    """Run a program that can reach only this hub, and return its output; it must not print warnings."""
    environment = {
        **os.environ,
        "HF_HOME": str(home),
        "HF_ENDPOINT": hub,
        "HF_HUB_OFFLINE": str(int(offline)),
        "PYTHONPATH": os.pathsep.join([str(TREE), os.environ.get("PYTHONPATH", "")]),
        "NO_PROXY": "127.0.0.1",
    }
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.strip()


def test_describing_a_model_does_not_download_its_weights(hub, tmp_path):
    description = json.loads(run(FIND, tmp_path, hub, "team/small"))
    assert description["revision"] == COMMIT
    assert description["weights"] is None
    error = run(FIND, tmp_path, hub, "team/small", offline=True)
    assert "model.safetensors" in error


@pytest.mark.slow
def test_downloaded_model_answers_and_is_found_offline(hub, tmp_path):
    description = json.loads(run(FIND, tmp_path, hub, "team/small"))
    text, error = json.loads(run(ASK, tmp_path, hub, "team/small"))
    assert text
    assert error is None
    assert json.loads(run(FIND, tmp_path, hub, "team/small", offline=True)) == description
    unreachable = "http://127.0.0.1:9"
    assert json.loads(run(FIND, tmp_path, unreachable, "team/small"))["revision"] == COMMIT


def test_errors_name_the_model_and_a_remedy(hub, tmp_path):
    names = ("gated", "unknown", "small v9", "no-weights", "broken", "a--b")
    models = [f"team/{name}" for name in names]
    for error, model in zip(run(FIND, tmp_path, hub, *models).splitlines(), models, strict=True):
        assert all(part in error for part in model.split())
        assert "--engine scripted" in error


def test_unreachable_hub_is_reported_immediately(tmp_path):
    error = run(FIND, tmp_path, "http://127.0.0.1:9", "team/small")
    assert "team/small" in error
    assert "hub" in error
