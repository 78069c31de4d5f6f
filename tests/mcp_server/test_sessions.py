"""Sessions of real MCP clients: they are runs, over any transport, and the ground truth stays in the server."""

import base64
import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
from functools import partial

import anyio.to_thread
import httpx
import pytest
from click.testing import CliRunner
from mcp import Client, MCPError

from render_agent.cli.main import cli
from render_agent.engines import sight_check
from render_agent.environments.world import World
from render_agent.mcp_server.server import make_server
from render_agent.options import RunConfig
from render_agent.report.pages.index.index_page import describe_run
from render_agent.report.sentences.facts import request_facts
from render_agent.runs.read import RunData
from render_agent.score.tables import figure
from render_agent.util.coroutines import run_in_thread

OPTIONS = ["--benchmark", "rooms", "--image-size", "96x72", "--max-turns", "4"]

# Calls of a client in two questions: every tool, moves that are blocked or limited, and arguments of wrong types.
CALLS = {
    "0": [
        ("look", {"rotation_angle_degrees": 90}),
        ("move", {"forward_meters": 9}),
        ("move", {"forward_meters": "far", "jump": True}),
        ("answer", {"answer": 4, "done": False}),
    ],
    "37": [
        ("measure", {"measure": [[0.5, 0.5]]}),
        ("look", {"view": "top"}),
        ("answer", {"answer": "Z", "done": True}),
        ("answer", {"answer": "B", "done": True}),
    ],
}

POLICY = f"""
CALLS = {{question: [json.dumps(call) for call in calls] for question, calls in {CALLS!r}.items()}}

class Player:
    def reply(self, request):
        name, arguments = json.loads(CALLS[request.question_id][request.turn])
        return call_text(name, arguments)

def policy(questions, seed):
    return Player()
"""


