"""Tree search: counts and values that add up, optima by brute force, and trees that are the same twice."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from collections import Counter, defaultdict

import pytest

from labkit.agents.forms import TextForm
from labkit.agents.mcts import Search
from labkit.agents.phases import Guess, SearchConfig, list_actions, select
from labkit.agents.policies import Scripted
from labkit.agents.react import Episode, Written, play
from labkit.agents.tree import best_child
from labkit.envs.craft.env import CraftWorld
from labkit.envs.craft.tasks import draw_task, make_task
from labkit.envs.phone.env import PhoneWorld
from labkit.envs.phone.goals import Task, load_tasks, single
from tests.agents.graphs import BANDIT, GraphWorld, SecretWorld, context, random_graph, sequences

ROPE = make_task("rope", names="fixed")
WIFI = Task(single("open", "wifi"))


def craft(task=ROPE, max_steps=20):
    return Episode(CraftWorld(max_steps=max_steps), task).context


def phone(task=WIFI, max_steps=24):
    return Episode(PhoneWorld(max_steps=max_steps), task).context


def hashed(contexts):
    """Priors and values that differ by state and action, and by nothing else."""
    found = []
    for c in contexts:
        names = c.world.admissible_actions()
        weights = [1 + len(f"{name}{c.observation}") % 5 for name in names]
        value = (len(c.observation) % 7) / 20
        found.append(Guess(names, tuple(w / sum(weights) for w in weights), value))
    return found


def priors_only(contexts):
    return [Guess(g.actions, g.priors) for g in hashed(contexts)]


class Watched(Search):
    """Keeps each leaf that was backed up, and its return."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.backed = []

    def back_up(self, leaf, value):
        self.backed.append((leaf, value))
        super().back_up(leaf, value)


def dump(node):
    """A tree as plain data."""
    return [
        node.action,
        node.visits,
        round(node.total, 6),
        None if node.value is None else round(node.value, 6),
        [action for _, action in node.untried or ()],
        [dump(child) for child in node.children],
    ]


KINDS = {
    "uct": ({}, None),
    "rollouts": ({"rollouts": 3}, None),
    "width": ({"width": 2}, None),
    "plain": ({"solve": False}, None),
    "no states": ({"capacity": 0}, None),
    "few states": ({"capacity": 20}, None),
    "batch": ({"batch_size": 8}, None),
    "guide": ({}, hashed),
    "priors": ({"rule": "puct", "c": 1.0}, priors_only),
    "puct": ({"rule": "puct", "c": 1.0}, hashed),
    "puct batch": ({"rule": "puct", "c": 1.0, "batch_size": 8}, hashed),
    "puct plain batch": ({"rule": "puct", "c": 1.0, "batch_size": 8, "solve": False}, hashed),
    "guide batch": ({"batch_size": 8}, hashed),
}
STARTS = {
    "craft": craft,
    "phone": phone,
    "graph": lambda: context(random_graph(3)),
    "short": lambda: craft(max_steps=3),
    "secret": lambda: context(random_graph(5), SecretWorld, max_steps=6),
}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("kind", KINDS)
def test_counts_and_values_add_up(kind, start):
    settings, guide = KINDS[kind]
    config = SearchConfig(simulations=200, depth=8, seed=1, **settings)
    search = Watched(STARTS[start](), config, guide).run()
    own: Counter = Counter()
    returns = defaultdict(list)
    for leaf, value in search.backed:
        own[id(leaf)] += 1
        node = leaf
        while node is not None:
            returns[id(node)].append(value)
            node = node.parent
    assert search.simulations == len(search.backed) == search.root.visits
    for node in search.root:
        # N = 1 + sum N(children): each node was simulated from once, and only once unless nothing follows.
        assert node.visits == own[id(node)] + sum(child.visits for child in node.children)
        assert own[id(node)] == 1 or (node.ended and not config.solve)
        assert node.total == pytest.approx(sum(returns[id(node)]))
        assert node.mean == pytest.approx(sum(returns[id(node)]) / node.visits)
        if node.ended:
            assert not node.children and not node.untried
        if node.position.terminated or node.depth == search.positions.depth:
            assert node.ended
        assert node.depth <= search.positions.depth <= 8
        # Each action once, and unvisited ones first.
        actions = [child.action for child in node.children]
        assert len(set(actions)) == len(actions)
        admissible = node.position.world.admissible_actions()
        assert node.ended or set(actions) <= set(admissible)
        if node.untried and config.rule == "uct":
            assert all(child.visits == 1 for child in node.children)
        if config.width:
            assert len(actions) + len(node.untried or ()) <= config.width
        elif node.untried is not None:
            assert len(actions) + len(node.untried) == len(set(admissible))


