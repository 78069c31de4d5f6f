"""Error messages are readable and bounded for any input."""

import pytest

from render_agent.errors import (
    LONGEST_MESSAGE,
    LONGEST_WORD,
    RenderAgentError,
    RunLogError,
    SetupError,
    UsageError,
    os_errors,
)


@pytest.mark.parametrize("text", ["", "one sentence", "x" * LONGEST_WORD, "a word " * 200])
def test_readable_messages_are_unchanged(text):
    assert str(RenderAgentError(text)) == text


@pytest.mark.parametrize("length", [LONGEST_WORD + 1, 3_000, 10**6])
def test_long_values_are_shortened_but_their_explanation_is_kept(length):
    value = "a" + "x" * (length - 2) + "z"
    message = str(UsageError(f"--start {value} is no pose: write x,y,z,yaw"))
    (_, word, explanation) = message.split(" ", 2)
    assert explanation == "is no pose: write x,y,z,yaw"
    assert len(word) == LONGEST_WORD
    assert (word[0], word[-1]) == ("a", "z")
    assert word.count("…") == 1


def test_long_messages_are_shortened():
    message = str(RenderAgentError("begin " + "one more " * 10_000 + "end"))
    assert len(message) == LONGEST_MESSAGE
    assert message.startswith("begin one")
    assert message.endswith("more end")


def test_errors_with_no_or_several_arguments():
    assert str(RenderAgentError()) == ""
    assert str(RenderAgentError("a", 1)) == "('a', 1)"


def test_os_errors_names_the_action_and_the_reason(tmp_path):
    missing = tmp_path / "a.json"
    with pytest.raises(SetupError) as error, os_errors(SetupError, f"read {missing}"):
        missing.read_bytes()
    assert str(error.value) == f"cannot read {missing}: No such file or directory"
    assert isinstance(error.value.__cause__, FileNotFoundError)


def test_os_errors_appends_the_remedy():
    with pytest.raises(RunLogError) as error, os_errors(RunLogError, "write a", "make room"):
        raise OSError("the disk is full")
    assert str(error.value) == "cannot write a: the disk is full. Make room."


def test_os_errors_converts_other_errors_only_on_request():
    with pytest.raises(ValueError, match=r"\Ano JSON\Z"), os_errors(SetupError, "read a"):
        raise ValueError("no JSON")
    with (
        pytest.raises(SetupError, match=r"\Acannot read a: no JSON\Z"),
        os_errors(SetupError, "read a", also=ValueError),
    ):
        raise ValueError("no JSON")
