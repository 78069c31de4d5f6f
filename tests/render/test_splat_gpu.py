"""gsplat draws on a GPU what the processor draws."""

from importlib.util import find_spec

import numpy as np
import pytest
from factories.splat_reference import psnr
from factories.splats import some_splat

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
def test_the_gpu_draws_what_the_processor_draws():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("there is no NVIDIA GPU here")
    gpu, threads = gpu_renderer(), Rasteriser(threads=2)
    assert gpu is not None
    processor = GaussianRasteriser(threads._in_parts)
    scene = some_splat(5000)
    for camera in CAMERAS:
        one, other = (each.draw(scene, camera, 320, 240) for each in (gpu, processor))
        assert psnr(one.colours, other.colours) >= 40
        assert (np.isfinite(one.depth) == np.isfinite(other.depth)).mean() > 0.999
    threads.close()


@pytest.mark.skipif(find_spec("gsplat") is not None, reason="gsplat is installed")
def test_without_gsplat_splats_are_drawn_on_the_processor():
    assert gpu_renderer() is None
    rasteriser = Rasteriser(threads=1)
    frame = rasteriser.draw(some_splat(50), CAMERAS[0], 32, 24)
    assert frame.primitive is not None
    rasteriser.close()
