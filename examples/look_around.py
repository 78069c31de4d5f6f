"""Render a scan from anywhere: a scene, cameras and a renderer, without a model.

python look_around.py [SCAN.ply]
"""

import sys

import numpy as np

import render_agent

scan = sys.argv[1] if len(sys.argv) > 1 else render_agent.bundled_rooms()["room01"]
with render_agent.open_scene(scan, size=(640, 480)) as scene:
    print(scene)

    # The start pose of every question: the place and heading that show the most surface.
    path = [scene.start()]
    for _ in range(3):  # turn left by 90 degrees and step forward, as far as furniture allows
        turned = path[-1].turned(left=90)
        position, obstacle = scene.space.advance(turned.position, turned.offset(1.0, 0, 0))
        path.append(turned.at(position))
        print(f"at {np.round(position, 2)} m" + (f", stopped by {obstacle}" if obstacle else ""))

    for number, camera in enumerate(path, start=1):
        view = scene.view(camera)
        nearest = view.depth.min()  # infinite if nothing was scanned
        text = (
            f"nearest surface at {nearest:.2f} m"
            if np.isfinite(nearest)
            else "nothing was scanned here"
        )
        print(f"{view.save(f'view{number}.png')}: {text}")
    print(scene.map(path).save("map.png"))
