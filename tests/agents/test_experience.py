"""Early experience: triples against a world played from its reset, which actions are tried, and leaks."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from labkit.agents.cloning import craft_demonstrations, phone_demonstrations, phone_tasks
from labkit.agents.experience import Branching, branch_off, coverage, leaked_tasks, sampled_proposals
from labkit.agents.forms import TextForm
from labkit.agents.policies import NoisyExpert, Scripted
from labkit.agents.react import Written, play
from labkit.envs.craft.env import CraftWorld
from labkit.envs.phone.env import PhoneWorld
from labkit.envs.trajectory import Step, Trajectory
from tests.tiny import seeded

DEMONSTRATIONS = [*phone_demonstrations(4, 0), *craft_demonstrations(4, 0)]
WORLDS = {world.id: world for world in (PhoneWorld, CraftWorld)}
KS = [1, 2, 3, 8, 50]


def replayed(trajectory):
    """A fresh world in which all but the last action of a trajectory was done, from the reset on."""
    world = WORLDS[trajectory.world](max_steps=50)
    world.reset(options={"task": world.unpack_task(trajectory.task)})
    for step in trajectory.steps[:-1]:
        world.step(step.action)
    return world


def taken(branching):
    """The expert's action, and those that were tried."""
    return branching.expert.steps[-1].action, [t.steps[-1].action for t in branching.alternatives]


def noting(contexts_seen, actions):
    """Proposals that are the same everywhere."""

    def propose(contexts):
        contexts_seen.extend(contexts)
        return [actions] * len(contexts)

    return propose


@pytest.mark.parametrize(
    "propose", [None, noting([], ["open Nowhere", "back", "wait"])], ids=["", "proposed"]
)
def test_every_triple_is_what_a_fresh_world_says(propose):
    branchings = branch_off(DEMONSTRATIONS, 3, 0, propose)
    states = [(demonstration, t) for demonstration in DEMONSTRATIONS for t in range(len(demonstration.steps))]
    assert len(branchings) == len(states)
    for branching, (demonstration, t) in zip(branchings, states, strict=True):
        assert taken(branching)[0] == demonstration.steps[t].action
        assert branching.state == replayed(branching.expert).state
        assert branching.outcomes == (branching.expert, *branching.alternatives)
        for triple in branching.outcomes:
            assert (triple.world, triple.task, triple.goal) == (
                demonstration.world,
                demonstration.task,
                demonstration.goal,
            )
            last = triple.steps[-1]
            # The history is the expert's; only the last step is what is to be learnt.
            assert triple.steps[:-1] == tuple(replace(s, trained=False) for s in demonstration.steps[:t])
            assert last.observation == demonstration.steps[t].observation
            assert last.trained and not last.thought
            observation, reward, terminated, truncated, info = replayed(triple).step(last.action)
            assert not truncated and not triple.truncated
            assert (triple.last_observation, last.reward, triple.terminated, last.admissible) == (
                observation,
                reward,
                terminated,
                info["admissible"],
            )
            assert (triple.policy == "exploration") == (triple is not branching.expert)


@pytest.mark.parametrize("k", KS)
def test_there_are_k_different_actions_or_all_that_the_world_offers(k):
    numbers = set()
    for branching in branch_off(DEMONSTRATIONS, k, 0):
        expert, tried = taken(branching)
        offered = set(replayed(branching.expert).admissible_actions()) - {expert}
        assert len(set(tried)) == len(tried) == min(k, len(offered)) and set(tried) <= offered
        numbers.add(len(tried))
    assert (k in numbers) == (k < 50) and (len(numbers) > 1) == (k > 2)


def test_all_alternatives_come_up_and_not_always_the_first():
    (demonstration,) = phone_demonstrations(1, 3)
    offered = set(replayed(replace(demonstration, steps=demonstration.steps[:1])).admissible_actions())
    drawn = {taken(branch_off([demonstration], 1, seed)[0])[1][0] for seed in range(60)}
    assert len(offered) > 3 and drawn == offered - {demonstration.steps[0].action}


