"""The small model's tokenizer: byte-level BPE that knows the protocol's texts, the same on every machine."""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import repeat
from typing import Any

from training.phrases import LABELS, phrases, texts, whole_pieces

SPECIAL_TOKENS = (
    "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|>"
    " <|box_end|> <|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|>"
    " <|image_pad|> <|video_pad|>"
).split()
"""Qwen's, which its processor and template need."""

MOST_MERGED = 1600
"""Tokens that are merges or bytes, at the most; fewer where nothing else is frequent enough."""

RARE = 6
"""A pair of symbols that comes up less often in the training texts is not merged."""


def small_tokenizer() -> Any:
    """Return the tokenizer, fast and ready to be saved; any text comes back from its tokens unchanged.

    Digits are tokens of their own; a fixed text of the prompts is one token wherever it stands;
    replies need merges only. Nothing is read and nothing is drawn at random.
    """
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_merging(),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        clean_up_tokenization_spaces=False,
        model_max_length=32768,
    )
    tokenizer.add_special_tokens({"additional_special_tokens": list(SPECIAL_TOKENS)})
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in phrases()])
    return tokenizer


def piece_pattern() -> str:
    """Return the regular expression of what no merge reaches beyond.

    Whole pieces first, then numbers of replies in two parts, ways of the compass, labels, words with the
    space before them, single digits, single marks.
    """
    whole = "|".join(re.escape(text).replace("\\ ", " ") for text in whole_pieces())
    labels = "|".join(sorted(map(re.escape, LABELS), key=lambda label: (-len(label), label)))
    labels = labels.replace("\\ ", " ")
    tenths = r" -?\p{N}{1,2}(?=\.\p{N}(?!\p{N}))|(?<=\p{N})\.\p{N}(?!\p{N})"
    ways = r" (?:3[0-5]|[12]?\p{N})?[05](?=[,:]| left| right)"
    return rf"{whole}|{tenths}|{ways}| ?(?:{labels})(?!\p{{L}})| ?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]|\s"


def _merging() -> Any:
    """Return byte-level BPE with merges learnt from the protocol's texts, without added tokens."""
    from tokenizers import Tokenizer
    from tokenizers.decoders import ByteLevel
    from tokenizers.models import BPE

    learnt = _learnt()
    tokenizer = Tokenizer(BPE(learnt["vocab"], [tuple(pair) for pair in learnt["merges"]]))
    tokenizer.pre_tokenizer = _pieces()
    tokenizer.decoder = ByteLevel()
    return tokenizer


def _pieces() -> Any:
    """Return what parts a text into the pieces that no merge reaches beyond, and those into bytes."""
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split

    split = Split(Regex(piece_pattern()), "isolated")
    return Sequence([split, ByteLevel(add_prefix_space=False, use_regex=False)])


@cache
def _learnt() -> dict[str, Any]:
    """Return the vocabulary and the merges, which take a second to learn."""
    from tokenizers import Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from tokenizers.trainers import BpeTrainer

    learner = Tokenizer(BPE())
    learner.pre_tokenizer = _pieces()
    trainer = BpeTrainer(
        vocab_size=MOST_MERGED,
        min_frequency=RARE,
        initial_alphabet=sorted(ByteLevel.alphabet()),
        show_progress=False,
    )
    learner.train_from_iterator(
        (text for text, times in texts() for text in repeat(text, times)), trainer
    )
    learnt: dict[str, Any] = json.loads(learner.to_str())["model"]
    return learnt
