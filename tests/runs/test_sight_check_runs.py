"""The sight check of servers: its findings, where they are reported, and the exempt models."""

from __future__ import annotations

import json
import logging
import shutil
from contextlib import ExitStack

import pytest
from factories.native_apis import NativeServer
from factories.runs import finish_run, make_config, make_questions, spread_over_rooms
from factories.servers import StubServer, chat_answers, chat_reply
from factories.sight import (
    PNG,
    caches_by_text,
    downscales,
    drops_images,
    images_of,
    keeps_the_first_image,
    read_code,
    read_digits,
)

import render_agent
from render_agent.engines.bundled_models import FOLDER
from render_agent.engines.sight_check import STAGE
from render_agent.errors import SetupError
from render_agent.report.comparison.compare_runs import compare_runs
from render_agent.report.pages.bundle import contents
from render_agent.report.pages.index.index_page import describe_run
from render_agent.runs.merge_shards import merge_shards
from render_agent.runs.read import RunData
from render_agent.runs.runner import resume_run, start_run

DONE = chat_answers(lambda body: chat_reply(json.dumps({"answer": "2", "done": True})))

# Behaviour of the server, its replies to the sight check, and the finding.
SERVERS = {
    "reads": (lambda: read_code, "sighted"),
    "downscales a little": (lambda: downscales(48), "sighted"),
    "downscales too much": (lambda: downscales(6), "blind"),
    "drops images": (drops_images, "blind"),
    "guesses": (lambda: lambda body: "1234", "blind"),
    "reuses the first image": (keeps_the_first_image, "stale"),
    "caches by text": (caches_by_text, "stale"),
    "says nothing": (lambda: lambda body: "", "unknown"),
}


def options_of(*servers, **options):
    urls = tuple(getattr(server, "base_url", server.url) for server in servers)
    return {"engine": "openai", "model": "made", "base_url": urls, "max_turns": 1} | options


@pytest.fixture
def questions(tmp_path):
    return make_questions(tmp_path, 2)


def start(tmp_path, questions, *servers, **options):
    """Start a run without taking a turn."""
    run = start_run(make_config(tmp_path, questions, **options_of(*servers, **options)))
    run.close()
    return RunData(run.path)


def play(tmp_path, questions, *servers, **options):
    """Start and complete a run."""
    run = start_run(make_config(tmp_path, questions, **options_of(*servers, **options)))
    finish_run(run)
    return RunData(run.path)


def notes_of(results):
    return [note for note in results["notes"] if "sight check" in note]


@pytest.mark.parametrize("case", SERVERS)
def test_finding(tmp_path, questions, case, caplog):
    make, finding = SERVERS[case]
    with StubServer(DONE, sight=make()) as server, caplog.at_level(logging.WARNING):
        data = start(tmp_path, questions, server)
    (check,) = data.sight_checks
    assert check["finding"] == finding == data.results["sight_check"]
    assert check["url"] == server.url
    assert len(server.sight_checks) == (2 if finding in ("sighted", "stale") else 1)
    warnings = [text for text in caplog.messages if "sight check" in text]
    notes = notes_of(data.results)
    assert len(notes) == len(warnings) == (finding != "sighted")
    assert all(finding in text for text in (*notes, *warnings))


@pytest.mark.parametrize("api", ["anthropic", "gemini", "responses"])
@pytest.mark.parametrize(
    ("sight", "finding"),
    [(read_code, "sighted"), (drops_images(), "blind")],
    ids=["reads", "drops"],
)
def test_native_apis_are_checked(tmp_path, questions, monkeypatch, api, sight, finding):
    for name in ("ANTHROPIC", "GEMINI", "OPENAI"):
        monkeypatch.setenv(f"{name}_API_KEY", "sk-made")
    engine = {"engine": "openai", "engine_option": ("api=responses",)}
    with NativeServer(api, sight=sight) as server:
        data = start(
            tmp_path, questions, server, **engine if api == "responses" else {"engine": api}
        )
        for body in server.sight_checks:
            server.stub.validate(json.loads(body))
    assert data.results["sight_check"] == finding
    assert data.sight_checks[0]["url"] == server.base_url
    assert server.requests == []


