"""Tests of training data: messages, image paths, and compatibility with chat templates."""

import csv
import hashlib
import json

import pytest
from conftest import test_data
from factories.exports import REPLIES, RIGHT, export, json_lines, make_run
from factories.models import CHAT_TEMPLATE, published_tokenizer
from factories.runs import make_config, make_questions
from PIL import Image

from render_agent.errors import UsageError
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("run"))


def images_of(line):
    pieces = [piece for entry in line["messages"] for piece in entry["content"]]
    return [piece["image"] for piece in pieces if piece["type"] == "image"]


def contents(folder):
    """Return the digest and modification time of every file in a folder."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        path: (hashlib.sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns)
        for path in files
    }


def test_messages_match_the_log(run, tmp_path):
    before = contents(run)
    export(run, "--format", "messages", "--without-thinking", "--absolute", "--to", tmp_path / "a")
    lines = json_lines(tmp_path / "a")
    states = RunData(run).states
    assert [line["id"] for line in lines] == [state.id for state in states]
    for line, state in zip(lines, states, strict=True):
        messages = json.loads(json.dumps(line["messages"]).replace(f"{run}/", ""))
        assert messages == state.dialogue
    assert contents(run) == before


def test_image_paths_are_relative_to_the_file(run, tmp_path):
    export(run, "--format", "messages", "--to", tmp_path / "deep" / "a.jsonl")
    lines = json_lines(tmp_path / "deep" / "a.jsonl")
    image_counts = [len(state.views) for state in RunData(run).states]
    assert [len(images_of(line)) for line in lines] == image_counts
    for line in lines:
        for image in images_of(line):
            assert not image.startswith("/")
            assert (tmp_path / "deep" / image).read_bytes().startswith(b"\x89PNG")


def test_correct_and_least_score_select_questions(run, tmp_path):
    export(run, "--format", "messages", "--correct", "--to", tmp_path / "right")
    lines = json_lines(tmp_path / "right")
    assert [line["id"] for line in lines] == RIGHT
    assert all(line["score"] >= 0.5 and "truth" not in line for line in lines)
    export(run, "--format", "messages", "--least-score", 0.1, "--to", tmp_path / "some")
    scores = {line["id"]: line["score"] for line in json_lines(tmp_path / "some")}
    assert scores.keys() == {"0", "1", "2"}
    assert 0.1 <= scores["2"] < 0.5


def test_score_in_a_mirrored_room_is_for_the_scene_as_shown(tmp_path):
    """Questions 1 and 3 are about left and right, which are swapped; B was right before."""
    run = make_run(tmp_path, image_stress="mirrored")
    export(run, "--format", "messages", "--correct", "--with-truth", "--to", tmp_path / "a")
    lines = {line["id"]: line for line in json_lines(tmp_path / "a")}
    assert lines.keys() == {"0", "3"}
    assert (lines["3"]["answer"], lines["3"]["truth"], lines["3"]["score"]) == ("A", "A", 1)
    export(run, "--format", "csv", "--to", tmp_path / "b")
    with (tmp_path / "b").open(newline="") as opened:
        rows = {row["question_id"]: row for row in csv.DictReader(opened)}
    assert [rows["1"][name] for name in ("truth", "score")] == ["B", "1.0"]
    assert [rows["1"][f"{name}_as_shown"] for name in ("truth", "score")] == ["A", "0.0"]


def test_with_truth_adds_the_ground_truth(run, tmp_path):
    export(run, "--format", "messages", "--with-truth", "--to", tmp_path / "a")
    export(run, "--format", "messages", "--to", tmp_path / "b")
    with_truth, without_truth = json_lines(tmp_path / "a"), json_lines(tmp_path / "b")
    assert [line.pop("truth") for line in with_truth] == ["3", "B", "3", "B"]
    assert with_truth == without_truth


def test_without_thinking_removes_thinking_blocks(run, tmp_path):
    export(run, "--format", "messages", "--question", 0, "--question", 1, "--to", tmp_path / "a")
    first, second = json_lines(tmp_path / "a")
    replies = [entry["content"][0]["text"] for entry in first["messages"][2::2]]
    assert replies == REPLIES["0"]
    # special tokens are escaped in both cases
    assert "<|im_end|>" not in second["messages"][2]["content"][0]["text"]
    export(run, "--format", "messages", "--without-thinking", "--to", tmp_path / "b")
    assert "think" not in (tmp_path / "b").read_text()


def test_chat_template_accepts_every_line(run, tmp_path, monkeypatch):
    tokenizer = published_tokenizer(test_data("qwen"))
    tokenizer.chat_template = CHAT_TEMPLATE
    image, begin, end = tokenizer.convert_tokens_to_ids(
        ["<|image_pad|>", "<|im_start|>", "<|im_end|>"]
    )
    monkeypatch.chdir(tmp_path)
    export(run, "--format", "messages", "--to", "a.jsonl")
    for line in json_lines(tmp_path / "a.jsonl"):
        read = tokenizer.apply_chat_template(line["messages"], return_dict=True)["input_ids"]
        assert read.count(image) == len(images_of(line)) > 0
        assert read.count(begin) == read.count(end) == len(line["messages"])
        for file in images_of(line):
            with Image.open(file) as opened:
                assert opened.size == (96, 72)


def test_run_without_replies(tmp_path):
    blind = start_run(make_config(tmp_path, make_questions(tmp_path, 2), views="none"))
    blind.close()
    with pytest.raises(UsageError, match="no selected question has a reply"):
        export(blind.path, "--format", "messages", "--to", tmp_path / "a")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--question", "99"], "'99'"),
        (["--type", "route_planning"], "'route_planning'"),
        (["--correct", "--question", "3"], "no questions are selected"),
        (["--correct", "--least-score", "0.2"], "--correct and --least-score"),
        (["--embed"], "--embed.*inspect"),
    ],
)
def test_invalid_selections(run, tmp_path, arguments, message):
    with pytest.raises(UsageError, match=message):
        export(run, "--format", "messages", "--to", tmp_path / "a", *arguments)
    assert not (tmp_path / "a").exists()


def test_no_overwriting_and_no_writing_into_a_run(run, tmp_path):
    (tmp_path / "a").write_text("mine")
    before = contents(run)
    with pytest.raises(UsageError, match="--force"):
        export(run, "--format", "messages", "--to", tmp_path / "a")
    assert (tmp_path / "a").read_text() == "mine"
    export(run, "--format", "messages", "--force", "--to", tmp_path / "a")
    assert len(json_lines(tmp_path / "a")) == 4
    for inside in (run / "a", run / "report" / "a", run):
        with pytest.raises(UsageError, match="run folder"):
            export(run, "--format", "messages", "--force", "--to", inside)
    with pytest.raises(UsageError, match="a run is named twice"):
        export(run, run, "--format", "messages", "--to", tmp_path / "b")
    assert contents(run) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]


def test_several_runs_are_concatenated(run, tmp_path):
    second_run = make_run(tmp_path, seed=1)
    export(run, second_run, "--format", "messages", "--to", tmp_path / "a")
    lines = json_lines(tmp_path / "a")
    assert [(line["run"], line["id"]) for line in lines] == [
        (path.name, str(number)) for path in (run, second_run) for number in range(4)
    ]
