"""Device memory: how much is free or in use (`device.py`), and out-of-memory errors (`faults.py`)."""
