"""Rationales: outcomes against the hidden state, the check against planted lies, the form of the control."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from labkit.agents.cloning import craft_demonstrations, phone_demonstrations
from labkit.agents.experience import Branching, branch_off
from labkit.agents.forms import TextForm, WordForm
from labkit.agents.lm_policies import LONGEST_STEP
from labkit.agents.policies import NoisyExpert, Scripted
from labkit.agents.rationales import (
    clause,
    conclusion,
    is_grounded,
    outcome,
    rationale,
    reason_at,
    reflections,
    shuffled_reflections,
    world_before,
)
from labkit.agents.react import play
from labkit.agents.words import tokenizer
from labkit.envs.craft.env import CraftWorld
from labkit.envs.craft.tasks import make_task
from labkit.envs.phone.env import PhoneWorld
from labkit.envs.phone.goals import Task, single
from labkit.envs.phone.rules import look
from labkit.envs.trajectory import Step, Trajectory

FORM = WordForm(tokenizer())
PROPOSED = ["open Nowhere", "open Search", "craft moon", "get rope"]
PHONE = branch_off(phone_demonstrations(95, 0), 8, 0)
CRAFT = branch_off(craft_demonstrations(60, 0), 8, 0)
BOTH = [*PHONE[::4], *CRAFT[::3]]
FIXED = make_task("rope", names="fixed")  # rope of 2 thread, thread of 1 wool
WIFI = Task(single("on", "wifi"), airplane=True)


def done(world, task, *actions):
    """An episode of these actions, ending where the last of them led to."""
    (found,) = play([world(max_steps=len(actions))], Scripted([f"Action: {a}" for a in actions]), [task])
    assert [step.action for step in found.steps] == list(actions)
    return found


@pytest.mark.parametrize(
    "actions, told",
    [
        (["open Settings"], "Settings"),
        (["open Settings", "open Network"], "Network"),
        (["open Settings", "open Network", "open WiFi"], "WiFi off"),
        (["open Settings", "open Network", "open WiFi", "toggle WiFi"], "Blocked by airplane"),
        (["open Settings", "open Network", "open WiFi", "toggle WiFi", "ok"], "WiFi off"),
        (["open Settings", "open Network", "open Airplane", "toggle Airplane"], "Airplane off"),
        (["open Settings", "back"], "Home airplane"),
        (["open Maps"], "Allow location ?"),
        (["open Maps", "allow"], "Maps location allowed"),
        (["open Maps", "deny"], "Maps location denied"),
        (["open Settings", "open Search"], "Search"),
        (["open Nowhere"], "Not possible"),
        (["open Nowhere", "open Elsewhere"], "Not possible"),
        (["open Nowhere", "open Maps"], "Allow location ?"),
    ],
)
def test_outcomes_on_the_phone(actions, told):
    assert outcome(done(PhoneWorld, WIFI, *actions)) == told


@pytest.mark.parametrize(
    "actions, told",
    [
        (["get wool"], "1 wool"),
        (["get wool", "get wool"], "2 wool"),
        (["wait"], "nothing"),
        (["get wool", "wait"], "nothing"),
        (["get wool", "craft thread"], "1 thread"),
        (["get wool", "get wool", "craft thread"], "1 thread , 1 wool"),
        (["craft rope"], "missing 2 thread"),
        (["get wool", "craft thread", "craft rope"], "missing 1 thread"),
        (["craft rope", "craft rope"], "missing 2 thread"),
        (["craft rope", "wait"], "nothing"),
        (["craft rope", "get wool"], "1 wool"),
        (["get rope"], "cannot do that"),
        (["get wool"] * 10, "full : wool"),
        (["get wool", "get wool", "craft thread", "craft thread", "craft rope"], "1 rope"),
    ],
)
def test_outcomes_of_crafting(actions, told):
    assert outcome(done(CraftWorld, FIXED, *actions)) == told


def phone_oracle(before, after, admissible):
    """From the hidden state: the screen's parts."""
    screen = look(after.task.layout, after.state)
    if not admissible:
        return "Not possible"
    if screen == look(before.task.layout, before.state):
        return "nothing"
    words = screen.title + (" airplane" if screen.airplane else "")
    return f"{words} {screen.lines[0]}" if screen.kind == "page" else words


def craft_oracle(before, after, admissible):
    """From the inventories; a refusal by its kind."""
    if admissible:
        pairs = zip(after.task.items, before.state.inventory, after.state.inventory, strict=True)
        return " , ".join(f"{now} {item}" for item, had, now in pairs if now not in (0, had)) or "nothing"
    return None


