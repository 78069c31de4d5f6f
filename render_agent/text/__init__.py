"""Text from outside, made safe: bounded parsing, redacted keys, numbers in words, printable tables.

Imports only `errors`. Start with `safe_parse`, through which every foreign document is read, and `sanitize`, through which
every foreign text is printed.
"""