def test_a_reply_cut_off_by_the_token_limit_is_no_finding(tmp_path, questions, caplog):
    choice = {"message": {"content": "<think>4"}, "finish_reason": "length"}
    rule = chat_answers(lambda body: chat_reply("", choices=[choice]))
    with StubServer(rule, sight=None) as server:
        data = start(tmp_path, questions, server)
    assert data.results["sight_check"] == "unknown"
    assert any("--max-new-tokens" in text for text in caplog.messages)


@pytest.mark.parametrize("fault", [(400, {}, '{"error": "too busy"}'), "no choices", "garbage"])
def test_a_fault_during_the_check_is_no_finding(tmp_path, questions, caplog, fault):
    no_retries = {"engine_option": ("retries=0",)}
    with StubServer(DONE, [fault] * 2, sight=None) as server:
        data = start(tmp_path, questions, server, **no_retries)
        (check,) = data.sight_checks
        assert check["finding"] == data.results["sight_check"] == "unknown"
        assert check["reason"] in " ".join(caplog.messages)
        assert server.url not in " ".join(notes_of(data.results))
        server.faults = [fault] * 2
        with pytest.raises(SetupError, match="unknown"):
            start(tmp_path, questions, server, sight_check="require", **no_retries)


def test_a_key_that_a_server_echoes_is_not_recorded(tmp_path, questions, monkeypatch, caplog):
    key = "sk-abcdefghijklmnop1234567890"
    monkeypatch.setenv("RENDER_AGENT_API_KEY", key)
    fault = (400, {}, json.dumps({"error": f"no images with Bearer {key}"}))
    with StubServer(DONE, [fault], sight=None) as server:
        data = start(tmp_path, questions, server)
    assert server.headers[-1]["authorization"] == f"Bearer {key}"
    assert "no images" in data.sight_checks[0]["reason"]
    assert key not in (data.path / "config.json").read_text()
    assert key not in caplog.text


@pytest.mark.parametrize("fault", [(503, {"retry-after": "0"}, "{}"), "reset"])
def test_temporary_faults_during_the_check_are_retried(tmp_path, questions, fault):
    def rule(body):
        return chat_reply(read_code(json.dumps(body).encode()))

    with StubServer(chat_answers(rule), [fault], sight=None) as server:
        data = start(tmp_path, questions, server, sight_check="require")
        assert data.results["sight_check"] == "sighted"
        assert len(server.bodies) == 3


def test_both_requests_have_the_same_text_and_images_of_the_size_of_views(tmp_path, questions):
    with StubServer(DONE) as server:
        data = start(tmp_path, questions, server, image_size=(120, 90))
        first, second = server.sight_checks
    images = [image for body in (first, second) for image in images_of(body)]
    codes = list(map(read_digits, images))
    assert codes == data.sight_checks[0]["codes"]
    assert codes[0] != codes[1]
    assert {image.size for image in images} == {(120, 90)}
    assert PNG.sub(b"", first) == PNG.sub(b"", second)
    assert len(PNG.sub(b"", first)) < 1000


def test_texts_differ_between_checks_so_that_old_cache_entries_do_not_answer(tmp_path, questions):
    with StubServer(DONE, sight=caches_by_text()) as server:
        findings = [start(tmp_path, questions, server).results["sight_check"] for _ in range(2)]
    assert findings == ["stale", "stale"]


def test_require_refuses_before_the_run_folder_exists(tmp_path, questions):
    with StubServer(DONE, sight=drops_images()) as server:
        with pytest.raises(SetupError, match=r"blind.*--sight-check"):
            start(tmp_path, questions, server, sight_check="require")
        assert not (tmp_path / "runs").exists()
        server.sight = read_code
        assert play(tmp_path, questions, server, sight_check="require").finished


