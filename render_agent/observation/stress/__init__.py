"""Stress tests of `--pictures`: does the answer depend on what is seen? One object a value, one file each.

It imports scenes, scoring and the configuration. Start in `base.py`.
"""
