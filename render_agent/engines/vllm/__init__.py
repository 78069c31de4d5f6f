"""The engine that runs a model by vLLM on this machine.

Start with `vllm_engine.py`, which passes `requests.py` to vLLM's own `core.py`.
"""
