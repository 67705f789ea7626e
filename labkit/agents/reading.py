"""What the base of the tiny agents is trained on: to read both worlds, and neither to plan nor to know a map.

A sequence is an episode's beginning in the agents' own layout, then questions about it; only answers and the
`<eos>` after each are trained on:

    <bos> {goal} <obs> {o_1} <act> {a_1} <eos> <obs> {o_2} <ask> {question} <answer> {answer} <eos> <ask> ...

Some begin as a summary does: `<bos> {goal} <done> {a_1} , {a_2} <obs> {o_3}`. Actions are drawn at random.

Nothing in it tells what an agent will have to learn. Recipe books are drawn line by line, not from the table
of recipes. A phone's names are dealt out afresh among all its entries, so that no name goes with a place: the
map of a phone, the standard one above all, can only be learned from episodes on it. Goals are those of
training, and no question asks what to do.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from labkit.agents.words import ACT, ANSWER, ASK, BOS, DONE, EOS, OBS
from labkit.envs.craft import rules as craft
from labkit.envs.craft.recipes import ITEMS, Recipe
from labkit.envs.craft.tasks import MOST_LINES
from labkit.envs.craft.tasks import Task as CraftTask
from labkit.envs.phone import rules as phone
from labkit.envs.phone.env import NOT_POSSIBLE
from labkit.envs.phone.goals import Task as PhoneTask
from labkit.envs.phone.goals import split_goals
from labkit.envs.phone.layout import APPS, NAMES, SWITCHES, Layout, draw_layout

READING_PHONES = range(2001, 2301)
"""Seeds of the phones to read on in training; no other study has these."""
TEST_PHONES = range(3001, 3051)
"""Seeds of the phones of the reading test."""
LONGEST_ANSWER = 12
"""In words; what has a longer answer is not asked."""
MOST_STEPS = 5
"""Actions before the questions, at the most."""
WRONG = 0.3
"""Share of actions that cannot be done."""


@dataclass(frozen=True)
class Question:
    """One thing to read."""

    kind: str
    """World and what is read, e.g. `craft needs`."""
    text: str
    """The question."""
    answer: str
    """The one right answer, of at most `LONGEST_ANSWER` words."""


@dataclass(frozen=True)
class Scene:
    """The beginning of an episode and what one can ask about it."""

    words: tuple[str, ...]
    """Goal, observations and actions in the agents' layout."""
    questions: tuple[Question, ...]
    """In random order, each once."""


@dataclass(frozen=True)
class Walk:
    """What happened before the questions, as far as the layout shows it."""

    words: tuple[str, ...]
    """The layout."""
    shown: tuple[int, ...]
    """Which observations it shows, by their number from 0: all, or the last."""


def _lay_out(goal: str, observations: Sequence[str], actions: Sequence[str], rng: random.Random) -> Walk:
    words, last = [BOS, *goal.split()], len(observations) - 1
    if actions and rng.random() < 0.25:
        words += [DONE, *" , ".join(actions).split(), OBS, *observations[-1].split()]
        return Walk(tuple(words), (last,))
    for observation, action in zip(observations, actions, strict=False):
        words += [OBS, *observation.split(), ACT, *action.split(), EOS]
    return Walk((*words, OBS, *observations[-1].split()), tuple(range(last + 1)))


def _num_steps(rng: random.Random) -> int:
    return 0 if rng.random() < 0.35 else rng.randint(1, MOST_STEPS)


def draw_book(rng: random.Random) -> CraftTask:
    """A recipe book of random lines under random names, of any length and without a loop."""
    names, lines = rng.sample(ITEMS, len(ITEMS)), rng.randint(1, MOST_LINES)
    book = []
    for i in range(lines):
        # From later lines and items that lie around: so no item is made of itself, by whatever way.
        crafted, around = names[i + 1 : lines], names[lines : lines + 8]
        used = {rng.choice(crafted if crafted and rng.random() < 0.5 else around) for _ in range(2)}
        order = sorted(used, key=names.index)
        rng.shuffle(order)
        book.append(Recipe(names[i], tuple((name, rng.choice((1, 1, 2))) for name in order)))
    rng.shuffle(book)
    return CraftTask(rng.choice(book).item, tuple(book), depth=0, distractors=0, origin="")


