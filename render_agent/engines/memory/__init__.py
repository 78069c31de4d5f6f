"""Device memory: how much is free or in use (`device.py`), out-of-memory errors (`faults.py`), and batches (`batches.py`)."""
