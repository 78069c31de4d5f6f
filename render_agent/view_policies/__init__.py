"""Views that are not chosen by the model: fair baselines for the one that explores."""
