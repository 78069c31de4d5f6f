"""The 3D view of a question's page: the scan made small enough for a browser, and what is drawn over it.

Imports what the other pages do. Start with `scene_file`; what draws it all is `scripts/view3d/view3d.js`, bundled
with three.js into `web/assets` as the program is set up.
"""
