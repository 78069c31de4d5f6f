"""The page "add a renderer" works: its package is installed and its renderer renders."""

import numpy as np
from factories.packages import install_page
from PIL import Image

from render_agent.render.make_renderer import make_renderer
from render_agent.render.renderer import BACKGROUND
from render_agent.runs.read import RunData, list_runs
from render_agent.scans.formats.load import load_scene


def test_renderer_from_the_docs_page(tmp_path, monkeypatch, type_in):
    words = install_page(monkeypatch, tmp_path, "add-a-renderer")
    code, _, output = type_in(*words, folder=tmp_path)
    assert code == 0, output
    (path,) = list_runs(tmp_path / "experiment_logs")
    run = RunData(path)
    assert run.record["packages"] == {"renderer dots": "dots-renderer 1.0"}
    scene = load_scene(run.questions[0].scan)
    views = [view for line in run.turns for view in line.views]
    ahead = next(view for view in views if view.kind == "ego")
    frame = make_renderer("dots").draw(scene, ahead.camera, 96, 72)
    image = np.asarray(Image.open(path / ahead.file).convert("RGB"))
    assert (image == frame.colours).all()
    surface = make_renderer("rasteriser").draw(scene, ahead.camera, 96, 72)
    has_dot = np.isfinite(frame.depth)
    assert 0.02 < has_dot.mean() < 1
    assert (frame.colours[~has_dot] == BACKGROUND).all()
    is_near = np.abs(frame.depth[has_dot] - surface.depth[has_dot]) < 0.1
    assert is_near.mean() > 0.5, "most dots are on the surface, the others behind it"
