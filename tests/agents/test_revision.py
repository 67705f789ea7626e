"""Revision trajectories: what pairs, where to splice, and that each one plays and earns what is stored."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import gymnasium
import pytest

from labkit.agents.examples import examples
from labkit.agents.execution import execute, replays
from labkit.agents.forms import WordForm
from labkit.agents.revision import ALPHAS, SIGNALS, Conditions, Pair
from labkit.agents.splicing import best_pairs, make_revisions, revise, splice, way_back
from labkit.agents.transition_points import at_end, at_random, by_oracle
from labkit.agents.words import ACT, EOS, SPECIAL, THINK, tokenizer
from labkit.envs.phone.env import PhoneWorld
from labkit.envs.trajectory import Step
from tests.agents.episodes import WIFI, acted, crafted, searched

GOOD = acted("open Settings", "open Network", "open WiFi")
BAD = acted("open Settings", "open Sound", "open Mute", "back")
PAIR = Pair(BAD, GOOD)
SIGNAL = "wrong ; try again"


def actions(steps):
    return [step.action for step in steps]


def played(trajectory):
    """An episode done again by hand: (observations, return, over by its own rules)."""
    world = gymnasium.make(trajectory.world, max_steps=100, disable_env_checker=True).unwrapped
    observation, _ = world.reset(options={"task": world.unpack_task(trajectory.task)})
    seen, earned, terminated = [observation], 0.0, False
    for step in trajectory.steps:
        observation, reward, terminated, _, _ = world.step(step.action)
        seen.append(observation)
        earned += reward
    return seen, earned, terminated


@pytest.mark.parametrize(
    "alpha, beta, bad, good, fit",
    [
        (0.5, 0.2, 0.3, 0.5, True),
        (0.5, 0.2, 0.3, 0.49, False),
        (0.5, 0.2, 0.31, 0.5, False),
        (0.5, 0.2, 0.0, 1.0, True),
        (1.0, 0.2, 0.0, 1.0, True),
        (1.0, 0.2, 0.0, 0.99, False),
        (1.0, 0.2, 0.8, 1.0, True),
        (0.0, 1.0, 0.0, 1.0, True),
        (0.7, 0.2, 0.5, 0.7, True),
        (0.7, 0.2, 1.0, 0.7, False),
    ],
)
def test_both_bounds_are_inclusive(alpha, beta, bad, good, fit):
    assert Conditions(alpha, beta).admits(bad, good) == fit
    # Rewards are sums of fractions.
    assert Conditions(alpha, beta).admits(sum([bad / 10] * 10), sum([good / 10] * 10)) == fit


def test_conditions_want_a_gap():
    for beta in (0.0, -0.1, float("nan")):
        with pytest.raises(ValueError, match="above 0"):
            Conditions(0.5, beta)
    assert ALPHAS == (0.5, 0.7, 1.0)


def test_a_pair_knows_what_its_episodes_share():
    assert PAIR.shared == 1 and actions(PAIR.initial) == ["open Settings"]
    assert Pair(acted("open Maps"), GOOD).shared == 0
    with pytest.raises(ValueError, match="of different tasks"):
        Pair(crafted("get wool"), GOOD)
    for bad in (acted("open Settings"), acted(), GOOD):
        with pytest.raises(ValueError, match="beginning of the other"):
            Pair(bad, GOOD)


def test_the_good_episode_that_shares_most_is_taken():
    long_way = acted("open Settings", "open Sound", "back", "open Network", "open WiFi")
    elsewhere = acted("open Maps", "allow", "home")
    pairs = best_pairs([GOOD, BAD, long_way, BAD, elsewhere], Conditions())
    assert [(pair.bad, pair.good) for pair in pairs] == [(BAD, long_way), (elsewhere, GOOD)]
    # A bad episode is no pair with another task's good one, nor good ones with each other.
    assert best_pairs([BAD, crafted("get wool")], Conditions()) == []
    assert best_pairs([GOOD, long_way], Conditions()) == []
    # The beginning of a good episode took no wrong turn.
    assert best_pairs([GOOD, acted("open Settings")], Conditions()) == []


@pytest.mark.parametrize("kind", ["phone", "craft"])
def test_best_pairs_are_those_of_brute_force(kind):
    episodes, conditions = searched(kind), Conditions(0.5, 0.2)
    found = {id(pair.bad): pair for pair in best_pairs(episodes, conditions)}
    seen = set()
    for bad in episodes:
        key = (str(bad.task), tuple(actions(bad.steps)))
        if key in seen:
            continue
        seen.add(key)
        scores = []
        for good in episodes:
            same = str(good.task) == str(bad.task)
            if same and good.reward >= 0.5 - 1e-9 and good.reward - bad.reward >= 0.2 - 1e-9:
                both = zip(actions(bad.steps), actions(good.steps), strict=False)
                shared = sum(1 for _ in itertools.takewhile(lambda ab: ab[0] == ab[1], both))
                if shared < min(len(bad.steps), len(good.steps)):
                    scores.append((shared, good.reward, -len(good.steps)))
        assert bool(scores) == (id(bad) in found)
        if scores:
            pair = found[id(bad)]
            assert (pair.shared, pair.good.reward, -len(pair.good.steps)) == max(scores)
    assert len(found) > 20


def test_a_splice_is_bad_part_signal_good_part():
    steps = splice(PAIR, 2, SIGNAL, back=("back",))
    assert actions(steps) == ["open Settings", "open Sound", "back", "open Network", "open WiFi"]
    assert [step.trained for step in steps] == [False, False, True, True, True]
    assert [step.thought for step in steps] == ["", "", SIGNAL, "", ""]
    thoughtful = replace(GOOD, steps=(GOOD.steps[0], replace(GOOD.steps[1], thought="needs Network")))
    thoughtful = Pair(BAD, replace(thoughtful, steps=(*thoughtful.steps, GOOD.steps[2])))
    assert splice(thoughtful, 2, SIGNAL)[2].thought == f"{SIGNAL} ; needs Network"
    sampled = replace(
        GOOD, steps=tuple(replace(step, ids=(1, 2), logprobs=(-1.0, 0.0)) for step in GOOD.steps)
    )
    assert all(not step.ids and not step.logprobs for step in splice(Pair(BAD, sampled), 2, SIGNAL)[2:])


@pytest.mark.parametrize("point", [-1, 0, 1, 5])
def test_a_splice_is_cut_among_the_bad_steps(point):
    with pytest.raises(ValueError, match="not among the bad steps 2 to 4"):
        splice(PAIR, point, SIGNAL)
    with pytest.raises(ValueError, match="not among the bad steps"):
        revise(PAIR, point, SIGNAL)


def test_a_signal_says_something():
    with pytest.raises(ValueError, match="signal is empty"):
        splice(PAIR, 2, " ")


def test_a_good_part_that_does_not_play_after_the_error_is_refused():
    # `open Network` is not on the page of Sound: without a way back nothing can be spliced.
    assert revise(PAIR, 2, SIGNAL) is None
    found = revise(PAIR, 2, SIGNAL, back=1)
    assert actions(found.trajectory.steps) == [
        "open Settings", "open Sound", "back", "open Network", "open WiFi",
    ]  # fmt: skip
    assert (found.transition_point, found.length, found.signal) == (2, 1, SIGNAL)
    assert found.trajectory.success and found.trajectory.policy == "revision"
    # From Mute it takes two actions back.
    assert revise(PAIR, 3, SIGNAL, back=1) is None
    assert revise(PAIR, 3, SIGNAL, back=2).length == 2
    assert revise(PAIR, 4, SIGNAL, back=1).length == 3


def test_a_good_part_that_plays_as_it_is_needs_no_way_back():
    bad = crafted("get wool", "wait", "wait")
    good = crafted("get wool", "craft thread", "get wool", "craft thread", "craft rope")
    found = revise(Pair(bad, good), 2, SIGNAL)
    assert actions(found.trajectory.steps)[:3] == ["get wool", "wait", "craft thread"]
    assert found.trajectory.success and found.length == 1


def test_a_good_part_that_wins_earlier_than_it_did_is_refused():
    # After the extra thread, `craft rope` wins before the good part is over.
    bad = crafted("get wool", "get wool", "craft thread", "craft thread", "get wool")
    good = crafted("get wool", "craft thread", "wait", "get wool", "craft thread", "craft rope")
    assert revise(Pair(bad, good), 5, SIGNAL) is not None
    ends = crafted("get wool", "craft thread", "get wool", "craft thread", "craft rope")
    short = Pair(crafted("wait", "craft rope"), replace(ends, steps=(*ends.steps, ends.steps[0])))
    assert revise(short, 1, SIGNAL) is None


def test_a_good_step_that_can_no_longer_be_done_is_no_good_part():
    # Nine wool are all that one can carry: the good part's own would be refused, though it wins anyway.
    bad = crafted(*["get wool"] * 9)
    good = crafted("wait", "get wool", "craft thread", "get wool", "craft thread", "craft rope")
    assert revise(Pair(bad, good), 9, SIGNAL) is None and revise(Pair(bad, good), 6, SIGNAL) is not None


def test_a_way_back_is_a_shortest_one():
    world = PhoneWorld()
    world.reset(options={"task": WIFI})
    world.step("open Settings")
    wanted = world.state
    assert way_back(world, wanted, 0) == ()
    world.step("open Sound")
    world.step("open Mute")
    assert way_back(world, wanted, 1) is None and way_back(world, wanted, 3) == ("back", "back")
    world.step("toggle Mute")
    # The switch has to be turned off again.
    way = way_back(world, wanted, 3)
    assert sorted(way) == ["back", "back", "toggle Mute"]
    assert world.state.path[-1] == "mute"
    # Not through the goal, which would end the episode.
    assert way_back(world, world.state._replace(path=("home", "settings", "network", "wifi")), 6) is None


@pytest.mark.parametrize("kind, back", [("phone", 4), ("craft", 0)])
@pytest.mark.parametrize("point", [at_end, at_random(3), by_oracle], ids=["end", "random", "oracle"])
def test_every_revision_trajectory_plays_and_earns_what_is_stored(kind, back, point):
    pairs = best_pairs(searched(kind), Conditions())
    revisions = make_revisions(pairs, point, seed=0, back=back)
    assert len(revisions.made) + revisions.pointless + revisions.refused == len(pairs)
    assert len(revisions.made) > len(pairs) / 4
    form = WordForm(tokenizer())
    for revision in revisions.made:
        trajectory, pair, point_ = revision.trajectory, revision.pair, revision.transition_point
        seen, earned, terminated = played(trajectory)
        assert earned == trajectory.reward == pytest.approx(pair.good.reward)
        assert terminated == trajectory.terminated == pair.good.terminated and replays(trajectory)
        assert seen == [*(step.observation for step in trajectory.steps), trajectory.last_observation]
        # It begins as the bad episode did, and ends as the good one.
        assert actions(trajectory.steps[:point_]) == actions(pair.bad.steps[:point_])
        rest = actions(pair.good.steps[pair.shared :])
        assert actions(trajectory.steps)[-len(rest) :] == rest
        assert pair.shared < point_ and revision.length == point_ - pair.shared >= 1
        assert len(trajectory.steps) <= point_ + back + len(rest)
        # The mask keeps the signal and all after it.
        assert [step.trained for step in trajectory.steps] == [
            t > point_ for t in range(1, len(trajectory.steps) + 1)
        ]
        if len(trajectory.steps) % 4:  # a part of them, for reading takes time
            continue
        assert _kept_words(trajectory, form) == " ".join(
            [THINK, revision.signal, ACT, trajectory.steps[point_].action, EOS]
            + [word for step in trajectory.steps[point_ + 1 :] for word in (ACT, step.action, EOS)]
        )


def _kept_words(trajectory, form):
    ((ids, keep),) = examples(trajectory, form)
    return form.text([i for i, kept in zip(ids, keep, strict=True) if kept])


def test_signals_are_ten_thoughts_that_the_tiny_agents_can_write():
    form = WordForm(tokenizer())
    assert len(set(SIGNALS)) == 10
    for signal in SIGNALS:
        assert form.text(form.ids(signal)) == signal and not set(signal.split()) & set(SPECIAL)
        assert form.parse(form.write(signal, "back")).thought == signal


def test_signals_are_drawn_by_seed_and_do_not_hang_on_what_is_refused():
    pairs = best_pairs(searched("phone"), Conditions())
    first, again, other = (make_revisions(pairs, at_end, seed, back=4).made for seed in (0, 0, 1))
    assert first == again and [r.signal for r in first] != [r.signal for r in other]
    assert len(Counter(r.signal for r in first)) >= 8
    strict = {id(r.pair): r.signal for r in make_revisions(pairs, at_end, 0, back=0).made}
    signals = {id(r.pair): r.signal for r in first}
    assert strict and all(signals[pair] == signal for pair, signal in strict.items())


def test_an_episode_that_its_world_does_not_play_is_no_start():
    lie = replace(BAD, steps=(replace(BAD.steps[0], observation="Home : Games"), *BAD.steps[1:]))
    with pytest.raises(ValueError, match="was recorded as"):
        revise(Pair(lie, GOOD), 2, SIGNAL, back=2)


def test_execution_stops_at_the_end_and_says_what_came_back():
    done = acted("open Settings", "fly", "open Network", "open WiFi", "back")
    assert actions(done.steps) == ["open Settings", "fly", "open Network", "open WiFi"]
    assert done.terminated and not done.truncated and done.reward == 1.0
    assert [step.admissible for step in done.steps] == [True, False, True, True]
    assert done.steps[1].failures == ("inadmissible",)
    assert done.steps[2].observation.startswith("Not possible") and done.last_observation == "WiFi : off"
    assert replays(done)
    for lie in (
        replace(done, last_observation="WiFi : on"),
        replace(done, terminated=False),
        replace(done, steps=(replace(done.steps[0], reward=1.0), *done.steps[1:])),
        replace(done, steps=(*done.steps[:1], replace(done.steps[1], admissible=True), *done.steps[2:])),
        replace(done, steps=done.steps[1:]),
    ):
        assert not replays(lie)
    kept = execute(done.world, done.task, [Step("x", "needs WiFi", "finish"), Step("", "", "back")])
    assert kept.steps == () and not kept.terminated
    thought = execute(done.world, done.task, [Step("x", "needs WiFi", "back", 5.0, trained=False)])
    assert thought.steps[0].thought == "needs WiFi" and not thought.steps[0].trained
    assert thought.steps[0].reward == 0.0 and thought.steps[0].observation.startswith("Home")
