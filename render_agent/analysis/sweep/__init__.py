"""A grid of runs: started, continued, compared in one table and one plot."""
