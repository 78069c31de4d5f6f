"""Image stress tests (`--image-stress`) change the scene or its pixels. Start with `image_stress.py`, the base class."""

# values of `--image-stress`
STRESSES = {
    "real": "render_agent.views.stress.image_stress:Real",
    "black": "render_agent.views.stress.blank:Black",
    "noise": "render_agent.views.stress.blank:Noise",
    "shuffled": "render_agent.views.stress.shuffled:Shuffled",
    "mirrored": "render_agent.views.stress.mirrored:Mirrored",
}
