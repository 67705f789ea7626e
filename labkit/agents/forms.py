"""How steps are written for a policy, and read from what it wrote: as text, or as words that are tokens.

Whatever is written can be read back: `form.parse(form.write(thought, action))` gives the same two, for any
text. A policy stops before the next observation; one that it writes itself is discarded, and counted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from transformers import PreTrainedTokenizerFast

from labkit.agents.history import FULL, History, shown
from labkit.agents.words import ACT, BOS, DONE, EOS, OBS, SPECIAL, THINK
from labkit.envs.trajectory import Step

FORMAT = "format"
"""Failure: no action could be read."""
INVENTED = "invented observation"
"""Failure: the policy wrote an observation itself. It is discarded."""


@dataclass(frozen=True)
class Parsed:
    """What was read."""

    thought: str
    """ρ_t; "" if there is none."""
    action: str
    """a_t; "" if none could be read."""
    failures: tuple[str, ...] = ()
    """`FORMAT`, `INVENTED`, both or none."""


class Form(Protocol):
    """A way to write steps."""

    def prompt(self, goal: str, history: Sequence[Step], observation: str, remembered: History = FULL) -> str:
        """The text that π is conditioned on: g, what is remembered of h_t, and o_t."""

    def write(self, thought: str, action: str) -> str:
        """(ρ_t, a_t) as a policy is to write it."""

    def parse(self, written: str) -> Parsed:
        """Read (ρ_t, a_t) from whatever a policy wrote. Never raises."""


MARKERS = ("Goal", "Done", "Observation", "Thought", "Action")
_MARKED = re.compile(rf"^({'|'.join(MARKERS)}):[ ]?", re.MULTILINE)
_ESCAPE = re.compile(rf"^(\\*(?:{'|'.join(MARKERS)}):)", re.MULTILINE)
_UNESCAPE = re.compile(rf"^\\(\\*(?:{'|'.join(MARKERS)}):)", re.MULTILINE)


def _block(marker: str, body: str) -> str:
    # A line of the body that looks like a marker gets a back-slash, and one more if it had some.
    return f"{marker}: " + _ESCAPE.sub(r"\\\1", body)


@dataclass(frozen=True)
class TextForm:
    """ReAct's layout for models that read text: blocks that begin with `Goal:`, `Observation:`, `Thought:`
    and `Action:` (Yao et al. 2022, arXiv 2210.03629, appendix C).

    >>> print(TextForm().prompt("open the WiFi", [], "Home : Settings , Maps"))
    Goal: open the WiFi
    Observation: Home : Settings , Maps
    <BLANKLINE>
    """

    def prompt(self, goal: str, history: Sequence[Step], observation: str, remembered: History = FULL) -> str:
        view = shown(remembered, history, observation)
        blocks = [_block("Goal", goal)]
        for i, step in enumerate(view.steps):
            if i == 0 or not view.blind:
                blocks.append(_block("Observation", step.observation))
            blocks.append(self.write(step.thought, step.action))
        if view.summary:
            blocks.append(_block("Done", " , ".join(view.summary)))
        if view.observation is not None:
            blocks.append(_block("Observation", view.observation))
        return "\n".join([*blocks, ""])

    def write(self, thought: str, action: str) -> str:
        parts = [_block("Thought", thought)] if thought else []
        return "\n".join([*parts, _block("Action", action)])

    def parse(self, written: str) -> Parsed:
        found: dict[str, str] = {}
        marks = list(_MARKED.finditer(written))
        ends = [mark.start() for mark in marks[1:]] + [len(written)] * bool(marks)
        invented = False
        for mark, end in zip(marks, ends, strict=False):  # there may be no mark at all
            if mark[1] == "Observation":
                invented = True
                break
            # The first of each counts: what a policy goes on to write is no longer this step.
            body = written[mark.end() : end]
            body = body[:-1] if end < len(written) and body.endswith("\n") else body
            found.setdefault(mark[1], _UNESCAPE.sub(r"\1", body))
        action = found.get("Action", "")
        failures = (FORMAT,) * (not action) + (INVENTED,) * invented
        return Parsed(found.get("Thought", ""), action, failures)


@dataclass(frozen=True)
class WordForm:
    """The layout of the tiny agents, whose tokens are words:

        <bos> {g} <obs> {o_1} <think> {ρ_1} <act> {a_1} <eos> <obs> {o_2} <think> {ρ_2} <act> {a_2} <eos> ...

    `<eos>` ends what the policy writes, so that it stops before the observation. A summary of what was done
    stands between goal and observation: `<bos> {g} <done> {a_1} , {a_2} <obs> {o_3}`. Words are what white
    space separates, so of two texts that differ in white space alone the same is read.
    """

    tokenizer: PreTrainedTokenizerFast
    """One token a word: `labkit.agents.words.tokenizer`."""

    def ids(self, text: str) -> list[int]:
        """Token ids of words. Raises ValueError for one that is not in the vocabulary."""
        vocabulary = self.tokenizer.get_vocab()
        try:
            return [vocabulary[word] for word in text.split()]
        except KeyError as error:
            raise ValueError(
                f"the word {error.args[0]!r} is not among the {len(vocabulary)} that this model knows; its "
                "worlds are PhoneWorld and CraftWorld, in the words of labkit.agents.words"
            ) from None

    def text(self, ids: Sequence[int]) -> str:
        """Words of token ids."""
        return " ".join(self.tokenizer.convert_ids_to_tokens(list(ids)))

    def prompt(self, goal: str, history: Sequence[Step], observation: str, remembered: History = FULL) -> str:
        return self.text(self.prompt_ids(goal, history, observation, remembered))

    def prompt_ids(
        self, goal: str, history: Sequence[Step], observation: str, remembered: History = FULL
    ) -> list[int]:
        """`prompt` as token ids. What was sampled stays the ids that were sampled."""
        view = shown(remembered, history, observation)
        ids = self.ids(f"{BOS} {_plain(goal)}")
        if view.summary:
            ids += self.ids(f"{DONE} {_plain(' , '.join(view.summary))}")
        for i, step in enumerate(view.steps):
            if i == 0 or not view.blind:
                ids += self.observation_ids(step.observation)
            ids += self.step_ids(step)
        return ids if view.observation is None else ids + self.observation_ids(view.observation)

    def observation_ids(self, observation: str) -> list[int]:
        """Ids of `<obs> {o_t}`."""
        return self.ids(f"{OBS} {_plain(observation)}")

    def step_ids(self, step: Step) -> list[int]:
        """Ids of what the policy wrote at a step: those it sampled, or else of thought and action.

        An observation that it wrote itself is no part of the step: only the world's goes into a prompt.
        """
        if step.ids:
            return list(step.ids)
        written = step.written if step.written is not None else self.write(step.thought, step.action)
        return self.ids(" ".join(_own(written)))

    def write(self, thought: str, action: str) -> str:
        think = [THINK, _plain(thought)] if thought else []
        return " ".join([*think, ACT, _plain(action), EOS])

    def parse(self, written: str) -> Parsed:
        invented = (INVENTED,) * (OBS in written.split())
        words = _own(written)
        words = words[:-1] if words[-1:] == [EOS] else words
        at = words.index(ACT) if ACT in words else len(words)
        before, action = words[:at], words[at + 1 :]
        # Thought and action each begin with their token and hold no other.
        right = action and before[:1] in ([], [THINK])
        if not right or any(word in SPECIAL for word in before[1:] + action):
            return Parsed("", "", (FORMAT, *invented))
        return Parsed(" ".join(before[1:]), " ".join(action), invented)


def _own(written: str) -> list[str]:
    """The words that make up a step: up to `<eos>`, or up to an observation that the policy invented."""
    words = written.split()
    words = words[: words.index(OBS)] if OBS in words else words
    return words[: words.index(EOS) + 1] if EOS in words else words


def _plain(text: str) -> str:
    """`text` with single spaces. Raises ValueError if it holds a token of the layout."""
    words = text.split()
    if marks := [word for word in words if word in SPECIAL]:
        raise ValueError(f"{text!r} holds {', '.join(marks)}, which the layout keeps for itself")
    return " ".join(words)
