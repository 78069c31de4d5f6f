"""Scenes: a scan file read as points, colours and faces in metres, shared by its questions, and its free space.

Imports `errors`, `text` and `geometry`. Start with `model`, the scene itself, then `cache` and
`formats.load`.
"""

from render_agent.scene.cache import SceneCache
from render_agent.scene.formats.load import load_scene
from render_agent.scene.model import Scene

__all__ = ["Scene", "SceneCache", "load_scene"]
