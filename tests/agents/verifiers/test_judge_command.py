"""`render-agent judge`: image files, table, CSV, JSON and exit codes."""

import csv
import json

import pytest
from click.testing import CliRunner
from factories.models import random_image, small_model

from render_agent.cli.main import cli
from render_agent.errors import SetupError, UsageError

QUESTION = ("--question", "How many chairs are there?")


def reply(*values):
    names = ("visible", "unoccluded", "scale", "new")
    return json.dumps(
        {name: {"reason": f"[b]{name}", "value": v} for name, v in zip(names, values, strict=True)}
    )


@pytest.fixture
def views(tmp_path):
    """A folder with three images, one of them in a subfolder, and another file."""
    folder = tmp_path / "views"
    (folder / "below").mkdir(parents=True)
    random_image(64, 48, 1).save(folder / "b.png")
    random_image(64, 48, 2).save(folder / "a.JPG")
    random_image(48, 64, 3).convert("RGBA").save(folder / "below" / "c.webp")
    (folder / "notes.txt").write_text("no picture")
    return folder


@pytest.fixture
def scripted(tmp_path):
    """Options of an engine with predefined replies; the second one is unreadable."""
    file = tmp_path / "replies.json"
    texts = {0: reply(True, 0.5, False, True), 1: "8/10", 2: reply(True, 1, True, True)}
    rows = [{"id": f"judge/{number}", "replies": [text]} for number, text in texts.items()]
    file.write_text(json.dumps(rows))
    return ["--engine", "scripted", "--model", str(file), "--mode", "json", *QUESTION]


def judge(*words):
    return CliRunner().invoke(cli, ["judge", *map(str, words)])


def test_table_and_csv_list_every_image(views, scripted, tmp_path):
    file = tmp_path / "scores.csv"
    result = judge(views, *scripted, "--csv", file)
    assert result.exit_code == 1, "one image has no score"
    assert "judged 2 of 3" in result.stdout
    with file.open(newline="", encoding="utf-8") as opened:
        rows = list(csv.DictReader(opened))
    assert [row["picture"] for row in rows] == [
        str(views / name) for name in ("a.JPG", "b.png", "below/c.webp")
    ]
    assert [row["score"] for row in rows] == [str(2.5 / 4), "", "1.0"]
    assert rows[0]["criteria.unoccluded"] == "0.5"
    assert rows[0]["criteria.unoccluded.reason"] == "[b]unoccluded"
    assert "not JSON" in rows[1]["why_not"]


def test_json_output_has_scores_and_totals(views, scripted):
    result = judge(views, *scripted, "--json")
    output = json.loads(result.stdout)
    assert (output["rubric"], output["mode"], output["question"]) == ("view", "json", QUESTION[1])
    assert output["totals"]["judged"] == 2
    assert output["totals"]["failed"] == 1
    assert [row["score"] for row in output["pictures"]] == [2.5 / 4, None, 1]


def test_unreadable_images_are_named_and_others_judged(views, scripted):
    (views / "b.png").write_bytes(b"truncated")
    (views / "[red]below").mkdir()
    result = judge(views / "[red]below" / "none.png", views, *scripted, "--json")
    assert result.exit_code == 1
    rows = json.loads(result.stdout)["pictures"]
    assert [row["score"] is None for row in rows] == [True, False, True, True]
    assert "No such file or directory" in rows[0]["why_not"]
    assert rows[0]["picture"].endswith("[red]below/none.png")
    result = judge(views / "[red]below" / "none.png", views, *scripted)
    assert "[red]" in result.stdout.replace("\n", "")


def test_real_model_judges_files(views):
    model = ("--model", small_model(), "--engine", "transformers")
    words = [views, *model, *QUESTION, "--json"]
    result = CliRunner().invoke(
        cli, ["--device", "cpu", "--dtype", "float32", "judge", *map(str, words)]
    )
    assert result.exit_code == 0, result.output
    scores = [row["score"] for row in json.loads(result.stdout)["pictures"]]
    assert len(set(scores)) == 3
    assert all(0 < score < 1 for score in scores)


def test_custom_rubric_without_a_question(views, scripted, tmp_path):
    rubric = tmp_path / "mine.yaml"
    rubric.write_text("name: sharp\nintroduction: Judge.\ncriteria:\n  sharp: {text: Sharp}\n")
    engine = scripted[:4]
    result = judge(views, *engine, "--rubric", rubric, "--mode", "json", "--json")
    assert json.loads(result.stdout)["rubric"] == "sharp"
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("words", "error", "reason"),
    [
        (["{views}", "--engine", "scripted"], UsageError, "--question TEXT"),
        (["{views}", "--engine", "scripted", *QUESTION], UsageError, "mode json"),
        (["{views}/below/..", *QUESTION, "--rubric", "best"], SetupError, "'best'"),
        (["{empty}", *QUESTION], UsageError, "no images in"),
        (["{views}", *QUESTION, "--model", "{empty}"], SetupError, "--engine scripted"),
        (["{views}", *QUESTION, "--csv", "{empty}/none/s.csv"], SetupError, "cannot write"),
    ],
)
def test_usage_errors_are_one_sentence(views, tmp_path, words, error, reason):
    empty = tmp_path / "empty"
    empty.mkdir()
    result = judge(*(word.format(views=views, empty=empty) for word in words))
    assert isinstance(result.exception, error), result.output
    assert reason in str(result.exception)
    assert "\n" not in str(result.exception)


def test_existing_csv_is_kept_on_failure(views, tmp_path):
    file = tmp_path / "scores.csv"
    file.write_text("kept")
    judge(views, "--engine", "scripted", *QUESTION, "--csv", file)
    assert file.read_text() == "kept"
