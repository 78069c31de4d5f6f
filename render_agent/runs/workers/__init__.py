"""The same run dealt to several processes or machines by Ray; one process writes the log."""
