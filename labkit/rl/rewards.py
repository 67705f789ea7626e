"""Reward functions in TRL's signature: `reward(completions=..., **columns)`, a value for each completion.

Everything comes by keyword, as TRL's trainers pass it: `prompts`, `completions`, `completion_ids`, and the
dataset's other columns as lists, a value a completion. A completion is a string or, with a conversational
dataset, a list of messages. No function here reads the prompts: an answer that stands there must not count.
All can be pickled, since TRL sends reward functions to worker processes.

    reward = CombinedReward(
        (RewardTerm("accuracy", accuracy_reward), RewardTerm("format", format_reward, weight=0.5))
    )
    reward(prompts=["2+2?"], completions=["<think>easy</think><answer>4</answer>"], answer=["4"])  # [1.5]
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.envs.completions import Completion, column, completion_text

RewardFunction = Callable[..., Sequence[float | None]]
"""A value for each completion; None where it has nothing to say of one (TRL leaves those out of the sum)."""

TAGS = ("<think>", "</think>", "<answer>", "</answer>")
_TEMPLATE = re.compile(r"\s*<think>.*</think>\s*<answer>.*</answer>\s*", re.DOTALL)


def format_reward(completions: Sequence[Completion], **columns: Any) -> list[float]:
    """1.0 where a completion is `<think>...</think>` and then `<answer>...</answer>`, else 0.0.

    Each of the four tags once, and nothing but white space outside. What the tags hold is not looked at.

    Source: template of DeepSeek-R1-Zero (arXiv 2501.12948, table 1).
    """
    texts = [completion_text(completion) for completion in completions]
    return [float(_TEMPLATE.fullmatch(text) is not None and _tags_once(text)) for text in texts]


def _tags_once(text: str) -> bool:
    return all(text.count(tag) == 1 for tag in TAGS)


def last_answer(text: str) -> str | None:
    """What stands between the last `<answer>` and the `</answer>` after it; None where either is missing."""
    _, opened, rest = text.rpartition("<answer>")
    content, closed, _ = rest.partition("</answer>")
    return content if opened and closed else None


def normalized(answer: object) -> str:
    """Case, white space and the width of characters set aside: `"  New\\nYork "` -> `"new york"`."""
    return " ".join(unicodedata.normalize("NFKC", str(answer)).casefold().split())


def accuracy_reward(
    completions: Sequence[Completion], answer: Sequence[Any] | None = None, **columns: Any
) -> list[float]:
    """1.0 where the last `<answer>` of a completion equals the column `answer`, both `normalized`, else 0.0.

    Numbers are compared as they are written. An empty answer, or None in the column, is never right.
    Raises ValueError where the column is missing or has another length.
    """
    references = column("answer", answer, len(completions))
    rewards = []
    for completion, reference in zip(completions, references, strict=True):
        given = normalized(last_answer(completion_text(completion)) or "")
        rewards.append(float(given != "" and reference is not None and given == normalized(reference)))
    return rewards


SCRIPTS = (
    "ARABIC", "CYRILLIC", "DEVANAGARI", "GREEK", "HAN", "HANGUL", "HEBREW", "HIRAGANA", "KATAKANA", "LATIN"
)  # fmt: skip
"""Scripts that `LanguageReward` knows, named as in Unicode."""


def scripts_of_words(text: str) -> list[str]:
    """The script of each word of a text, first to last.

    A word is a run of letters of one script; Han is written without spaces, there each character counts as
    a word. Numbers, symbols and the four tags are no words.
    """
    for tag in TAGS:
        text = text.replace(tag, " ")
    scripts, previous = [], None
    for character in unicodedata.normalize("NFKC", text):
        if character in "'’" or unicodedata.category(character).startswith("M"):
            continue  # An apostrophe or a combining mark does not end a word.
        script = _script(character)
        if script is not None and (script == "HAN" or script != previous):
            scripts.append(script)
        previous = script
    return scripts


def _script(character: str) -> str | None:
    if not character.isalpha():
        return None
    # Names read "LATIN SMALL LETTER A", "CJK UNIFIED IDEOGRAPH-4E2D".
    first = unicodedata.name(character, "UNKNOWN").partition(" ")[0]
    return "HAN" if first in ("CJK", "IDEOGRAPHIC") else first


@dataclass(frozen=True)
class LanguageReward:
    """Share of a completion's words that are in the target language; 0 where there are no words.

    Script stands in for language: it tells English from Chinese or Russian, but not from French, and the
    letters of a formula count as Latin words. Raises ValueError for an unknown script.

    Source: language consistency reward of DeepSeek-R1 (arXiv 2501.12948, section 2.3.2).
    """

    script: str = "LATIN"
    """One of `SCRIPTS`."""

    __name__ = "language_reward"

    def __post_init__(self) -> None:
        if self.script not in SCRIPTS:
            raise ValueError(f"script {self.script!r} is not one of {', '.join(SCRIPTS)}")

    def __call__(self, completions: Sequence[Completion], **columns: Any) -> list[float]:
        rewards = []
        for completion in completions:
            scripts = scripts_of_words(completion_text(completion))
            rewards.append(scripts.count(self.script) / len(scripts) if scripts else 0.0)
        return rewards


@dataclass(frozen=True)
class OverlongReward:
    """DAPO's soft overlong punishment of a completion of n tokens.

    0 while `n <= max_length - cache`, then `(max_length - cache - n) / cache`, which is -1 at `max_length`,
    and -1 beyond. Counts the column `completion_ids`. Raises ValueError unless `0 <= cache <= max_length`.

    Source: DAPO (arXiv 2503.14476), eq. 13.
    """

    max_length: int
    """Tokens from which the punishment is whole."""
    cache: int
    """Tokens before that over which it grows; 0 for none before `max_length` is exceeded."""

    __name__ = "overlong_reward"

    def __post_init__(self) -> None:
        if not 0 <= self.cache <= self.max_length:
            raise ValueError(f"cache {self.cache} must lie between 0 and max_length {self.max_length}")

    def __call__(self, completion_ids: Sequence[Sequence[int]] | None = None, **columns: Any) -> list[float]:
        if completion_ids is None:
            raise ValueError("the punishment counts tokens: pass the column completion_ids")
        return [self._of_length(len(ids)) for ids in completion_ids]

    def _of_length(self, length: int) -> float:
        if length <= self.max_length - self.cache:
            return 0.0
        if length <= self.max_length:
            return (self.max_length - self.cache - length) / self.cache
        return -1.0


@dataclass(frozen=True)
class RewardTerm:
    """One reward among several. Raises ValueError for a weight that is not finite."""

    name: str
    """Name in tables and logs."""
    function: RewardFunction
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not math.isfinite(self.weight):
            raise ValueError(f"the weight of reward {self.name!r} is {self.weight}; give a finite number")


@dataclass(frozen=True)
class CombinedReward:
    """Weighted sum of rewards, itself a reward function; `table` has the single values.

    A term is one value a completion. Outcomes that exclude each other (right, wrong, no answer) are one
    term with a table of outcomes, as in `labkit.envs.points24.grading`; as terms of their own they would
    add up. Raises ValueError for no terms or two of the same name.
    """

    terms: tuple[RewardTerm, ...]

    __name__ = "combined_reward"

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", tuple(self.terms))
        names = [term.name for term in self.terms]
        if not names:
            raise ValueError("a combined reward needs at least one RewardTerm")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two rewards have the name {', '.join(twice)}; give each a name of its own")

    def table(self, completions: Sequence[Completion], **columns: Any) -> dict[str, list[float | None]]:
        """Values of each term before weighting, `[len(completions)]` by name.

        Raises ValueError where a function returns another number of values, or one that is not finite.
        """
        return {
            term.name: _checked(term, term.function(completions=completions, **columns), len(completions))
            for term in self.terms
        }

    def __call__(
        self, completions: Sequence[Completion], log_extra: Any = None, **columns: Any
    ) -> list[float | None]:
        """The sums `[len(completions)]`; None where every term is None. Tells `log_extra` the table."""
        if log_extra is not None:
            columns["log_extra"] = log_extra
        table = self.table(completions, **columns)
        if log_extra is not None:
            for name, values in table.items():
                log_extra(name, values)
        return [self._sum(values) for values in zip(*table.values(), strict=True)]

    def _sum(self, values: Sequence[float | None]) -> float | None:
        weighted = [t.weight * v for t, v in zip(self.terms, values, strict=True) if v is not None]
        return sum(weighted) if weighted else None


def _checked(term: RewardTerm, values: Sequence[float | None], rows: int) -> list[float | None]:
    values = [None if value is None else float(value) for value in values]
    if len(values) != rows:
        raise ValueError(
            f"reward {term.name!r} returned {len(values)} values for {rows} completions; "
            "a reward function returns one a completion"
        )
    if bad := [value for value in values if value is not None and not math.isfinite(value)]:
        raise ValueError(f"reward {term.name!r} returned {bad[0]}; return finite numbers, or None")
    return values