@pytest.mark.parametrize("k, of_policy", [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)])
def test_half_of_the_actions_are_the_policys_own_rounded_up(k, of_policy):
    # "wait" can be done everywhere, "" could not be read, and twice the same counts once.
    actions = ["get moon", "", "get moon", "wait", "craft sun"]
    demonstrations = craft_demonstrations(3, 1)
    contexts = []
    branchings = branch_off(demonstrations, k, 0, noting(contexts, actions))
    for branching in branchings:
        tried = taken(branching)[1]
        assert tried[:of_policy] == ["get moon", "wait", "craft sun"][:of_policy]
        world = replayed(branching.expert)
        others = set(world.admissible_actions()) - {taken(branching)[0], *tried[:of_policy]}
        assert len(tried) == of_policy + min(k - of_policy, len(others))
        assert set(tried[of_policy:]) <= others
    # Proposals are asked for once, at what a policy would be shown there.
    assert len(contexts) == len(branchings)
    for context, branching in zip(contexts, branchings, strict=True):
        last = branching.expert.steps[-1]
        assert (context.goal, context.observation) == (branching.expert.goal, last.observation)
        assert [s.action for s in context.history] == [s.action for s in branching.expert.steps[:-1]]
        assert context.world.state == branching.state


def test_a_proposal_that_cannot_be_done_is_kept_with_its_refusal():
    (demonstration,) = phone_demonstrations(1, 0)
    branchings = branch_off([demonstration], 2, 0, noting([], ["open Nowhere"]))
    for branching in branchings:
        refused = branching.alternatives[0]
        last = refused.steps[-1]
        assert (last.action, last.admissible, last.reward) == ("open Nowhere", False, 0.0)
        assert refused.last_observation == f"Not possible . {last.observation}" and not refused.terminated
        assert all(one.steps[-1].admissible for one in branching.alternatives[1:])
    shares = coverage(branchings)
    assert shares["refused"] == len(branchings) / sum(len(b.outcomes) for b in branchings)


def test_the_experts_own_action_is_no_alternative_even_if_proposed():
    for branching in branch_off(DEMONSTRATIONS[:2], 4, 0, lambda cs: [[c.world.expert_action()] for c in cs]):
        expert, tried = taken(branching)
        assert expert not in tried


def test_to_finish_is_no_action_of_a_world_and_is_not_tried():
    for branching in branch_off(DEMONSTRATIONS[:2], 2, 0, lambda cs: [["finish", "", "home"] for _ in cs]):
        assert not {"finish", ""} & set(taken(branching)[1])


def test_trying_leaves_the_demonstrations_own_world_as_it_was():
    # Were alternatives done in one world, the next state would not be the one that the expert saw.
    for k in (1, 8):
        for branching in branch_off(DEMONSTRATIONS, k, 0):
            world = replayed(branching.expert)
            assert branching.state == world.state
            assert branching.expert.last_observation == world.step(taken(branching)[0])[0]


def test_the_seed_alone_decides_also_in_another_process():
    code = (
        "from tests.agents.test_experience import DEMONSTRATIONS, branch_off, taken\n"
        "print([taken(branching) for branching in branch_off(DEMONSTRATIONS, 2, 7)])"
    )
    # Another hash seed than this process has, so that sets are gone through in another order.
    elsewhere = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert elsewhere == str([taken(branching) for branching in branch_off(DEMONSTRATIONS, 2, 7)])
    assert branch_off(DEMONSTRATIONS, 2, 7) == branch_off(DEMONSTRATIONS, 2, 7)
    assert branch_off(DEMONSTRATIONS, 2, 7) != branch_off(DEMONSTRATIONS, 2, 8)


def test_what_is_sampled_for_proposals_is_what_the_policy_writes():
    contexts = []
    branch_off(DEMONSTRATIONS[:1], 1, 0, lambda cs: contexts.extend(cs) or [()] * len(cs))
    texts = ["Action: back", "no action", "Thought: hm\nAction: home"]
    tried = iter(texts)

    class Changing(Scripted):
        def write(self, contexts, generator):
            return [Written(next(tried))] * len(contexts)

    found = sampled_proposals(Changing(["Action: ok"], TextForm()), 3, 0)(contexts)
    assert [[a for a in names if a] for names in found] == [["back", "home"]] * len(contexts)


def test_proposals_hang_on_their_seed():
    contexts = []
    branch_off(DEMONSTRATIONS, 1, 0, lambda cs: contexts.extend(cs) or [()] * len(cs))
    found = {s: sampled_proposals(NoisyExpert(0.9), 3, s)(contexts) for s in (0, 1)}
    assert found[0] == sampled_proposals(NoisyExpert(0.9), 3, 0)(contexts) != found[1]
    # As a plain loop over tries would draw them.
    generator, policy = seeded(0), NoisyExpert(0.9)
    rounds = [policy.write(contexts, generator) for _ in range(3)]
    assert found[0] == [[w.text.removeprefix("Action: ") for w in ws] for ws in zip(*rounds, strict=True)]