def craft_scene(rng: random.Random) -> Scene:
    """A random book and inventory, perhaps some random actions, and questions on what the text says."""
    task = draw_book(rng)
    held = rng.sample(task.items, min(rng.randint(0, 6), len(task.items)))
    count = {name: rng.choice((1, 1, 1, 2, 2, 3, 4, rng.randint(1, craft.CAPACITY))) for name in held}
    states = [craft.State(tuple(count.get(name, 0) for name in task.items), task.target)]
    observations, actions, refused = [craft.observe(task, states[0])], [], False
    for _ in range(_num_steps(rng)):
        possible = craft.actions(task, states[-1])
        action = rng.choice(possible)
        if rng.random() < WRONG:
            action = f"{rng.choice(('get', 'craft'))} {rng.choice(ITEMS)}"
        refused = action not in possible
        reason = craft.refusal(task, states[-1], action)
        states.append(craft.transition(task, states[-1], action))
        observations.append(f"{reason} {craft.observe(task, states[-1])}".strip())
        actions.append(action)
    walk = _lay_out(task.goal, observations, actions, rng)

    asked = [("goal", "goal", task.target)]
    for recipe in task.book:
        asked.append(
            ("needs", f"{recipe.item} needs", " , ".join(f"{n} {name}" for name, n in recipe.ingredients))
        )
    around = [name for name in task.items if f"get {name}" in task.moves]
    asked += [("needs", f"{name} needs", "nothing") for name in rng.sample(around, min(2, len(around)))]
    for kind, state in [("have", states[-1]), *([("had", states[-2])] if len(walk.shown) > 1 else [])]:
        amount = dict(zip(task.items, state.inventory, strict=True))
        some = [name for name in task.items if amount[name]]
        none = [name for name in task.items if not amount[name]]
        for name in (*some[:5], *rng.sample(none, min(2, len(none)))):
            asked.append((kind, f"{name} {kind}", str(amount[name] or "nothing")))
    return _scene("craft", walk, asked + _about_last(actions, refused), rng)


def draw_phone(rng: random.Random, seeds: range) -> Layout:
    """A phone of those seeds with all names there are dealt out anew: `Mute` may be the name of a menu."""
    layout = draw_layout(rng.choice(seeds))
    names = rng.sample([name for names in NAMES.values() for name in names], len(NAMES))
    return replace(layout, names=tuple(zip(NAMES, names, strict=True)))


