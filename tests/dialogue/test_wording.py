"""Wordings: the bundled model reads its own, every other model the general one, and a run keeps the one it began with."""

import hashlib
import json
import re
import shutil

import pytest
import yaml
from factories import TREE
from factories.runs import make_config, transcripts

from render_agent.dialogue import wording
from render_agent.dialogue.prompt import Prompt
from render_agent.dialogue.wording import GENERAL_FILE, general, load_wording, placeholders
from render_agent.engines.bundled_models import FOLDER
from render_agent.engines.scripted import Replies, ScriptedEngine
from render_agent.errors import SetupError
from render_agent.runs.build import build, wording_of
from render_agent.runs.phase_controller import Silent
from render_agent.runs.read import RunData
from render_agent.runs.runner import resume_run, start_run
from training.phrases import phrases
from training.run import use_small_wording
from training.wording import small_wording

SMALL = FOLDER / "small" / "wording.yaml"
INSTRUCTIONS_SHA256 = "df3e1fbd7e345d35a8641bcd8b275b05ea349809f535a9d348a8f2b2fd10e239"
"""Of what the weights were trained with: a new field gets an empty sentence in the model's wording."""
CHANGED = " (changed)"
REPLIES = [
    "I would go left",
    '{"rotation_angle_degrees": 270, "forward_meters": 2, "left_meters": 1, "view": 9}',
    '{"rotation_angle_degrees": "far", "look_at": [1], "view": "map", "done": "perhaps", "measure": 1}',
    '{"look_at": [0, 0, 99], "pitch_degrees": 5, "measure": [{"view": 0, "x": 9, "y": 9}, [1, 1], [99, 99]]}',
    '{"z_delta_meters": -2, "pitch_degrees": -70, "forward_meters": 3}',
    '{"done": true}',
    '{"answer": "7"',
    '{"answer": "A", "done": true}',
]


@pytest.fixture
def small_folder(tmp_path):
    """A local model's folder without a wording of its own."""
    return shutil.copytree(
        FOLDER / "small", tmp_path / "model", ignore=shutil.ignore_patterns("wording.yaml")
    )


@pytest.fixture
def change_general(tmp_path, monkeypatch):
    """Return what makes every general text end differently."""

    def change():
        sections = yaml.safe_load(GENERAL_FILE.read_text())
        for texts in sections.values():
            for key in texts:
                texts[key] += CHANGED
        file = tmp_path / "general.yaml"
        file.write_text(yaml.safe_dump(sections))
        monkeypatch.setattr(wording, "GENERAL_FILE", file)
        general.cache_clear()

    yield change
    monkeypatch.undo()
    general.cache_clear()


def play(folder, **options):
    """Run questions of the bundled rooms, answered by `REPLIES`; return the run folder."""
    run = start_run(make_config(folder, "rooms", limit=2, **{"max_turns": len(REPLIES)} | options))
    try:
        run.go(Silent(), lambda config, asked: ScriptedEngine(Replies({"*": REPLIES})))
    finally:
        run.close()
    return run.path


def said(folder, **options):
    """Return all that was said in a run, probes included."""
    path = play(folder, **options)
    probes = [line.get("probe") for line in RunData(path).lines()]
    return transcripts(path), [probe and probe["asked"] for probe in probes]


@pytest.mark.parametrize(
    "options",
    [
        {"tools": "measure"},
        {"probe": ("map", "counts")},
        {"views": "four"},
        {"views": "none"},
        {"tools": "graph"},
    ],
)
def test_the_small_model_reads_its_own_wording_and_others_the_general_one(
    tmp_path, change_general, options
):
    small = {"engine": "transformers", "model": "small", **options}
    before = said(tmp_path / "before", **small)
    scripted = said(tmp_path / "scripted", **options)
    change_general()
    assert said(tmp_path / "after", **small) == before
    assert CHANGED in json.dumps(said(tmp_path / "changed", **options)[0])
    assert CHANGED not in json.dumps([before, scripted])


