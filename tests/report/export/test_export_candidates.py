"""Tests of exported candidates: preference pairs, columns of turns, arrows in recordings."""

import json
from importlib.util import find_spec

import numpy as np
import pytest
from click.testing import CliRunner
from factories.exports import export, json_lines, read_csv
from factories.runs import make_questions, play

from render_agent.cli.main import cli
from render_agent.engines.scripted import ScriptedEngine
from render_agent.runs.read import RunData

ANSWERS = {"0": "3", "1": "A"}


class Walker:
    """Returns different samples, one unreadable and one with thinking; finishes in turn 3."""

    def reply(self, request):
        return self.samples(request)[0]

    def samples(self, request):
        if request.turn == 3:
            answer = {"answer": ANSWERS[request.dialogue_id], "done": True}
            return [json.dumps(answer)] * request.num_samples
        replies = [
            json.dumps({"rotation_angle_degrees": 40 * sample + 10, "forward_meters": 0.2})
            for sample in range(request.num_samples)
        ]
        replies[1] = f"<think>Where to?</think>{replies[1]}"
        return [*replies[:-1], "no JSON at all"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return the folder of a run with look-ahead on two questions."""
    folder = tmp_path_factory.mktemp("candidates")
    path, _ = play(
        folder,
        make_questions(folder, 2),
        ScriptedEngine(Walker()),
        agent="lookahead:4",
        verifier=("random",),
        temperature=1.0,
    )
    return path


def test_pairs_contrast_the_chosen_move_with_lower_scores(run, tmp_path):
    export(run, "--format", "pairs", "--to", tmp_path / "pairs.jsonl")
    export(run, "--format", "messages", "--to", tmp_path / "messages.jsonl")
    dialogues = {line["id"]: line["messages"] for line in json_lines(tmp_path / "messages.jsonl")}
    pairs = json_lines(tmp_path / "pairs.jsonl")
    assert len(pairs) == 2 * 3 * 2  # questions × turns with moves × other candidates that continue
    for pair in pairs:
        prompt, dialogue = pair["prompt"], dialogues[pair["id"]]
        assert dialogue[: len(prompt)] == prompt
        assert dialogue[len(prompt)] == pair["chosen"][0]
        assert pair["rejected"][0] != pair["chosen"][0]
        scores = pair["scores"]
        assert scores["chosen"]["fused"] > scores["rejected"]["fused"]
        assert scores["chosen"]["random"]["random"] > scores["rejected"]["random"]["random"]
        assert all((tmp_path / file).is_file() for file in pair["views"].values())
        assert {piece["type"] for entry in prompt for piece in entry["content"]} == {
            "text",
            "image",
        }
    assert any("<think>" in json.dumps(pair) for pair in pairs)
    bare = tmp_path / "bare.jsonl"
    export(run, "--format", "pairs", "--without-thinking", "--absolute", "--to", bare)
    text = bare.read_text("utf-8")
    assert "<think>" not in text
    assert str(run.resolve()) in text
    assert len(json_lines(bare)) == len(pairs)


def test_rows_include_the_choice(run, tmp_path):
    export(run, "--format", "turns-csv", "--to", tmp_path / "turns.csv")
    rows = read_csv(tmp_path / "turns.csv")
    turns = [turn for state in RunData(run).states for turn in state.turns]
    choices = [(row["candidates"], row["chosen"], row["chosen_score"]) for row in rows]
    assert choices == [
        ("4", str(t.evidence.chosen), "1.0" if t.evidence.fused else "") for t in turns
    ]
    export(run, "--format", "csv", "--to", tmp_path / "rows.csv")
    rows = read_csv(tmp_path / "rows.csv")
    assert {(row["agent"], row["verifier"]) for row in rows} == {("lookahead:4", "random")}
    file = tmp_path / "one.csv"
    result = export(run, "--format", "csv", "--question", rows[0]["question_id"], "--to", file)
    assert result == f"1 row in {file}\n"


@pytest.mark.skipif(not find_spec("rerun"), reason="the extra rerun is not installed")
def test_recordings_include_candidate_poses(run, tmp_path):
    export(run, "--format", "rerun", "--question", "0", "--to", tmp_path / "0.rrd")
    from test_export_rerun import read_recording

    poses = read_recording(tmp_path / "0.rrd")["/world/candidates"]
    (state,) = [state for state in RunData(run).states if state.id == "0"]
    going = [[c for c in turn.evidence.candidates if c.continues_dialogue] for turn in state.turns]
    assert [len(strip) for strip in going] == [3, 3, 3, 0]
    assert np.allclose(
        [vector for vectors in poses["Arrows3D:vectors"] for vector in vectors],
        [0.3 * c.camera.forward for strip in going for c in strip],
        atol=1e-6,
    )
    names = [[label.partition(":")[0] for label in labels] for labels in poses["Arrows3D:labels"]]
    assert names == [[str(c.number + 1) for c in strip] for strip in going]


def test_a_run_with_one_reply_per_turn_has_no_pairs(tmp_path):
    path, _ = play(tmp_path, make_questions(tmp_path, 1), ScriptedEngine(Walker()))
    arguments = ["export", str(path), "--format", "pairs", "--to", str(tmp_path / "none")]
    result = CliRunner().invoke(cli, arguments)
    assert "--agent" in str(result.exception or result.output)
    assert not (tmp_path / "none").exists()
