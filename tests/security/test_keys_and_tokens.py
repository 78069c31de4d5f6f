"""Keys and tokens are written nowhere: no log, no record, no report, no sentence, no list of processes."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from factories.runs import make_config, make_questions
from factories.servers import StubServer, by_rule, chat_reply
from hypothesis import given
from hypothesis import strategies as st

from render_agent.cli import main as cli
from render_agent.cli.commands.run import run_with_progress
from render_agent.engines.engine_options import engine_options
from render_agent.engines.make_engine import describe_engine
from render_agent.engines.openai.client import first_words
from render_agent.engines.openai.endpoints import find_endpoints
from render_agent.engines.scripted import ScriptedEngine
from render_agent.errors import SetupError, UsageError
from render_agent.report.pages.build import build_report
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run
from render_agent.util.redact import known_keys, names_a_key, public, without, without_keys

KEY = "sk-0123456789-secret"
WORD = "p@ss word/äöü"
"""A password with signs that an address cannot hold as they are."""

VARIABLES = [
    "OPENAI_API_KEY", "RENDER_AGENT_API_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AWS_SECRET_ACCESS_KEY",
    "MY_PASSWORD", "GITHUB_TOKEN", "WANDB_API_KEY", "SECRET",
]  # fmt: skip


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    """The environment of whoever runs the tests holds none."""
    for name in list(os.environ):
        if name.upper().endswith(("KEY", "TOKEN", "SECRET", "PASSWORD", "_URL", "_PROXY")):
            monkeypatch.delenv(name)


@pytest.mark.parametrize("name", VARIABLES)
def test_keys_of_the_environment_are_blacked_out(monkeypatch, name):
    monkeypatch.setenv(name, f" {KEY}\n")
    assert known_keys() == [KEY]
    assert without_keys(f"refused: {KEY}, {KEY}") == "refused: [key], [key]"


@pytest.mark.parametrize("name", ["OPENAI_BASE_URL", "HTTPS_PROXY", "http_proxy"])
def test_passwords_of_addresses_are_blacked_out_in_every_form(monkeypatch, name):
    monkeypatch.setenv(
        name, "http://somebody:p%40ss%20word%2F%C3%A4%C3%B6%C3%BC@proxy.example:8/v1"
    )
    told = f"407 for somebody: {WORD} p%40ss%20word%2F%C3%A4%C3%B6%C3%BC"
    assert without_keys(told) == "407 for somebody: [key] [key]"


def test_words_that_are_no_keys_stay(monkeypatch):
    monkeypatch.setenv("MONKEY", "banana-banana")
    monkeypatch.setenv("SHORT_TOKEN", "view")
    monkeypatch.setenv("SOME_URL", "http://[broken@")
    monkeypatch.setenv("KEYBOARD_LAYOUT", "us-dvorak")
    assert without_keys("a view of us-dvorak at [broken") == "a view of us-dvorak at [broken"


def test_the_longer_key_goes_first(monkeypatch):
    monkeypatch.setenv("A_KEY", "12345678")
    monkeypatch.setenv("B_KEY", "12345678-more")
    assert without_keys("12345678-more 12345678") == "[key] [key]"


@pytest.mark.parametrize(
    "option",
    [
        "token=abc", "hf_token=hf_abc", "api_key=abc", "extra_body={api_key: abc}", "password=x",
        "extra_body={a: [{Authorization: Bearer x}]}", f"extra_body={{user: {KEY}}}", f"image_detail={KEY}",
        "extra_body={headers: {x-access-token: abc}}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("engine", ["openai", "scripted", "transformers"])
def test_no_option_that_is_written_down_may_hold_a_key(monkeypatch, tmp_path, option, engine):
    monkeypatch.setenv("HF_TOKEN", KEY)
    config = make_config(tmp_path, "x", benchmark="rooms", engine=engine, engine_option=(option,))
    with pytest.raises(UsageError, match="RENDER_AGENT_API_KEY") as told:
        describe_engine(config)
    assert KEY not in str(told.value)


def test_options_with_harmless_names_are_taken():
    given = [
        "max_tokens_field=max_tokens",
        "extra_body={prompt_cache_key: a, eos_token: x, keys: 1}",
    ]
    assert list(engine_options(given)) == ["max_tokens_field", "extra_body"]
    assert not names_a_key("max_num_batched_tokens")


def test_a_password_that_a_server_repeats_is_blacked_out(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://me:open-sesame@localhost:1/v1")
    (endpoint,) = find_endpoints(())
    assert endpoint.url == "http://localhost:1/v1"
    assert "sesame" not in repr(endpoint)
    assert "sesame" not in first_words("wrong: open-sesame, me:open-sesame", endpoint.secrets)


def test_a_key_in_an_address_is_refused_without_being_repeated():
    for address in (f"http://h/v1?api-key={KEY}", f"http://u:{KEY}@h/v1", f"{KEY}@h"):
        with pytest.raises(SetupError) as told:
            find_endpoints((address,))
        assert KEY not in str(told.value)


def test_a_server_that_points_elsewhere_gets_the_key_sent_nowhere(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with StubServer(by_rule(lambda body: chat_reply("x"))) as other:
        moved = {"Location": f"{other.url}/models"}
        with StubServer(lambda method, path, body: (307, moved, b"")) as server:
            config = make_config(
                tmp_path,
                "x",
                benchmark="rooms",
                engine="openai",
                model="made",
                base_url=(server.url,),
            )
            with pytest.raises(SetupError, match=other.url):
                describe_engine(config)
            assert not other.headers


def test_a_crash_is_told_without_keys(monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    try:
        raise ValueError(f"refused: {KEY} \x1b[2J")
    except ValueError as error:
        cli._crashed(type(error), error, error.__traceback__)
    said = capsys.readouterr().err
    assert said.startswith("Traceback (most recent call last):\n")
    assert said.endswith("ValueError: refused: [key] \\u001b[2J\n")


class Leaking:
    """A policy that breaks, with a key in its words."""

    def reply(self, request):
        raise RuntimeError(f"401 for Bearer {KEY}")


def test_no_file_of_a_run_that_fails_holds_a_key(monkeypatch, tmp_path, capfd):
    monkeypatch.setenv("HF_TOKEN", KEY)
    from render_agent.cli.commands import run as commands

    monkeypatch.setattr(
        commands,
        "_engine_maker",
        lambda *given, **more: lambda config, asked: ScriptedEngine(Leaking()),
    )
    run = start_run(make_config(tmp_path, make_questions(tmp_path, 2), verbose=True))
    found = run_with_progress(run)
    assert found["counts"]["failed"] == 2
    build_report(RunData(run.path), processes=1)
    files = [file for file in Path(tmp_path).rglob("*") if file.is_file()]
    assert {"run.log", "turns.jsonl", "results.json", "index.html"} <= {file.name for file in files}
    assert not [file for file in files if KEY.encode() in file.read_bytes()]
    assert "[key]" in (run.path / "run.log").read_text("utf-8")
    assert "[key]" in (run.path / "turns.jsonl").read_text("utf-8")
    said = capfd.readouterr()
    assert KEY not in said.out + said.err


def family(process):
    """Return the command lines of a process and all that descend from it, none of one that ended."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    lines, waiting = set(), [process]
    while waiting:
        found = waiting.pop()
        waiting += children.get(found, [])
        try:
            lines.add(Path(f"/proc/{found}/cmdline").read_bytes())
        except OSError:
            continue
    return lines - {b""}


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="there is no /proc here")
@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_no_list_of_processes_shows_a_key(tmp_path, workers):
    make_questions(tmp_path, 2)
    seen: set[bytes] = set()
    done = json.dumps({"answer": "3", "done": True})
    running: list[int] = []

    def reply(body):
        seen.update(family(running[0]))
        return chat_reply(done)

    with StubServer(by_rule(reply)) as server:
        address = server.url.replace("//", f"//somebody:{KEY}@")
        words = [
            "--batch", "--benchmark", "questions.jsonl", "--engine", "openai", "--model", "made", "--workers",
            workers, "--image-size", "96x72", "--max-turns", "2", "--output", "runs", "--quiet",
        ]  # fmt: skip
        environment = {**os.environ, "OPENAI_BASE_URL": address, "HF_TOKEN": KEY}
        with subprocess.Popen(
            [sys.executable, "-m", "render_agent", *words], cwd=tmp_path, env=environment,
            stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            running.append(process.pid)
            while process.poll() is None:
                seen.update(family(process.pid))
                time.sleep(0.2)
            said = process.stderr.read()
    assert process.returncode == 0, said
    assert server.bodies
    assert len(seen) > (3 if workers == "2" else 0)
    assert any(b"render_agent" in line for line in seen)
    assert not [line for line in seen if KEY.encode() in line]
    written = [file for file in (tmp_path / "runs").rglob("*") if file.is_file()]
    assert not [file for file in written if KEY.encode() in file.read_bytes()]
    assert KEY.encode() not in said


@given(st.text(max_size=200), st.integers(0, 200))
def test_a_text_without_a_key_stays_as_it_is(text, place):
    assert without(text, ["qZ!7xK$wPv2"]) == text
    whole = f"{text[:place]}qZ!7xK$wPv2{text[place:]}"
    assert without(whole, ["qZ!7xK$wPv2"]) == f"{text[:place]}[key]{text[place:]}"


def test_what_a_server_repeats_is_stored_nowhere(monkeypatch, tmp_path):
    """A server that answers with the key that it is sent: in its models, its version, its replies."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    reply = json.dumps({"reasoning": f"{KEY} {KEY}", "answer": "A", "done": True})
    chat = by_rule(lambda body: chat_reply(reply))

    def told(method, path, body):
        entry = {"id": "made", "owned_by": f"Bearer {KEY}"}
        known = {"/v1/models": {"data": [entry]}, "/version": {"version": KEY}}
        found = known.get(path)
        return chat(method, path, body) if found is None else (200, {}, json.dumps(found).encode())

    with StubServer(told) as server:
        options = {"engine": "openai", "model": "made", "base_url": (server.url,), "max_turns": 1}
        run = start_run(make_config(tmp_path, make_questions(tmp_path, 2), **options))
        found = run_with_progress(run)
    assert found["counts"]["failed"] == 0
    for file in filter(Path.is_file, run.path.rglob("*")):
        assert KEY.encode() not in file.read_bytes()
    assert "[key] [key]" in (run.path / "turns.jsonl").read_text()
    assert json.loads((run.path / "config.json").read_text())["engine"]["servers"][0] == {
        "url": server.url, "owned_by": "Bearer [key]", "version": "[key]",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "left"),
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
def test_absolute_paths_become_names_and_nothing_else_changes(text, left):
    assert public(text) == (text if left is None else left)


def test_what_strangers_get_has_no_path_and_no_key_at_any_depth(monkeypatch):
    monkeypatch.setenv("MADE_API_KEY", "sesame-open-1234")
    folders = [Path("/srv/my scans"), Path("/srv/a&b")]
    tree = {
        "/srv/my scans/x": ["sesame-open-1234", {"a": ("/srv/my scans", 3, None)}],
        "home": f"{Path.home()}/x y",
        "page": "<p>/srv/a&amp;b/z</p>",
    }
    assert public(tree, folders) == {
        "x": ["[key]", {"a": ["my scans", 3, None]}],
        "home": "x y",
        "page": "<p>z</p>",
    }
