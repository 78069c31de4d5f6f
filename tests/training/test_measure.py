"""The small model is measured: runs that are found again, pooled rooms, margins, sides that flip, the card."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from factories import TREE
from factories.models import BUNDLED, TRAINED
from factories.runs import make_questions
from safetensors.numpy import save_file

from render_agent.dialogue.state import Question
from render_agent.runs.log.folder import RunFolder, list_runs
from render_agent.score.summary import OFFICIAL
from training.card import TRAINING, card
from training.card import main as write_card
from training.curves import draw_curves
from training.grid import (
    ARMS,
    BLACK,
    BLIND,
    FREE,
    FREQUENCY,
    MIRRORED,
    NO_GUIDE,
    ONE_VIEW,
    RANDOM,
    SETTINGS,
    Grid,
    digest,
)
from training.measure import main, told_of, weights_in
from training.measured_table import table
from training.outcomes import differences, flips, left_and_right, margin, no_better, verdicts
from training.pooled import Pooled, is_bare

RESULTS = TREE / "benchmarks" / "results"

TURN = '{"reasoning": "", "rotation_angle_degrees": 90}'
REPLIES = {
    "0": [TURN, "I see a box.", '{"answer": 3, "done": true}'],
    "1": [TURN, 'So: {"answer": "B", "done": true}'],
    "2": ['{"answer": 1, "done": true}'],
    "3": ['{"answer": "A", "done": true}'],
}
"""Seven replies about four questions: one cannot be read, one more has words around it."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with two folders of rooms, whose scenes and questions are called alike, and replies."""
    place = tmp_path_factory.mktemp("measured")
    small = pytest.MonkeyPatch()
    small.setitem(SETTINGS, "image_size", (96, 72))
    for name in ("one", "two"):
        (place / name).mkdir()
        make_questions(place / name)
    lines = [json.dumps({"id": name, "replies": replies}) for name, replies in REPLIES.items()]
    (place / "replies.jsonl").write_text("\n".join(lines))
    yield place
    small.undo()


def measure(place):
    rooms = [
        word for name in ("one", "two") for word in ("--rooms", place / name / "questions.jsonl")
    ]
    words = ["--engine", "scripted", "--model", place / "replies.jsonl", *rooms, "--quiet",
             "--runs", place / "runs", "--output", place / "found"]  # fmt: skip
    done = CliRunner().invoke(main, list(map(str, words)))
    assert done.exception is None, done.output
    record = json.loads((place / "found.json").read_text("utf-8"))
    assert (place / "found.md").read_text("utf-8") == table(record)
    return {name: value for name, value in record.items() if name not in ("when", "command")}


@pytest.fixture(scope="module")
def record(place):
    return measure(place)


def runs_in(place):
    folders = [run for rooms in (place / "runs").glob("*/*") for run in list_runs(rooms)]
    return {RunFolder(path).path: (path / "turns.jsonl").read_bytes() for path in folders}


@pytest.mark.slow
def test_rooms_are_pooled_and_their_scenes_told_apart(record):
    assert record["arms"].keys() == ARMS.keys()
    for arm in record["arms"].values():
        assert (arm["n"], arm["scenes"], arm["counts"]["failed"]) == (8, 2, 0)
    assert [(part["name"], part["questions"], part["scenes"]) for part in record["rooms"]] == [
        ("one", 4, 1),
        ("two", 4, 1),
    ]
    free = record["arms"][FREE]
    assert free["types"]["object_counting"]["score"] == 50  # 3 of 3, and 1 of 3
    assert free["types"]["object_rel_direction_easy"]["score"] == 50
    assert free["means"][OFFICIAL] == {"score": 50, "interval": None}
    assert free["work"]["turns"] == 7 / 4
    assert free["work"]["pictures"] == 11 / 4  # the map and a view, then a view a turn


@pytest.mark.slow
def test_replies_are_well_formed_where_they_can_be_read(record):
    formed = record["arms"][NO_GUIDE]["well_formed"]
    assert formed["replies"] == 14
    assert formed["share"] == pytest.approx(100 * 12 / 14)
    assert formed["bare"] == pytest.approx(100 * 10 / 14)
    assert formed["cut_off"] == 0
    assert list(formed["reasons"].values()) == [2]


