"""Reading text files of any encoding."""

import pytest

from render_agent.util.safe_parse import read_text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_byte_order_mark_is_not_text(tmp_path, encoding):
    path = tmp_path / "a.txt"
    path.write_text("Stühle", encoding)
    assert read_text(path) == "Stühle"


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_other_encodings_are_refused_with_a_remedy(tmp_path, encoding):
    path = tmp_path / "a.txt"
    path.write_text("Stühle", encoding)
    with pytest.raises(ValueError, match="UTF-8"):
        read_text(path)
