"""Models: found by name (`locate`), loaded (`pretrained`, `load`), and their files and special tokens.

`locate` and `pretrained` import no library until they are used. Start with `load`.
"""
