"""Parts of a search tree: formulas by hand, positions against a world that is stepped."""

from __future__ import annotations

import math
import random

import pytest

from labkit.agents.phases import SearchConfig, best_open, select
from labkit.agents.react import Episode
from labkit.agents.tree import Node, Position, Positions, best_child, path, puct, settle, uct
from labkit.envs.craft.env import CraftWorld
from labkit.envs.craft.tasks import make_task
from labkit.envs.phone.env import PhoneWorld
from tests.agents.graphs import BANDIT, GraphWorld, SecretWorld, context

ARMS = {"a": (3.0, 4), "b": (1.0, 2), "c": (2.0, 3)}
"""Action -> (W, N). With the root's own simulation, the root has N = 10."""


def arms(order="abc"):
    """A root with three arms that were pulled as `ARMS` says."""
    world = context(BANDIT).world
    root = Node(Position(world))
    root.visits, root.total, root.untried = 10, 6.5, []
    for action in order:
        child = Node(Position(world), root, action)
        child.total, child.visits = ARMS[action]
        root.children.append(child)
    return root


def test_uct_of_three_arms_is_as_computed_by_hand():
    # ln 10 = 2.302585: with c = 1 the bonuses are sqrt(.575646), sqrt(1.151293) and sqrt(.767528).
    by_hand = {"a": 0.75 + 0.758714, "b": 0.5 + 1.072983, "c": 2 / 3 + 0.876087}
    for action, (total, visits) in ARMS.items():
        assert uct(total, visits, 10, 1.0) == pytest.approx(by_hand[action], abs=1e-5)
    assert uct(3.0, 4, 10, 0.25) == pytest.approx(0.75 + 0.758714 / 4, abs=1e-5)
    assert uct(0.0, 0, 10, 0.0) == math.inf
    # Greedy with a small c; with c = 1 the arm that was pulled least is due.
    for c, chosen in ((0.0, "a"), (0.25, "a"), (1.0, "b")):
        assert select(arms(), SearchConfig(c=c)).action == chosen
        best, most = best_open(arms(), SearchConfig(c=c))
        assert best.action == chosen and most == pytest.approx(uct(*ARMS[chosen], 10, c))


def test_puct_is_as_computed_by_hand_and_reads_the_prior():
    assert puct(0.5, 0.4, 3, 16, 2.0) == pytest.approx(0.5 + 2 * 0.4 * 4 / 4)
    root = arms()
    for child, prior in zip(root.children, (0.1, 0.1, 0.8), strict=True):
        child.prior = prior
    # sqrt 10 = 3.1623: .75 + .0632, .5 + .1054, .6667 + .6325.
    best, most = best_open(root, SearchConfig(c=1.0, rule="puct"))
    assert best.action == "c" and most == pytest.approx(2 / 3 + 0.8 * math.sqrt(10) / 4)


def test_an_untried_action_waits_with_the_value_of_its_parent_under_puct():
    root = arms()
    config = SearchConfig(c=1.0, rule="puct")
    for child in root.children:
        child.prior = 0.2
    # Untried: .65 + P sqrt 10. The best child has .75 + .2 * 3.1623 / 5 = .8765.
    root.untried = [(0.07, "d")]
    assert select(root, config).action == "a"
    root.untried = [(0.08, "d")]
    assert select(root, config) is root
    # UCT tries everything first.
    root.untried = [(0.0, "d")]
    assert select(root, SearchConfig()) is root


@pytest.mark.parametrize("order", ["abc", "acb", "bac", "bca", "cab", "cba"])
def test_the_best_child_does_not_hang_on_the_order_of_children(order):
    root = arms(order)
    assert best_child(root).action == "a"
    by_name = {child.action: child for child in root.children}
    by_name["b"].value = 0.9  # known to be best, whatever its mean
    assert best_child(root).action == "b"
    by_name["c"].value = 0.9  # of equals the one with more visits
    assert best_child(root).action == "c"
    by_name["b"].visits = 3  # then the first by its text
    assert best_child(root).action == "b"


def test_best_child_asks_for_children():
    with pytest.raises(ValueError, match="at least 2 simulations"):
        best_child(Node(Position(context(BANDIT).world)))


