"""3D view of a question, with the scan reduced for browsers. Start with `scene_file.py`.

`scripts/view3d/view3d.js` renders it; the build bundles the script with three.js into `util/web/assets`.
"""
