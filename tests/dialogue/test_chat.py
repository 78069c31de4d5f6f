"""Chat messages: escaped special tokens, thinking blocks and images."""

import json

import pytest
from conftest import test_data
from hypothesis import given, settings
from hypothesis import strategies as st

from render_agent.dialogue.chat import (
    assistant,
    escape_special_tokens,
    image_files,
    image_piece,
    message,
    replace_unencodable,
    split_thinking,
    text,
    without_thinking,
)

SPECIAL = [
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>",
    "<|video_pad|>", "<|object_ref_start|>", "<tool_call>", "</tool_call>", "<think>", "</think>",
    "<IMG_CONTEXT>", "<img>", "</img>", "<quad>", "<ref>", "</box>",
    "<image>", "<video>", "<s>", "</s>", "<unk>", "<pad>", "<mask>",
    "<start_of_image>", "<end_of_image>", "<image_soft_token>", "<start_of_turn>", "<bos>", "<eos>", "<unused7>",
    "<|begin_of_text|>", "<|eot_id|>", "<|reserved_special_token_9|>", "<｜end▁of▁sentence｜>",
    "[IMG]", "[IMG_BREAK]", "[INST]", "[/INST]", "[THINK]", "[TOOL_CALLS]", "[SYSTEM_PROMPT]",
]  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer():
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(test_data("qwen", "tokenizer.json")))


def special_ids(tokenizer):
    return tokenizer.get_added_tokens_decoder().keys()


@pytest.mark.parametrize("token", SPECIAL)
def test_special_tokens_are_escaped(token):
    for words in (token, f"a{token}b", token * 3, f"<{token}>", token[:4] + token + token[4:]):
        assert token not in escape_special_tokens(words)
        assert len(escape_special_tokens(words)) == len(words)


def test_added_tokens_of_qwen_are_escaped(tokenizer):
    special = special_ids(tokenizer)
    tokens = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    assert len(tokens) > 20
    for token in tokens:
        assert special & set(tokenizer.encode(token, add_special_tokens=False).ids)
        for form in ("{0}", "<{0}>", "<|{0}|>", "{1}{0}{2}", "{0}{0}"):
            words = form.format(token, token[:5], token[5:])
            ids = tokenizer.encode(escape_special_tokens(words), add_special_tokens=False).ids
            assert not special & set(ids), words


PARTS = st.sampled_from(
    ["<", ">", "|", "<|", "|>", "/", "im", "_end", "im_end", "image_pad", "think", " ", "\n", "x"]
)


@settings(max_examples=100, deadline=None)
@given(st.lists(PARTS, max_size=12).map("".join))
def test_mixed_brackets_form_no_special_token(tokenizer, words):
    ids = tokenizer.encode(escape_special_tokens(words), add_special_tokens=False).ids
    assert not special_ids(tokenizer) & set(ids)


def test_vsibench_questions_are_unchanged():
    lines = test_data("vsibench", "test.jsonl").read_text("utf-8").splitlines()
    assert len(lines) == 5130
    for row in map(json.loads, lines):
        for words in (row["question"], *(row["options"] or ())):
            assert text(words)["text"] == words


@pytest.mark.parametrize(
    "words", ["a < b > c", "x<5", "3 <4 and 5> 2", "<>", "< image >", "->", "a|b", "[A]", "⟨x⟩"]
)
def test_text_without_special_tokens_is_unchanged(words):
    assert escape_special_tokens(words) == words


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_escaped_text_is_encodable_and_escaping_is_idempotent(words):
    escape_special_tokens(words).encode("utf-8")
    assert "\0" not in replace_unencodable(words)
    assert escape_special_tokens(escape_special_tokens(words)) == escape_special_tokens(words)


@pytest.mark.parametrize(
    ("reply", "blocks", "remainder"),
    [
        ("<think>a</think>b", ["a"], "b"),
        ("a<think>b</think>c<think>d</think>e", ["b", "d"], "ace"),
        ("started in the prompt</think>b", ["started in the prompt"], "b"),
        ("a<think>cut off", ["cut off"], "a"),
        ("<think>a<think>b</think>c", ["a", "b"], "c"),
        ('<think>\n{"answer": 1}\n</think>\n{}', ['\n{"answer": 1}\n'], "\n{}"),
        ("a</think>b</think>c", ["b"], "c"),
        ("<thinking>a</thinking>b", ["a"], "b"),
        ("[THINK]a[/THINK]b", ["a"], "b"),
        ("<thought>a</thought>b", ["a"], "b"),
        ("◁think▷a◁/think▷b", ["a"], "b"),
        ("<seed:think>a</seed:think>b", ["a"], "b"),
        ("<|channel>thought\na<channel|>b", ["\na"], "b"),
        ("no block", [], "no block"),
        ("", [], ""),
    ],
)
def test_thinking_is_removed(reply, blocks, remainder):
    assert split_thinking(reply) == (blocks, remainder)
    assert without_thinking(reply) == remainder


def test_assistant_message_has_no_thinking_and_is_never_empty():
    (piece,) = assistant("<think>a</think> b<|im_end|> ")["content"]
    assert piece == {"type": "text", "text": "b‹|im_end|›"}
    assert assistant("<think>a")["content"] == [{"type": "text", "text": "(no reply)"}]


def test_image_files_are_listed_in_order():
    first = message("user", text("one"), image_piece("1.png"), image_piece("2.png"))
    second = message("user", image_piece("3.png"))
    files = image_files([first, message("assistant", text("ok")), second])
    assert files == ["1.png", "2.png", "3.png"]
