"""How the small model that is shipped in `render_agent/engines/bundled_models/small` is made."""
