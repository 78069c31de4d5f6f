"""Which questions: files of them, VSI-Bench and its scans, the bundled rooms, those of other packages."""
