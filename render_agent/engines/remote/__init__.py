"""What the engines of remote APIs share: the scheduler over servers, HTTP, errors, retries and adaptations.

Start with `remote_engine.py`; `chat_api.py` is the interface of an API.
"""
