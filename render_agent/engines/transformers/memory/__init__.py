"""Memory: what a device has, what calls take of it, how it is divided, and what happens where it runs out.

Imports `model` and `engines.base`. Start with `budget` for the engine that keeps keys, with `sizing` for the other.
"""
