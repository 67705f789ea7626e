"""The one closed vocabulary of the tiny agents: both worlds, the layout's tokens, and words to think with."""

from __future__ import annotations

from functools import lru_cache

from transformers import PreTrainedTokenizerFast

from labkit.envs.craft.words import vocabulary as craft_words
from labkit.envs.phone.words import vocabulary as phone_words
from labkit.lm.tokenizer import word_tokenizer

PAD, BOS, EOS = "<pad>", "<bos>", "<eos>"
OBS, THINK, ACT, DONE, ASK, ANSWER = "<obs>", "<think>", "<act>", "<done>", "<ask>", "<answer>"
SPECIAL = (PAD, BOS, EOS, OBS, THINK, ACT, DONE, ASK, ANSWER)
"""Tokens of the layout. `<eos>` ends what the policy writes; `<done>` begins a summary of what was done;
`<ask>` and `<answer>` belong to the base's reading questions."""
FINISH = "finish"
"""The action that declares the goal reached."""
THOUGHT_WORDS = "; needs in done airplane yes no"
"""What `labkit.agents.thoughts` writes besides words of the worlds."""
QUESTION_WORDS = "offers can here before shows had last possible"
"""What `labkit.agents.reading` asks with besides those."""
SPARE_WORDS = "because but instead not then would leads to better worse wrong again try know"
"""In no text yet. A word that a later study wants in a thought must be here before the base is trained."""


@lru_cache(maxsize=1)
def vocabulary() -> tuple[str, ...]:
    """Every token, once each, in a fixed order: the position is the id, so new words go to the end."""
    own = " ".join((FINISH, THOUGHT_WORDS, QUESTION_WORDS, SPARE_WORDS)).split()
    return tuple(dict.fromkeys((*SPECIAL, *phone_words(), *craft_words(), *own)))


def tokenizer() -> PreTrainedTokenizerFast:
    """A fresh tokenizer of `vocabulary`: one token a word, words separated by white space."""
    return word_tokenizer(vocabulary(), pad=PAD, bos=BOS, eos=EOS)
