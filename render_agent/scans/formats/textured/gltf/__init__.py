"""glTF: the file and its numbers, its materials, and the scan that its nodes place.

Imports `scene.formats` and `text`. Start with `nodes`.
"""