def phone_scene(rng: random.Random, seeds: range = READING_PHONES) -> Scene:
    """A random state of a random phone, perhaps some random actions, and questions on what was shown."""
    layout = draw_phone(rng, seeds)
    goal = rng.choice(split_goals()[0])
    state = PhoneTask(goal, layout, airplane=rng.random() < 0.4).start
    for _ in range(rng.randint(0, 8)):
        state = phone.transition(layout, state, _random_move(layout, state, rng))
    states, observations, actions, refused = [state], [phone.observe(layout, state)], [], False
    for _ in range(_num_steps(rng)):
        action = _random_move(layout, state, rng)
        if rng.random() < WRONG:
            action = _absent(layout, state, rng)
        refused = action not in phone.actions(layout, state)
        state = phone.transition(layout, state, action)
        states.append(state)
        observations.append(f"{NOT_POSSIBLE} " * refused + phone.observe(layout, state))
        actions.append(action)
    walk = _lay_out(goal.text, observations, actions, rng)

    here = phone.actions(layout, state)
    named = " , ".join(NAMES[key][0] for _, key in goal.conditions)
    asked = [("goal", "goal", named), ("here", "here", phone.look(layout, state).title)]
    asked.append(("offers", "offers", " , ".join(here)))
    # What one can search for stands on no screen.
    asked += [("can", f"can {a}", "yes") for a in rng.sample(here, min(3, len(here))) if "search" not in a]
    absent = {_absent(layout, state, rng) for _ in range(3)}
    asked += [("can", f"can {a}", "no") for a in sorted(absent)]
    shown = [states[i] for i in walk.shown]
    pages = {s.path[-1]: phone.look(layout, s) for s in shown if s.path[-1] in (*SWITCHES, *APPS)}
    asked += [("shows", f"{page.title} shows", page.lines[0]) for page in pages.values()]
    at_home = [s for s in shown if s.path == ("home",)]
    if at_home and ("airplane" in at_home[-1].on) == ("airplane" in state.on):
        asked.append(("airplane", "airplane", "on" if "airplane" in state.on else "off"))
    if len(shown) > 1:
        asked.append(("before", "before", phone.look(layout, shown[-2]).title))
    return _scene("phone", walk, asked + _about_last(actions, refused), rng)


def _random_move(layout: Layout, state: phone.State, rng: random.Random) -> str:
    """An action that the screen offers; going on is likelier than going back."""
    offered = phone.actions(layout, state)
    on = [action for action in offered if action not in ("back", "home")]
    return rng.choice(on if on and rng.random() < 0.7 else offered)


def _absent(layout: Layout, state: phone.State, rng: random.Random) -> str:
    """An action of another screen of this phone that cannot be done here."""
    here = layout.moves[state.path[-1]]
    while True:
        action = rng.choice(list(layout.moves[rng.choice(list(layout.moves))]))
        if action not in here:
            return action


def _about_last(actions: Sequence[str], refused: bool) -> list[tuple[str, str, str]]:
    if not actions:
        return []
    return [("last", "last", actions[-1]), ("possible", "possible", "no" if refused else "yes")]


def _scene(world: str, walk: Walk, asked: Sequence[tuple[str, str, str]], rng: random.Random) -> Scene:
    questions = [
        Question(f"{world} {kind}", text, answer)
        for kind, text, answer in asked
        if len(answer.split()) <= LONGEST_ANSWER
    ]
    rng.shuffle(questions)
    return Scene(walk.words, tuple(questions))


def draw_scene(
    rng: random.Random,
    seeds: range = READING_PHONES,
    longest: float = math.inf,
    craft_share: float = 0.5,
) -> Scene:
    """A scene of CraftWorld with probability `craft_share`, else of PhoneWorld on a phone of those seeds.

    It has at most `longest` words, questions not counted. Raises ValueError below 32: hardly any has fewer.
    """
    if longest < 32:
        raise ValueError(f"longest is {longest}; there are scenes of both worlds from 32 words on")
    of_craft = rng.random() < craft_share
    while True:
        scene = craft_scene(rng) if of_craft else phone_scene(rng, seeds)
        if len(scene.words) <= longest:
            return scene


def prompt(scene: Scene, question: Question) -> list[str]:
    """The scene with one question, up to where the answer begins."""
    return [*scene.words, ASK, *question.text.split(), ANSWER]


def sequence(scene: Scene, length: int, least: int = 3) -> tuple[list[str], list[bool]]:
    """Words of a scene with its questions, and which of them are trained on.

    As many questions as fit into `length` words, but `least` of them in any case (or all there are).
    """
    words, keep = list(scene.words), [False] * len(scene.words)
    for number, question in enumerate(scene.questions):
        asks = [ASK, *question.text.split(), ANSWER]
        answers = [*question.answer.split(), EOS]
        if number >= least and len(words) + len(asks) + len(answers) > length:
            break
        words += asks + answers
        keep += [False] * len(asks) + [True] * len(answers)
    return words, keep
