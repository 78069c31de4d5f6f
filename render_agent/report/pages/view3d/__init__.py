"""The 3D view of a question, with the scan reduced for browsers. Start with `scene_file.py`.

It is drawn by `scripts/view3d/view3d.js`, which the set-up bundles with three.js into `util/web/assets`.
"""