def test_the_expert_is_recorded_in_the_words_of_the_small_model(change_general):
    change_general()
    use_small_wording()
    assert general().sha256 == small_wording().sha256


def test_the_tokenizer_of_the_small_model_knows_its_wording():
    tokens = json.loads((FOLDER / "small" / "tokenizer.json").read_text())["added_tokens"]
    assert set(phrases()) <= {token["content"] for token in tokens}


def test_the_small_model_reads_the_instructions_that_it_was_trained_with():
    shown = ((("ego", "top", "around"), 0), (("top", "ego"), 4), ((), 0))
    texts = [Prompt(9, 75.0, kinds, n, wording=small_wording()).instructions for kinds, n in shown]
    assert hashlib.sha256("\n\n".join(texts).encode()).hexdigest() == INSTRUCTIONS_SHA256


def test_both_files_have_the_same_texts_and_placeholders():
    def read(file):
        sections = yaml.safe_load(file.read_text())
        return {
            f"{section}.{key}": placeholders(text)
            for section, texts in sections.items()
            for key, text in texts.items()
            if text
        }

    small, known = read(SMALL), read(GENERAL_FILE)
    assert small.items() <= known.items()
    assert all(key.startswith("fields.") for key in known.keys() - small.keys())


def test_every_text_is_used():
    code = "".join(
        file.read_text()
        for folder in ("dialogue", "views", "agents", "runs")
        for file in (TREE / "render_agent" / folder).rglob("*.py")
    )
    for key in general().templates:
        section, _, name = key.partition(".")
        assert key in code or f"{section}.{{" in code or re.search(rf'"{name}"', code), key


def test_a_local_model_brings_its_own_wording(tmp_path, small_folder):
    (small_folder / "wording.yaml").write_text("turn:\n  last: Answer now.\n")
    config = make_config(tmp_path, "rooms", engine="transformers", model=str(small_folder))
    assert wording_of(build(config)).templates["turn.last"] == "Answer now."
    assert wording_of(build(config)).templates["turn.number"] == general().templates["turn.number"]
    assert wording_of(build(make_config(tmp_path, "rooms", model=str(small_folder)))).is_general
    path = play(tmp_path, engine="transformers", model=str(small_folder), max_turns=1)
    for turns in transcripts(path).values():
        assert "Answer now." in json.dumps(turns[0]["messages"])
    record = RunData(path).record
    assert record["wording"] == {
        "model": str(small_folder),
        "version": general().version,
        "sha256": wording_of(build(config)).sha256,
    }
    assert any(str(small_folder) in note for note in RunData(path).notes)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("turn: [", "wording.yaml"),
        ("turn: 3", "turn"),
        ("turn:\n  last: 3", "turn.last"),
        ("turn:\n  first: Go.", "turn.first"),
        ("turn:\n  number: Turn {turn} of {most}.", "{most}"),
        ("turn:\n  number: Turn {turn}.", "{turns}"),
        ("turn:\n  number: Turn {turn.__class__} of {turns}.", "turn.__class__"),
        ("turn:\n  last: Answer {now", "wording.yaml"),
    ],
)
def test_a_wording_that_cannot_be_used_is_refused(tmp_path, content, named):
    file = tmp_path / "wording.yaml"
    file.write_text(content)
    with pytest.raises(SetupError, match=re.escape(named)) as refused:
        load_wording(file)
    assert str(file) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_run_is_not_continued_with_another_wording(tmp_path, small_folder):
    file = small_folder / "wording.yaml"
    file.write_text("turn:\n  last: Answer now.\n")
    options = {"engine": "transformers", "model": str(small_folder), "device": "cpu", "limit": 1}
    run = start_run(make_config(tmp_path, "rooms", **options))
    run.close()
    resume_run(RunData(run.path), {}).close()
    file.write_text("turn:\n  last: Answer at once.\n")
    with pytest.raises(SetupError, match="wording"):
        resume_run(RunData(run.path), {})
    file.write_text("# The same as before.\nturn:\n  last: Answer now.\n")
    resume_run(RunData(run.path), {}).close()
