"""Parses replies: finds and repairs JSON objects and tool calls, and converts their fields into an action."""
