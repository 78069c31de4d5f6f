"""The page "add a choice" works: one package adds five plug-ins without changes to the program."""

import json
import re

import pytest
from factories.documentation import DOCS
from factories.packages import install_page

from render_agent import registry
from render_agent.runs.read import RunData, list_runs


@pytest.fixture
def words(tmp_path, monkeypatch):
    """Install the package of the page and return the words of its command."""
    return install_page(monkeypatch, tmp_path, "add-a-choice")


def test_every_entry_point_group_is_documented():
    pages = {page.name: page.read_text("utf-8") for page in (DOCS / "extending").glob("*.md")}
    for group in registry.GROUPS.values():
        assert any(f"`{group}`" in text or f'"{group}"' in text for text in pages.values()), group
    documented = set(re.findall(r"`(render_agent\.\w+)` \|", pages["add-a-choice.md"]))
    assert documented <= set(registry.GROUPS.values())


def test_plugins_run_and_are_recorded(tmp_path, words, type_in):
    code, _, output = type_in(*words, folder=tmp_path)
    assert code == 0, output
    (path,) = list_runs(tmp_path / "experiment_logs")
    run = RunData(path)
    assert run.record["packages"] == {
        "view policy behind": "odd-choices 1.0",
        "scripted policy mute": "odd-choices 1.0",
    }
    notes = run.saved_results["notes"]
    assert "views: what is ahead and behind, not chosen by the model (--views behind)" in notes
    opening = run.lines()[0]["views"]
    assert [view["kind"] for view in opening] == ["top", "ego", "ego"]
    assert [row["answer"] for row in run.saved_results["questions"]] == ["1", "1"]


def test_verifier_plugin_chooses_moves(tmp_path, words, type_in):
    options = (
        "--engine scripted --model wanderer --temperature 1 --agent best:2 --verifier shortest"
    )
    arguments = [*words[: words.index("--engine")], *options.split()]
    code, _, output = type_in(*arguments, folder=tmp_path)
    assert code == 0, output
    (path,) = list_runs(tmp_path / "experiment_logs")
    run = RunData(path)
    assert run.record["packages"].keys() == {"verifier shortest"}
    chosen = [line["evidence"] for line in run.lines() if line["turn"] < 2]
    assert chosen
    for evidence in chosen:
        lengths = [len(candidate["reply"]) for candidate in evidence["candidates"]]
        assert lengths[evidence["chosen"]] == min(lengths)


def test_reply_protocol_plugin(tmp_path, words, type_in):
    replies = tmp_path / "replies.jsonl"
    texts = ["rotation_angle_degrees: 45\nview: top", "answer: 7\ndone: yes"]
    replies.write_text(json.dumps({"id": "*", "replies": texts}))
    arguments = [*words[: words.index("--engine")], "--engine", "scripted", "--model", str(replies)]
    code, _, output = type_in(*arguments, "--reply-protocol", "lines", folder=tmp_path)
    assert code == 0, output
    (path,) = list_runs(tmp_path / "experiment_logs")
    run = RunData(path)
    assert run.record["packages"] == {"reply protocol lines": "odd-choices 1.0"}
    first, last = (
        line for line in run.lines() if line["question_id"] == run.lines()[0]["question_id"]
    )
    assert "NAME: VALUE" in first["messages"][0]["content"][0]["text"]
    assert first["action"] == {"rotation": 45, "view": "top"}
    assert last["action"]["done"]


def test_command_plugin(tmp_path, words, type_in):
    code, out, _ = type_in("hello", folder=tmp_path)
    assert (code, out) == (0, "hello\n")
    code, out, _ = type_in("--help-all", folder=tmp_path)
    assert code == 0
    assert "Say hello." in out
