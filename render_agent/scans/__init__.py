"""Scenes: a scan file read as points, colours and faces in metres, shared by its questions, and its free space.

Imports `errors`, `text` and `geometry`. Start with `model`, the scene itself, then `cache` and
`formats.load`.
"""