START = ("tools/call", {"name": "start", "arguments": {}})
INITIALIZE = (
    "initialize",
    {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
)


def config(output, **options):
    defaults = {"id": ("0", "37"), "image_size": (96, 72), "max_turns": 4, "batch": True}
    defaults |= {"benchmark": "rooms", "engine": "mcp", "reply_protocol": "tools"}
    return RunConfig(output=str(output), **defaults | options)


@contextlib.asynccontextmanager
async def client_of(output, sight="off", **options):
    """A client in the server's process."""
    world = World(config(output, sight_check=sight, **options), record=output)
    try:
        async with Client(make_server(world, "stdio"), mode="legacy") as client:
            yield client
    finally:
        world.close()


def server_command(output, *options):
    return [
        sys.executable,
        "-m",
        "render_agent",
        "mcp",
        *OPTIONS,
        "--output",
        str(output),
        *options,
    ]


@contextlib.contextmanager
def stdio_process(output):
    """Start a server over standard input and output."""
    command = server_command(output, "--id", "0", "--sight-check", "off")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        yield process


def exchange(process, *requests):
    """Send requests to a server, and wait for the response to each; nothing else is printed."""
    for number, (method, params) in enumerate(requests):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        response = {}
        while response.get("id") != number:
            response = json.loads(process.stdout.readline())
            assert response["jsonrpc"] == "2.0"


def texts(result):
    return " ".join(block.text for block in result.content if block.type == "text")


def images(result):
    return [base64.b64decode(block.data) for block in result.content if block.type == "image"]


def folders(output):
    return sorted(path.parent for path in output.glob("*/config.json"))


def lines(folder):
    def without_costs(entry):
        ignored = ("seconds", "batch_size", "tokens")
        return {
            k: without_costs(v) if k == "restated" else v
            for k, v in entry.items()
            if k not in ignored
        }

    return {
        (line["question_id"], line["turn"]): without_costs(line) for line in RunData(folder).lines()
    }


async def play(client, calls=CALLS):
    for question, moves in calls.items():
        await client.call_tool("start", {"id": question})
        for name, arguments in moves:
            result = await client.call_tool(name, arguments)
            assert not result.is_error
    return result


def test_session_equals_the_run_of_a_policy_with_the_same_calls(tmp_path, type_in):
    policy = tmp_path / "policy.py"
    policy.write_text(
        f"import json\nfrom render_agent.dialogue.parsing.tool_calls import call_text\n{POLICY}"
    )
    ids = ["--id", "0", "--id", "37", "--tools", "measure"]
    scripted = ["--engine", "scripted", "--model", str(policy), "--reply-protocol", "tools"]
    words = ("--batch", *OPTIONS, *ids, *scripted, "--output", tmp_path / "run", "--quiet")
    code, _, err = type_in(*words, folder=tmp_path)
    assert code == 0, err

    async def session():
        async with client_of(tmp_path / "mcp", tools="measure") as client:
            return await play(client)

    assert "session is over" in texts(run_in_thread(session()))
    (run,), (mcp,) = folders(tmp_path / "run"), folders(tmp_path / "mcp")
    assert lines(mcp) == lines(run)
    images = {file.relative_to(run): file.read_bytes() for file in run.rglob("*.png")}
    assert images == {file.relative_to(mcp): file.read_bytes() for file in mcp.rglob("*.png")}
    scores = [RunData(folder).saved_results["official"] for folder in (run, mcp)]
    assert scores[0] == scores[1] is not None
    record = RunData(mcp).record
    assert (record["engine"]["name"], record["engine"]["client"]["name"]) == ("mcp", "mcp")


def test_results_are_the_messages_of_the_run_and_their_images(tmp_path):
    async def session():
        async with client_of(tmp_path, id=("0",)) as client:
            results = [await client.call_tool("start"), await client.call_tool("map")]
            uris = [entry.uri for entry in (await client.list_resources()).resources]
            blobs = [(await client.read_resource(uri)).contents[0].blob for uri in uris]
            with pytest.raises(MCPError):
                await client.read_resource("render-agent://views/../config.json")
            repeated = await client.call_tool("start")
            return results, [base64.b64decode(blob) for blob in blobs], repeated

    results, resources, repeated = run_in_thread(session())
    (folder,) = folders(tmp_path)
    run = RunData(folder)
    pieces = [piece for message in run.turns[0].messages for piece in message["content"]]
    tools, *content = results[0].content
    assert all(name in tools.text for name in ("look", "move", "answer", "map"))
    assert [block.type for block in content] == [piece["type"] for piece in pieces]
    assert texts(results[0]).endswith(" ".join(p["text"] for p in pieces if p["type"] == "text"))
    files = [piece["image"] for piece in pieces if piece["type"] == "image"]
    assert images(results[0]) == [(folder / file).read_bytes() for file in files]
    assert resources == [*images(results[0]), *images(results[1])]
    assert texts(results[1]) in texts(repeated)
    assert all(result.structured_content is None for result in results)
    assert len(run.states[0].turns) == 1  # `start` took no turn


@pytest.mark.parametrize(
    ("options", "tools"),
    [
        ({}, {"look", "move", "map", "answer"}),
        ({"view_types": ("ego",)}, {"look", "move", "answer"}),
        ({"tools": "measure"}, {"look", "move", "map", "measure", "answer"}),
        ({"views": "four"}, {"answer"}),
        ({"views": "none"}, {"answer"}),
        ({"tools": "graph"}, {"answer"}),
    ],
)
def test_only_possible_tools_are_declared(tmp_path, options, tools):
    async def session():
        async with client_of(tmp_path, id=("0",), **options) as client:
            declared = (await client.list_tools()).tools
            with pytest.raises(MCPError, match="fly"):
                await client.call_tool("fly")
            return declared, await client.call_tool("start")

    declared, started = run_in_thread(session())
    assert {tool.name for tool in declared} == {"start", *tools}
    assert all(tool.output_schema is None for tool in declared)
    assert not started.is_error


def test_failed_calls_take_no_turn(tmp_path):
    async def session():
        async with client_of(tmp_path) as client:
            failed = [await client.call_tool("look"), await client.call_tool("start", {"id": "x"})]
            started = await client.call_tool("start", {"id": "37"})
            failed.append(await client.call_tool("start", {"id": "0"}))
            await client.call_tool("answer", {"answer": "A", "done": True})
            failed.append(await client.call_tool("look"))
            failed.append(await client.call_tool("start", {"id": "37"}))
            return failed, started

    failed, started = run_in_thread(session())
    assert all(result.is_error for result in failed)
    assert "1 question left: 0" in texts(started)
    (folder,) = folders(tmp_path)
    assert [line.question_id for line in RunData(folder).turns] == ["37"]


@pytest.mark.parametrize("answer", [None, "2"])
def test_question_without_answer_ends_as_in_a_run(tmp_path, answer):
    async def session():
        async with client_of(tmp_path, id=("0",)) as client:
            await client.call_tool("start")
            asked = [await client.call_tool("look") for _ in range(4)][-1]
            call = ("answer", {"answer": answer}) if answer else ("look", {})
            last = await client.call_tool(*call)
            return asked, last, await client.call_tool("look")

    asked, last, after = run_in_thread(session())
    run = RunData(folders(tmp_path)[0])
    turn = run.states[0].turns[-1]
    [message] = turn.restated.messages
    assert texts(asked) == message["content"][0]["text"]
    assert [result.is_error for result in (asked, last, after)] == [False, False, True]
    assert run.states[0].answer == answer
    assert ("No answer was given" in texts(last)) == (answer is None)
    results = run.saved_results
    assert results["counts"]["exhausted"] == (answer is None)
    assert (results["official"] > 0) == (answer is not None)


def test_ground_truth_stays_in_the_server_until_the_session_ends(tmp_path):
    async def session():
        async with client_of(tmp_path) as client:
            await client.call_tool("start", {"id": "37"})
            result = await client.call_tool("answer", {"answer": "A", "done": True})
            (folder,) = folders(tmp_path)
            files = {file.name for file in folder.iterdir()}
            run = RunData(folder)
            return texts(result), files, [state.status for state in run.states], run.results

    text, files, statuses, results = run_in_thread(session())
    assert files.isdisjoint({"questions.jsonl", "results.json", "results.csv"})
    assert statuses == ["active", "answered"]
    has_score = {row["question_id"]: row["score"] is not None for row in results["questions"]}
    assert has_score == {"0": False, "37": True}
    assert "correct" not in text.lower()
    assert "score" not in text.lower()
    (folder,) = folders(tmp_path)
    assert (folder / "questions.jsonl").is_file()
    saved = RunData(folder).saved_results
    assert saved["status"] == "partial"  # question 0 was never started
    assert saved["questions"] == results["questions"]


def invoke(*words):
    """Return the output of a command, which never suggests to resume a session."""
    result = CliRunner().invoke(cli, [*map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0
    assert "--continue" not in result.output
    return result.output


def test_client_that_disconnects_leaves_an_unfinished_question(tmp_path):
    look = {"name": "look", "arguments": {"rotation_angle_degrees": 30}}
    with stdio_process(tmp_path) as process:
        process.stdin.write(b"not json\n")
        exchange(process, INITIALIZE, START, ("tools/call", look))
        rest, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in rest.splitlines())
    (folder,) = folders(tmp_path)
    run = RunData(folder)
    (state,) = run.states
    assert (len(state.turns), state.status) == (1, "failed")
    assert run.results["official"] is None
    assert run.results["official_over_scored"]["n"] == 0
    invoke("show", folder)
    invoke("ls", "--runs", tmp_path)


def test_show_gives_the_score_of_a_killed_session_without_its_clients_options(tmp_path):
    async def session():
        async with client_of(tmp_path / "whole") as client:
            await client.call_tool("start", {"id": "37"})
            await client.call_tool("answer", {"answer": "B", "done": True})
            await client.call_tool("start", {"id": "0"})
            await client.call_tool("look", {"rotation_angle_degrees": 30})
            # What is on disk now is what a killed server leaves.
            shutil.copytree(tmp_path / "whole", tmp_path / "killed")

    run_in_thread(session())
    (folder,) = folders(tmp_path / "killed")
    run = RunData(folder)
    states = {state.id: (len(state.turns), state.status) for state in run.states}
    assert states == {"0": (1, "active"), "37": (1, "answered")}
    assert run.results["official"] is None
    score = run.results["official_over_scored"]["score"]
    assert figure(score) in invoke("show", folder)
    invoke("diagnose", folder)
    invoke("report", folder)
    invoke("ls", "--runs", tmp_path / "killed")
    facts = {"Temperature", "Seed", "Thinking", "New tokens"}
    assert not facts & request_facts(RunData(folder).config, {}).keys()
    assert json.loads(invoke("show", folder, "--json"))["counts"]["answered"] == 1


@pytest.mark.parametrize(
    ("answers", "finding"),
    [
        (["1234", "5678"], "sighted"),
        ([1234, "I see 5678."], "sighted"),
        (["none"], "blind"),
        (["1234", "1234"], "stale"),
    ],
)
def test_sight_check_of_a_client(tmp_path, monkeypatch, answers, finding):
    monkeypatch.setattr(sight_check, "draw_codes", lambda: ["1234", "5678"])

    async def session():
        async with client_of(tmp_path, "warn", id=("0",)) as client:
            first = await client.call_tool("start")
            (entry,) = (await client.list_resources()).resources
            resource = base64.b64decode((await client.read_resource(entry.uri)).contents[0].blob)
            assert [resource] == images(first)
            assert entry.uri in texts(first)
            results = [await client.call_tool("start", {"code": code}) for code in answers]
            await client.call_tool("answer", {"answer": "4", "done": True})
            return [first, *results[:-1]], results[-1]

    checks, started = run_in_thread(session())
    assert len({texts(check) for check in checks}) == 1  # the same text for different images
    assert len({images(check)[0] for check in checks}) == len(checks)
    assert "Turn 1" in texts(started)
    run = RunData(folders(tmp_path)[0])
    (check,) = run.sight_checks
    assert check["finding"] == finding == run.saved_results["sight_check"]
    assert check["replies"] == [str(answer) for answer in answers]
    assert ("Sight check", finding) in describe_run(run)
    notes = [note for note in run.saved_results["notes"] if "sight check" in note]
    assert len(notes) == (finding != "sighted")


def test_blind_client_is_refused_if_sight_is_required(tmp_path):
    async def session():
        async with client_of(tmp_path, "require") as client:
            await client.call_tool("start")
            return await client.call_tool("start", {"code": "none"})

    assert run_in_thread(session()).is_error
    assert folders(tmp_path) == []


@contextlib.contextmanager
def http_process(output, *options):
    """Start a server over HTTP; yield its process, URL and token."""
    command = server_command(output, "--http", *options)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            matches = map(partial(re.search, r"(http\S+)\?token=(\S+)"), process.stderr)
            yield process, *next(filter(None, matches)).groups()
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)


def test_http_requires_the_token_and_a_local_origin(tmp_path):
    with http_process(tmp_path, "--id", "0") as (_, url, token):
        method, params = INITIALIZE
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        both = {"Accept": "application/json, text/event-stream"}
        bearer = {"Authorization": f"Bearer {token}"}

        def status(query="", **headers):
            return httpx.post(url + query, json=message, headers={**both, **headers}).status_code

        assert status(**bearer) == 200
        assert status(f"?token={token}") == 200
        assert status() == status("?token=x") == status(Authorization="Bearer x") == 403
        assert status(f"?token={token}", Host="example.org") == 421
        assert status(**bearer, Origin="http://example.org") == 403
        assert httpx.get(url, headers=both).status_code == 403
        assert httpx.delete(url).status_code == 403
        assert httpx.get(url.replace("/mcp", "/"), headers=bearer).status_code == 404
        modern = {"MCP-Protocol-Version": "2026-07-28"}
        assert status(**bearer, **modern) == 400


def test_interrupted_server_records_the_session(tmp_path):
    """A server whose client keeps the connection open stops at once, and the folder is complete."""
    with stdio_process(tmp_path) as process:
        exchange(process, INITIALIZE, START)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 143
    (state,) = RunData(folders(tmp_path)[0]).states
    assert state.status == "failed"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_http_server_completes_its_concurrent_sessions(tmp_path, number, code):
    """Clients that stay connected, with a question answered or in progress, do not keep a session open."""
    ids = ["--id", "0", "--id", "37", "--sight-check", "off"]
    with http_process(tmp_path, *ids) as (process, url, token):

        async def session():
            async with Client(f"{url}?token={token}") as first, Client(f"{url}?token={token}") as second:  # fmt: skip
                for client in (first, second):
                    await client.call_tool("start", {"id": "37"})
                await first.call_tool("look", {"rotation_angle_degrees": 30})
                await second.call_tool("answer", {"answer": "A", "done": True})
                await first.call_tool("answer", {"answer": "B", "done": True})
                await second.call_tool("start", {"id": "0"})
                process.send_signal(number)
                assert await anyio.to_thread.run_sync(process.wait, 60) == code

        run_in_thread(session())
    states = []
    for folder in folders(tmp_path):
        run = RunData(folder)
        assert (folder / "questions.jsonl").is_file()
        assert run.saved_results["counts"]["answered"] == 1
        assert run.record["engine"]["client"]["transport"] == "http"
        states.append({state.id: (str(state.status), len(state.turns)) for state in run.states})
    assert {"37": ("answered", 2), "0": ("active", 0)} in states
    assert {"37": ("answered", 1), "0": ("failed", 0)} in states
    assert len(states) == 2
