"""The command line: commands, options, help, completion. Only this part prints and exits.

Imports everything. Start with `main`.
"""