@pytest.mark.parametrize("make, oracle", [(PhoneWorld, phone_oracle), (CraftWorld, craft_oracle)])
def test_outcomes_are_those_of_the_hidden_state(make, oracle):
    walks = play([make(max_steps=8) for _ in range(12)], NoisyExpert(0.8), seed=3)
    found = branch_off(walks, 4, 0, lambda contexts: [PROPOSED] * len(contexts))
    told = set()
    for triple in [triple for branching in found for triple in branching.outcomes]:
        before = world_before(triple)
        after = before.clone()
        admissible = after.step(triple.steps[-1].action)[-1]["admissible"]
        expected = oracle(before, after, admissible)
        if expected is None:
            assert re.fullmatch(r"missing \d \w+|full : \w+|cannot do that", outcome(triple))
            assert outcome(triple) == triple.last_observation.split("\n")[0]
        else:
            assert outcome(triple) == expected
        told.add(outcome(triple))
    assert len(told) > 10


def test_outcomes_of_other_worlds_are_not_told():
    other = Trajectory("labkit/Other-v0", {}, "g", (Step("a", "", "b"),), "c", False, False)
    with pytest.raises(ValueError, match="no outcomes are told for labkit/Other-v0; there are labkit/Phone"):
        outcome(other)


def test_a_rationale_in_words():
    tried, chosen = ("craft rope", "missing 1 thread"), ("get wool", "1 wool")
    expected = (
        "craft rope leads to missing 1 thread ; thread needs 1 wool have nothing ; get wool leads to 1 wool"
    )
    for reason in ("thread needs 1 wool have nothing", "thread needs 1 wool have nothing ; get wool"):
        assert rationale(tried, reason, chosen) == expected
    assert rationale(tried, "", chosen) == "craft rope leads to missing 1 thread ; get wool leads to 1 wool"
    assert rationale(tried, "get wool", chosen) == rationale(tried, "", chosen)
    assert conclusion(expected) == "get wool"
    assert rationale(("wait", "1 wool"), "reason", chosen) is None


@pytest.mark.parametrize("text", ["", "get wool", "wait leads to nothing ; get wool", "a ; b ; c"])
def test_a_text_without_an_outcome_at_its_end_concludes_nothing(text):
    assert conclusion(text) == ""


def test_the_reflections_of_an_episode_told_by_hand():
    demonstration = done(CraftWorld, FIXED, "get wool", "get wool")
    first, second = branch_off([demonstration], 8, 0, lambda contexts: [["craft rope"]] * len(contexts))
    assert sorted(reflections([first])[0]) == [
        "craft rope leads to missing 2 thread ; rope needs 2 thread have nothing ; "
        "thread needs 1 wool have nothing ; get wool leads to 1 wool",
        "wait leads to nothing ; rope needs 2 thread have nothing ; "
        "thread needs 1 wool have nothing ; get wool leads to 1 wool",
    ]
    # The expert of the world crafts here, and so does not end its thought in what was done.
    assert reason_at(second).endswith("thread needs 1 wool have 1 ; craft thread")
    assert reason_at(first).endswith("thread needs 1 wool have nothing")


def test_a_reason_is_the_experts_thought_at_the_state_before():
    shown = {}
    for demonstration in (*phone_demonstrations(95, 0), *craft_demonstrations(60, 0)):
        for t, step in enumerate(demonstration.steps):
            shown[str(demonstration.task), t] = step
    for branching in BOTH:
        step = shown[str(branching.expert.task), len(branching.expert.steps) - 1]
        reason = reason_at(branching)
        assert step.thought in (reason, f"{reason} ; {step.action}", f"{reason}{step.action}")
        assert not reason.endswith(f"; {step.action}")
        assert world_before(branching.expert).state == branching.state


def test_reflections_say_what_was_seen_and_leave_out_what_tells_nothing_apart():
    for branching, texts in zip(BOTH, reflections(BOTH), strict=True):
        action, led_to = branching.expert.steps[-1].action, outcome(branching.expert)
        worth_telling = [t for t in branching.alternatives if outcome(t) != led_to]
        assert len(texts) == len(worth_telling)
        for text, triple in zip(texts, worth_telling, strict=True):
            assert text.startswith(f"{triple.steps[-1].action} leads to {outcome(triple)} ; ")
            assert text.endswith(f" ; {action} leads to {led_to}") or not reason_at(branching)
            assert text.count(" leads to ") == 2
            assert conclusion(text) == action
            assert is_grounded(text, branching)


def test_alternatives_that_lead_to_the_same_are_dropped_somewhere():
    # Else the case above would never be met.
    assert sum(map(len, reflections(PHONE))) < sum(len(b.alternatives) for b in PHONE)


