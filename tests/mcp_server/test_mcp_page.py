"""The code on the documentation page about MCP runs, with Inspect's agent and a mock model, and with our own client."""

import json
import re
import subprocess
import sys
import tomllib

import pytest
from factories.documentation import blocks, parse_command

from render_agent.runs.read import RunData
from render_agent.util.coroutines import run_in_thread

PAGE = "how-to/mcp.md"


def adapt(code, output):
    """Return a block whose command is run by this interpreter and records into a folder."""
    arguments = ["-m", "render_agent", "mcp", "--image-size", "96x72", "--output", str(output)]
    command = f"command={sys.executable!r}, args=[*{arguments!r}, "
    code = re.sub(r'command="render-agent",\s+args=\["mcp", ', lambda match: command, code)
    assert command in code
    return code


def only_run(output):
    (file,) = output.glob("*/config.json")
    return RunData(file.parent)


def block_with(word):
    return next(block for block in blocks(PAGE, "python") if word in block)


def test_example_client_answers_a_question(tmp_path):
    names = {}
    exec(compile(adapt(block_with("StdioServerParameters"), tmp_path), PAGE, "exec"), names)
    run_in_thread(names["main"]())
    assert only_run(tmp_path).saved_results["counts"]["answered"] == 1


EVALUATION = """
import json
from inspect_ai import eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model

CALLS = [
    ("start", {}),
    ("start", {"code": "none"}),
    ("look", {"rotation_angle_degrees": 45}),
    ("map", {}),
    ("answer", {"answer": "A", "done": True}),
    ("submit", {"answer": "A"}),
]
outputs = [ModelOutput.for_tool_call("mockllm/model", *call) for call in CALLS]
for output in outputs:
    output.usage = ModelUsage(input_tokens=1, output_tokens=1)  # otherwise a tokenizer is downloaded
model = get_model("mockllm/model", custom_outputs=outputs)
(log,) = eval(rooms(), model=model, display="none", log_dir="logs")
assert log.status == "success", log.error
tools = [message for message in log.samples[0].messages if message.role == "tool"]
print(json.dumps([[block.type for block in tool.content] for tool in tools[:4]]))
"""


@pytest.mark.slow
def test_agent_of_inspect_gets_the_images(tmp_path):
    script = tmp_path / "evaluate.py"
    script.write_text(adapt(block_with("react"), tmp_path / "runs") + EVALUATION)
    output = subprocess.check_output([sys.executable, str(script)], cwd=tmp_path, text=True)
    assert all("image" in types for types in json.loads(output.splitlines()[-1]))
    run = only_run(tmp_path / "runs")
    assert run.saved_results["counts"]["answered"] == 1
    assert [turn.number for turn in run.turns] == [0, 1, 2]


def test_commands_of_other_clients_parse():
    (block,) = blocks(PAGE, "toml")
    server = tomllib.loads(block)["mcp_servers"]["rooms"]
    parse_command(" ".join([server["command"], *server["args"]]))
    lines = [line for text in blocks(PAGE, "sh") for line in text.splitlines() if " -- " in line]
    assert lines
    for line in lines:
        parse_command(line.partition(" -- ")[2])
