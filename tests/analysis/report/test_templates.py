"""What templates fill in is escaped as markupsafe has it, whatever it is."""

import pytest
from jinja2 import DictLoader, UndefinedError
from markupsafe import Markup, escape

from render_agent.web.templates import environment


class Own(str):
    """A text of a type of its own, as enumerations are."""

    __slots__ = ()


class Marked:
    """Something that says itself how it stands in a page."""

    def __html__(self):
        return "<i>&amp;</i>"


VALUES = [
    *("", "plain", "<script>", 'a"b', "it's", "A & B", "ä ☺", "\x00", "a\nb"),
    *(Own("<b>"), Own("b"), Markup("<b>"), Markup("b"), Marked(), 3, -1, True, None, 1.5, [1, "<"]),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_what_is_filled_in_is_escaped_as_markupsafe_has_it(value):
    pages = environment("analysis/report").overlay(
        loader=DictLoader(
            {
                "parts.html": "{% macro part(x) %}<p>{{ x }}</p>{% endmacro %}",
                "page.html": '{% import "parts.html" as parts %}<a b="{{ x }}">{{ x }}{{ parts.part(x) }}</a>',
            }
        ),
        cache_size=0,
    )
    shown = escape(value)
    page = pages.get_template("page.html").render(x=value)
    assert page == f'<a b="{shown}">{shown}<p>{shown}</p></a>'
    with pytest.raises(UndefinedError):
        pages.get_template("page.html").render()
