"""Where a bad episode is to be revised: cases worked by hand."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest

from labkit.agents.revision import Pair
from labkit.agents.transition_points import (
    at_end,
    at_random,
    by_actor,
    by_oracle,
    label,
    log_odds,
    plan_length,
    spliceable,
    wasted,
)
from labkit.agents.words import FINISH
from labkit.envs.trajectory import Step
from tests.agents.episodes import acted, crafted
from tests.agents.graphs import BANDIT, context

GOOD = acted("open Settings", "open Network", "open WiFi")
BAD = acted("open Settings", "open Sound", "open Mute", "toggle Mute", "fly", "back")
PAIR = Pair(BAD, GOOD)


def finished(episode):
    """The same episode, given up at the end."""
    return replace(episode, steps=(*episode.steps, Step(episode.last_observation, "", FINISH, 0.0, False)))


def test_what_steps_waste_is_as_counted_by_hand():
    # WiFi is 3 actions away; after Settings 2; from Sound 3 (back), from Mute 4, twice; then 3 again.
    assert wasted(BAD) == [0, 2, 2, 1, 1, 0]
    assert wasted(GOOD) == [0, 0, 0]
    # Maps asks first: 2 lost by asking (back would close it), 1 by answering.
    assert wasted(acted("open Maps", "allow", "back", "open Settings")) == [2, 1, 0, 0]
    # A rope takes 5: one wool and one thread too many help no more; waiting loses one.
    assert wasted(crafted("get wool", "wait", "craft thread", "get wool", "get wool")) == [0, 1, 0, 0, 1]
    assert wasted(finished(BAD)) == wasted(BAD)


def test_the_oracle_names_the_first_error_after_what_is_shared():
    assert by_oracle(PAIR) == 2
    detour = acted("open Maps", "allow", "back", "open Settings", "open Network", "open WiFi")
    bad = acted("open Maps", "allow", "back", "open Settings", "open Apps", "home")
    # Steps 1 and 2 are errors as well, but the good episode made them too.
    assert wasted(bad)[:2] == [2, 1] and by_oracle(Pair(bad, detour)) == 5
    short = Pair(acted("open Settings", "open Search"), GOOD)
    assert by_oracle(short) == (2 if wasted(short.bad)[1] > 0 else None)


def test_there_may_be_no_error_before_the_end():
    # Cut off on the way: nothing was wrong, but it did not arrive.
    good = crafted("get wool", "get wool", "craft thread", "craft thread", "craft rope")
    pair = Pair(crafted("get wool", "craft thread", "get wool"), good)
    assert wasted(pair.bad) == [0, 0, 0] and by_oracle(pair) is None
    assert at_end(pair) == 3


def test_the_end_is_the_last_step_that_the_world_was_told():
    assert at_end(PAIR) == 6 and list(spliceable(PAIR)) == [2, 3, 4, 5, 6]
    gave_up = Pair(finished(BAD), GOOD)
    assert at_end(gave_up) == 6 and list(spliceable(gave_up)) == [2, 3, 4, 5, 6]
    at_once = Pair(finished(acted()), GOOD)
    assert at_end(at_once) is None and at_random(0)(at_once) is None


def test_a_random_point_is_any_bad_step_alike():
    point = at_random(0)
    drawn = Counter(point(PAIR) for _ in range(2000))
    assert set(drawn) == {2, 3, 4, 5, 6} and all(abs(n / 2000 - 0.2) < 0.04 for n in drawn.values())
    again = at_random(0)
    assert Counter(again(PAIR) for _ in range(2000)) == drawn
    assert [at_random(1)(PAIR) for _ in range(1)] and [at_random(s)(PAIR) for s in range(40)] != [
        at_random(0)(PAIR)
    ] * 40


def scripted(table, asked=None):
    """Log-probs by (screen, action); -3 for all others."""

    def scores(contexts, names):
        if asked is not None:
            asked.extend(zip(contexts, names, strict=True))
        return [
            [table.get((c.observation.split()[0], action), -3.0) for action in actions]
            for c, actions in zip(contexts, names, strict=True)
        ]

    return scores


ODDS = {
    ("Home", "open Settings"): -0.5,  # against -3: 2.5
    ("Settings", "open Sound"): -1.0,  # against open Network -0.7: -0.3
    ("Settings", "open Network"): -0.7,
    ("Sound", "open Mute"): -4.0,  # against -3: -1
    ("Mute", "toggle Mute"): -1.0,  # against -3: 2
    ("Not", "back"): -1.0,
}


def test_log_odds_are_those_of_what_was_done_against_the_best_sibling():
    asked = []
    found = log_odds(BAD, scripted(ODDS, asked))
    # `fly` could not be done, and is judged all the same: -3 against -1 of the switch.
    assert found == pytest.approx([2.5, -0.3, -1.0, 2.0, -2.0, 2.0])
    for t, (seen, names) in enumerate(asked, 1):
        assert (seen.goal, seen.observation) == (BAD.goal, BAD.observation(t))
        assert tuple(step.action for step in seen.history) == tuple(s.action for s in BAD.steps[: t - 1])
        assert names[0] == BAD.steps[t - 1].action and len(set(names)) == len(names)
        assert set(names) == {*seen.world.admissible_actions(), names[0]}
    assert len(asked) == 6 and len(log_odds(finished(BAD), scripted(ODDS))) == 6


def test_the_actor_names_the_first_step_that_it_would_not_take_again():
    for margin, point in ((0.0, 2), (0.29, 2), (0.31, 3), (0.99, 3), (1.0, 5), (2.0, None)):
        found = by_actor(scripted(ODDS), margin)(PAIR)
        assert found == point, margin
    # What is shared is not asked about, even where the actor would not do it again.
    unsure = {**ODDS, ("Home", "open Settings"): -9.0, ("Settings", "open Sound"): -0.1}
    assert by_actor(scripted(unsure))(PAIR) == 3


def test_labels_have_a_margin_that_is_open():
    assert [label(x, 1.0) for x in (-1.1, -1.0, 0.0, 1.0, 1.1)] == [
        "bad", "uncertain", "uncertain", "uncertain", "good",
    ]  # fmt: skip
    assert [label(x) for x in (-math.inf, -1e-9, 0.0, math.inf)] == ["bad", "bad", "uncertain", "good"]
    for margin in (-0.1, math.nan):
        with pytest.raises(ValueError, match="0 or more"):
            label(0.0, margin)


def test_a_step_without_a_sibling_is_good():
    episode = crafted("wait", "wait")

    def one(contexts, names):
        return [[-5.0] for _ in names]

    assert log_odds(episode, one) == [math.inf, math.inf]


def test_where_the_expert_knows_no_plan_there_is_no_length():
    assert plan_length(context(BANDIT).world) == math.inf
