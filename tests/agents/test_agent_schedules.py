"""No schedule changes what agents that choose say, see, score and take."""

import pytest
from factories.runs import choices, make_questions, pictures, transcripts
from factories.samples import AGENTS, FreeRunning, choose, mixed_engine

from render_agent.engines.scripted import ScriptedEngine

COUNT = 4

SCHEDULES = [
    (ScriptedEngine, 1, 0, 1),
    pytest.param(ScriptedEngine, 2, 4, 1, marks=pytest.mark.slow),
    (ScriptedEngine, 64, 0, 3),
    (FreeRunning, 1, 1, 1),
    pytest.param(FreeRunning, 2, 0, 8, marks=pytest.mark.slow),
    (FreeRunning, 5, 4, 3),
]
"""Engine, batch size, turns that all questions take together, and how many then finish side by side."""


def told(run):
    """Return what a schedule must not change."""
    path, results = run
    kept = ("question_id", "status", "answer", "score", "turns")
    rows = [{name: row[name] for name in kept} for row in results["questions"]]
    return transcripts(path), choices(path), pictures(path), rows


@pytest.fixture(scope="module", params=AGENTS)
def reference(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    questions = make_questions(folder, COUNT)
    return (
        request.param,
        folder,
        questions,
        told(choose(folder, questions, request.param, mixed_engine())),
    )


@pytest.mark.parametrize(("made", "batch_size", "batched", "together"), SCHEDULES)
def test_no_schedule_changes_what_is_chosen(reference, made, batch_size, batched, together):
    agent, folder, questions, before = reference
    engine = mixed_engine(batch_size, made)
    run = choose(
        *(folder, questions, agent, engine),
        max_batched_turns=batched,
        finish_together=together,
    )
    assert told(run) == before


def test_the_runs_have_choices_of_every_kind(reference):
    agent, _, _, (_, evidence, files, rows) = reference
    weighed = [found for found in evidence.values() if found["weighed"]]
    candidates = [c for found in evidence.values() for c in found["candidates"]]
    assert any("malformed" in c["action"] for c in candidates)
    assert len({row["turns"] for row in rows}) > 1
    drawn = {c["view"]["file"] for c in candidates if c["view"]}
    assert drawn <= files.keys()
    if agent == "best:3":
        assert not drawn
    else:
        assert any("candidate" in file for file in drawn)
    if agent == "show:3":
        assert not weighed
    else:
        assert any(found["chosen"] != min(found["weighed"]) for found in weighed)