@pytest.mark.slow
def test_the_margin_is_over_the_better_of_blind_and_frequency(record):
    scores = {label: arm["means"][OFFICIAL]["score"] for label, arm in record["arms"].items()}
    assert {label for label, score in scores.items() if score == 100} == {FREQUENCY}
    assert scores[FREE] == scores[BLIND] == 50
    overall = record["margin"]["overall"]
    assert (overall["over"], overall["difference"]) == (FREQUENCY, -50)
    assert overall["interval"] is None, "of two scenes"
    assert no_better(record["margin"]) == ["object_counting", "object_rel_direction_easy"]
    pairs = {(entry["more"], entry["less"]): entry["overall"] for entry in record["differences"]}
    assert pairs[FREE, BLIND]["difference"] == 0


@pytest.mark.slow
def test_what_is_finished_is_not_run_again_and_what_was_cut_off_goes_on(place, record):
    before = runs_in(place)
    assert len(before) == 2 * len(ARMS)
    assert measure(place) == record
    assert runs_in(place) == before
    cut = next(path for path in before if before[path].count(b"\n") > 4)
    (cut / "results.json").unlink()
    lines = before[cut].splitlines(keepends=True)
    (cut / "turns.jsonl").write_bytes(b"".join(lines[:3]))
    again = measure(place)
    assert again["arms"][FREE]["types"] == record["arms"][FREE]["types"]
    assert {path: text.count(b"\n") for path, text in runs_in(place).items()} == {
        path: text.count(b"\n") for path, text in before.items()
    }


def asked(number, kind, options, truth, text="Standing by the sofa, where is the lamp?"):
    return Question(
        str(number), "rooms", "rooms", f"room{number % 3}", kind, text, "letter", options, truth
    )


EASY = [
    asked(n, "object_rel_direction_easy", ("A. left", "B. right"), "AB"[n % 2]) for n in range(6)
]
MEDIUM = [
    asked(n, "object_rel_direction_medium", ("A. left", "B. back", "C. right"), "ABC"[n % 3])
    for n in range(6, 12)
]
TOLD = [
    asked(
        12, "object_rel_direction_easy", ("A. left", "B. right"), "A", "The sofa is on your left."
    )
]
TURNED = {"easy": {"A": "B", "B": "A"}, "medium": {"A": "C", "B": "B", "C": "A"}}


def turned(question):
    return TURNED[question.type.rpartition("_")[2]][question.truth]


def arm(label, answers, mirrored=False):
    """Return an arm over the questions of left and right with the given answers."""
    questions = {question.id: question for question in [*EASY, *MEDIUM, *TOLD]}
    rows = []
    for name, question in questions.items():
        answer = answers(question)
        right = turned(question) if mirrored else question.truth
        known = not (mirrored and question in TOLD)
        row = {
            "question_id": name,
            "type": question.type,
            "dataset": "rooms",
            "scene": question.scene,
        }
        row |= {"answer": answer, "truth": question.truth, "score": float(answer == question.truth)}
        rows.append(row | {"score_as_shown": float(answer == right) if known else None})
    return Pooled(label, {"types": {}, "mirrored": {}}, rows, questions, {}, {}, {}, [])


def test_an_answer_that_follows_the_room_flips():
    found = left_and_right(arm(FREE, lambda q: q.truth), arm(MIRRORED, turned, mirrored=True))
    assert found["scores"]["difference"] == 0
    assert found["follows"]["difference"] == pytest.approx(
        100 * 10 / 12
    )  # two are behind, and stay there
    every = found["flips"]["all"]
    assert (every["should"]["n"], every["stays"]["n"], every["right"]["n"]) == (10, 2, 10)
    assert every["should"]["flipped"] == every["right"]["flipped"] == every["stays"]["same"] == 100
    assert every["should"]["interval"] is None, "of too few scenes"
    assert every["should"]["same"] == every["stays"]["flipped"] == 0


def test_an_answer_that_ignores_the_room_does_not():
    found = left_and_right(
        arm(FREE, lambda q: q.truth), arm(MIRRORED, lambda q: q.truth, mirrored=True)
    )
    assert found["follows"]["difference"] == pytest.approx(-100 * 10 / 12)
    assert found["scores"]["difference"] == pytest.approx(-100 * 10 / 12)
    assert found["flips"]["all"]["should"]["flipped"] == 0
    assert found["flips"]["all"]["should"]["same"] == 100


