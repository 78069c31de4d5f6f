"""Parsing and schema of replies, as in a run with `--views free`."""

from factories import states
from render_agent.dialogue.reply import ReplyForm
from render_agent.dialogue.reply_protocol import JsonProtocol
from render_agent.options import VIEW_TYPES


def parse_reply(text, wanted="text", options=(), *, measures=False):
    """Parse a reply to a question whose answer has the form `wanted`."""
    form = ReplyForm(image_size=(640, 480) if measures else None)
    question = states.question(answer_form=wanted, options=tuple(options))
    return JsonProtocol().read(text, question, form)


def reply_schema(kinds=VIEW_TYPES, *, measures=False, question=None):
    """Return the JSON schema of replies that may request these view types, to a question or to any."""
    size = (640, 480) if measures else None
    return JsonProtocol().schema(
        ReplyForm("free" if kinds else "blind", tuple(kinds), size), question
    )
