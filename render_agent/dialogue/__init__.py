"""The dialogue about one question: its state and turns, the prompt, and the reply protocol.

Start with `state.py` and `turn.py`, then `reply.py` and `moves.py`.
"""

# Built-in reply protocols: how replies are requested and parsed.
REPLY_PROTOCOLS = {
    "json": "render_agent.dialogue.reply_protocol:JsonProtocol",
    "tools": "render_agent.dialogue.tools_protocol:ToolsProtocol",
}
