"""A model in this process by vLLM.

Imports `engines.base` and below; vLLM is imported inside functions. Start with `engine`.
"""
