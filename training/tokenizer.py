"""The small model's tokenizer: byte-level BPE with the protocol's texts as tokens, identical on every machine."""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import repeat
from typing import Any

from training.phrases import LABELS, phrases, texts, whole_pieces

# Qwen's special tokens, required by its processor and template.
SPECIAL_TOKENS = (
    "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|>"
    " <|box_end|> <|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|>"
    " <|image_pad|> <|video_pad|>"
).split()

MAX_MERGED = 1600  # maximum number of byte and merge tokens

MIN_FREQUENCY = 6  # minimum frequency of a symbol pair in the training texts to be merged


def small_tokenizer() -> Any:
    """Build the fast tokenizer. Decoding restores any text unchanged.

    Digits are separate tokens, every fixed prompt text is one token, and replies only use merges. Deterministic; reads
    no files.
    """
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_build_bpe(),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        clean_up_tokenization_spaces=False,
        model_max_length=32768,
    )
    tokenizer.add_special_tokens({"additional_special_tokens": list(SPECIAL_TOKENS)})
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in phrases()])
    return tokenizer


def piece_pattern() -> str:
    """Return the regular expression of the pieces that merges may not cross.

    In order: whole pieces, two-part numbers in replies, bearings, labels, words with their leading space, single digits,
    single punctuation marks.
    """
    whole_pattern = "|".join(re.escape(text).replace("\\ ", " ") for text in whole_pieces())
    labels = "|".join(sorted(map(re.escape, LABELS), key=lambda label: (-len(label), label)))
    labels = labels.replace("\\ ", " ")
    tenths = r" -?\p{N}{1,2}(?=\.\p{N}(?!\p{N}))|(?<=\p{N})\.\p{N}(?!\p{N})"
    bearings = r" (?:3[0-5]|[12]?\p{N})?[05](?=[,:]| left| right)"
    return rf"{whole_pattern}|{tenths}|{bearings}| ?(?:{labels})(?!\p{{L}})| ?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]|\s"


def _build_bpe() -> Any:
    """Return byte-level BPE with merges learned from the protocol's texts, without added tokens."""
    from tokenizers import Tokenizer
    from tokenizers.decoders import ByteLevel
    from tokenizers.models import BPE

    bpe = _learn_merges()
    tokenizer = Tokenizer(BPE(bpe["vocab"], [tuple(pair) for pair in bpe["merges"]]))
    tokenizer.pre_tokenizer = _pre_tokenizer()
    tokenizer.decoder = ByteLevel()
    return tokenizer


def _pre_tokenizer() -> Any:
    """Return the pre-tokenizer that splits text into pieces, and pieces into bytes."""
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split

    split = Split(Regex(piece_pattern()), "isolated")
    return Sequence([split, ByteLevel(add_prefix_space=False, use_regex=False)])


@cache
def _learn_merges() -> dict[str, Any]:
    """Learn the vocabulary and the merges; takes a second."""
    from tokenizers import Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from tokenizers.trainers import BpeTrainer

    learner = Tokenizer(BPE())
    learner.pre_tokenizer = _pre_tokenizer()
    trainer = BpeTrainer(
        vocab_size=MAX_MERGED,
        min_frequency=MIN_FREQUENCY,
        initial_alphabet=sorted(ByteLevel.alphabet()),
        show_progress=False,
    )
    learner.train_from_iterator(
        (text for text, count in texts() for text in repeat(text, count)), trainer
    )
    bpe: dict[str, Any] = json.loads(learner.to_str())["model"]
    return bpe
