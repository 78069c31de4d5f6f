"""Schedules do not change the replies, images, scores and choices of agents."""

import pytest
from factories.runs import evidence_by_turn, images, make_questions, transcripts
from factories.samples import AGENTS, FreeRunning, mixed_engine, run_agent

from render_agent.engines.scripted import ScriptedEngine

COUNT = 4

# Engine, batch size, turns batched over all questions, and questions that finish concurrently.
SCHEDULES = [
    (ScriptedEngine, 1, 0, 1),
    pytest.param(ScriptedEngine, 2, 4, 1, marks=pytest.mark.slow),
    (ScriptedEngine, 64, 0, 3),
    (FreeRunning, 1, 1, 1),
    pytest.param(FreeRunning, 2, 0, 8, marks=pytest.mark.slow),
    (FreeRunning, 5, 4, 3),
]


def invariants(run):
    """Return everything that a schedule must not change."""
    path, results = run
    columns = ("question_id", "status", "answer", "score", "turns")
    rows = [{name: row[name] for name in columns} for row in results["questions"]]
    return transcripts(path), evidence_by_turn(path), images(path), rows


@pytest.fixture(scope="module", params=AGENTS)
def reference(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    questions = make_questions(folder, COUNT)
    run = run_agent(folder, questions, request.param, mixed_engine())
    return request.param, folder, questions, invariants(run)


@pytest.mark.parametrize(("engine_class", "batch_size", "batched", "concurrent"), SCHEDULES)
def test_schedule_does_not_change_choices(reference, engine_class, batch_size, batched, concurrent):
    agent, folder, questions, expected = reference
    engine = mixed_engine(batch_size, engine_class)
    schedule = {"max_batched_turns": batched, "finish_together": concurrent}
    assert invariants(run_agent(folder, questions, agent, engine, **schedule)) == expected


def test_reference_runs_cover_all_kinds_of_choices(reference):
    agent, _, _, (_, evidence, files, rows) = reference
    weighed = [entry for entry in evidence.values() if entry["weighed"]]
    candidates = [c for entry in evidence.values() for c in entry["candidates"]]
    assert any("malformed" in c["action"] for c in candidates)
    assert len({row["turns"] for row in rows}) > 1
    previews = {c["view"]["file"] for c in candidates if c["view"]}
    assert previews <= files.keys()
    if agent == "best:3":
        assert not previews
    else:
        assert any("candidate" in file for file in previews)
    if agent == "show:3":
        assert not weighed
    else:
        assert any(entry["chosen"] != min(entry["weighed"]) for entry in weighed)
