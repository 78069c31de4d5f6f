"""The audit finds and prunes a planted shortcut, and finds nothing above chance in a clean set."""

import json
import random
from functools import partial

import pytest
from conftest import test_data

from render_agent.dialogue.question import Question
from render_agent.errors import QuestionsError
from render_agent.tasks.row_files import load_questions
from render_agent_lab.audit import audit as module
from render_agent_lab.audit.audit import audit, compare_exclusions

SCENES, QUESTIONS_PER_SCENE, TREES = 14, 6, 8
ROOMS = ("kitchen", "study", "hall")


def question(number, kind, text, truth, options=(), scene=None):
    wanted = "letter" if options else "number"
    scene = scene or f"scene{number // QUESTIONS_PER_SCENE}"
    name = f"{wanted[0]}{number}"
    return Question(name, "own", "d", scene, kind, text, wanted, options, truth)


def choice_questions(planted, seed=0):
    """Return two-option questions; in `planted` of ten the correct option contains an extra word."""
    dice = random.Random(seed)
    questions = []
    for number in range(SCENES * QUESTIONS_PER_SCENE):
        truth = dice.choice("AB")
        texts = {"A": f"the {dice.choice(ROOMS)}", "B": f"the {dice.choice(ROOMS)} door"}
        if dice.random() < planted / 10:
            texts[truth] += " indeed"
        options = tuple(f"{letter}. {text}" for letter, text in texts.items())
        text = f"Which is nearer to the {dice.choice(ROOMS)}?"
        questions.append(question(number, "object_rel_distance", text, truth, options))
    return questions


def size_questions(planted, seed=0):
    """Return numeric questions; if `planted`, the answer follows from the named object."""
    dice = random.Random(seed)
    lengths = {"sofa": 200, "cup": 10, "bed": 80}
    questions = []
    for number in range(SCENES * QUESTIONS_PER_SCENE):
        name = dice.choice(list(lengths))
        truth = lengths[name] if planted else dice.choice(list(lengths.values()))
        text = (
            f"What is the length of the longest dimension (length, width, or height) of the {name},"
            " measured in centimeters?"
        )
        questions.append(question(number, "object_size_estimation", text, str(truth)))
    return questions


def entries(result):
    return [entry for row in result["types"].values() for entry in row["methods"].values()]


def test_planted_shortcut_is_found_and_pruned_to_chance():
    questions = [*choice_questions(8), *size_questions(planted=True)]
    result = audit(questions, trees=TREES)
    words = result["types"]["object_rel_distance"]["methods"]["text"]
    assert words["gain_interval"][0] > 20
    assert words["p_holm"] < 0.01
    assert result["types"]["object_size_estimation"]["methods"]["category"]["score"] == 100
    planted = {q.id for q in questions if any("indeed" in option for option in q.options)}
    pruned = set(result["falling"]) & {q.id for q in questions if q.answer_form == "letter"}
    assert len(pruned & planted) / len(pruned) > 0.85
    remaining = [q for q in questions if q.id not in result["falling"]]
    assert audit(remaining, trees=TREES)["falling"] == []
    assert compare_exclusions(result, planted)["ratio"] > 1


def test_nothing_is_pruned_from_a_clean_set():
    questions = [*choice_questions(0, 1), *size_questions(planted=False, seed=1)]
    result = audit(questions, trees=TREES)
    assert result["falling"] == []
    for entry in entries(result):
        assert entry["p_holm"] > 0.05
        assert entry["gain_interval"][0] <= 0


def test_whole_scenes_are_held_out():
    """An answer specific to a scene cannot be learned from other scenes."""
    dice = random.Random(5)
    truths = {f"scene{n}": dice.choice("AB") for n in range(24)}
    options = ("A. left", "B. right")
    questions = [
        question(4 * index + n, "route_planning", f"Where to in {scene}?", truth, options, scene)
        for index, (scene, truth) in enumerate(truths.items())
        for n in range(4)
    ]
    assert audit(questions, trees=TREES)["overall"]["methods"]["text"]["score"] < 70
    with pytest.raises(QuestionsError, match="scenes"):
        audit(questions[:4])


