"""The loaded model (`load.py`), its inputs (`inputs.py`), and the states of recurrent layers."""
