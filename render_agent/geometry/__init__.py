"""Cameras, poses, oriented boxes and rays, in numpy alone.

Imports only `errors` and `text`. Start with `camera`, where the one convention of axes, angles and pixels stands.
"""
