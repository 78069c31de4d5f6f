"""A run divided into shards and merged equals the undivided run."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from factories.runs import (
    comparable_results,
    finish_run,
    make_config,
    make_questions,
    play,
    resume,
    spread_over_rooms,
    transcripts,
    truncate_log,
    walking_engine,
)

from render_agent import registry
from render_agent.errors import QuestionsError, RunLogError, SetupError, UsageError
from render_agent.options import RunConfig
from render_agent.runs import merge_shards as merging
from render_agent.runs.build import build
from render_agent.runs.log.lock import FolderLock
from render_agent.runs.log.writer import RunLog
from render_agent.runs.merge_shards import merge_shards
from render_agent.runs.read import RunData, list_runs
from render_agent.runs.runner import resume_run, start_run
from render_agent.tasks.selection import shard_of


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    """Eight questions about five scenes, which share one scan under five names."""
    folder = tmp_path_factory.mktemp("questions")
    path = make_questions(folder, 8)
    return spread_over_rooms(path, 5)


def test_shards_partition_questions_by_scene(tmp_path, questions):
    all_questions = build(make_config(tmp_path, questions)).questions()
    for count in (1, 2, 3, 5):
        parts = [shard_of(all_questions, f"{part}/{count}") for part in range(1, count + 1)]
        assert sorted(q.id for part in parts for q in part) == [q.id for q in all_questions]
        scenes = [{q.scene for q in part} for part in parts]
        assert sum(map(len, scenes)) == len(set.union(*scenes)) == 5


@pytest.mark.parametrize("shard", ["0/2", "3/2", "2", "a/b", "1/0", "-1/2", ""])
def test_invalid_shard_is_refused(shard):
    with pytest.raises(UsageError, match="must be I/N"):
        shard_of([], shard)


def test_empty_shard_is_refused(tmp_path, questions):
    with pytest.raises(QuestionsError, match="5 scenes"):
        build(make_config(tmp_path, questions, shard="6/6")).questions()


@pytest.fixture(scope="module")
def undivided_run(questions):
    """The undivided run; not to be modified."""
    return play(questions.parent, questions, walking_engine(8))[0]


@pytest.fixture(scope="module")
def parts(questions):
    """The same run in three shards; not to be modified."""
    arguments = questions.parent, questions, walking_engine(8)
    paths = [play(*arguments, shard=f"{part}/3")[0] for part in (1, 2, 3)]
    return [RunData(path) for path in paths]


def test_merged_shards_equal_the_undivided_run(tmp_path, undivided_run, parts):
    assert all(part.saved_results["status"] == "partial" for part in parts)
    path, result = merge_shards(tmp_path / "merged", parts[::-1])
    assert transcripts(path) == transcripts(undivided_run)
    assert comparable_results(path) == comparable_results(undivided_run)
    assert result["status"] == "complete"
    for turns in transcripts(path).values():
        for view in (view for turn in turns for view in turn["views"]):
            assert (path / view["file"]).read_bytes() == (undivided_run / view["file"]).read_bytes()
    assert RunData(path).config == RunConfig.from_json(RunData(undivided_run).record["config"])


FITTED = """
import json
from collections import Counter
from render_agent.engines.scripted.load_policy import ReplayPolicy

def policy(questions, seed):
    numbers = Counter(q.ground_truth for q in questions if not q.options)
    answer = f"{len(questions)}{numbers.most_common(1)[0][0]}"
    return ReplayPolicy({"*": [json.dumps({"answer": answer, "done": True})]})
