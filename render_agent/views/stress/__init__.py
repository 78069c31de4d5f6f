"""The values of `--pictures`: stress tests that change the scene or its pixels, each one class.

Imports scenes, scoring and the configuration.
Start with `base`, and the class `PictureStress`.
"""

STRESSES = {
    "real": "render_agent.views.stress.image_stress:Real",
    "black": "render_agent.views.stress.blank:Black",
    "noise": "render_agent.views.stress.blank:Noise",
    "shuffled": "render_agent.views.stress.shuffled:Shuffled",
    "mirrored": "render_agent.views.stress.mirrored:Mirrored",
}
"""Values of `--pictures`."""