@pytest.mark.parametrize(
    ("choice", "code", "requests"), [("off", 0, 0), ("warn", 0, 1), ("require", 1, 1)]
)
def test_command_line(type_in, tmp_path, questions, choice, code, requests):
    with StubServer(DONE, sight=drops_images()) as server:
        run = ("--batch", "--benchmark", questions, "--image-size", "96x72", "--max-turns", 1)
        engine = ("--engine", "openai", "--model", "made", "--base-url", server.url)
        run = (*run, "--no-restate")
        exit_code, _, err = type_in(*run, *engine, "--sight-check", choice, folder=tmp_path)
        assert (exit_code, len(server.sight_checks)) == (code, requests)
        assert ("blind" in err) == (choice != "off")
        assert err.count(STAGE) == requests  # the output is not a terminal
        assert (tmp_path / "experiment_logs").exists() == (len(server.bodies) == 2) == (code == 0)
        if code == 0:
            _, output, _ = type_in("show", "recent", folder=tmp_path)
            assert ("sight check blind" in output) == (choice == "warn")


def test_every_server_is_checked_and_the_worst_finding_counts(tmp_path, questions):
    with ExitStack() as stack:
        servers = [
            stack.enter_context(StubServer(DONE, sight=sight))
            for sight in (read_code, drops_images(), read_code)
        ]
        data = start(tmp_path, questions, *servers)
    findings = {check["url"]: check["finding"] for check in data.sight_checks}
    assert findings == dict(
        zip([server.url for server in servers], ["sighted", "blind", "sighted"], strict=True)
    )
    assert data.results["sight_check"] == "blind"
    assert any("1 of 3" in note for note in data.results["notes"])


def test_resuming_checks_again_and_keeps_the_worst_finding(tmp_path, questions):
    with StubServer(DONE, sight=drops_images()) as server:
        data = start(tmp_path, questions, server)
    with StubServer(DONE) as server:
        run = resume_run(data, {"base_url": (server.url,), "sight_check": "require"})
        results = finish_run(run)
        data = RunData(data.path)
        assert [check["finding"] for check in data.sight_checks] == ["blind", "sighted"]
        assert data.sight_checks[1]["url"] == server.url
        assert results["sight_check"] == "blind"
        resume_run(data, {}).close()  # it is complete
        assert len(server.sight_checks) == 2


@pytest.mark.parametrize("is_same", [True, False])
def test_fault_is_cleared_when_the_server_passes_the_check_of_a_resumed_run(
    tmp_path, questions, is_same
):
    with (
        StubServer(DONE, [(400, {}, "{}")], sight=None) as server,
        StubServer(DONE) as working_server,
    ):
        data = start(tmp_path, questions, server)
        assert data.results["sight_check"] == "unknown"
        server.sight = read_code
        run = resume_run(data, {} if is_same else {"base_url": (working_server.url,)})
        run.close()
    results = RunData(data.path).results
    assert results["sight_check"] == ("sighted" if is_same else "unknown")
    assert len(notes_of(results)) == (not is_same)


def test_refused_resume_with_a_required_check_unlocks_the_folder(tmp_path, questions):
    with StubServer(DONE) as server:
        data = start(tmp_path, questions, server)
        server.sight = drops_images()
        with pytest.raises(SetupError, match="blind"):
            resume_run(data, {"sight_check": "require"})
        resume_run(data, {"sight_check": "off"}).close()
    assert [check["finding"] for check in RunData(data.path).sight_checks] == ["sighted"]


