import numpy as np
import pytest

from render_agent.errors import RunLogError
from render_agent.views.image_store import ImageStore, question_file


def test_safe_ids_are_file_names():
    assert question_file("4712", 3, "ego") == "views/4712/3_ego.png"
    assert question_file("../../etc", 0, "top").startswith("views/_-etc.")
    assert question_file("scenes", 0, "top") != "views/scenes/0_top.png"


def test_stored_images_are_read_back(tmp_path):
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (48, 64, 3), dtype=np.uint8)
    images = ImageStore(tmp_path)
    images.save("views/a/0_ego.png", image).result()
    assert np.array_equal(np.asarray(images.get("views/a/0_ego.png")), image)
    images.close()
    assert np.array_equal(np.asarray(ImageStore(tmp_path).get("views/a/0_ego.png")), image)


def test_missing_image_raises_run_log_error(tmp_path):
    with pytest.raises(RunLogError, match=r"views/a/0_ego\.png"):
        ImageStore(tmp_path).get("views/a/0_ego.png")


def test_unwritable_image_raises_run_log_error(tmp_path):
    (tmp_path / "views").write_text("in the way")
    future = ImageStore(tmp_path).save("views/a/0_ego.png", np.zeros((4, 4, 3), np.uint8))
    with pytest.raises(RunLogError, match="cannot write"):
        future.result()


def test_shared_image_is_not_written_concurrently(tmp_path):
    image = np.random.default_rng(0).integers(0, 256, (96, 128, 3), dtype=np.uint8)
    images = ImageStore(tmp_path)
    futures = [images.save("views/scenes/room/0_top.png", image) for _ in range(100)]
    for future in futures:
        future.result()
    images.close()
    assert [path.name for path in (tmp_path / "views/scenes/room").iterdir()] == ["0_top.png"]


def test_evicted_images_are_read_from_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("render_agent.views.image_store.MAX_DECODED_PICTURES", 2)
    images_shown = np.random.default_rng(0).integers(0, 256, (5, 12, 16, 3), dtype=np.uint8)
    images = ImageStore(tmp_path)
    for number, image in enumerate(images_shown):
        images.save(f"views/a/{number}_ego.png", image)
    for number, image in enumerate(images_shown):
        assert np.array_equal(np.asarray(images.get(f"views/a/{number}_ego.png")), image)
    images.close()
