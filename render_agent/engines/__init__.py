"""Engines: what answers a request, and what batching, reuse of prompts and memory take.

Holds a folder for each engine (`transformers`, `vllm`, `openai`, `scripted`, `human`), the `registry` of `--engine`, and
what several of them share. May import dialogue, questions, scenes and what views show; never agents or runs. Start with
`base`, which has the protocol.
"""