def test_the_finding_is_in_the_report_and_in_comparisons(tmp_path, questions):
    with StubServer(DONE) as server:
        working = play(tmp_path, questions, server)
        server.sight = drops_images()
        blind = play(tmp_path, questions, server)
    assert ("Sight check", "sighted") in describe_run(working)
    assert ("Sight check", "blind") in describe_run(blind)
    (pair,) = compare_runs([working, blind], anyway_option="--anyway")
    assert pair["facts"]["a"]["Sight check"] == "sighted"
    assert pair["facts"]["b"]["Sight check"] == "blind"
    assert any("sight check" in note for note in pair["notes"]["b"])
    assert blind.results["official"] == working.results["official"] is not None


def test_bundles_do_not_contain_the_address_of_the_server(tmp_path, questions):
    with StubServer(DONE, [(400, {}, "{}")], sight=None) as server:
        data = play(tmp_path, questions, server)
    assert data.sight_checks[0]["url"] == server.url
    files = dict(contents(data, tmp_path))
    assert json.loads(files["config.json"])["sight_checks"] == [
        {"finding": "unknown", "codes": data.sight_checks[0]["codes"], "replies": []}
    ]
    for name in ("config.json", "results.json"):
        assert str(server.port) not in files[name].decode()


def test_merged_shards_keep_the_worst_finding(tmp_path):
    questions = spread_over_rooms(make_questions(tmp_path, 4), 2)
    shards = []
    for number, sight in enumerate((read_code, drops_images()), 1):
        with StubServer(DONE, sight=sight) as server:
            shards.append(play(tmp_path, questions, server, shard=f"{number}/2"))
    path, results = merge_shards(tmp_path / "merged", shards)
    assert results["sight_check"] == "blind"
    assert len(RunData(path).sight_checks) == 2


@pytest.mark.parametrize(
    "options",
    [
        {"sight_check": "off"},
        {"views": "none"},
        {"engine": "scripted", "base_url": (), "model": None},
    ],
    ids=["off", "no views", "no server"],
)
def test_nothing_is_asked_without_images_or_servers(tmp_path, questions, options):
    with StubServer(DONE) as server:
        data = play(tmp_path, questions, server, **options)
    assert server.sight_checks == []
    assert "sight_checks" not in data.record
    assert "sight_check" not in data.results
    assert notes_of(data.results) == []


def test_a_local_model_whose_card_states_that_it_cannot_read_is_exempt(tmp_path, questions):
    folder = tmp_path / "own"
    shutil.copytree(FOLDER / "small", folder)
    with StubServer(DONE, sight=drops_images()) as server:
        for name in ("small", str(folder)):
            data = start(tmp_path, questions, server, model=name, sight_check="require")
            assert data.results["sight_check"] == "exempt"
            assert notes_of(data.results) == []
        assert server.sight_checks == []
        card = (folder / "README.md").read_text().replace("reads_text: false\n", "")
        (folder / "README.md").write_text(card)
        data = start(tmp_path, questions, server, model=str(folder))
        assert data.results["sight_check"] == "blind"


def test_a_loaded_engine_is_checked_once_per_image_size(tmp_path, questions):
    def run(engine, **options):
        settings = {"benchmark": questions, "max_turns": 1, "output": tmp_path / "runs"}
        return render_agent.run(engine=engine, **settings | options)

    with (
        StubServer(DONE, sight=drops_images()) as server,
        render_agent.load_engine("openai", "made", base_url=server.url) as engine,
    ):
        both_results = [RunData(run(engine, image_size=(96, 72)).path).results for _ in range(2)]
        assert [results["sight_check"] for results in both_results] == ["blind", "blind"]
        assert len(server.sight_checks) == 1
        run(engine, image_size=(64, 48))
        assert len(server.sight_checks) == 2
    with (
        StubServer(DONE, sight=drops_images()) as server,
        render_agent.load_engine(
            "openai", "made", base_url=server.url, sight_check="require"
        ) as engine,
    ):
        for _ in range(2):
            with pytest.raises(SetupError, match="blind"):
                run(engine)
        assert len(server.sight_checks) == 1
