"""What a careful expert thinks before it acts: the hidden part of the state that matters, then what is next.

A thought is written from the hidden state, but says nothing that the goal and the history do not tell: each
episode starts on the home screen, which shows airplane mode, with no part of the goal done.
"""

from __future__ import annotations

from labkit.envs.craft.env import CraftWorld
from labkit.envs.phone.env import PhoneWorld
from labkit.envs.phone.layout import RADIOS
from labkit.envs.phone.planner import planner
from labkit.envs.phone.rules import transition
from labkit.envs.world import World

UP = ("back", "home", "ok")
"""Actions that leave the screen shown."""


def expert_thought(world: World) -> str:
    """Words that lead to `world.expert_action()`, all in `labkit.agents.words.vocabulary`.

    PhoneWorld: what of the goal is done, for goals that switch a radio whether airplane mode is on, and what
    comes next, with the screens still to open from the inside out. The last word is what to open here; the
    name of the screen itself (or of the app that a dialog speaks of) says to act here, by the verb; `back`,
    `home` or `ok` says to leave first.

    CraftWorld: from the target down, how many of each ingredient are needed and held, up to the first that is
    short, which is then looked at in turn. Ends in the action.

    >>> import gymnasium, labkit.envs
    >>> from labkit.envs.craft.tasks import make_task
    >>> from labkit.envs.phone.goals import Task, single
    >>> world = gymnasium.make("labkit/PhoneWorld-v0").unwrapped
    >>> _ = world.reset(options={"task": Task(single("on", "wifi"), airplane=True)})
    >>> expert_thought(world), world.expert_action()
    ('airplane on ; turn off Airplane in Network in Settings', 'open Settings')
    >>> world = gymnasium.make("labkit/CraftWorld-v0").unwrapped
    >>> _ = world.reset(options={"task": make_task("rope", names="fixed")})
    >>> expert_thought(world)
    'rope needs 2 thread have nothing ; thread needs 1 wool have nothing ; get wool'

    Raises TypeError for another world, ValueError where nothing is left to do.
    """
    if not isinstance(world, PhoneWorld | CraftWorld):
        raise TypeError(
            f"no thoughts are written for {type(world).__name__}; give a PhoneWorld or a CraftWorld "
            "(unwrapped), or no thoughts"
        )
    if world.expert_action() is None:
        raise ValueError(f"nothing is left to do for {world.goal!r}, so there is nothing to think about")
    return _phone_thought(world) if isinstance(world, PhoneWorld) else _craft_thought(world)


def _phone_thought(world: PhoneWorld) -> str:
    layout, goal, state = world.task.layout, world.task.goal, world.state
    parts = []
    done = [layout.label[key] for kind, key in goal.conditions if type(goal)(((kind, key),)).holds(state)]
    if done:
        parts.append(f"done {' , '.join(done)}")
    if any(kind in ("on", "off") and key in RADIOS for kind, key in goal.conditions):
        parts.append(f"airplane {'on' if 'airplane' in state.on else 'off'}")
    # The plan up to its next deed. Where it only walks, the deed is to open what the goal names.
    verb, what, leave, way = "open", layout.label[goal.conditions[0][1]], "", []
    for action in planner(layout, goal).plan(state):
        move = layout.moves[state.path[-1]][action]
        if action in UP:
            leave = leave or action
        elif move.verb in ("open", "search"):
            name = layout.label[move.key or state.query]
            way += [name] * (name not in way)
        else:
            verb = f"turn {'off' if move.key in state.on else 'on'}" if move.verb == "toggle" else move.verb
            about = state.path[-2] if verb in ("allow", "deny") else state.path[-1]
            what = layout.label[about]
            break
        state = transition(layout, state, action)
    places = [name for name in reversed(way) if name != what]
    parts.append(f"{verb} {' in '.join([what, *places])}")
    return " ; ".join([*parts, leave] if leave else parts)


def _craft_thought(world: CraftWorld) -> str:
    task, have = world.task, world.state.inventory
    makes = dict(task.order)
    item, parts = task.goal_index, []
    while makes[item]:
        looked_at, short = [], None
        for used, count in makes[item]:
            looked_at.append(f"{count} {task.items[used]} have {have[used] or 'nothing'}")
            if have[used] < count:
                short = used
                break
        parts.append(f"{task.items[item]} needs {' , '.join(looked_at)}")
        if short is None:
            break
        item = short
    return " ; ".join([*parts, f"{'craft' if makes[item] else 'get'} {task.items[item]}"])