def test_a_node_is_settled_by_its_best_child_once_all_are_known():
    root = arms()
    values = {"a": 0.2, "b": 0.9, "c": 0.5}
    for child in root.children[:2]:
        child.value = values[child.action]
    assert not settle(root) and root.value is None
    root.children[2].value = 0.5
    root.untried = [(1.0, "d")]
    assert not settle(root) and root.value is None
    root.untried = []
    assert settle(root) and root.value == 0.9 and root.estimate == 0.9 and root.mean == 0.65
    fresh = Node(Position(context(BANDIT).world))
    assert not settle(fresh)
    fresh.untried = []
    assert not settle(fresh)


def test_a_node_knows_its_way_from_the_root():
    root = arms()
    below = Node(Position(context(BANDIT).world), root.children[1], "x", earned=0.5)
    root.children[1].children.append(below)
    assert below.actions == ("b", "x") and path(below) == [root, root.children[1], below]
    assert [node.action for node in root] == ["", "a", "b", "x", "c"]
    assert [node.depth for node in root] == [0, 1, 1, 2, 1]


def test_a_node_at_the_depth_cap_is_cut_off_with_what_it_earned():
    position = Position(context(BANDIT).world)
    root = Node(position, most=1)
    child = Node(position, root, "a", earned=0.3, most=1)
    assert not root.ended and root.value is None
    assert child.ended and child.value == 0.3 and not position.terminated and not position.truncated


def test_positions_are_the_states_of_the_world_and_leave_it_alone():
    episode = Episode(CraftWorld(max_steps=20), make_task("rope", names="fixed"))
    before = episode.world.state
    positions = Positions(episode.world, depth=20, capacity=1000)
    rng = random.Random(0)
    for _ in range(30):
        position, world = positions.root, episode.world.clone()
        for _ in range(10):
            actions = positions.actions(position)
            assert actions == world.admissible_actions()
            action = rng.choice(actions)
            observation, reward, terminated, _, info = world.step(action)
            edge = positions.step(position, action)
            assert edge[1:] == (reward, observation, info["admissible"])
            assert edge.position.world.state == world.state and edge.position.terminated == terminated
            position = edge.position
            if terminated:
                assert positions.actions(position) == ()
                break
    assert episode.world.state == before and episode.world.steps_left == 20


def test_a_state_that_comes_again_is_one_position_where_the_world_shows_it():
    edges = {"s": {"a": ("x", 0.0), "b": ("x", 0.5)}, "x": {"back": ("s", 0.0)}}
    known = Positions(context(edges).world, 10, 100)
    a, b = known.step(known.root, "a"), known.step(known.root, "b")
    assert a.position is b.position and (a.reward, b.reward) == (0.0, 0.5)
    assert known.step(a.position, "back").position is known.root
    # One more would be the third; `s` and `x` are all that is kept.
    for capacity, kind in ((0, GraphWorld), (100, SecretWorld)):
        apart = Positions(context(edges, kind).world, 10, capacity)
        assert apart.capacity == 0 and apart.full
        assert apart.step(apart.root, "a").position is not apart.step(apart.root, "b").position
    small = Positions(context(edges).world, 10, 1)
    assert small.full and small.step(small.root, "a").position is not small.step(small.root, "b").position
    assert small.step(small.step(small.root, "a").position, "back").position is small.root


def test_a_state_that_is_met_late_is_not_cut_off_when_it_is_met_early():
    # Round and round: each state is first met at the end of a way of 3, then again at its beginning.
    ring = {f"n{i}": {"on": (f"n{(i + 1) % 40}", 0.0)} for i in range(40)}
    ring["s"] = {"on": ("n0", 0.0)}
    positions = Positions(context(ring, max_steps=3).world, 3, 1000)
    assert positions.depth == 3
    position = positions.root
    for _ in range(60):
        position = positions.step(position, "on").position
        assert not position.truncated


def test_where_states_are_not_known_the_worlds_own_budget_truncates():
    positions = Positions(context({"s": {"on": ("s", 0.0)}}, SecretWorld, max_steps=2).world, 10, 100)
    assert positions.depth == 2
    there = positions.step(positions.step(positions.root, "on").position, "on").position
    assert there.truncated and not there.terminated and positions.actions(there) == ()


def test_a_world_in_no_episode_cannot_be_searched():
    with pytest.raises(ValueError, match="call reset"):
        Positions(PhoneWorld(), 5, 10)
    episode = Episode(GraphWorld(BANDIT))
    episode.world.step("a")
    with pytest.raises(ValueError, match="no episode"):
        Positions(episode.world, 5, 10)
