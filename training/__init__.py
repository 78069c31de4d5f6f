"""How the small model that is shipped in `render_agent/models/small` is made."""
