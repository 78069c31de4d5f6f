"""The command line: options, commands, help and completion; only this room prints and exits.

It imports every other room. Start with `main`.
"""
