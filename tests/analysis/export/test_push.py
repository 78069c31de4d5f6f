"""A run goes to a data set on the hub, without keys and paths; results go to other harnesses in their forms."""

import base64
import csv
import io
import json
import socket
import zipfile
from pathlib import Path

import click
import pytest
import yaml
from factories.documentation import understand
from factories.exports import export, make_run
from factories.hub import Hub, serving
from factories.runs import Silent, make_questions, walking

from render_agent.analysis.export.dataset_push import card, push, stage
from render_agent.analysis.export.selection import QuestionFilter, select_runs
from render_agent.config import RunConfig
from render_agent.errors import SetupError, UsageError
from render_agent.runs.log.folder import RunFolder
from render_agent.runs.runner import start_run


class UploadHub(Hub):
    """Takes commits of data sets as the hub's upload API does, all files within the commit."""

    seen = {}  # noqa: RUF012
    refuse = False

    def do_POST(self):
        length = int(self.headers["Content-Length"] or 0)
        body = self.rfile.read(length)
        action = self.path.partition("?")[0].split("/")
        if self.refuse:
            return self.reply(403, {"error": "You don't have the rights of sesame-open-1234"})
        if action[-1] == "create":
            self.seen["repo"] = json.loads(body)
            return self.reply(
                200,
                {
                    "url": f"http://{self.headers['Host']}/datasets/me/first",
                    "id": "me/first",
                    "name": "me/first",
                },
            )
        if "preupload" in action:
            paths = [file["path"] for file in json.loads(body)["files"]]
            modes = [
                {"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in paths
            ]
            return self.reply(200, {"files": modes})
        if "commit" in action:
            lines = [json.loads(line) for line in body.splitlines()]
            self.seen["commit"] = lines[0]["value"]["summary"]
            self.seen["deleted"] = [
                line["value"]["path"] for line in lines if line["key"] == "deletedFile"
            ]
            self.seen["files"] = {
                line["value"]["path"]: base64.b64decode(line["value"]["content"])
                for line in lines
                if line["key"] == "file"
            }
            return self.reply(
                200,
                {
                    "commitUrl": f"http://{self.headers['Host']}/datasets/me/first/commit/{'0' * 40}",
                    "commitOid": "0" * 40,
                    "hookOutput": "",
                },
            )
        return self.reply(200, {})

    def found(self, parts):
        if self.refuse:
            return 403, {"X-Error-Code": "", "X-Error-Message": "no"}, b"{}"
        tree = [
            {"type": "file", "path": path, "oid": "1", "size": 1}
            for path in ("views/9/old.png", "mine.txt")
        ]
        return (
            200,
            {"Content-Type": "application/json"},
            json.dumps(tree if "tree" in parts else {}).encode(),
        )

    def reply(self, status, answer):
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("run"))


@pytest.fixture
def hub(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "sesame-open-1234")
    monkeypatch.setattr(UploadHub, "seen", {})
    with serving(UploadHub) as address:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        monkeypatch.setattr("huggingface_hub.constants.is_offline_mode", lambda: False)
        yield UploadHub


def test_a_run_becomes_a_data_set_with_a_card_and_without_places_of_this_machine(run, hub):
    told = export_command("push", run, "--repo", "first")
    assert hub.seen["repo"]["type"] == "dataset"
    assert hub.seen["repo"]["visibility"] == "private"
    assert "first" in told
    files = hub.seen["files"]
    results = RunFolder(run).results()
    shown = {str(file.relative_to(run)) for file in (run / "views").rglob("*.png")}
    told = {"README.md", "config.json", "results.json", "questions.csv", "dialogues.jsonl"}
    assert files.keys() == told | shown
    assert hub.seen["deleted"] == ["views/9/old.png"]
    assert all(files[name] == (run / name).read_bytes() for name in shown)
    for name in told:
        assert str(run.parent).encode() not in files[name]
        assert b"sesame-open-1234" not in files[name]
    rows = list(csv.DictReader(io.StringIO(files["questions.csv"].decode())))
    assert [row["question_id"] for row in rows] == ["0", "1", "2", "3"]
    named = [
        piece["image"]
        for line in files["dialogues.jsonl"].splitlines()
        for message in json.loads(line)["messages"]
        for piece in message["content"]
        if "image" in piece
    ]
    assert set(named) <= shown
    assert len(named) > 4
    head, words = files["README.md"].decode().split("---\n", 2)[1:]
    assert yaml.safe_load(head)["configs"][0]["data_files"] == "questions.csv"
    assert (
        f"Official score: **{results['official_over_scored']['score']:.1f}** over 4 questions"
        in words
    )
    assert "PARTIAL" not in words
    (line,) = [line for line in words.splitlines() if line.startswith("render-agent ")]
    assert "--batch --benchmark questions.jsonl" in line
    understand(line)
    with pytest.raises(click.NoSuchOption):
        understand(line + " --no-such-option")


