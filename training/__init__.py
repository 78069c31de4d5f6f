"""Trains the small model shipped in `render_agent/engines/bundled_models/small`."""
