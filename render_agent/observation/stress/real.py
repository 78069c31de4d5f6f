"""`--pictures real`: the scene as it is."""

from render_agent.observation.stress.base import PictureStress


class Real(PictureStress):
    """No stress: the pictures show the scene as it is."""
