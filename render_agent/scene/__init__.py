"""Scenes: a scan read from its file, shared by its questions, and the space to move in."""

from render_agent.scene.cache import SceneCache
from render_agent.scene.formats.load import load_scene
from render_agent.scene.model import Scene

__all__ = ["Scene", "SceneCache", "load_scene"]
