"""The page "add a kind of view" is so: the model is told of the kind, asks for it, and is shown it."""

import numpy as np
from factories.packages import blocks, install_page, shown
from PIL import Image

from render_agent.runs.log.folder import RunFolder, list_runs


def test_the_kind_of_view_of_the_page_is_shown(tmp_path, monkeypatch, type_in):
    words = install_page(monkeypatch, tmp_path, "add-a-kind-of-view")
    page, module, _ = shown("add-a-kind-of-view")
    (replies,) = blocks(page, "json")
    (tmp_path / "replies.jsonl").write_text(replies, "utf-8")
    code, _, told = type_in(*words, folder=tmp_path)
    assert code == 0, told
    (path,) = list_runs(tmp_path / "experiment_logs")
    run = RunFolder(path)
    assert run.record["packages"] == {"kind of view depth": "depth-view 1.0"}
    opening, following = run.lines()[0], run.lines()[-1]
    (line,) = [entry for entry in module.splitlines() if "told = " in entry]
    described = f'- "depth": {line.split(chr(34))[1]}'
    assert described in opening["messages"][0]["content"][0]["text"]
    assert [view["kind"] for view in opening["views"]] == ["top", "ego"]
    (view,) = following["views"]
    assert (view["kind"], view["file"]) == (
        "depth",
        f"views/{following['question_id']}/1_depth.png",
    )
    picture = np.asarray(Image.open(path / view["file"]))
    assert picture.shape == (72, 96, 3)
    assert (picture[..., 0] == picture[..., 2]).all()
    assert len(np.unique(picture)) > 20, "near and far differ"