@pytest.mark.parametrize("seed", range(25))
def test_a_solved_root_has_the_largest_return_there_is(seed):
    graph, depth = random_graph(seed), 5
    everything = dict(sequences(graph, depth))
    most = max(everything.values())
    for settings, guide in (KINDS["uct"], KINDS["no states"], KINDS["puct batch"], KINDS["guide batch"]):
        search = Search(context(graph), SearchConfig(simulations=5000, depth=depth, **settings), guide).run()
        assert search.root.value == pytest.approx(most)
        assert everything[search.best.actions] == pytest.approx(most) == search.best.reward
        shortest = min(len(a) for a, earned in everything.items() if math.isclose(earned, most))
        assert len(search.best.actions) == shortest
        first = {a[0] for a, earned in everything.items() if math.isclose(earned, most)}
        assert search.best_action() in first
        # What is solved stays so.
        before = search.simulations
        assert search.run(10).simulations == before < 5000


def test_every_node_that_is_solved_has_the_best_return_below_it():
    graph = random_graph(7)
    search = Search(context(graph), SearchConfig(simulations=60, depth=5)).run()
    solved = [node for node in search.root if node.value is not None]
    assert solved and any(not node.ended for node in solved)
    for node in solved:
        state = node.position.world.state
        below = max(earned for _, earned in sequences(graph, 5 - node.depth, state))
        assert node.value == pytest.approx(node.earned + below)


def test_no_simulation_is_spent_where_the_best_return_is_known():
    search = Search(craft(), SearchConfig(simulations=1, depth=4))
    closed = {}
    for _ in range(400):
        search.run(1)
        for node, visits in closed.items():
            assert node.visits == visits
        closed |= {node: node.visits for node in search.root if node.value is not None}
    assert len(closed) > 10


def test_plain_uct_pulls_three_arms_as_a_bandit_does():
    config = SearchConfig(simulations=200, c=0.5, solve=False, seed=3)
    search = Watched(context(BANDIT), config).run()
    pulled = [leaf.action for leaf, _ in search.backed[1:]]
    pays = {"a": 0.2, "b": 0.9, "c": 0.5}
    assert sorted(pulled[:3]) == ["a", "b", "c"]
    counts, order = dict.fromkeys(pays, 1), pulled[:3]
    for t, action in enumerate(pulled[3:], 4):
        scores = {a: pays[a] + 0.5 * math.sqrt(math.log(t) / counts[a]) for a in order}
        assert action == max(order, key=scores.get), t
        counts[action] += 1
    assert counts["b"] > counts["c"] > counts["a"]
    # Solved at once, where solving is on: three arms, and the root's own simulation.
    assert Search(context(BANDIT), SearchConfig(simulations=200)).run().simulations == 4


@pytest.mark.parametrize("names", ["abc", "bca", "cab"])
def test_what_is_chosen_does_not_hang_on_the_order_of_actions(names):
    graph = random_graph(11)
    turned = {state: dict(sorted(edges.items(), reverse=names != "abc")) for state, edges in graph.items()}
    search = Search(context(turned), SearchConfig(simulations=5000, depth=4)).run()
    again = Search(context(graph), SearchConfig(simulations=5000, depth=4)).run()
    assert search.best_action() == again.best_action()
    bandit = {**BANDIT, "s": {a: BANDIT["s"][a] for a in names}}
    for solve in (True, False):
        assert Search(context(bandit), SearchConfig(simulations=50, solve=solve)).run().best_action() == "b"


