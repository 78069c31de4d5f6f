"""The examples run unchanged and print correct results."""

import ast
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import test_data
from factories import TREE
from PIL import Image

import render_agent

EXAMPLES = TREE / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))


def run_script(name: str, folder: Path, *arguments: str) -> str:
    """Run an example in a folder and return its output."""
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    return result.stdout


def run_in_process(name: str, folder: Path, capsys, monkeypatch, *arguments: str) -> str:
    """Run an example in this process, which has already loaded the libraries."""
    with monkeypatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    output, wrong = capsys.readouterr()
    assert wrong == ""
    return output


def pixels(path: Path):
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def test_ask_a_scan(tmp_path, capsys, monkeypatch):
    output = run_in_process("ask_a_scan.py", tmp_path, capsys, monkeypatch)
    dialogue = render_agent.load_run(output=tmp_path / "experiment_logs").dialogue("question")
    for turn in dialogue.turns:
        assert f"turn {turn.number}: shown" in output
        assert f"  {turn.feedback}\n" in output
    assert f"answer: {dialogue.answer} ({dialogue.status})" in output
    assert (pixels(tmp_path / "map.png") == dialogue.map().pixels).all()


def test_look_around(tmp_path, capsys, monkeypatch):
    scan = render_agent.bundled_rooms()["room00"]
    output = run_in_process("look_around.py", tmp_path, capsys, monkeypatch, str(scan))
    with render_agent.open_scene(scan) as scene:
        assert repr(scene) in output
        first = scene.view()
        assert (pixels(tmp_path / "view1.png") == first.pixels).all()
        nearest = first.depth[np.isfinite(first.depth)].min()
    assert f"view1.png: nearest surface at {nearest:.2f} m" in output
    files = [
        pixels(tmp_path / f"{name}.png") for name in ("view1", "view2", "view3", "view4", "map")
    ]
    assert len({image.tobytes() for image in files}) == 5


def test_look_around_a_splat_with_empty_views(tmp_path, capsys, monkeypatch):
    scan = test_data("splats", "biker.compressed.ply")
    output = run_in_process("look_around.py", tmp_path, capsys, monkeypatch, str(scan))
    assert "nothing was scanned here" in output
    assert "nearest surface at" in output
    assert len(list(tmp_path.glob("view?.png"))) == 4


@pytest.mark.slow
def test_compare_views(tmp_path):
    output = run_script("compare_views.py", tmp_path)
    names = re.findall(r"^(\w+): <run (\w+): 24 questions", output, re.MULTILINE)
    runs = {
        views: render_agent.load_run(tmp_path / "experiment_logs" / run) for views, run in names
    }
    assert list(runs) == ["none", "start", "free"]
    assert [run.config.views for run in runs.values()] == list(runs)
    for views in ("none", "start"):
        difference = runs["free"].score - runs[views].score
        assert f"free against {views}: {difference:+.1f} points" in output
    assert runs["free"].score > runs["none"].score
    causes = runs["free"].diagnosis()
    right = sum(str(result.cause) == "right" for result in causes.values())
    assert re.search(rf"^right +{right}$", output, re.MULTILINE)


@pytest.mark.parametrize("name", SCRIPTS)
def test_examples_are_short_and_documented(name):
    text = (EXAMPLES / name).read_text("utf-8")
    lines, characters = (140, 120) if name.startswith("train_") else (50, 40)
    assert len(text.splitlines()) < lines
    assert sum(bool(line.strip()) for line in text.splitlines()) < characters
    assert f"python {name}" in ast.get_docstring(ast.parse(text))
    assert f"[{name}]({name})" in (EXAMPLES / "README.md").read_text("utf-8")


def test_notebook_is_valid_and_has_no_outputs():
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(EXAMPLES / "explore.ipynb", as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(cells) >= 8
    assert not [cell.id for cell in cells if cell.outputs or cell.execution_count]


@pytest.mark.slow
def test_notebook_cells_run_in_order_and_show_something(tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.chdir(tmp_path)
    notebook = nbformat.read(EXAMPLES / "explore.ipynb", as_version=4)
    names = {"__name__": "__main__"}
    rich = 0
    for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
        tree = ast.parse(cell.source)
        last = tree.body.pop()
        assert isinstance(last, ast.Expr), f"{cell.id} shows nothing"
        exec(compile(tree, cell.id, "exec"), names)
        value = eval(compile(ast.Expression(last.value), cell.id, "eval"), names)
        assert value is not None
        if hasattr(value, "_repr_html_"):
            assert "<" in value._repr_html_()
            rich += 1
        elif hasattr(value, "_repr_png_"):
            assert value._repr_png_().startswith(b"\x89PNG")
            rich += 1
    assert rich >= 8
