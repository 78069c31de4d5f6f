"""The loaded model (`load.py`) and its inputs (`inputs.py`), with the state of recurrent layers and the cache of vision
towers.
"""
