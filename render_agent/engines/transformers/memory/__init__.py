"""Sizes: what calls of a model take of a device's memory, and how it is divided.

Imports the device's memory and `model`. Start with `budget` for the engine that keeps keys, with `sizing` for the other.
"""