def test_a_stored_tree_is_found_again_whole():
    config = SearchConfig(simulations=9, depth=4, seed=0)
    search = Search(craft(make_task("plank", names="fixed")), config).run()
    assert dump(search.root) == STORED


STORED = [
    "", 9, 7.333333, None, [],
    [
        ["get wood", 7, 6.333333, None, [],
         [
             ["wait", 1, 0.666667, None, [], []],
             ["get wood", 5, 4.666667, None, [],
              [
                  ["craft plank", 1, 1.0, 1.0, [], []],
                  ["wait", 2, 2.0, None, ["wait", "get wood"], [["craft plank", 1, 1.0, 1.0, [], []]]],
                  ["get wood", 1, 0.666667, None, [], []],
              ]],
         ]],
        ["wait", 1, 0.333333, None, [], []],
    ],
]  # fmt: skip
"""Action, N, W, value, untried actions, children; a plank takes two `get wood` and `craft plank`."""


def _tree_of(kind):
    settings, guide = KINDS[kind]
    config = SearchConfig(simulations=150, depth=10, seed=5, **settings)
    tasks = load_tasks("known_phone")[::60]
    starts = [craft(draw_task("train", 3)), *(phone(task) for task in tasks)]
    return [dump(Search(start, config, guide).run().root) for start in starts]


@pytest.mark.parametrize("hash_seed", ["0", "1"])
def test_two_processes_with_different_hash_seeds_find_the_same_trees(hash_seed):
    kinds = ["uct", "few states", "width", "puct batch"]
    code = (
        "import json; from tests.agents.test_mcts import _tree_of; "
        f"print(json.dumps([_tree_of(kind) for kind in {kinds!r}]))"
    )
    env = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [_tree_of(kind) for kind in kinds]


def test_another_seed_gives_another_tree():
    trees = [dump(Search(craft(), SearchConfig(seed=seed)).run().root) for seed in (0, 0, 1)]
    assert trees[0] == trees[1] != trees[2]


def test_more_simulations_do_not_lower_success():
    tasks = [draw_task("train", 1000 + i) for i in range(40)]
    shares = []
    for simulations in (10, 40, 160, 640):
        config = SearchConfig(simulations=simulations, depth=12, seed=2)
        found = [Search(craft(task), config).run().best for task in tasks]
        shares.append(sum(f.terminated for f in found) / len(tasks))
    # Two standard errors of a share of 40 tasks.
    noise = 2 * math.sqrt(0.25 / len(tasks))
    assert all(later >= earlier - noise for earlier, later in zip(shares, shares[1:], strict=False)), shares
    assert shares[-1] > shares[0] + noise, shares


def test_what_the_depth_cap_cuts_off_is_no_success():
    # A rope takes 5 actions. With 3, the best is to have done 3 of them.
    for search in (
        Search(craft(), SearchConfig(simulations=3000, depth=3)).run(),
        Search(craft(max_steps=3), SearchConfig(simulations=3000, depth=20)).run(),
        Search(craft(max_steps=3), SearchConfig(simulations=3000, depth=20, capacity=0)).run(),
    ):
        assert not search.best.terminated and len(search.best.actions) == 3
        assert search.root.value == pytest.approx(3 / 5) == search.best.reward
        assert not any(node.position.terminated for node in search.root)
        episode = search.episode(search.best)
        assert not episode.success and episode.reward == pytest.approx(3 / 5)
    search = Search(craft(), SearchConfig(simulations=3000, depth=5)).run()
    assert search.best.terminated and search.root.value == pytest.approx(1.0)
    assert search.episode(search.best).success


def test_the_world_that_is_searched_stays_as_it_is():
    start = phone()
    before = (start.world.state, start.world.steps_left, start.world.is_over)
    Search(start, SearchConfig(simulations=200)).run()
    assert (start.world.state, start.world.steps_left, start.world.is_over) == before