def test_flips_are_counted_where_both_rooms_were_answered_and_by_what_was_right():
    real = arm(FREE, lambda q: None if q in MEDIUM else "A")
    found = flips(real, arm(MIRRORED, lambda q: "B", mirrored=True))
    assert found.keys() == {"object_rel_direction_easy", "all"}
    easy = found["object_rel_direction_easy"]
    assert (easy["should"]["n"], easy["should"]["flipped"]) == (6, 100)
    assert easy["right"]["n"] == 3  # A is right of every second one
    assert easy["stays"]["n"] == 0


def verdict(number, **changes):
    """Return whether a line is passed by a record that passes all of them but for some changes."""
    pairs = {
        (FREE, ONE_VIEW): (9.0, [1, 17]),
        (FREE, BLACK): (20.0, [15, 25]),
        (BLACK, BLIND): (0.5, [-2, 3]),
    }
    pairs |= changes.pop("pairs", {})
    record = {
        "questions": 500,
        "arms": {
            FREE: {"n": 500, "scenes": 20} | changes.pop("free", {}),
            NO_GUIDE: {
                "well_formed": {"share": changes.pop("share", 95.0), "interval": None, "replies": 9}
            },
        },
        "differences": [
            {"more": more, "less": less, "overall": {"difference": value, "interval": within}}
            for (more, less), (value, within) in pairs.items()
        ],
        "margin": {
            "overall": {
                "over": BLIND,
                "difference": changes.pop("margin", 15.0),
                "interval": [9, 20],
            }
        },
        "left_and_right": {
            "follows": {"difference": 30, "interval": changes.pop("follows", [10, 50])}
        },
        "model": {"weights": 12_000_000, "bytes": changes.pop("bytes", 25_000_000)},
    }
    assert not changes
    return verdicts(record)[number]["passed"]


@pytest.mark.parametrize(
    ("number", "changes"),
    [
        (0, {"free": {"n": 499}}),
        (1, {"margin": 14.99}),
        (2, {"pairs": {(FREE, ONE_VIEW): (4.99, [1, 17])}}),
        (2, {"pairs": {(FREE, ONE_VIEW): (9.0, [0, 17])}}),
        (2, {"pairs": {(FREE, ONE_VIEW): (9.0, None)}}),
        (3, {"share": 94.99}),
        (4, {"pairs": {(BLACK, BLIND): (3.0, [0.1, 6])}}),
        (4, {"pairs": {(FREE, BLACK): (3.0, [-0.1, 6])}}),
        (5, {"follows": [0, 50]}),
        (6, {"bytes": 25_000_001}),
    ],
)
def test_a_line_is_passed_up_to_its_bound_and_no_further(number, changes):
    assert verdict(number)
    assert not verdict(number, **changes)


def test_margins_choose_the_better_baseline_of_every_type():
    def entry(less, overall, counting):
        told = {"a": overall, "difference": 60 - overall, "interval": [1, 2]}
        types = {
            "object_counting": {"a": counting, "difference": 50 - counting, "interval": [0, 9]}
        }
        return {"more": FREE, "less": less, "overall": told, "types": types}

    found = margin([entry(BLIND, 30, 40), entry(FREQUENCY, 35, 20), entry(ONE_VIEW, 55, 55)])
    assert (found["overall"]["over"], found["overall"]["difference"]) == (FREQUENCY, 25)
    assert found["types"]["object_counting"]["over"] == BLIND
    assert no_better(found) == ["object_counting"]


def test_differences_are_of_the_first_arm_less_the_second():
    arms = {label: arm(label, lambda q: "A") for label in ARMS}
    arms[FREE] = arm(FREE, lambda q: q.truth)
    found = {(entry["more"], entry["less"]): entry for entry in differences(arms)}
    assert found[FREE, BLIND]["micro"]["difference"] == pytest.approx(100 * 7 / 13)
    assert found[BLACK, BLIND]["micro"]["difference"] == 0


@pytest.mark.parametrize(
    ("reply", "bare"),
    [
        ('{"reasoning": "", "answer": "B", "done": true}', True),
        ('{"answer": "B"} ', True),
        ('so: {"answer": "B"}', False),
        ('{"answer": "B", "sure": true}', False),
        ("[1]", False),
        ("", False),
    ],
)
def test_bare_replies(reply, bare):
    assert is_bare(reply) is bare


def test_the_command_is_told_without_places_of_this_machine():
    words = [
        "--rooms",
        "/tmp/x/test/questions.jsonl",
        "--runs",
        "there",
        "--output",
        "results/small",
    ]
    assert told_of(words) == ["--rooms", "test/questions.jsonl", "--output", "results/small"]