def test_text_questions_use_their_own_metric():
    words = {"colour": "red", "shape": "round", "state": "open"}
    questions = [
        Question(f"{n}", "own", "d", f"s{n % 12}", "own", f"What {(kind := sorted(words)[n % 3])} is it?", "text",
                 ground_truth=words[kind], metric="exact-match")
        for n in range(72)
    ]  # fmt: skip
    text = audit(questions, trees=TREES)["types"]["own"]["methods"]
    assert text["text"]["score"] == 100
    assert text["frequency"]["score"] < 50


def test_command_writes_a_list_for_exclude(tmp_path, type_in, monkeypatch):
    monkeypatch.setattr(module, "audit", partial(audit, trees=TREES))
    rows = [
        {"id": q.id, "dataset": q.dataset, "scene_name": q.scene, "question_type": q.type, "question": q.text,
         "options": list(q.options) or None, "ground_truth": q.ground_truth}
        for q in choice_questions(6)
    ]  # fmt: skip
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, err = type_in("audit", "own.jsonl", "--to", "out.txt", "--json", folder=tmp_path)
    assert code == 0, err
    pruned = (tmp_path / "out.txt").read_text().split()
    assert pruned == json.loads(out)["falling"] != []
    code, out, _ = type_in(
        "--exclude", "out.txt", "audit", "own.jsonl", "--against", "out.txt", folder=tmp_path
    )
    assert code == 0
    assert f"{len(rows) - len(pruned)} questions" in " ".join(out.split())


def test_no_list_is_written_if_nothing_is_pruned(tmp_path, type_in, monkeypatch):
    result = audit(choice_questions(6), trees=TREES) | {"falling": []}
    monkeypatch.setattr(module, "audit", lambda *_: result)
    code, _, err = type_in("audit", "rooms", "--to", "out.txt", "--json", folder=tmp_path)
    assert code == 0
    assert "out.txt" in err
    assert not (tmp_path / "out.txt").exists()


@pytest.mark.slow
def test_debiased_list_prefers_questions_answerable_blind():
    questions = load_questions(test_data("vsibench", "test.jsonl"), "vsibench")
    result = audit(questions)
    comparison = compare_exclusions(result, {q.id for q in questions if q.pruned})
    assert comparison["ratio"] > 1.05
    assert comparison["text_left_out"] > comparison["text_kept"] + 10


def questions_without_signal(seed, scenes=14, per_scene=3):
    """Return questions of four types whose answers are drawn independently of everything."""
    dice = random.Random(seed)
    questions = []
    for kind in ("object_rel_distance", "route_planning", "object_rel_direction_hard"):
        for number in range(scenes * per_scene):
            options = tuple(
                f"{x}. the {dice.choice(ROOMS)} {dice.choice('abcdef')}" for x in "ABCD"
            )
            text = f"Which is nearer to the {dice.choice(ROOMS)}?"
            scene = f"scene{number // per_scene}"
            name = f"{kind}-{number}"
            questions.append(question(name, kind, text, dice.choice("ABCD"), options, scene))
    return [*questions, *size_questions(planted=False, seed=seed)]


@pytest.mark.parametrize(
    "number", [5, pytest.param(120, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_family_wise_error_rate_is_at_most_5_percent(number):
    """Without any signal, a significant row in any part of the table is a false alarm."""
    alarms = losses = 0
    for seed in range(number):
        result = audit(questions_without_signal(seed), trees=6)
        rows = [*entries(result), *result["overall"]["methods"].values()]
        assert all(entry["p_holm"] == 1 for entry in rows if entry["gain"] <= 0)
        alarms += any(entry["p_holm"] <= 0.05 for entry in rows)
        losses += bool(result["falling"])
    limit = 0.05 + 2 * (0.05 * 0.95 / number) ** 0.5  # two Monte Carlo errors
    assert alarms / number <= limit
    assert losses / number <= limit
