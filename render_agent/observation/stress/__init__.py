"""The values of `--pictures`: stress tests that change the scene or its pixels, each one class.

Imports scenes, scoring and the configuration.
Start with `base`, and the class `PictureStress`.
"""

STRESSES = {
    "real": "render_agent.observation.stress.base:Real",
    "black": "render_agent.observation.stress.blank:Black",
    "noise": "render_agent.observation.stress.blank:Noise",
    "shuffled": "render_agent.observation.stress.shuffled:Shuffled",
    "mirrored": "render_agent.observation.stress.mirrored:Mirrored",
}
"""Values of `--pictures`."""
