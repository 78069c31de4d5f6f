"""Text from outside, made safe: bounded parsing, redacted keys, numbers in words, tables for a terminal.

Imports no other room. Start with `safe_parse`, through which every foreign document is read, and
`sanitize`, through which every foreign text is printed.
"""
