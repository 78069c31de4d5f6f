"""Cameras, poses and oriented boxes, in numpy alone.

Imports no other room. Start with `camera`, where the one convention of axes, angles and pixels stands.
"""
