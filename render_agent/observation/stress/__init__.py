"""The values of `--pictures`: stress tests that change the scene or its pixels, each one class.

Imports scenes, scoring and the configuration.
Start with `base`, and the class `PictureStress`.
"""
