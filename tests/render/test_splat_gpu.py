"""Splats drawn by gsplat on a GPU agree with the CPU renderer."""

from importlib.util import find_spec

import numpy as np
import pytest
from factories.splat_reference import psnr
from factories.splats import random_splat

from render_agent.render.rasteriser.gaussians.gpu import gpu_renderer
from render_agent.render.rasteriser.gaussians.renderer import GaussianRasteriser
from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.scans.camera import Camera, MapCamera

CAMERAS = [
    Camera((0.5, 0.5, 1.2), 40, -10),
    Camera((3.0, 2.5, 1.0), -130, 20),
    MapCamera((2.1, 1.4), 1.8, 0.01),
]


@pytest.mark.gpu
@pytest.mark.skipif(find_spec("gsplat") is None, reason="gsplat is not installed")
def test_gpu_and_cpu_frames_agree():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU")
    gpu, threads = gpu_renderer(), Rasteriser(threads=2)
    assert gpu is not None
    cpu = GaussianRasteriser(threads._run_in_parts)
    scene = random_splat(5000)
    for camera in CAMERAS:
        first, second = (each.draw(scene, camera, 320, 240) for each in (gpu, cpu))
        assert psnr(first.colours, second.colours) >= 40
        assert (np.isfinite(first.depth) == np.isfinite(second.depth)).mean() > 0.999
    threads.close()


@pytest.mark.skipif(find_spec("gsplat") is not None, reason="gsplat is installed")
def test_without_gsplat_splats_are_drawn_on_the_cpu():
    assert gpu_renderer() is None
    rasteriser = Rasteriser(threads=1)
    frame = rasteriser.draw(random_splat(50), CAMERAS[0], 32, 24)
    assert frame.primitive is not None
    rasteriser.close()
