"""Keys and tokens are never written to logs, records, reports, messages or process lists."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from factories.runs import make_config, make_questions
from factories.servers import StubServer, chat_answers, chat_reply
from hypothesis import given
from hypothesis import strategies as st

from render_agent.cli import main as cli
from render_agent.cli.run import run_with_progress
from render_agent.engines.engine_options import engine_options
from render_agent.engines.make_engine import describe_engine
from render_agent.engines.remote.api_error import first_words
from render_agent.engines.remote.endpoints import find_endpoints
from render_agent.engines.scripted import ScriptedEngine
from render_agent.errors import SetupError, UsageError
from render_agent.report.pages.build import build_report
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run
from render_agent.util.sanitize import (
    environment_keys,
    is_key_option,
    make_public,
    redact_keys,
    redact_secrets,
)

KEY = "sk-0123456789-secret"
PASSWORD = "p@ss word/äöü"  # a password with characters that URLs must encode

VARIABLES = [
    "OPENAI_API_KEY", "RENDER_AGENT_API_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AWS_SECRET_ACCESS_KEY",
    "MY_PASSWORD", "GITHUB_TOKEN", "WANDB_API_KEY", "SECRET",
]  # fmt: skip


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    """Remove keys from the environment of the test run."""
    for name in list(os.environ):
        if name.upper().endswith(("KEY", "TOKEN", "SECRET", "PASSWORD", "_URL", "_PROXY")):
            monkeypatch.delenv(name)


@pytest.mark.parametrize("name", VARIABLES)
def test_environment_keys_are_redacted(monkeypatch, name):
    monkeypatch.setenv(name, f" {KEY}\n")
    assert environment_keys() == [KEY]
    assert redact_keys(f"refused: {KEY}, {KEY}") == "refused: [key], [key]"


@pytest.mark.parametrize("name", ["OPENAI_BASE_URL", "HTTPS_PROXY", "http_proxy"])
def test_url_passwords_are_redacted_in_every_encoding(monkeypatch, name):
    monkeypatch.setenv(
        name, "http://somebody:p%40ss%20word%2F%C3%A4%C3%B6%C3%BC@proxy.example:8/v1"
    )
    message = f"407 for somebody: {PASSWORD} p%40ss%20word%2F%C3%A4%C3%B6%C3%BC"
    assert redact_keys(message) == "407 for somebody: [key] [key]"


def test_other_words_are_not_redacted(monkeypatch):
    monkeypatch.setenv("MONKEY", "banana-banana")
    monkeypatch.setenv("SHORT_TOKEN", "view")
    monkeypatch.setenv("SOME_URL", "http://[broken@")
    monkeypatch.setenv("KEYBOARD_LAYOUT", "us-dvorak")
    assert redact_keys("a view of us-dvorak at [broken") == "a view of us-dvorak at [broken"


def test_longer_keys_are_redacted_first(monkeypatch):
    monkeypatch.setenv("A_KEY", "12345678")
    monkeypatch.setenv("B_KEY", "12345678-more")
    assert redact_keys("12345678-more 12345678") == "[key] [key]"


@pytest.mark.parametrize(
    "option",
    [
        "token=abc", "hf_token=hf_abc", "api_key=abc", "extra_body={api_key: abc}", "password=x",
        "extra_body={a: [{Authorization: Bearer x}]}", f"extra_body={{user: {KEY}}}", f"image_detail={KEY}",
        "extra_body={headers: {x-access-token: abc}}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("engine", ["openai", "scripted", "transformers"])
def test_recorded_options_must_not_contain_keys(monkeypatch, tmp_path, option, engine):
    monkeypatch.setenv("HF_TOKEN", KEY)
    config = make_config(tmp_path, "x", benchmark="rooms", engine=engine, engine_option=(option,))
    with pytest.raises(UsageError, match="RENDER_AGENT_API_KEY") as raised:
        describe_engine(config)
    assert KEY not in str(raised.value)


def test_harmless_options_are_accepted():
    options = [
        "max_tokens_field=max_tokens",
        "extra_body={prompt_cache_key: a, eos_token: x, keys: 1}",
    ]
    assert list(engine_options(options)) == ["max_tokens_field", "extra_body"]
    assert not is_key_option("max_num_batched_tokens")


def test_password_repeated_by_a_server_is_redacted(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://me:open-sesame@localhost:1/v1")
    (endpoint,) = find_endpoints(())
    assert endpoint.url == "http://localhost:1/v1"
    assert "sesame" not in repr(endpoint)
    assert "sesame" not in first_words("wrong: open-sesame, me:open-sesame", endpoint.secrets)


def test_key_in_url_is_refused_without_repeating_it():
    for address in (f"http://h/v1?api-key={KEY}", f"http://u:{KEY}@h/v1", f"{KEY}@h"):
        with pytest.raises(SetupError) as raised:
            find_endpoints((address,))
        assert KEY not in str(raised.value)


def test_key_is_not_sent_to_redirect_targets(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with StubServer(chat_answers(lambda body: chat_reply("x"))) as target:
        headers = {"Location": f"{target.url}/models"}
        with StubServer(lambda method, path, body: (307, headers, b"")) as server:
            config = make_config(
                tmp_path,
                "x",
                benchmark="rooms",
                engine="openai",
                model="made",
                base_url=(server.url,),
            )
            with pytest.raises(SetupError, match=target.url):
                describe_engine(config)
            assert not target.headers


def test_tracebacks_are_redacted(monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    try:
        raise ValueError(f"refused: {KEY} \x1b[2J")
    except ValueError as error:
        cli._print_crash(type(error), error, error.__traceback__)
    output = capsys.readouterr().err
    assert output.startswith("Traceback (most recent call last):\n")
    assert output.endswith("ValueError: refused: [key] \\u001b[2J\n")


class Leaking:
    """A policy that fails with a key in its message."""

    def reply(self, request):
        raise RuntimeError(f"401 for Bearer {KEY}")


def test_files_of_a_failed_run_contain_no_key(monkeypatch, tmp_path, capfd):
    monkeypatch.setenv("HF_TOKEN", KEY)
    from render_agent.cli import run as commands

    monkeypatch.setattr(
        commands,
        "_engine_maker",
        lambda *arguments, **options: lambda config, questions: ScriptedEngine(Leaking()),
    )
    run = start_run(make_config(tmp_path, make_questions(tmp_path, 2), verbose=True))
    result = run_with_progress(run)
    assert result["counts"]["failed"] == 2
    build_report(RunData(run.path), processes=1)
    files = [file for file in Path(tmp_path).rglob("*") if file.is_file()]
    assert {"run.log", "turns.jsonl", "results.json", "index.html"} <= {file.name for file in files}
    assert not [file for file in files if KEY.encode() in file.read_bytes()]
    assert "[key]" in (run.path / "run.log").read_text("utf-8")
    assert "[key]" in (run.path / "turns.jsonl").read_text("utf-8")
    output = capfd.readouterr()
    assert KEY not in output.out + output.err


def command_lines(process):
    """Return the command lines of a process and its running descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    lines, pending = set(), [process]
    while pending:
        result = pending.pop()
        pending += children.get(result, [])
        try:
            lines.add(Path(f"/proc/{result}/cmdline").read_bytes())
        except OSError:
            continue
    return lines - {b""}


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="/proc is missing")
@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_process_list_shows_no_key(tmp_path, workers):
    make_questions(tmp_path, 2)
    lines_seen: set[bytes] = set()
    answer = json.dumps({"answer": "3", "done": True})
    running: list[int] = []

    def reply(body):
        lines_seen.update(command_lines(running[0]))
        return chat_reply(answer)

    with StubServer(chat_answers(reply)) as server:
        address = server.url.replace("//", f"//somebody:{KEY}@")
        arguments = [
            "--batch", "--benchmark", "questions.jsonl", "--engine", "openai", "--model", "made", "--workers",
            workers, "--image-size", "96x72", "--max-turns", "2", "--output", "runs", "--quiet",
        ]  # fmt: skip
        environment = {**os.environ, "OPENAI_BASE_URL": address, "HF_TOKEN": KEY}
        with subprocess.Popen(
            [sys.executable, "-m", "render_agent", *arguments], cwd=tmp_path, env=environment,
            stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            running.append(process.pid)
            while process.poll() is None:
                lines_seen.update(command_lines(process.pid))
                time.sleep(0.2)
            output = process.stderr.read()
    assert process.returncode == 0, output
    assert server.bodies
    assert len(lines_seen) > (3 if workers == "2" else 0)
    assert any(b"render_agent" in line for line in lines_seen)
    assert not [line for line in lines_seen if KEY.encode() in line]
    files = [file for file in (tmp_path / "runs").rglob("*") if file.is_file()]
    assert not [file for file in files if KEY.encode() in file.read_bytes()]
    assert KEY.encode() not in output


@given(st.text(max_size=200), st.integers(0, 200))
def test_text_without_keys_is_unchanged(text, position):
    assert redact_secrets(text, ["qZ!7xK$wPv2"]) == text
    with_key = f"{text[:position]}qZ!7xK$wPv2{text[position:]}"
    assert redact_secrets(with_key, ["qZ!7xK$wPv2"]) == f"{text[:position]}[key]{text[position:]}"


def test_key_repeated_by_a_server_is_not_stored(monkeypatch, tmp_path):
    """A server that repeats its key in model names, version and replies."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    reply = json.dumps({"reasoning": f"{KEY} {KEY}", "answer": "A", "done": True})
    chat = chat_answers(lambda body: chat_reply(reply))

    def respond(method, path, body):
        entry = {"id": "made", "owned_by": f"Bearer {KEY}"}
        bodies = {"/v1/models": {"data": [entry]}, "/version": {"version": KEY}}
        result = bodies.get(path)
        return (
            chat(method, path, body) if result is None else (200, {}, json.dumps(result).encode())
        )

    with StubServer(respond) as server:
        options = {"engine": "openai", "model": "made", "base_url": (server.url,), "max_turns": 1}
        run = start_run(make_config(tmp_path, make_questions(tmp_path, 2), **options))
        result = run_with_progress(run)
    assert result["counts"]["failed"] == 0
    for file in filter(Path.is_file, run.path.rglob("*")):
        assert KEY.encode() not in file.read_bytes()
    assert "[key] [key]" in (run.path / "turns.jsonl").read_text()
    assert json.loads((run.path / "config.json").read_text())["engine"]["servers"][0] == {
        "url": server.url, "owned_by": "Bearer [key]", "version": "[key]",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('File "/opt/venv/lib/python3.11/x.py", line 3', 'File "x.py", line 3'),
        ("at file:///srv/data/scan.ply now", "at scan.ply now"),
        (r"C:\Users\Zaphod\scan.ply", "scan.ply"),
        ("cannot read /srv/scans/my/room.ply: gone", "cannot read room.ply: gone"),
        ("learned:/srv/scans/v and /srv/~/a/", "learned:v and a"),
        ("the table and/or the chair, 3/4, 1/2/3, <b>a</b>/<i>b</i>", None),
        ('<img src="../views/a/b.png"> ../x/y http://host/a/b', None),
        ("see https://a.org/b/c and 3/4 m", None),
    ],
)
def test_absolute_paths_are_shortened_to_names(text, expected):
    assert make_public(text) == (text if expected is None else expected)


def test_shared_values_contain_no_paths_or_keys(monkeypatch):
    monkeypatch.setenv("MADE_API_KEY", "sesame-open-1234")
    folders = [Path("/srv/my scans"), Path("/srv/a&b")]
    tree = {
        "/srv/my scans/x": ["sesame-open-1234", {"a": ("/srv/my scans", 3, None)}],
        "home": f"{Path.home()}/x y",
        "page": "<p>/srv/a&amp;b/z</p>",
    }
    assert make_public(tree, folders) == {
        "x": ["[key]", {"a": ["my scans", 3, None]}],
        "home": "x y",
        "page": "<p>z</p>",
    }
