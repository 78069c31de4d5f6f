"""PLY: read as a mesh, a cloud or a splat, and written; our own code, as a header may lie.

Imports the other modules of `scene.formats`, of `splats` what a PLY file may hold. Start with `reader`, then `header`.
"""