def export_command(*words):
    from click.testing import CliRunner

    from render_agent.cli.main import cli

    return CliRunner().invoke(cli, list(map(str, words)), catch_exceptions=False).output


def test_the_card_of_a_part_says_so_in_one_sentence(run):
    (selected,) = select_runs([RunFolder(run)], QuestionFilter())
    words = card(selected, {**RunFolder(run).results(), "status": "partial"})
    assert "\n\n**PARTIAL**: this is not the score of the whole benchmark.\n\n" in words


def test_a_hub_that_refuses_is_said_in_a_sentence_without_the_key(tmp_path, hub, monkeypatch):
    monkeypatch.setattr(hub, "refuse", True)
    (tmp_path / "README.md").write_text("a card")
    with pytest.raises(SetupError, match=r"the hub does not take first: .*403") as caught:
        push(tmp_path, "first", public=True)
    assert "sesame-open-1234" not in str(caught.value)


def test_a_hub_out_of_reach_is_said_in_a_sentence(tmp_path, hub, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        monkeypatch.setattr(
            "huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{taken.getsockname()[1]}"
        )
        with pytest.raises(SetupError, match=r"first could not be sent to the hub: .*refused"):
            push(tmp_path, "first", public=True)


def vsibench_run(folder):
    """A whole run of what is called VSI-Bench."""
    questions = make_questions(folder, 4)
    rows = [
        json.loads(line) | {"dataset": "scannet"} for line in questions.read_text().splitlines()
    ]
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = start_run(
        RunConfig(
            batch=True,
            questions=str(folder / "test.jsonl"),
            views="none",
            engine="scripted",
            output=str(folder / "runs"),
        )
    )
    run.go(Silent(), lambda config, asked: walking(4))
    run.close()
    return run.path


def test_results_go_to_lmms_eval_and_easi_in_their_forms(tmp_path):
    run = vsibench_run(tmp_path)
    results = RunFolder(run).results()
    export(run, "--format", "easi", "--to", tmp_path / "easi")
    payload = json.loads((tmp_path / "easi" / "easi_results.json").read_text())
    assert payload["remarks"] == (
        "The views of each scan are those of --views none; no video is shown. "
        + "; ".join(results["notes"])
    )
    assert len(results["notes"]) > 1
    score = results["official"]
    assert payload["scores"] == {"vsi_bench": pytest.approx(score, abs=1e-4)}
    assert payload["subScores"]["vsi_bench"]["object_counting"] == pytest.approx(
        results["tasks"]["object_counting"], abs=1e-4
    )
    assert payload["subScores"]["vsi_bench"].keys() == {
        "object_counting",
        "object_rel_direction_accuracy",
    }
    with zipfile.ZipFile(tmp_path / "easi" / "easi_results.zip") as archive:
        files = {Path(name).name: archive.read(name) for name in archive.namelist()}
    scores, samples = (
        next(name for name in files if name.endswith(end))
        for end in ("_results.json", "_samples_vsibench_multiimage.jsonl")
    )
    metrics = json.loads(files[scores])["results"]["vsibench_multiimage"]
    # as EASI's adapter reads them: without their filter, times 100
    read = {name.partition(",")[0]: value for name, value in metrics.items() if name != "alias"}
    assert 100 * read["vsibench_overall"] == pytest.approx(score)
    lines = [json.loads(line) for line in files[samples].splitlines()]
    assert [line["doc_id"] for line in lines] == [0, 1, 2, 3]
    for line, row in zip(lines, results["questions"], strict=True):
        told = line["vsibench_score"]
        metric = "MRA:.5:.95:.05" if told["question_type"] == "object_counting" else "accuracy"
        assert (told["prediction"], told[metric]) == (row["answer_text"], row["score"])
        assert line["filtered_resps"] == [row["answer_text"]]


def test_easi_takes_no_part_of_a_benchmark(run, tmp_path):
    with pytest.raises(UsageError, match="is no whole run of VSI-Bench"):
        export(run, "--format", "easi", "--to", tmp_path / "easi")
    export(run, "--format", "lmms-eval", "--to", tmp_path / "lmms")
    assert len(list((tmp_path / "lmms").iterdir())) == 2
    (scores,) = (tmp_path / "lmms").glob("*_results.json")
    notes = json.loads(scores.read_text())["notes"]
    assert "the questions are those of questions.jsonl, not VSI-Bench's" in notes


def test_what_is_staged_without_pictures_is_texts_alone(run, tmp_path):
    (chosen,) = select_runs([RunFolder(run)], QuestionFilter())
    stage(chosen, tmp_path, pictures=False)
    assert not (tmp_path / "views").exists()
