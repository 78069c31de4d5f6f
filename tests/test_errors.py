"""What is told of an error is a sentence that can be read, whatever was given."""

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
def test_what_can_be_read_is_told_as_it_is(text):
    assert str(RenderAgentError(text)) == text


@pytest.mark.parametrize("length", [LONGEST_WORD + 1, 3_000, 10**6])
def test_a_long_value_is_shortened_and_what_is_said_of_it_is_not(length):
    value = "a" + "x" * (length - 2) + "z"
    told = str(UsageError(f"--start {value} is no pose: write x,y,z,yaw"))
    (_, word, rest) = told.split(" ", 2)
    assert rest == "is no pose: write x,y,z,yaw"
    assert len(word) == LONGEST_WORD
    assert (word[0], word[-1]) == ("a", "z")
    assert word.count("…") == 1


def test_many_words_are_bounded_too():
    told = str(RenderAgentError("begin " + "one more " * 10_000 + "end"))
    assert len(told) == LONGEST_MESSAGE
    assert told.startswith("begin one")
    assert told.endswith("more end")


def test_an_error_of_no_words_and_of_several_values_is_told():
    assert str(RenderAgentError()) == ""
    assert str(RenderAgentError("a", 1)) == "('a', 1)"


def test_an_error_of_the_operating_system_is_told_in_its_words(tmp_path):
    missing = tmp_path / "a.json"
    with pytest.raises(SetupError) as told, os_errors(SetupError, f"read {missing}"):
        missing.read_bytes()
    assert str(told.value) == f"cannot read {missing}: No such file or directory"
    assert isinstance(told.value.__cause__, FileNotFoundError)


def test_an_error_without_those_words_is_told_as_it_is_and_with_what_to_do():
    with pytest.raises(RunLogError) as told, os_errors(RunLogError, "write a", "make room"):
        raise OSError("the disk is full")
    assert str(told.value) == "cannot write a: the disk is full. Make room."


def test_other_errors_pass_unless_they_are_named():
    with pytest.raises(ValueError, match=r"\Ano JSON\Z"), os_errors(SetupError, "read a"):
        raise ValueError("no JSON")
    with (
        pytest.raises(SetupError, match=r"\Acannot read a: no JSON\Z"),
        os_errors(SetupError, "read a", also=ValueError),
    ):
        raise ValueError("no JSON")
