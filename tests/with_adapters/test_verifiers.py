"""Episodes run by `vf-eval`; `make test-adapters` runs this in an environment with verifiers."""

import json
import os
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest
from factories.documentation import blocks
from factories.servers import StubServer

import render_agent
from render_agent.runs.read import RunData

vf = pytest.importorskip(
    "verifiers.v1", reason="verifiers is not installed; run make test-adapters"
)

PAGE = "how-to/environments.md"
OPTIONS = {"image_size": "64x48", "max_turns": 3}
REWARDS = {"answer": 1, "malformed": -0.5}
REPLIES = ['{"rotation_angle_degrees": 90}', "I see chairs.", '{"answer": 4, "done": true}']
CUT = 1  # the turn in which the model reaches its token limit


def stream_reply(method, path, body):
    """Stream the next reply of the player."""
    turn = sum(message["role"] == "assistant" for message in json.loads(body)["messages"])
    head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "player"}
    text = {"delta": {"role": "assistant", "content": REPLIES[turn]}, "finish_reason": None}
    end = {"delta": {}, "finish_reason": "length" if turn == CUT else "stop"}
    chunks = [json.dumps({**head, "choices": [{"index": 0, **c}]}) for c in (text, end)]
    lines = "".join(f"data: {chunk}\n\n" for chunk in [*chunks, "[DONE]"])
    return 200, {"content-type": "text/event-stream"}, lines.encode()


@pytest.fixture(scope="module")
def finished_evaluation(tmp_path_factory):
    """The folder and the episodes of two questions, played with the files of the page, and the requests to the model."""
    folder = tmp_path_factory.mktemp("verifiers")
    (module,) = [b for b in blocks(PAGE, "python") if "verifiers" in b]
    (settings,) = blocks(PAGE, "toml")
    (folder / "rooms.py").write_text(module)
    for name, value in {"rewards": REWARDS, "options": {"limit": 2, **OPTIONS}}.items():
        table = ", ".join(f"{key} = {json.dumps(item)}" for key, item in value.items())
        settings, num_replaced = re.subn(rf"(?m)^{name} = .*$", f"{name} = {{ {table} }}", settings)
        assert num_replaced == 1
    (folder / "rooms.toml").write_text(settings + 'record = "runs"\n')
    (command,) = [line for b in blocks(PAGE, "sh") for line in b.splitlines() if "vf-eval" in line]
    with StubServer(stream_reply) as server:
        arguments = command.split()[2:]
        arguments = [{"MODEL": "player", "URL": server.url}.get(word, word) for word in arguments]
        result = subprocess.run(
            [Path(sysconfig.get_path("scripts"), "vf-eval"), *arguments, "--no-push", "--no-rich"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": ".", "PRIME_API_KEY": "none"},
            capture_output=True,
            text=True,
        )
    assert result.returncode == 0, result.stdout + result.stderr
    (file,) = folder.glob("outputs/*/traces.jsonl")
    episodes = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return folder, episodes, server.bodies


def test_rewards_are_those_of_the_environment(finished_evaluation):
    _, episodes, _ = finished_evaluation
    assert [episode["ok"] for episode in episodes] == [True, True]
    with render_agent.Environment.from_benchmark("rooms", rewards=REWARDS, **OPTIONS) as env:
        for episode in episodes:
            env.reset(options={"id": episode["task"]["data"]["id"]})
            for turn, reply in enumerate(REPLIES):
                *_, info = env.step(reply, finish="length" if turn == CUT else "stop")
            rewards = episode["traces"][0]["rewards"]
            weighted = {name: r["score"] * r["weight"] for name, r in rewards.items()}
            assert weighted == info["returns"]
            assert weighted["malformed"] == -0.5


def without_image_content(message):
    """Return the role of a message and its pieces, images without their content."""
    content = message["content"]
    pieces = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return message["role"], [(p["type"].removesuffix("_url"), p.get("text")) for p in pieces]


def test_the_agent_gets_the_dialogue_of_a_run(finished_evaluation):
    folder, _, bodies = finished_evaluation
    (run,) = [RunData(file.parent) for file in folder.glob("runs/*/config.json")]
    assert run.saved_results["counts"] | {"answered": 2} == run.saved_results["counts"]
    for state in run.states:
        *prompt, last = state.dialogue
        assert last["role"] == "assistant"
        assert "cut off" in json.dumps(prompt)
        (messages,) = [
            body["messages"]
            for body in bodies
            if len(body["messages"]) == len(prompt)
            and json.dumps(state.question.text)[1:-1] in json.dumps(body["messages"][1])
        ]
        assert [without_image_content(message) for message in messages] == [
            without_image_content(message) for message in prompt
        ]


def test_a_task_is_only_the_id_of_its_question(finished_evaluation):
    default = vf.TaskData().model_dump(mode="json", exclude_none=True)
    for episode in finished_evaluation[1]:
        data = episode["task"]["data"]
        assert {n: v for n, v in data.items() if default.get(n) != v and v} == {
            name: data[name] for name in ("id", "idx", "name") if data[name]
        }