@pytest.mark.parametrize("k", [0, -1])
def test_less_than_one_alternative_is_refused(k):
    with pytest.raises(ValueError, match=f"k is {k}; at least 1 alternative"):
        branch_off(DEMONSTRATIONS, k, 0)


def test_a_demonstration_of_another_version_of_the_world_is_refused():
    good = DEMONSTRATIONS[0]
    steps = (good.steps[0], replace(good.steps[1], observation="Settings : Elsewhere"), *good.steps[2:])
    with pytest.raises(ValueError, match="observation 2 of .* was recorded as 'Settings : Elsewhere'"):
        branch_off([replace(good, steps=steps)], 1, 0)
    with pytest.raises(ValueError, match="'Home : Elsewhere'.* played in this version of the world"):
        branch_off([replace(good, last_observation="Home : Elsewhere")], 1, 0)


def episode(task, *observations, actions=None, admissible=True):
    """An episode of PhoneWorld by hand; the observations are before each step and after the last."""
    actions = actions or ["go"] * (len(observations) - 1)
    steps = [Step(o, "", a) for o, a in zip(observations[:-1], actions, strict=True)]
    steps[-1] = replace(steps[-1], admissible=admissible)
    return Trajectory(PhoneWorld.id, task, "g", tuple(steps), observations[-1], False, False)


def test_coverage_of_a_case_counted_by_hand():
    one, two = {"goal": 1}, {"goal": 2}
    branchings = [
        Branching(
            episode(one, "A", "B"),
            (
                episode(one, "A", "C", actions=["x"]),
                episode(one, "A", "A", actions=["y"], admissible=False),
            ),
            state=0,
        ),
        # The expert comes by B and by D, so that D is nothing new, but C is; state 0 again, but for y.
        Branching(episode(one, "A", "B", "D"), (episode(one, "A", "B", "D", actions=["go", "x"]),), state=0),
        # Another episode, which never saw D.
        Branching(episode(two, "A", "B"), (episode(two, "A", "D", actions=["x"]),), state=0),
    ]
    assert coverage(branchings) == {
        "states": 3,
        "triples": 7,
        "distinct": 5 / 7,
        "refused": 1 / 7,
        "beyond expert": 2 / 7,
    }


def test_coverage_counts_the_same_action_in_other_states_and_episodes_apart():
    both = [Branching(episode({"goal": g}, "A", "B"), (), state) for g in (1, 2) for state in (0, 1)]
    assert coverage(both)["distinct"] == 1
    assert coverage(both * 2)["distinct"] == 0.5


def test_a_planted_leak_is_found_and_nothing_else():
    branchings = branch_off(DEMONSTRATIONS, 2, 0)
    held_back = [(PhoneWorld.id, PhoneWorld.pack_task(task)) for task in phone_tasks("test")]
    fresh = [*phone_demonstrations(95, 1)[:1], *craft_demonstrations(3, 5)]
    fresh = [t for t in fresh if (t.world, t.task) not in [(d.world, d.task) for d in DEMONSTRATIONS]]
    assert fresh and leaked_tasks(branchings, [*held_back, *fresh]) == 0
    for leak in (DEMONSTRATIONS[1], DEMONSTRATIONS[-1]):
        assert leaked_tasks(branchings, [*held_back, *fresh, leak]) == 1
        assert leaked_tasks(branchings, [*held_back, (leak.world, leak.task), leak]) == 1
    assert leaked_tasks(branchings, DEMONSTRATIONS[:3]) == 3
    # The same task is another one in another world.
    assert leaked_tasks(branchings, [("another world", DEMONSTRATIONS[0].task)]) == 0


def test_a_leak_does_not_hide_behind_another_policys_episode():
    (task,) = phone_tasks("test")[:1]
    (played,) = play([PhoneWorld(max_steps=5)], NoisyExpert(1.0), [task])
    branchings = branch_off([played], 1, 0)
    assert leaked_tasks(branchings, [(PhoneWorld.id, PhoneWorld.pack_task(task))]) == 1