"""


@pytest.fixture(scope="module")
def uneven_questions(tmp_path_factory):
    """Questions about eight scenes, in every second of which all counts are 7 and all letters A."""
    folder = tmp_path_factory.mktemp("uneven")
    path = spread_over_rooms(make_questions(folder, 32), 8)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        if int(row["scene_name"][-1]) % 4 < 2:
            row["ground_truth"] = "A" if row["options"] else "7"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "fitted.py").write_text(FITTED)
    return path


def play_whole_and_merged(folder, questions, **options):
    """Run a scripted policy undivided, and in two shards that are merged; return both folders."""
    whole, *shards = (
        start_run(make_config(folder, questions, **options, shard=shard))
        for shard in (None, "1/2", "2/2")
    )
    for run in (whole, *shards):
        finish_run(run)
    return whole.path, merge_shards(folder / "merged", [RunData(run.path) for run in shards])[0]


@pytest.mark.parametrize("model", [*registry.names("scripted policy"), "fitted.py"])
def test_scripted_policy_is_fitted_on_the_undivided_selection(tmp_path, uneven_questions, model):
    if model.endswith(".py"):
        model = str(uneven_questions.with_name(model))
    options = {"model": model, "max_turns": 2, "views": "none"}
    whole, merged = play_whole_and_merged(tmp_path, uneven_questions, **options)
    assert transcripts(merged) == transcripts(whole)
    assert comparable_results(merged) == comparable_results(whole)


def test_counterparts_in_shards_are_answered_as_in_the_undivided_run(tmp_path):
    options = {"model": "frequency", "views": "none", "change": ("names",), "shuffle": True}
    whole, merged = play_whole_and_merged(tmp_path, "rooms", limit=40, **options)
    assert any(question.change for question in RunData(whole).questions)
    assert transcripts(merged) == transcripts(whole)


def test_merged_run_without_the_answer_of_a_counterpart_is_unfinished(tmp_path):
    options = {"model": "frequency", "views": "none", "change": ("names",), "limit": 40}
    shards = []
    for shard in ("1/2", "2/2"):
        run = start_run(make_config(tmp_path, "rooms", **options, shard=shard))
        finish_run(run)
        shards.append(run.path)
    log = shards[0] / "turns.jsonl"
    unanswered = RunData(shards[0]).counterparts[0].id
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(line for line in lines if json.loads(line)["question_id"] != unanswered))
    (shards[0] / "results.json").unlink()
    path, _ = merge_shards(tmp_path / "merged", [*map(RunData, shards)])
    assert RunData(path).saved_results is None
    resume(path)
    assert not any(state.active for state in RunData(path).dialogues)


def test_shard_of_a_scripted_run_is_not_resumed_with_other_questions(tmp_path, uneven_questions):
    questions = Path(shutil.copytree(uneven_questions.parent, tmp_path / "copy"), "questions.jsonl")
    run = start_run(make_config(tmp_path, questions, model="frequency", shard="1/2"))
    run.close()
    resume_run(RunData(run.path), {}).close()
    questions.write_text(questions.read_text().replace('"7"', '"9"'))
    with pytest.raises(SetupError, match=str(questions)):
        resume_run(RunData(run.path), {})


def test_merged_unfinished_shard_can_be_resumed(tmp_path, undivided_run, parts):
    unfinished = RunData(Path(shutil.copytree(parts[1].path, tmp_path / parts[1].name)))
    truncate_log(unfinished.path, 3)
    path, result = merge_shards(tmp_path / "merged", [parts[0], unfinished, parts[2]])
    assert result["official"] is None
    assert RunData(path).saved_results is None
    resume(path, walking_engine(8))
    assert transcripts(path) == transcripts(undivided_run)
    assert comparable_results(path) == comparable_results(undivided_run)


def test_incomplete_or_foreign_shards_are_refused(tmp_path, questions, undivided_run, parts):
    foreign = RunData(
        play(questions.parent, questions, walking_engine(8), shard="1/3", max_turns=5)[0]
    )
    for wrong, message in (
        ([RunData(undivided_run)], "is not a shard"),
        (parts[:2], "these shards are missing: 3/3"),
        ([*parts, parts[0]], "must occur once"),
        ([foreign, *parts[1:]], "different options"),
    ):
        with pytest.raises(UsageError, match=message):
            merge_shards(tmp_path / "merged", wrong)
    assert not (tmp_path / "merged").exists()


def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


STEPS = (
    (RunLog, "write_record"),
    (merging.os, "link"),
    (RunLog, "append_line"),
    (RunLog, "write_questions"),
    (RunLog, "write_results"),
    (Path, "rename"),
    (merging, "sync_folder"),
)


def test_killed_merge_leaves_no_run(tmp_path, monkeypatch, undivided_run, parts):
    output = tmp_path / "merged"
    for owner, step in STEPS:
        child = os.fork()
        if child == 0:
            monkeypatch.setattr(owner, step, die)
            merge_shards(output, parts)
            os._exit(0)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL, step
        assert [transcripts(path) for path in list_runs(output)] == (
            [transcripts(undivided_run)] if step == "sync_folder" else []
        )
    path, _ = merge_shards(output, parts[::-1])
    assert transcripts(path) == transcripts(undivided_run)
    assert len(list_runs(output)) == 2
    assert not list(output.glob(".*"))


def test_two_merges_of_the_same_shards_do_not_mix(tmp_path, parts):
    unfinished = tmp_path / f".merge-{parts[0].name}"
    unfinished.mkdir()
    lock = FolderLock(unfinished)
    with pytest.raises(RunLogError, match="is being written by process"):
        merge_shards(tmp_path, parts)
    lock.close()
    assert unfinished.exists()
    merge_shards(tmp_path, parts)
    assert not unfinished.exists()
