"""The 24-point game as a gymnasium environment with verify-and-revise turns."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
from gymnasium.spaces import Text

from labkit.envs.points24.forms import checked_hand, choose_hands, get_form
from labkit.envs.points24.grading import PAPER_REWARDS, Outcome, reward_table
from labkit.envs.points24.rules import FACES_AS_TEN, Rule
from labkit.envs.points24.solver import TARGET

CHARACTERS = string.digits + string.ascii_letters + string.punctuation + " \n\t" + "×÷−"
"""Characters of actions and observations."""
ACTION_LENGTH = 4000
"""Longest action in characters."""
_OTHER_TEXT = 2000
"""At most this many characters are ours: prompt and feedback."""


class Points24Env(gymnasium.Env[str, str]):
    """One hand an episode; after a wrong attempt the verifier names the outcome and one may try again.

    Action: the response as text, in the chosen form (`compact`: tokens separated by spaces, `<eos>` at the
    end; `json`: a completion that holds the JSON object). Observation: all that a policy is to continue, as
    one text: the prompt, then each attempt and the feedback on it. Reward: the table's value for the
    outcome of this attempt, and nothing else. `terminated` after a correct attempt; `truncated` after
    `max_turns` attempts of which none was; never both.

    `info`: `outcome` (None after reset), `feedback` (what was said of the last attempt, "" if nothing),
    `turns_left`, `hand` (ranks in the order shown), `rule` (its name).

    Any string is graded. In the observation an attempt is shown with `?` for characters that the action
    space does not have, and if it is too long its end only.

    After Chu et al. 2025 (arXiv 2501.17161, section 4: sequential revision, 5 attempts).

    >>> import gymnasium, labkit.envs
    >>> env = gymnasium.make("labkit/Points24-v0", form="compact")
    >>> observation, info = env.reset(seed=0, options={"hand": (3, 3, 8, 8)})
    >>> observation
    '<bos> 10 10 10 24 [3] [3] [8] [8] =>'
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}

    def __init__(
        self,
        rule: Rule = FACES_AS_TEN,
        hands: str | Sequence[Sequence[int]] = "train",
        form: str = "json",
        max_turns: int = 5,
        rewards: Mapping[Outcome, float] = PAPER_REWARDS,
        target: int = TARGET,
        wording: int = 0,
        render_mode: str | None = None,
    ) -> None:
        """`hands`: a split (`train`, `validation`, `test`; those that can be solved) or a list of hands.

        Raises ValueError for another split, form, number of turns, render mode or an incomplete table.
        """
        if max_turns < 1:
            raise ValueError(f"max_turns is {max_turns}; an episode needs at least 1 attempt")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode {render_mode!r} is not 'ansi' (or None)")
        self.rule, self.max_turns, self.target, self.wording = rule, max_turns, target, wording
        self.form = get_form(form)
        self.hands = choose_hands(hands, rule, self.form, target)
        self.rewards = reward_table(**{str(outcome): value for outcome, value in rewards.items()})
        self.render_mode = render_mode
        self.action_space = Text(ACTION_LENGTH, min_length=0, charset=CHARACTERS)
        self.observation_space = Text(
            max_turns * ACTION_LENGTH + _OTHER_TEXT * (max_turns + 1), min_length=0, charset=CHARACTERS
        )
        self._over: str | None = "it has not begun"

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Deal a hand at random, in random order, or `options={"hand": four ranks}` as it is given.

        Raises ValueError for an unknown option and for something that is not a hand.
        """
        super().reset(seed=seed)
        options = dict(options or {})
        given = options.pop("hand", None)
        if options:
            raise ValueError(f"unknown option {sorted(options)}; reset knows 'hand'")
        if given is None:
            dealt = self.hands[self.np_random.integers(len(self.hands))]
            self._hand = tuple(dealt[i] for i in self.np_random.permutation(len(dealt)))
        else:
            self._hand = checked_hand(given)
        self._over = None
        self._turns_left = self.max_turns
        self._context = self.form.prompt(self._hand, self.rule, self.target, self.wording)
        return self._context, self._info(None, "")

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Grade an attempt. Raises TypeError for an action that is no string, RuntimeError after the end."""
        if self._over is not None:
            raise RuntimeError(f"there is no episode to act in: {self._over}. Call reset() first.")
        if not isinstance(action, str):
            raise TypeError(f"the action is the response as a str, not {type(action).__name__}")
        outcome = self.form.grade(action, self._hand, self.rule, self.target).outcome
        self._turns_left -= 1
        terminated = outcome is Outcome.CORRECT
        truncated = not terminated and self._turns_left == 0
        feedback = "" if terminated else self.form.feedback(outcome)
        parts = [self._context, _shown(action), feedback]
        self._context = self.form.separator.join(part for part in parts if part)
        if terminated or truncated:
            self._over = "it ended with a correct answer" if terminated else "its attempts are used up"
        info = self._info(outcome.value, feedback)
        return self._context, self.rewards[outcome], terminated, truncated, info

    def render(self) -> str | None:
        """The observation, in render mode `ansi`."""
        return self._context if self.render_mode == "ansi" else None

    def _info(self, outcome: str | None, feedback: str) -> dict[str, Any]:
        return {
            "outcome": outcome,
            "feedback": feedback,
            "turns_left": self._turns_left,
            "hand": self._hand,
            "rule": self.rule.name,
        }


def _shown(action: str) -> str:
    """An attempt as observations show it."""
    kept = set(CHARACTERS)
    return "".join(c if c in kept else "?" for c in action.strip()[-ACTION_LENGTH:])
