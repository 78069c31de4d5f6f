"""Tests of Inspect AI logs, read back with inspect_ai."""

import base64
import shutil

import pytest
from factories.exports import REPLIES, export, make_run

from render_agent.errors import SetupError, UsageError
from render_agent.runs.read import RunData


@pytest.fixture(scope="module")
def log():
    return pytest.importorskip("inspect_ai.log")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("run"))


@pytest.mark.parametrize("ending", [".eval", ".json"])
def test_log_has_the_same_figures_as_the_run(run, log, tmp_path, ending):
    export(run, "--format", "inspect", "--to", tmp_path / f"a{ending}")
    read = log.read_eval_log(str(tmp_path / f"a{ending}"))
    results = RunData(run).saved_results
    assert read.status == "success"
    (scores,) = read.results.scores
    metrics = {name: metric.value for name, metric in scores.metrics.items()}
    assert metrics == {
        name: pytest.approx(results[name] / 100)
        for name in ("official_raw", "official", "without_order", "micro", "mean_of_types")
    }
    assert read.eval.task_args["image_size"] == [96, 72]
    assert "max_turns" not in read.eval.task_args
    assert (read.results.total_samples, read.results.completed_samples) == (4, 4)
    for sample, row, state in zip(
        read.samples, results["questions"], RunData(run).states, strict=True
    ):
        assert (sample.id, sample.target) == (row["question_id"], row["truth"])
        (score,) = sample.scores.values()
        assert (score.value, score.answer) == (row["score"], row["answer"])
        assert sample.metadata["type"] == row["type"]
        assert sample.turn_count == row["turns"]
        roles = [message.role for message in sample.messages]
        assert roles == ["system", *(["user", "assistant"] * row["turns"])]
        images = [
            piece.image
            for message in sample.messages
            for piece in message.content_list
            if piece.type == "image"
        ]
        assert images == [str(run / view.file) for view in state.views]
    (usage,) = read.stats.model_usage.values()
    totals = results["totals"]["tokens"]
    assert usage.input_tokens + usage.input_tokens_cache_read == totals["in"]
    assert (usage.output_tokens, usage.total_tokens) == (
        totals["out"],
        totals["in"] + totals["out"],
    )


def test_thinking_becomes_reasoning_content(run, log, tmp_path):
    export(run, "--format", "inspect", "--question", 0, "--to", tmp_path / "a.json")
    (sample,) = log.read_eval_log(str(tmp_path / "a.json")).samples
    reasoning, text = sample.messages[-1].content
    assert reasoning.reasoning == "Three, I think."
    assert f"<think>{reasoning.reasoning}</think>{text.text}" == REPLIES["0"][-1]
    assert sample.output.completion == text.text


def test_embed_stores_images_in_the_log(run, log, tmp_path):
    export(run, "--format", "inspect", "--embed", "--question", 3, "--to", tmp_path / "a.eval")
    (sample,) = log.read_eval_log(str(tmp_path / "a.eval"), resolve_attachments=True).samples
    (state,) = (state for state in RunData(run).states if state.id == "3")
    pieces = [piece for message in sample.messages for piece in message.content_list]
    images = [piece.image for piece in pieces if piece.type == "image"]
    for image, view in zip(images, state.views, strict=True):
        head, _, data = image.partition(",")
        assert head == "data:image/png;base64"
        assert base64.b64decode(data) == (run / view.file).read_bytes()


def test_one_log_per_run(run, log, tmp_path):
    blind_run = make_run(tmp_path, views="none")
    with pytest.raises(UsageError, match="2 runs"):
        export(run, blind_run, "--format", "inspect", "--to", tmp_path / "a.eval")
    export(run, blind_run, "--format", "inspect", "--diagnose", "--to", tmp_path / "logs")
    listed = {info.name.rpartition("/")[2] for info in log.list_eval_logs(str(tmp_path / "logs"))}
    assert listed == {f"{run.name}.eval", f"{blind_run.name}.eval"}
    blind = log.read_eval_log(str(tmp_path / "logs" / f"{blind_run.name}.eval"))
    assert {sample.metadata["cause"] for sample in blind.samples} >= {"right"}


def test_missing_image_is_named_in_the_error(tmp_path):
    path = make_run(tmp_path)
    shutil.rmtree(path / "views")
    with pytest.raises(SetupError, match=r"\.eval: .*/views/.*\.png: No such file"):
        export(path, "--format", "inspect", "--embed", "--to", tmp_path / "logs")
    assert not list((tmp_path / "logs").iterdir())
