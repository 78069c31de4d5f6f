"""Tests of scores of prediction files, compared with an independent implementation of the metrics."""

import json
import math
import random
from dataclasses import replace

import numpy as np
import pytest
from conftest import test_data

from render_agent.dialogue.question import Question
from render_agent.errors import QuestionsError
from render_agent.report.predictions import read_predictions, score_predictions
from render_agent.score.summary import VSI_BENCH_SCORE
from render_agent.score.tables import overall_lines
from render_agent.tasks.question_files import load_questions

NUMBERS = {
    "object_counting",
    "object_abs_distance",
    "object_size_estimation",
    "room_size_estimation",
}
DIRECTIONS = {f"object_rel_direction_{kind}" for kind in ("easy", "medium", "hard")}


def by_definition(rows, predictions):
    """Return the score of each type and the overall score, as defined in the benchmark's paper and code."""
    thresholds = np.linspace(0.5, 0.95, int((0.95 - 0.5) / 0.05 + 2))
    scores = {}
    for row in rows:
        word = (predictions.get(str(row["id"])) or "").split(" ")[0].rstrip(".").strip()
        if row["question_type"] in NUMBERS:
            truth = float(row["ground_truth"])
            try:
                relative = abs(float(word) - truth) / truth
                score = (relative <= 1 - thresholds).mean()
            except ValueError:
                score = 0.0
        else:
            score = 1.0 if word.lower() == row["ground_truth"].lower() else 0.0
        scores.setdefault(row["question_type"], []).append(score)
    types = {name: 100 * np.mean(values) for name, values in scores.items()}
    tasks = [score for name, score in types.items() if name not in DIRECTIONS]
    tasks.append(np.mean([types[name] for name in DIRECTIONS]))
    micro = 100 * np.mean([score for values in scores.values() for score in values])
    assert len(tasks) == 8
    return types, np.mean(tasks), micro


def near(row, chance):
    """Return the ground truth, or a value near a threshold or a parsing edge case."""
    truth = row["ground_truth"]
    if row["question_type"] not in NUMBERS:
        letter = chance.choice([truth, truth.lower(), chance.choice("ABCD"), "AB", ""])
        return letter + chance.choice(["", ".", "...", " left", "\nbecause", ". left", ")", " "])
    value = float(truth) * chance.choice(
        [1, *(1 + sign * step / 20 for sign in (-1, 1) for step in range(13))]
    )
    text = chance.choice(
        [str(value), f"{value:.1f}", f"{value:g}", str(round(value)), f"{value:e}", f"+{value}"]
    )
    return text + chance.choice(["", ".", " m", "m", "\n", "\t", " 7", "%"])


ODD = ["", " ", ".", "A", "a.", "B\nbecause", "twenty-one", "nan", "inf", "-inf", "1e400", "1_000", "٣", "0", "-1", "2.0",
       "(A)", "A)", "None", "null", "True", "\u00a0A", "\u200bA", "A\u00a0B", "Ａ", "1,5", "1e-320", "x" * 10_000]  # fmt: skip


def adversarial(row, chance):
    return chance.choice(ODD)


def uniform(row, chance):
    return chance.choice("ABCDE") if row["options"] else str(round(chance.lognormvariate(1, 1), 1))


MAKERS = [uniform, near, adversarial]


