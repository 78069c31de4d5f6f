"""A run looked at while it goes on."""