@pytest.mark.parametrize("capacity", [0, 1000])
def test_a_search_from_the_middle_goes_on_with_the_episode(capacity):
    episode = Episode(CraftWorld(max_steps=20), ROPE)
    for action in ("get wool", "craft thread"):
        episode.advance(Written(f"Action: {action}"), TextForm())
    search = Search(episode.context, SearchConfig(simulations=2000, depth=6, capacity=capacity)).run()
    # What was earned before the search is not counted in it.
    assert search.best.reward == pytest.approx(3 / 5) and search.best.terminated
    whole = search.episode(search.best)
    assert [step.action for step in whole.steps[:2]] == ["get wool", "craft thread"]
    assert whole.success and whole.reward == pytest.approx(1.0) and whole.policy == "search"


def test_everything_that_is_told_can_be_played():
    told = []
    search = Search(phone(), SearchConfig(simulations=60, rollouts=2, depth=9), on_found=told.append).run()
    assert len(told) >= 60 and search.best in told
    assert any(found.terminated for found in told)
    for found in told:
        episode = search.episode(found)
        assert tuple(step.action for step in episode.steps) == found.actions
        assert (episode.reward, episode.terminated) == (found.reward, found.terminated)
        assert len(found.actions) <= 9


def test_what_is_told_beyond_the_states_that_are_kept_is_right_as_well():
    told = []
    config = SearchConfig(simulations=60, depth=9, capacity=5)
    search = Search(craft(), config, on_found=told.append).run()
    for found in told:
        assert search.episode(found).reward == pytest.approx(found.reward)


@pytest.mark.parametrize("seed", range(4))
def test_of_episodes_that_earn_the_same_the_shortest_is_the_best(seed):
    graph = {
        "s": {"a": ("x", 0.0), "b": ("y", 0.0), "c": ("E", 1.0)},
        "x": {"a": ("E", 1.0)},
        "y": {"a": ("x", 0.0)},
        "E": {},
    }
    assert Search(context(graph), SearchConfig(simulations=200, seed=seed)).run().best.actions == ("c",)


def test_a_guide_is_shown_what_a_policy_would_be_shown():
    shown = []

    def guide(contexts):
        shown.extend(contexts)
        return hashed(contexts)

    start = phone()
    search = Search(start, SearchConfig(simulations=60, batch_size=4, rule="puct", c=1.0), guide).run()
    assert len(shown) == sum(not node.ended for node in search.root)
    for context_ in shown:
        texts = [TextForm().write("", step.action) for step in context_.history]
        (played,) = play([PhoneWorld(max_steps=len(texts) or 1)], Scripted(texts or ["none"]), [WIFI])
        same = played.steps[: len(texts)]
        assert [(s.observation, s.action, s.reward, s.admissible) for s in context_.history] == [
            (s.observation, s.action, s.reward, s.admissible) for s in same
        ]
        assert context_.observation == played.observation(len(texts) + 1)
        assert context_.goal == start.goal


def test_a_guide_may_name_what_cannot_be_done_and_that_is_a_step_lost():
    def guide(contexts):
        return [Guess(("open Settings", "fly", "fly"), (0.5, 0.3, 0.2), 0.0) for _ in contexts]

    search = Search(phone(), SearchConfig(simulations=3, rule="puct", c=1.0), guide).run()
    by_name = {child.action: child for child in search.root.children}
    assert set(by_name) == {"open Settings", "fly"} and by_name["fly"].prior == 0.3
    assert search.context_of(by_name["fly"]).observation.startswith("Not possible")
    assert not search.context_of(by_name["fly"]).history[0].admissible


