"""The server of `render-agent mcp`, whose tools let any MCP client explore scans. Start with `session.py`."""
