"""Episodes over OpenEnv's own server and client; `make test-adapters` runs this in an environment with OpenEnv."""

import base64
import io
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from factories.documentation import blocks
from factories.servers import LOOPBACK, free_port
from PIL import Image

import render_agent
from render_agent.runs.read import RunData

openenv = pytest.importorskip("openenv", reason="OpenEnv is not installed; run make test-adapters")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries

OPTIONS = {"image_size": "64x48", "max_turns": 3, "rewards": {"answer": 1, "malformed": -0.5}}
REPLIES = ['{"rotation_angle_degrees": 90}', "I see chairs.", {"answer": 4, "done": True}]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """Address of a server that records its episodes."""
    import uvicorn

    from render_agent.environments.openenv import make_app

    app = make_app("rooms", ids=["0", "1"], record=tmp_path_factory.mktemp("runs"), **OPTIONS)
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, LOOPBACK, port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://{LOOPBACK}:{port}"
    server.should_exit = True
    thread.join()


def connect(url):
    return openenv.GenericEnvClient(base_url=url).sync()


def pixels(messages):
    """Return the images of messages of chat completions."""
    pieces = [p for m in messages if isinstance(m["content"], list) for p in m["content"]]
    data = [p["image_url"]["url"].split(",")[1] for p in pieces if p["type"] == "image_url"]
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(image)))) for image in data]


def texts(messages):
    """Return the texts of messages, of chat completions or of an `Observation`."""
    contents = [m["content"] for m in messages]
    return [
        [content] if isinstance(content, str) else [p["text"] for p in content if "text" in p]
        for content in contents
    ]


def test_a_session_is_an_episode_of_the_environment(url):
    ours = render_agent.Environment.from_benchmark("rooms", ids=["0", "1"], **OPTIONS)
    with connect(url) as env, ours:
        result = env.reset(id="1")
        observation, info = ours.reset(options={"id": "1"})
        for reply in [*REPLIES, None]:
            theirs = result.observation["messages"]
            assert texts(theirs) == texts(observation["messages"])
            images = [
                np.asarray(piece["image"])
                for message in observation["messages"]
                for piece in message["content"]
                if piece["type"] == "image"
            ]
            assert len(images) > 0 or reply is None
            np.testing.assert_equal(pixels(theirs), images)
            assert result.observation["info"] == json.loads(json.dumps(info))
            assert ("ground_truth" in result.observation["info"]) == (reply is None) == result.done
            assert env.state()["step_count"] == info["turn"]
            if reply is not None:
                result = env.step({"reply": reply})
                observation, reward, *_, info = ours.step(reply)
                assert result.reward == reward


def test_sessions_are_independent(url):
    with connect(url) as first, connect(url) as second:
        assert first.reset(id="0").observation["info"]["question_id"] == "0"
        assert second.reset(id="1").observation["info"]["question_id"] == "1"
        first.step({"reply": REPLIES[0]})
        assert [env.state()["step_count"] for env in (first, second)] == [1, 0]
        assert [env.state()["episode_id"] for env in (first, second)] == ["0", "1"]


def test_errors_reach_the_client_and_leave_the_session_usable(url):
    with connect(url) as env:
        with pytest.raises(RuntimeError, match="Call reset first"):
            env.step({"reply": "{}"})
        with pytest.raises(RuntimeError, match="no question 'none'"):
            env.reset(id="none")
        with pytest.raises(RuntimeError, match="VALIDATION_ERROR"):
            env.step({"reply": "{}", "finish": "early"})
        assert env.reset(id="0").observation["info"]["turn"] == 0


def test_the_server_and_client_of_the_page(tmp_path):
    server, client = [b for b in blocks("how-to/environments.md", "python") if "openenv" in b]
    recorded = server.replace('"rooms"', '"rooms", record="runs", limit=2')
    assert recorded != server
    (tmp_path / "server.py").write_text(recorded)
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "server:app", "--port", str(port)]
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log) as process,
    ):
        try:
            while "running on" not in (tmp_path / "log").read_text():
                assert process.poll() is None, (tmp_path / "log").read_text()
                time.sleep(0.1)
            (tmp_path / "client.py").write_text(client.replace("8000", str(port)))
            result = subprocess.run(
                [sys.executable, "client.py"], cwd=tmp_path, capture_output=True, text=True
            )
            assert result.returncode == 0, result.stderr
        finally:
            process.terminate()
    (run,) = [RunData(file.parent) for file in Path(tmp_path, "runs").glob("*/config.json")]
    assert run.saved_results["counts"]["answered"] == 1
    assert float(result.stdout) == run.saved_results["questions"][0]["score"]
