"""Checkpoints: a model's files, found by name, checked, and loaded by transformers, for whichever engine runs it.

Holds where files lie (`locate`), what is checked of them, and how they are loaded (`pretrained`). Imports the families
beside it, and no heavy library until one is used. Start with `locate`, then `pretrained`.
"""
