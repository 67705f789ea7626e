"""Self-reflection: why the expert's action is better, written from what both actions led to.

    {a^j} leads to {outcome of a^j} ; {what is left to do} ; {a} leads to {outcome of a}

The two outcomes are those observed in `labkit.agents.experience`; what is left to do is the expert's thought
(`labkit.agents.thoughts`), which says no more than goal, history and the rest of the expert's episode tell.
The last clause is the conclusion. A hub model writes such reasons itself (arXiv 2510.08558, section 4.3); a
template keeps them true, and its failing twin keeps the form and takes the truth away.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import gymnasium

import labkit.envs
from labkit.agents.experience import Branching
from labkit.agents.thoughts import expert_thought
from labkit.envs.phone.env import NOT_POSSIBLE
from labkit.envs.trajectory import Trajectory
from labkit.envs.world import World

LEADS, THEN = " leads to ", " ; "
"""What separates an action from its outcome, and one clause from the next."""
NOTHING = "nothing"
"""The outcome of an action that changes nothing that one sees."""


def outcome(triple: Trajectory) -> str:
    """The last step's outcome in a few words of the vocabulary.

    PhoneWorld: the screen it led to, with what stands on it if that is one fact (`WiFi on`). CraftWorld: what
    one has now and had not (`1 wool`), or why it could not be done (`missing 2 thread`).

    Raises ValueError for another world.
    """
    if triple.world not in _OUTCOMES:
        raise ValueError(f"no outcomes are told for {triple.world}; there are {', '.join(_OUTCOMES)}")
    step = triple.steps[-1]
    # Refused twice in a row, one sees the same words again, which say why.
    if step.admissible and triple.last_observation == step.observation:
        return NOTHING
    return _OUTCOMES[triple.world](step.observation, triple.last_observation, step.admissible)


def _screen(before: str, after: str, admissible: bool) -> str:
    if not admissible:
        return NOT_POSSIBLE.removesuffix(" .")
    title, _, below = after.partition(" : ")
    # A page shows one fact, a menu a list; what can be chosen in a dialog is no fact.
    fact = below in ("on", "off", "location allowed", "location denied")
    return f"{title} {below}" if fact else title.removesuffix(" :")


def _gain(before: str, after: str, admissible: bool) -> str:
    if not admissible:
        return after.splitlines()[0]
    had = set(_held(before))
    return " , ".join(item for item in _held(after) if item not in had) or NOTHING


def _held(observation: str) -> list[str]:
    return observation.rpartition("have : ")[2].split(" , ")


_OUTCOMES: dict[str, Callable[[str, str, bool], str]] = {
    labkit.envs.PHONE_WORLD_ID: _screen,
    labkit.envs.CRAFT_WORLD_ID: _gain,
}


def world_before(triple: Trajectory) -> World:
    """The world in the state at which the last action of `triple` was taken."""
    world = gymnasium.make(triple.world, max_steps=len(triple.steps) + 1, disable_env_checker=True).unwrapped
    world.reset(options={"task": world.unpack_task(triple.task)})
    for step in triple.steps[:-1]:
        world.step(step.action)
    return world


def clause(action: str, led_to: str) -> str:
    """`{action} leads to {outcome}`."""
    return f"{action}{LEADS}{led_to}"


def rationale(tried: tuple[str, str], reason: str, chosen: tuple[str, str]) -> str | None:
    """Why the action of `chosen` is better than that of `tried`, both given as (action, outcome).

    None where the outcomes do not tell them apart.

    >>> rationale(("craft rope", "missing 1 thread"), "thread needs 1 wool", ("get wool", "1 wool"))
    'craft rope leads to missing 1 thread ; thread needs 1 wool ; get wool leads to 1 wool'
    """
    if tried[1] == chosen[1]:
        return None
    parts = (clause(*tried), _before(chosen[0], reason), clause(*chosen))
    return THEN.join(part for part in parts if part)


def _before(action: str, thought: str) -> str:
    # A thought of CraftWorld ends in the action, which the conclusion says again.
    return thought.removesuffix(action).removesuffix(THEN)


def conclusion(text: str) -> str:
    """The action that a rationale ends in; "" if its last clause names none."""
    action, leads, _ = text.rpartition(THEN)[2].partition(LEADS)
    return action if leads else ""


def is_grounded(text: str, branching: Branching) -> bool:
    """Whether the conclusion is the expert's action, and each outcome that it names is one observed here."""
    observed = {clause(_action(triple), outcome(triple)) for triple in branching.outcomes}
    named = [part for part in text.split(THEN) if LEADS in part]
    return conclusion(text) == _action(branching.expert) and set(named) <= observed


def reflections(branchings: Sequence[Branching]) -> list[list[str]]:
    """For each state the rationales that can be told, at most one an alternative."""
    reasons = [reason_at(b) for b in branchings]
    return [
        _told(b, reason, [outcome(triple) for triple in b.outcomes])
        for b, reason in zip(branchings, reasons, strict=True)
    ]


def shuffled_reflections(branchings: Sequence[Branching], seed: int) -> list[list[str]]:
    """The failing control: the same form, but outcomes and reasons are those of other states.

    Actions stay where they are, so that each rationale still concludes with the expert's action.
    """
    rng = random.Random(f"shuffled {seed}")
    reasons = [reason_at(b) for b in branchings]
    outcomes = [outcome(triple) for b in branchings for triple in b.outcomes]
    rng.shuffle(reasons)
    rng.shuffle(outcomes)
    dealt = iter(outcomes)
    return [
        _told(b, reason, [next(dealt) for _ in b.outcomes])
        for b, reason in zip(branchings, reasons, strict=True)
    ]


def reason_at(branching: Branching) -> str:
    """What is left to do at this state: the expert's thought, up to the action if it ends in that."""
    return _before(_action(branching.expert), expert_thought(world_before(branching.expert)))


def _told(branching: Branching, reason: str, outcomes: Sequence[str]) -> list[str]:
    chosen = (_action(branching.expert), outcomes[0])
    tried = zip(map(_action, branching.alternatives), outcomes[1:], strict=True)
    texts = (rationale(one, reason, chosen) for one in tried)
    return [text for text in texts if text]


def _action(triple: Trajectory) -> str:
    return triple.steps[-1].action