def lies(text, branching):
    """The same rationale with one thing that is wrong, by its kind."""
    tried, *between, chosen = text.split(" ; ")
    action, led_to = chosen.split(" leads to ")
    alternative, seen = tried.split(" leads to ")

    def told(*parts):
        return " ; ".join([*parts[:1], *between, *parts[1:]])

    yield "wrong outcome of the alternative", told(clause(alternative, "1 anchor"), chosen)
    yield "wrong outcome of the conclusion", told(tried, clause(action, "1 anchor"))
    yield "outcomes of each other", told(clause(alternative, led_to), clause(action, seen))
    yield "conclusion of the alternative", told(chosen, tried)
    yield "an action that nobody tried", told(clause("craft moon", seen), chosen)
    yield "an outcome that says more", told(clause(alternative, f"{seen} now"), chosen)
    yield "an outcome that says less", told(tried, clause(action, ""))
    yield "no conclusion", " ; ".join([tried, *between])
    yield "no outcome at the end", told(tried, action)
    yield "a lie in the middle", " ; ".join([tried, "craft moon leads to 1 moon", chosen])
    yield "nothing", ""


def test_planted_lies_are_refused():
    kinds = set()
    for branching, texts in zip(BOTH, reflections(BOTH), strict=True):
        for text in texts[:1]:
            for kind, lie in lies(text, branching):
                assert not is_grounded(lie, branching), kind
                kinds.add(kind)
    assert len(kinds) == 11


def test_what_was_seen_elsewhere_is_no_ground():
    (demonstration,) = craft_demonstrations(1, 0)
    here, later = branch_off([demonstration], 8, 0)[:2]
    for text in reflections([here])[0]:
        assert is_grounded(text, here)
        assert not is_grounded(text, replace(here, alternatives=()))
        assert not is_grounded(text, Branching(later.expert, here.alternatives))


@pytest.mark.parametrize("branchings", [PHONE, CRAFT], ids=["phone", "craft"])
def test_the_control_keeps_form_and_conclusion_and_loses_the_truth(branchings):
    shuffled = shuffled_reflections(branchings, 0)
    assert len(shuffled) == len(branchings)
    grounded = []
    for branching, texts in zip(branchings, shuffled, strict=True):
        tried = [triple.steps[-1].action for triple in branching.alternatives]
        named = [text.partition(" leads to ")[0] for text in texts]
        # At most one an alternative, in the same order.
        assert [name for name in tried if name in named] == named
        assert all(conclusion(text) == branching.expert.steps[-1].action for text in texts)
        assert all(text.count(" leads to ") == 2 for text in texts)
        grounded += [is_grounded(text, branching) for text in texts]
    assert sum(grounded) < 0.02 * len(grounded)
    assert len(grounded) > 0.8 * sum(map(len, reflections(branchings)))


def test_the_control_names_no_second_action_before_its_conclusion():
    # A thought of CraftWorld ends in its state's action; left in another state's text it would make the
    # control contradict itself, which true rationales never do.
    for texts in (reflections(CRAFT), shuffled_reflections(CRAFT, 0)):
        parts = [part for found in texts for text in found for part in text.split(" ; ")]
        assert not [p for p in parts if re.match("(get|craft) ", p) and " leads to " not in p]


def test_the_control_deals_out_what_was_seen_and_nothing_else():
    small = CRAFT[:40]
    seen = {outcome(triple) for b in small for triple in b.outcomes}
    reasons = {reason_at(b) for b in small}
    for texts in shuffled_reflections(small, 1):
        for text in texts:
            first, *between, last = text.split(" ; ")
            assert " ; ".join(between) in reasons
            assert {first.split(" leads to ")[1], last.split(" leads to ")[1]} <= seen
    assert shuffled_reflections(small, 1) == shuffled_reflections(small, 1) != shuffled_reflections(small, 2)


@pytest.mark.parametrize("branchings", [PHONE, CRAFT], ids=["phone", "craft"])
@pytest.mark.parametrize(
    "write", [reflections, lambda b: shuffled_reflections(b, 0)], ids=["true", "shuffled"]
)
def test_every_rationale_is_in_the_vocabulary_and_fits_a_step(branchings, write):
    for branching, texts in zip(branchings, write(branchings), strict=True):
        for text in texts:
            step = FORM.write(text, branching.expert.steps[-1].action)
            assert len(FORM.ids(step)) <= LONGEST_STEP
            assert FORM.parse(step).thought == text
            assert TextForm().parse(TextForm().write(text, "go")).thought == text