@pytest.fixture
def folder(tmp_path):
    """Return a model's directory of seven weights, with what is told of its training."""
    folder = tmp_path / "model"
    folder.mkdir()
    save_file(
        {"a": np.zeros((2, 3), np.float16), "b": np.zeros(1, np.float16)},
        folder / "model.safetensors",
    )
    config = {
        "architectures": ["Qwen3VLForConditionalGeneration"],
        "text_config": {"num_hidden_layers": 5, "hidden_size": 256, "vocab_size": 1900},
        "vision_config": {"depth": 6, "hidden_size": 256, "patch_size": 16},
    }
    told = {
        "began": "2026-11-21T18:00+00:00", "hours": 9.5, "machine": "2 cores", "versions": "torch 2",
        "seeds": {"rooms for training": "1000 … 1007"}, "data": {"replies": "9,000"}, "recipe": {"steps": 7},
        "commands": ["make train"],
        "curves": [{"name": "loss", "unit": "nats", "hours": [1, 2], "values": [3.0, 2.0]}],
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    (folder / TRAINING).write_text(json.dumps(told))
    return folder


@pytest.mark.slow
def test_the_card_holds_what_was_measured_of_these_very_files(folder, record, tmp_path):
    assert weights_in(folder / "model.safetensors") == 7
    measured = tmp_path / "measured.json"
    model = {"name": "small", "digest": digest(folder), "weights": 7_000_000, "bytes": 15_000_000}
    measured.write_text(
        json.dumps(
            {
                "command": "python -m training.measure",
                "when": "2026-11-21",
                **record,
                "model": model,
            }
        )
    )
    words = [str(folder), "--measured", str(measured)]
    for _ in range(2):  # what it writes is no part of the model
        done = CliRunner().invoke(write_card, words)
        assert done.exit_code == 0, done.output
    text = (folder / "README.md").read_text("utf-8")
    assert "7.0 million weights" in text
    assert "- object count: -50.0 above frequency, of 4 questions" in text
    assert "| seed: rooms for training | 1000 … 1007 |" in text
    assert "loss" in (folder / "curves.svg").read_text("utf-8")
    (folder / "tokenizer.json").write_text("{}")
    done = CliRunner().invoke(write_card, words)
    assert done.exit_code == 1
    assert "measure this model first" in done.output


def test_curves_are_the_same_bytes_and_refuse_what_does_not_fit(tmp_path):
    curve = {"name": "right", "unit": "%", "hours": [0.5, 1], "values": [40, 50]}
    drawn = []
    for name in ("one.svg", "two.svg"):
        draw_curves([curve, replaced(curve, unit="nats")], tmp_path / name)
        drawn.append((tmp_path / name).read_bytes())
    assert drawn[0] == drawn[1]
    with pytest.raises(ValueError, match="2 hours and 1 values"):
        draw_curves([replaced(curve, values=[1])], tmp_path / "three.svg")


def replaced(curve, **changes):
    return {**curve, **changes}


@pytest.mark.skipif(not (RESULTS / "small_model.json").is_file(), reason="not measured yet")
def test_what_is_told_of_the_bundled_model_was_measured():
    record = json.loads((RESULTS / "small_model.json").read_text("utf-8"))
    assert table(record) == (RESULTS / "small_model.md").read_text("utf-8")
    assert verdicts(record) == record["verdicts"]


@pytest.mark.skipif(not TRAINED, reason="the bundled model is not there yet")
def test_only_what_a_model_answers_has_a_dtype(tmp_path):
    (sweep,) = (
        Grid("transformers", "small", (make_questions(tmp_path),), tmp_path, None, {})
        .sweeps()
        .values()
    )
    dtypes = {cell.label: cell.config.dtype for cell in sweep.cells}
    assert {label for label, dtype in dtypes.items() if dtype != "float32"} == {FREQUENCY, RANDOM}


@pytest.mark.skipif(not TRAINED, reason="the bundled model is not there yet")
def test_the_card_of_the_bundled_model_is_that_of_its_files():
    record = json.loads((RESULTS / "small_model.json").read_text("utf-8"))
    told, config = (
        json.loads((BUNDLED / name).read_text("utf-8")) for name in (TRAINING, "config.json")
    )
    assert record["model"]["digest"] == digest(BUNDLED)
    assert card(record, told, config) == (BUNDLED / "README.md").read_text("utf-8")
