"""The dialogue about one question: its state and turns, the prompt, and the reply protocol.

Start with `state.py` and `turn.py`, then `reply.py` and `moves.py`.
"""

REPLY_PROTOCOLS = {"json": "render_agent.dialogue.reply_protocol:JsonProtocol"}
"""Ways to ask for a reply and read it."""
