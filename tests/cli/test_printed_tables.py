"""Tables of all commands in a pipe of 80 columns: no column is dropped, and no word is truncated."""

import json
import shutil
from contextlib import closing

import pytest
import yaml
from factories.runs import make_questions, play, spread_over_rooms, truncate_log

from render_agent.cli.commands.doctor import checks, command
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.runs.log.lock import FolderLock

LONG = "a_run_folder_with_quite_a_long_name_that_somebody_chose"

# Questions and rooms of the runs; a power analysis needs 16 rooms.
QUESTIONS, ROOMS = 32, 16


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with two comparable runs, one of which has a long name, a short run, predictions, and a sweep."""
    folder = tmp_path_factory.mktemp("tables")
    questions = spread_over_rooms(make_questions(folder, QUESTIONS), ROOMS)
    for number, name in enumerate(("first", LONG, "short")):
        replies = {
            str(n): [json.dumps({"answer": "A" if (n * n) % 7 < 3 + number else "3", "done": True})]
            for n in range(QUESTIONS)
        }
        limit = 4 if name == "short" else None
        engine = ScriptedEngine(ReplayPolicy(replies))
        path, _ = play(folder, questions, engine, seed=number, limit=limit)
        path.rename(path.parent / name)
    (folder / "predictions.jsonl").write_text(
        "".join(json.dumps({"id": n, "prediction": "A"}) + "\n" for n in range(QUESTIONS))
    )
    cells = {
        "options": {
            "benchmark": "questions.jsonl",
            "engine": "scripted",
            "model": "random",
            "image_size": "48x36",
            "max_turns": 2,
        },
        "grid": {"views": ["none", "random-walk"], "temperature": [0, 0.7]},
    }
    (folder / "sweep_of_views_and_temperatures.yaml").write_text(yaml.safe_dump(cells))
    return folder


SWEEP = ("sweep", "sweep_of_views_and_temperatures.yaml", "--limit", "9", "--output", "cells")

COMMANDS = [
    ("ls", "--runs", "runs"),
    ("ls", "--wide", "--runs", "runs"),
    ("show", LONG, "--runs", "runs"),
    ("show", LONG, "--all", "--runs", "runs"),
    ("rescore", LONG, "--runs", "runs"),
    ("compare", "first", LONG, "--runs", "runs"),
    ("compare", "first", "--power", "5", "--runs", "runs"),
    ("diagnose", "short", "--runs", "runs"),
    ("score", "predictions.jsonl", "--questions", "questions.jsonl"),
    ("doctor",),
    (*SWEEP, "--dry-run"),
    SWEEP,
    ("audit", "questions.jsonl", "--folds", "2", "--to", "pruned.txt"),
    ("export", LONG, "--runs", "runs", "--format", "csv", "--to", "rows.csv", "--force"),
    ("export", LONG, "--runs", "runs", "--format", "messages", "--to", "messages", "--force"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: "-".join(words[:1]))
def test_narrow_output_has_every_word_of_wide_output(runs, words, type_in, monkeypatch):
    printed = {}
    if words == ("doctor",):  # times and memory would differ between calls
        found = [*checks.machine_checks(runs), *checks.data_checks({})]
        monkeypatch.setattr(command, "run_checks", lambda *_: iter(found))
    if (
        words[: len(SWEEP)] == SWEEP
    ):  # run the sweep, so that all outputs below are those of a complete one
        type_in(*words, folder=runs)
    for columns in (80, 400):
        monkeypatch.setenv("COLUMNS", str(columns))
        code, out, err = type_in(*words, folder=runs)
        assert code == 0, err
        printed[columns] = out + err
    wide = [word for word in printed[400].split() if not set(word) <= set("─·")]
    assert wide
    narrow = printed[80].split()
    assert [word for word in set(wide) if word not in narrow] == []
    assert "…" not in printed[80].replace(" … ", "")
    if words[0] == "ls":  # a pipe without COLUMNS has 80
        monkeypatch.delenv("COLUMNS")
        assert "".join(type_in(*words, folder=runs)[1:]) == printed[80]


def test_ls_has_one_line_per_run(tmp_path, type_in, monkeypatch):
    """Long names of benchmarks are shortened at 80 columns, and `--wide` shows them."""
    monkeypatch.setenv("COLUMNS", "80")
    long_name = tmp_path / "questions_about_places_of_furniture_in_rooms.jsonl"
    questions = make_questions(tmp_path, 4).rename(long_name)
    engine = ScriptedEngine(ReplayPolicy({"*": [json.dumps({"answer": "3", "done": True})]}))
    path, results = play(tmp_path, questions, engine)
    running, interrupted = (path.with_name(f"20260101T000000_{n}") for n in ("first", "second"))
    for copy in (running, interrupted):
        truncate_log(shutil.copytree(path, copy), 2)
    printed = {}
    with closing(FolderLock(running)):
        for flags in ((), ("--wide",)):
            code, printed[flags], err = type_in(
                "ls", *flags, "--runs", path.parent, folder=tmp_path
            )
            assert (code, err) == (0, "")
    lines = printed[()].splitlines()
    assert max(map(len, lines[:-1])) <= 80
    cells = {line.split()[0]: line.split()[1:] for line in lines[2:-1]}
    scores = {name: (row[0][-1], *row[2:4]) for name, row in cells.items()}
    assert scores == {
        path.name: ("…", "4", f"{results['official_raw']:.1f}"),
        running.name: ("…", "4", "running"),
        interrupted.name: ("…", "4", "interrupted"),
    }
    assert long_name.name in printed["--wide",]
