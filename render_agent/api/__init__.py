"""What Python programs and notebooks use; its names are those of `render_agent`, imported lazily."""
