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
from render_agent.score.predictions import read_predictions, score_predictions
from render_agent.score.summary import VSI_BENCH_SCORE
from render_agent.score.tables import overall_lines
from render_agent.tasks.row_files import load_questions

NUMBERS = {
    "object_counting",
    "object_abs_distance",
    "object_size_estimation",
    "room_size_estimation",
}
DIRECTIONS = {f"object_rel_direction_{kind}" for kind in ("easy", "medium", "hard")}


def score_by_definition(rows, predictions):
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


def near_threshold(row, rng):
    """Return the ground truth, or a value near a threshold or a parsing edge case."""
    truth = row["ground_truth"]
    if row["question_type"] not in NUMBERS:
        letter = rng.choice([truth, truth.lower(), rng.choice("ABCD"), "AB", ""])
        return letter + rng.choice(["", ".", "...", " left", "\nbecause", ". left", ")", " "])
    value = float(truth) * rng.choice(
        [1, *(1 + sign * step / 20 for sign in (-1, 1) for step in range(13))]
    )
    text = rng.choice(
        [str(value), f"{value:.1f}", f"{value:g}", str(round(value)), f"{value:e}", f"+{value}"]
    )
    return text + rng.choice(["", ".", " m", "m", "\n", "\t", " 7", "%"])


ODD = ["", " ", ".", "A", "a.", "B\nbecause", "twenty-one", "nan", "inf", "-inf", "1e400", "1_000", "٣", "0", "-1", "2.0",
       "(A)", "A)", "None", "null", "True", "\u00a0A", "\u200bA", "A\u00a0B", "Ａ", "1,5", "1e-320", "x" * 10_000]  # fmt: skip


def adversarial(row, rng):
    return rng.choice(ODD)


def uniform(row, rng):
    return rng.choice("ABCDE") if row["options"] else str(round(rng.lognormvariate(1, 1), 1))


MAKERS = [uniform, near_threshold, adversarial]


def random_predictions(rows, number):
    """Return a set of random predictions; `number` selects the kind and the share of missing ones."""
    rng = random.Random(number)
    share = [1, 1, 0.5, 0.03][number // 3 % 4]
    maker = MAKERS[number % 3]
    return {str(row["id"]): maker(row, rng) for row in rows if rng.random() < share}


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
    ("number", "use_all_rows"), [*((number, False) for number in (0, 1, 2, 7, 11)), (1, True)]
)
def test_official_score_matches_the_definition(benchmark, number, use_all_rows):
    rows, questions = benchmark[1:] if use_all_rows else every_tenth(benchmark)
    predictions = random_predictions(rows, number)
    types, overall, micro = score_by_definition(rows, predictions)
    results = score_predictions(questions, predictions)
    assert results["official"] == pytest.approx(overall, abs=1e-9)
    assert results["micro"] == pytest.approx(micro, abs=1e-9)
    assert results["types"].keys() == types.keys()
    for name, score in types.items():
        assert results["types"][name] == pytest.approx(score, abs=1e-9)
    assert results["counts"]["questions"] == len(rows) == (5130 if use_all_rows else 513)
    assert results["counts"]["missing"] == len(rows) - len(predictions)
    low, high = results["intervals"]["official"]
    assert low <= overall <= high


def test_command_accepts_string_and_number_ids(benchmark, type_in, tmp_path):
    rows, _ = every_tenth(benchmark)
    questions = tmp_path / "test.jsonl"
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    predictions = random_predictions(rows, 7)
    types, overall, micro = score_by_definition(rows, predictions)
    lines = [
        json.dumps({"id": key if int(key) % 2 else int(key), "prediction": text, "other": 1})
        for key, text in predictions.items()
    ]
    random.Random(1).shuffle(lines)
    file = tmp_path / "predictions.jsonl"
    file.write_text("\ufeff" + "\n\n".join(lines) + "\n", "utf-8")
    code, out, err = type_in("score", file, "--questions", questions, "--json", folder=tmp_path)
    assert (code, err) == (0, "")
    results = json.loads(out)
    assert results["official"] == pytest.approx(overall, abs=1e-9)
    assert results["micro"] == pytest.approx(micro, abs=1e-9)
    assert results["types"] == pytest.approx(types, abs=1e-9)
    assert results["counts"]["missing"] == len(rows) - len(predictions)
    assert results["status"] == "partial"
    code, out, _ = type_in("score", file, "--questions", questions, folder=tmp_path)
    assert code == 0
    assert "PARTIAL" in out
    assert f"{overall:.1f}" in out


def test_ground_truth_scores_100_with_every_parser(benchmark):
    for parser in ("lmms-eval", "vlmevalkit", "official"):
        rows, questions = benchmark[1:] if parser == "official" else every_tenth(benchmark)
        truth = {str(row["id"]): row["ground_truth"] for row in rows}
        results = score_predictions(questions, truth, parser)
        assert results["official"] == results["micro"] == results["mean_of_types"] == 100
        assert results["macro" if parser != "official" else "official"] == 100
    assert results["debiased"]["n"] == 2362
    assert {name: entry["n"] for name, entry in results["datasets"].items()} == {
        "arkitscenes": 1601,
        "scannet": 2071,
        "scannetpp": 1458,
    }