def test_leaves_are_evaluated_together_and_virtual_visits_are_taken_back():
    calls = []

    def guide(contexts):
        calls.append(len(contexts))
        return hashed(contexts)

    config = SearchConfig(simulations=257, batch_size=16, rule="puct", c=1.0, depth=10)
    search = Search(craft(), config, guide)
    search.run(1)
    while search.simulations < 257:
        before = {id(node): (node.visits, node.total) for node in search.root}
        leaves = search.leaves(16)
        assert len({id(leaf) for leaf in leaves}) == len(leaves) <= 16
        for node in search.root:
            assert (node.visits, node.total) == before.get(id(node), (0, 0.0))
        for leaf, value in zip(leaves, search.returns(leaves), strict=True):
            search.back_up(leaf, value)
    assert sum(calls) <= 257 + 16 and len(calls) < 257 / 8
    one_by_one = Search(craft(), SearchConfig(simulations=257, rule="puct", c=1.0, depth=10), hashed).run()
    assert one_by_one.best.reward == pytest.approx(search.best.reward, abs=0.25)


def test_a_rollout_policy_is_used_where_one_is_given():
    def expert(world, rng):
        return world.expert_action()

    search = Search(craft(), SearchConfig(simulations=1), rollout=expert).run()
    assert search.best.terminated and len(search.best.actions) == 5 and search.root.mean == pytest.approx(1.0)
    cut = Search(craft(), SearchConfig(simulations=1, depth=4), rollout=expert).run()
    assert not cut.best.terminated and cut.root.mean == pytest.approx(0.8)


def test_rollouts_are_averaged():
    draws = random.Random(0)

    def coin(world, rng):
        return draws.choice(["a", "b"])

    search = Search(context(BANDIT), SearchConfig(simulations=1, rollouts=4000), rollout=coin).run()
    assert search.root.visits == 1 and search.root.total == pytest.approx(0.55, abs=0.02)


def test_random_rollouts_are_even():
    seen = Counter()
    config = SearchConfig(simulations=1, rollouts=3000)
    Search(context(BANDIT), config, on_found=lambda f: seen.update([f.actions[0]])).run()
    assert all(abs(seen[a] / 3000 - 1 / 3) < 0.04 for a in "abc")


def test_with_a_width_the_likeliest_actions_are_considered():
    def guide(contexts):
        return [Guess(("a", "b", "c"), (0.2, 0.5, 0.3)) for _ in contexts]

    search = Search(context(BANDIT), SearchConfig(simulations=50, width=2), guide).run()
    assert sorted(child.action for child in search.root.children) == ["b", "c"]
    assert search.root.value == 0.9
    drawn = Counter()
    for seed in range(60):
        searched = Search(context(BANDIT), SearchConfig(simulations=50, width=1, seed=seed)).run()
        drawn.update(child.action for child in searched.root.children)
    assert set(drawn) == set("abc") and sum(drawn.values()) == 60


def test_a_state_without_actions_is_an_end():
    class Stuck(GraphWorld):
        def _act(self, action):
            return super()._act(action)._replace(done=False)

    for guide in (None, hashed_or_none):
        search = Search(context(BANDIT, Stuck), SearchConfig(simulations=50), guide).run()
        assert search.root.value == 0.9 and not search.best.terminated
        assert all(not node.children for node in search.root if node.depth == 1)


def hashed_or_none(contexts):
    return [Guess(c.world.admissible_actions(), None, 0.0) for c in contexts]


def test_list_actions_leaves_a_terminal_node_alone():
    search = Search(context(BANDIT), SearchConfig(simulations=4)).run()
    child = search.root.children[0]
    list_actions(child, Guess(("again",)), search.positions, search.config, search.rng)
    assert child.untried is None and select(search.root, search.config) is None
    assert best_child(search.root).action == "b"


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"simulations": 0}, "simulations is 0"),
        ({"depth": 0}, "depth is 0"),
        ({"rollouts": 0}, "rollouts is 0"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"width": 0}, "at least 1 action"),
        ({"rule": "ucb"}, "'uct' or 'puct'"),
        ({"c": -1.0}, "0 or more"),
        ({"c": float("nan")}, "0 or more"),
    ],
)
def test_settings_out_of_range_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        SearchConfig(**settings)


def test_priors_must_fit_the_actions():
    for actions, priors in ((("a",), (0.5, 0.5)), (None, (1.0,))):
        with pytest.raises(ValueError, match="one prior for each"):
            Guess(actions, priors)