def predicted(rows, number):
    """Return a set of random predictions; `number` selects the kind and the share of missing ones."""
    chance = random.Random(number)
    share = [1, 1, 0.5, 0.03][number // 3 % 4]
    maker = MAKERS[number % 3]
    return {str(row["id"]): maker(row, chance) for row in rows if chance.random() < share}


@pytest.fixture(scope="module")
def benchmark():
    path = test_data("vsibench", "test.jsonl")
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return path, rows, load_questions(path, "vsibench")


def every_tenth(benchmark):
    """Return every tenth row, which covers all types, and its question."""
    _, rows, questions = benchmark
    return rows[::10], questions[::10]


@pytest.mark.parametrize(
    ("number", "whole"), [*((number, False) for number in (0, 1, 2, 7, 11)), (1, True)]
)
def test_official_score_matches_the_definition(benchmark, number, whole):
    rows, questions = benchmark[1:] if whole else every_tenth(benchmark)
    predictions = predicted(rows, number)
    types, overall, micro = by_definition(rows, predictions)
    found = score_predictions(questions, predictions)
    assert found["official"] == pytest.approx(overall, abs=1e-9)
    assert found["micro"] == pytest.approx(micro, abs=1e-9)
    assert found["types"].keys() == types.keys()
    for name, score in types.items():
        assert found["types"][name] == pytest.approx(score, abs=1e-9)
    assert found["counts"]["questions"] == len(rows) == (5130 if whole else 513)
    assert found["counts"]["missing"] == len(rows) - len(predictions)
    low, high = found["intervals"]["official"]
    assert low <= overall <= high


def test_command_accepts_string_and_number_ids(benchmark, type_in, tmp_path):
    path, rows, _ = benchmark
    predictions = predicted(rows, 7)
    types, overall, micro = by_definition(rows, predictions)
    lines = [
        json.dumps({"id": key if int(key) % 2 else int(key), "prediction": text, "other": 1})
        for key, text in predictions.items()
    ]
    random.Random(1).shuffle(lines)
    file = tmp_path / "predictions.jsonl"
    file.write_text("\ufeff" + "\n\n".join(lines) + "\n", "utf-8")
    code, out, err = type_in("score", file, "--questions", path, "--json", folder=tmp_path)
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["official"] == pytest.approx(overall, abs=1e-9)
    assert found["micro"] == pytest.approx(micro, abs=1e-9)
    assert found["types"] == pytest.approx(types, abs=1e-9)
    assert found["counts"]["missing"] == 5130 - len(predictions)
    assert found["status"] == "partial"
    code, out, _ = type_in("score", file, "--questions", path, folder=tmp_path)
    assert code == 0
    assert "PARTIAL" in out
    assert f"{overall:.1f}" in out


def test_ground_truth_scores_100_with_every_parser(benchmark):
    for parser in ("lmms-eval", "vlmevalkit", "official"):
        rows, questions = benchmark[1:] if parser == "official" else every_tenth(benchmark)
        truth = {str(row["id"]): row["ground_truth"] for row in rows}
        found = score_predictions(questions, truth, parser)
        assert found["official"] == found["micro"] == found["mean_of_types"] == 100
        assert found["macro" if parser != "official" else "official"] == 100
    assert found["debiased"]["n"] == 2362
    assert {name: one["n"] for name, one in found["datasets"].items()} == {
        "arkitscenes": 1601,
        "scannet": 2071,
        "scannetpp": 1458,
    }


def test_official_score_does_not_depend_on_the_parser(benchmark):
    rows, questions = every_tenth(benchmark)
    spoken = {str(row["id"]): f"It is {row['ground_truth']}" for row in rows}
    official = score_predictions(questions, spoken)
    loose = score_predictions(questions, spoken, "vlmevalkit")
    assert official["official"] == loose["official"] == 0
    assert loose["macro"] > 99
    assert official["parsers"]["vlmevalkit"]["macro"] == loose["macro"]
    assert "macro" not in official
    assert "official" not in loose["intervals"]


def test_debiased_score_uses_the_unpruned_rows(benchmark):
    rows, questions = every_tenth(benchmark)
    predictions = predicted(rows, 1)
    kept = [row for row in rows if not row["pruned"]]
    types, overall, micro = by_definition(kept, predictions)
    found = score_predictions(questions, predictions)["debiased"]
    assert (found["official"], found["micro"]) == pytest.approx((overall, micro), abs=1e-9)
    assert {name: entry["score"] for name, entry in found["types"].items()} == pytest.approx(types)


def made(number, kind="object_counting", answer_form="number", options=(), ground_truth="2"):
    return Question(
        str(number), "b", "d", str(number), kind, "?", answer_form, options, ground_truth
    )


TWO = [made(0), made(1), made(2, ground_truth=None)]


def written(folder, *lines):
    path = folder / "predictions.jsonl"
    path.write_text("\n".join(lines), "utf-8")
    return path


def test_predictions_are_not_normalized(tmp_path):
    path = written(tmp_path, '{"id": 0, "prediction": " A.\\n"}', '{"prediction": 2.50, "id": "1"}')
    assert read_predictions(path, TWO) == {"0": " A.\n", "1": "2.50"}
    path = written(tmp_path, '{"id": 0, "prediction": null}', "", '{"id": 2, "prediction": ""}')
    assert read_predictions(path, TWO) == {"0": None, "2": ""}


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (['{"id": 0, "prediction": "2"}', "{"], "line 2: .*JSON"),
        (["2"], "line 1: "),
        (['{"id": 0}'], "line 1: .*prediction"),
        (['{"prediction": "A"}'], "line 1: .*`id`"),
        (['{"id": true, "prediction": "A"}'], "line 1: .*id"),
        (['{"id": 0, "prediction": ["A"]}'], "line 1: .*prediction"),
        (['{"id": 0, "prediction": NaN}'], "line 1: .*prediction"),
        (['{"id": "00", "prediction": "A"}'], "line 1: .*'00'"),
        (['{"id": 0, "prediction": "A"}', "", '{"id": "0", "prediction": "A"}'], "line 3: .*'0'.*line 1"),
        ([""], "predictions.jsonl"),
    ],
)  # fmt: skip
def test_errors_name_the_line(tmp_path, lines, named):
    with pytest.raises(QuestionsError, match=named):
        read_predictions(written(tmp_path, *lines), TWO)