def test_official_score_does_not_depend_on_the_parser(benchmark):
    rows, questions = every_tenth(benchmark)
    sentences = {str(row["id"]): f"It is {row['ground_truth']}" for row in rows}
    official = score_predictions(questions, sentences)
    loose = score_predictions(questions, sentences, "vlmevalkit")
    assert official["official"] == loose["official"] == 0
    assert loose["macro"] > 99
    assert official["parsers"]["vlmevalkit"]["macro"] == loose["macro"]
    assert "macro" not in official
    assert loose["intervals"]["official"] == official["intervals"]["official"]


def test_debiased_score_uses_the_unpruned_rows(benchmark):
    rows, questions = every_tenth(benchmark)
    predictions = random_predictions(rows, 1)
    unpruned = [row for row in rows if not row["pruned"]]
    types, overall, micro = score_by_definition(unpruned, predictions)
    results = score_predictions(questions, predictions)["debiased"]
    assert (results["official"], results["micro"]) == pytest.approx((overall, micro), abs=1e-9)
    assert {name: entry["score"] for name, entry in results["types"].items()} == pytest.approx(
        types
    )


def make_question(
    number, kind="object_counting", answer_form="number", options=(), ground_truth="2"
):
    return Question(
        str(number), "b", "d", str(number), kind, "?", answer_form, options, ground_truth
    )


QUESTIONS = [make_question(0), make_question(1), make_question(2, ground_truth=None)]


def write_predictions(folder, *lines):
    path = folder / "predictions.jsonl"
    path.write_text("\n".join(lines), "utf-8")
    return path


def test_predictions_are_not_normalized(tmp_path):
    path = write_predictions(
        tmp_path, '{"id": 0, "prediction": " A.\\n"}', '{"prediction": 2.50, "id": "1"}'
    )
    assert read_predictions(path, QUESTIONS) == {"0": " A.\n", "1": "2.50"}
    path = write_predictions(
        tmp_path, '{"id": 0, "prediction": null}', "", '{"id": 2, "prediction": ""}'
    )
    assert read_predictions(path, QUESTIONS) == {"0": None, "2": ""}


@pytest.mark.parametrize(
    ("lines", "message"),
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
def test_errors_name_the_line(tmp_path, lines, message):
    with pytest.raises(QuestionsError, match=message):
        read_predictions(write_predictions(tmp_path, *lines), QUESTIONS)


def test_missing_and_binary_files(tmp_path, type_in):
    with pytest.raises(QuestionsError, match="cannot read the predictions"):
        read_predictions(tmp_path / "none.jsonl", QUESTIONS)
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe\x00\xff")
    with pytest.raises(QuestionsError, match="cannot read the predictions"):
        read_predictions(tmp_path / "bytes.jsonl", QUESTIONS)
    code, out, err = type_in("score", "none.jsonl", "--questions", "no.jsonl", folder=tmp_path)
    assert (code, out, len(err.strip().splitlines())) == (1, "", 1)
    for file, expected in (("none.jsonl", 1), (tmp_path, 2)):  # whether or not there are questions
        code, _, err = type_in("score", file, folder=tmp_path)
        assert code == expected
        assert "predictions" in err
        assert "VSI-Bench" not in err


def test_missing_and_empty_predictions_score_zero():
    results = score_predictions(QUESTIONS, {"0": "2"})
    assert (results["official"], results["status"]) == (50, "partial")
    assert results["counts"] == {
        "questions": 2, "predictions": 1, "missing": 1, "empty": 0, "types": {"object_counting": 2},
    }  # fmt: skip
    assert "1 of 2 questions" in results["notes"][0]
    results = score_predictions(QUESTIONS, {"0": "2", "1": None, "2": "9"})
    assert (results["official"], results["status"], results["notes"]) == (50, "complete", [])
    assert results["counts"]["empty"] == 1


def test_scores_without_appearance_order():
    order = make_question(3, "obj_appearance_order", "letter", ("A. x", "B. y"), "A")
    results = score_predictions([make_question(0), order], {"0": "2", "3": "B"})
    assert (results["official"], results["without_order"]) == (50, 100)
    assert not math.isnan(results["types"]["obj_appearance_order"])


def test_metrics_of_questions_are_reported():
    text_question = replace(
        make_question(3),
        type="what",
        answer_form="text",
        ground_truth="a chair",
        metric="exact-match",
    )
    results = score_predictions([make_question(0), text_question], {"0": "2", "3": "armchair"})
    assert {name: entry["score"] for name, entry in results["metrics"].items()} == {
        "exact-match": 0,
        "refined-match": 100,
    }
    assert "metrics" not in score_predictions([make_question(0)], {"0": "2"})
    labels = [line.label for line in overall_lines(results)]
    assert "exact-match" in labels
    assert not [label for label in labels if VSI_BENCH_SCORE in label]
