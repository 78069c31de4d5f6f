"""Look at a scan from anywhere: a scene, cameras and a renderer by themselves, without any model.

python look_around.py [SCAN.ply]
"""

import sys

import numpy as np

import render_agent

scan = sys.argv[1] if len(sys.argv) > 1 else render_agent.bundled_rooms()["room01"]
with render_agent.open_scene(scan, size=(640, 480)) as scene:
    print(scene)

    # The start of every question: a free place near the middle, facing the most to see.
    path = [scene.start()]
    for _ in range(3):  # a quarter turn to the left and a step ahead, as far as furniture lets it
        turned = path[-1].turned(left=90)
        place, obstacle = scene.space.advance(turned.position, turned.offset(1.0, 0, 0))
        path.append(turned.at(place))
        print(
            f"stands at {np.round(place, 2)} m" + (f", stopped by {obstacle}" if obstacle else "")
        )

    for number, camera in enumerate(path, start=1):
        view = scene.view(camera)
        near = view.depth[np.isfinite(view.depth)].min()
        print(f"{view.save(f'view{number}.png')}: the nearest surface is {near:.2f} m away")
    print(scene.map(path).save("map.png"))
