"""Wordings: the bundled model has its own, other models use the general one, and a run never changes its wording."""

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
from render_agent.dialogue.wording import (
    GENERAL_FILE,
    general,
    load_wording,
    placeholders,
)
from render_agent.engines.bundled_models import FOLDER
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.errors import SetupError, UsageError
from render_agent.options import RunConfig
from render_agent.runs.build import build, wording_of
from render_agent.runs.phase_controller import NullObserver
from render_agent.runs.read import RunData
from render_agent.runs.runner import resume_run, start_run
from training.phrases import phrases
from training.run import use_small_wording
from training.wording import small_wording

SMALL = FOLDER / "small" / "wording.yaml"
# Instructions that the weights were trained with. Give a new field an empty sentence in the model's wording.
INSTRUCTIONS_SHA256 = "df3e1fbd7e345d35a8641bcd8b275b05ea349809f535a9d348a8f2b2fd10e239"
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
    """Folder of a local model without its own wording."""
    return shutil.copytree(
        FOLDER / "small", tmp_path / "model", ignore=shutil.ignore_patterns("wording.yaml")
    )


@pytest.fixture
def change_general(tmp_path, monkeypatch):
    """Return a function that changes every text of the general wording."""

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


def run_rooms(folder, **options):
    """Run two questions of the bundled rooms with `REPLIES`; return the run folder."""
    run = start_run(make_config(folder, "rooms", limit=2, **{"max_turns": len(REPLIES)} | options))
    try:
        run.go(NullObserver(), lambda config, asked: ScriptedEngine(ReplayPolicy({"*": REPLIES})))
    finally:
        run.close()
    return run.path


def texts_of_run(folder, **options):
    """Return the transcripts and probe messages of a run."""
    path = run_rooms(folder, **options)
    probes = [line.get("probe") for line in RunData(path).lines()]
    return transcripts(path), [probe and probe["asked"] for probe in probes]


@pytest.mark.parametrize(
    "options",
    [
        {"tools": "measure"},
        {"views": "four"},
        {"views": "none"},
        {"tools": "graph"},
    ],
)
def test_small_model_uses_its_own_wording(tmp_path, change_general, options):
    small = {"engine": "transformers", "model": "small", **options}
    before = texts_of_run(tmp_path / "before", **small)
    scripted = texts_of_run(tmp_path / "scripted", **options)
    change_general()
    assert texts_of_run(tmp_path / "after", **small) == before
    assert CHANGED in json.dumps(texts_of_run(tmp_path / "changed", **options)[0])
    assert CHANGED not in json.dumps([before, scripted])


def test_training_uses_the_small_wording(change_general):
    change_general()
    use_small_wording()
    assert general().sha256 == small_wording().sha256


def test_small_tokenizer_has_the_phrases_of_its_wording():
    tokens = json.loads((FOLDER / "small" / "tokenizer.json").read_text())["added_tokens"]
    assert set(phrases()) <= {token["content"] for token in tokens}


def test_small_instructions_are_those_of_training():
    view_settings = ((("ego", "top", "around"), 0), (("top", "ego"), 4), ((), 0))
    texts = [
        Prompt(9, 75.0, kinds, n, wording=small_wording()).instructions
        for kinds, n in view_settings
    ]
    assert hashlib.sha256("\n\n".join(texts).encode()).hexdigest() == INSTRUCTIONS_SHA256


def test_wordings_have_the_same_keys_and_placeholders():
    def read(file):
        sections = yaml.safe_load(file.read_text())
        return {
            f"{section}.{key}": placeholders(text)
            for section, texts in sections.items()
            for key, text in texts.items()
            if text
        }

    small, general_keys = read(SMALL), read(GENERAL_FILE)
    assert small.pop("about.beliefs") == set()
    assert small.items() <= general_keys.items()
    left_out = general_keys.keys() - small.keys() - {"question.number_in"}
    assert all(key.startswith("fields.") for key in left_out)


def test_every_template_is_used():
    code = "".join(
        file.read_text()
        for folder in ("dialogue", "views", "visibility", "agents", "parts", "runs")
        for file in (TREE / "render_agent" / folder).rglob("*.py")
    )
    for key in general().templates:
        section, _, name = key.partition(".")
        assert key in code or f"{section}.{{" in code or re.search(rf'"{name}"', code), key


def test_wording_of_a_local_model_is_used_and_recorded(tmp_path, small_folder):
    (small_folder / "wording.yaml").write_text("turn:\n  last: Answer now.\n")
    config = make_config(tmp_path, "rooms", engine="transformers", model=str(small_folder))
    assert wording_of(build(config)).templates["turn.last"] == "Answer now."
    assert wording_of(build(config)).templates["turn.number"] == general().templates["turn.number"]
    assert wording_of(build(make_config(tmp_path, "rooms", model=str(small_folder)))).is_general
    path = run_rooms(tmp_path, engine="transformers", model=str(small_folder), max_turns=1)
    for turns in transcripts(path).values():
        assert "Answer now." in json.dumps(turns[0]["messages"])
    record = RunData(path).record
    assert record["wording"] == {
        "model": str(small_folder),
        "version": general().version,
        "sha256": wording_of(build(config)).sha256,
    }
    assert any(str(small_folder) in note for note in RunData(path).notes)


def test_probes_are_refused_for_a_model_without_beliefs():
    options = {"batch": True, "benchmark": "rooms", "model": "small"}
    with pytest.raises(UsageError, match=r"--probe map.*small"):
        build(RunConfig(**options, probe=("map",)))


@pytest.mark.parametrize(
    ("content", "entry"),
    [
        ("turn: [", "wording.yaml"),
        ("turn: 3", "turn"),
        ("turn:\n  last: 3", "turn.last"),
        ("turn:\n  first: Go.", "turn.first"),
        ("about:\n  belief: none", "about.belief"),
        ("turn:\n  number: Turn {turn} of {most}.", "{most}"),
        ("turn:\n  number: Turn {turn}.", "{turns}"),
        ("turn:\n  number: Turn {turn.__class__} of {turns}.", "turn.__class__"),
        ("turn:\n  last: Answer {now", "wording.yaml"),
    ],
)
def test_invalid_wording_is_rejected(tmp_path, content, entry):
    file = tmp_path / "wording.yaml"
    file.write_text(content)
    with pytest.raises(SetupError, match=re.escape(entry)) as refused:
        load_wording(file)
    assert str(file) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_changed_wording_prevents_resuming(tmp_path, small_folder):
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
