"""One-word-one-token tokenizers for tiny models, as a real `PreTrainedTokenizerFast`."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast


def word_tokenizer(
    vocabulary: Sequence[str], *, pad: str = "<pad>", bos: str = "<bos>", eos: str = "<eos>"
) -> PreTrainedTokenizerFast:
    """A tokenizer whose tokens are exactly the words of `vocabulary`, separated by white space.

    Pads on the left, as generation needs. `pad` and `eos` are different tokens: where they are one,
    masking the padding hides the end of the sequence from the loss too, and a model never learns to stop.

    Raises ValueError when a word repeats, holds white space, or a special token is missing.
    """
    if len(set(vocabulary)) != len(vocabulary):
        repeated = sorted({word for word in vocabulary if vocabulary.count(word) > 1})
        raise ValueError(f"vocabulary repeats {repeated}; every word needs one id")
    if spaced := [word for word in vocabulary if word.split() != [word]]:
        raise ValueError(f"words {spaced} hold white space, which separates words here")
    if missing := [word for word in (pad, bos, eos) if word not in vocabulary]:
        raise ValueError(f"special tokens {missing} are not in the vocabulary; add them to it")
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(vocabulary)}))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=pad,
        bos_token=bos,
        eos_token=eos,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
