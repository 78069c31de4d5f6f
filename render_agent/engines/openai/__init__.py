"""The engine for OpenAI-compatible servers: vLLM, SGLang, llama.cpp, hosted models.

Start with `openai_engine.py`; requests are written in `chat_format.py` and sent by `client.py`.
"""