def test_missing_and_binary_files(tmp_path, type_in):
    with pytest.raises(QuestionsError, match="cannot read the predictions"):
        read_predictions(tmp_path / "none.jsonl", TWO)
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe\x00\xff")
    with pytest.raises(QuestionsError, match="cannot read the predictions"):
        read_predictions(tmp_path / "bytes.jsonl", TWO)
    code, out, err = type_in("score", "none.jsonl", "--questions", "no.jsonl", folder=tmp_path)
    assert (code, out, len(err.strip().splitlines())) == (1, "", 1)
    for given in ("none.jsonl", tmp_path):  # whether or not there are questions
        code, _, err = type_in("score", given, folder=tmp_path)
        assert code == 1
        assert "predictions" in err
        assert "VSI-Bench" not in err


def test_missing_and_empty_predictions_score_zero():
    found = score_predictions(TWO, {"0": "2"})
    assert (found["official"], found["status"]) == (50, "partial")
    assert found["counts"] == {
        "questions": 2, "predictions": 1, "missing": 1, "empty": 0, "types": {"object_counting": 2},
    }  # fmt: skip
    assert "1 of 2 questions" in found["notes"][0]
    found = score_predictions(TWO, {"0": "2", "1": None, "2": "9"})
    assert (found["official"], found["status"], found["notes"]) == (50, "complete", [])
    assert found["counts"]["empty"] == 1


def test_scores_without_appearance_order():
    order = made(3, "obj_appearance_order", "letter", ("A. x", "B. y"), "A")
    found = score_predictions([made(0), order], {"0": "2", "3": "B"})
    assert (found["official"], found["without_order"]) == (50, 100)
    assert not math.isnan(found["types"]["obj_appearance_order"])


def test_metrics_of_questions_are_reported():
    named = replace(
        made(3), type="what", answer_form="text", ground_truth="a chair", metric="exact-match"
    )
    found = score_predictions([made(0), named], {"0": "2", "3": "armchair"})
    assert {name: entry["score"] for name, entry in found["metrics"].items()} == {
        "exact-match": 0,
        "refined-match": 100,
    }
    assert "metrics" not in score_predictions([made(0)], {"0": "2"})
    labels = [line.label for line in overall_lines(found)]
    assert "exact-match" in labels[0]
    assert not [label for label in labels if VSI_BENCH_SCORE in label]
