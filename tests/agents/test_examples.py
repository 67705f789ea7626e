"""Training sequences: masks by hand, nothing of an observation, ids as they were sampled."""

from dataclasses import replace

import pytest

from labkit.agents.examples import examples, outcome_example, without_thoughts
from labkit.agents.forms import INVENTED, WordForm
from labkit.agents.history import History
from labkit.agents.policies import NoisyExpert
from labkit.agents.react import play
from labkit.agents.thoughts import expert_thought
from labkit.agents.words import tokenizer
from labkit.envs.craft.env import CraftWorld
from labkit.envs.phone.env import PhoneWorld
from labkit.envs.trajectory import Step, Trajectory

FORM = WordForm(tokenizer())
KINDS = (
    History(),
    History(thoughts=False),
    History(observations=False),
    History(thoughts=False, observations=False),
    History("window", window=1),
    History("window", window=2, thoughts=False),
    History("summary"),
    History("none"),
)
STEPS = (
    Step("Home : Maps", "WiFi off", "open Settings"),
    Step("Settings : Chat", "", "open Network", trained=False),
    Step("Network : Camera", "needs WiFi", "open WiFi"),
    Step("WiFi : off", "yes", "home", trained=False),
)
HAND = Trajectory("labkit/PhoneWorld-v0", {}, "open the WiFi", STEPS, "Home : Maps", False, True)


def marked(example):
    """The words of an example; those that are trained on in capitals."""
    ids, keep = example
    assert len(ids) == len(keep)
    words = FORM.text(ids).split()
    return " ".join(word.upper() if kept else word for word, kept in zip(words, keep, strict=True))


def test_a_whole_episode_is_one_sequence_up_to_its_last_trained_step():
    assert [marked(example) for example in examples(HAND, FORM)] == [
        "<bos> open the WiFi <obs> Home : Maps <THINK> WIFI OFF <ACT> OPEN SETTINGS <EOS> "
        "<obs> Settings : Chat <act> open Network <eos> "
        "<obs> Network : Camera <THINK> NEEDS WIFI <ACT> OPEN WIFI <EOS>"
    ]


def test_a_blind_episode_shows_its_first_observation_only():
    assert [marked(example) for example in examples(HAND, FORM, History(observations=False))] == [
        "<bos> open the WiFi <obs> Home : Maps <THINK> WIFI OFF <ACT> OPEN SETTINGS <EOS> "
        "<act> open Network <eos> <THINK> NEEDS WIFI <ACT> OPEN WIFI <EOS>"
    ]


@pytest.mark.parametrize(
    "history, second",
    [
        (
            History("window", window=1),
            "<bos> open the WiFi <obs> Settings : Chat <act> open Network <eos> <obs> Network : Camera",
        ),
        (
            History(thoughts=False),
            "<bos> open the WiFi <obs> Home : Maps <act> open Settings <eos> <obs> Settings : Chat "
            "<act> open Network <eos> <obs> Network : Camera",
        ),
        (
            History("summary"),
            "<bos> open the WiFi <done> open Settings , open Network <obs> Network : Camera",
        ),
        (History("none"), "<bos> open the WiFi <obs> Network : Camera"),
    ],
)
def test_other_histories_give_one_sequence_for_each_trained_step(history, second):
    # What the history drops, the step itself still thinks.
    assert [marked(example) for example in examples(HAND, FORM, history)] == [
        "<bos> open the WiFi <obs> Home : Maps <THINK> WIFI OFF <ACT> OPEN SETTINGS <EOS>",
        f"{second} <THINK> NEEDS WIFI <ACT> OPEN WIFI <EOS>",
    ]


@pytest.mark.parametrize("history", KINDS, ids=str)
def test_what_is_kept_are_the_trained_steps_and_nothing_of_goal_or_observation(history):
    worlds = [PhoneWorld() for _ in range(4)] + [CraftWorld() for _ in range(2)]
    for i, found in enumerate(play(worlds, NoisyExpert(0.3, expert_thought), seed=5)):
        found = found.with_mask([(t + i) % 3 > 0 for t in range(len(found.steps))])
        kept = [
            token
            for ids, keep in examples(found, FORM, history)
            for token, kept in zip(ids, keep, strict=True)
            if kept
        ]
        steps = [FORM.ids(FORM.write(s.thought, s.action)) for s in found.steps if s.trained]
        assert kept == [token for ids in steps for token in ids]
        assert not {"<obs>", "<bos>", "<done>", "<pad>"} & set(FORM.text(kept).split())


@pytest.mark.parametrize("history", KINDS, ids=str)
def test_without_a_trained_step_there_is_nothing_to_learn(history):
    assert examples(HAND.with_mask([False] * 4), FORM, history) == []
    assert examples(replace(HAND, steps=()), FORM, history) == []


@pytest.mark.parametrize("history", KINDS, ids=str)
def test_ids_that_were_sampled_are_never_tokenised_again(history):
    # Ids that tokenising thought and action would not give.
    odd = tuple(FORM.ids("<think> Chat Chat <act> ok <eos>"))
    steps = (STEPS[0], replace(STEPS[2], ids=odd, logprobs=(-1.0,) * len(odd)))
    ids, keep = examples(replace(HAND, steps=steps), FORM, history)[-1]
    assert ids[-len(odd) :] == list(odd) and keep[-len(odd) :] == [True] * len(odd)
    if history.kind in ("full", "window") and history.thoughts:
        third = examples(replace(HAND, steps=(*steps, STEPS[0])), FORM, history)[-1][0]
        text = FORM.text(third)
        assert FORM.text(odd) in text and "needs" not in text


@pytest.mark.parametrize("history", KINDS, ids=str)
def test_an_observation_that_the_policy_wrote_is_not_learnt(history):
    written = "<act> open Network <eos> <obs> Bluetooth : on <eos>"
    steps = (replace(STEPS[0], written=written, failures=(INVENTED,)), STEPS[2])
    found = examples(replace(HAND, steps=steps), FORM, history)
    assert all("Bluetooth" not in FORM.text(ids) for ids, _ in found)


def test_a_policy_that_only_acts_learns_from_the_same_episode_without_thoughts():
    quiet = without_thoughts(HAND)
    assert [step.action for step in quiet.steps] == [step.action for step in STEPS]
    assert [step.observation for step in quiet.steps] == [step.observation for step in STEPS]
    assert [step.trained for step in quiet.steps] == [step.trained for step in STEPS]
    assert marked(examples(quiet, FORM)[0]) == (
        "<bos> open the WiFi <obs> Home : Maps <ACT> OPEN SETTINGS <EOS> <obs> Settings : Chat "
        "<act> open Network <eos> <obs> Network : Camera <ACT> OPEN WIFI <EOS>"
    )
    assert without_thoughts(quiet) == quiet


def test_dropping_thoughts_drops_the_ids_that_held_one_and_no_others():
    thinking, acting = tuple(FORM.ids("<think> yes <act> back <eos>")), tuple(FORM.ids("<act> home <eos>"))
    steps = (
        Step("Home :", "yes", "back", ids=thinking, logprobs=(-1.0,) * 5),
        Step("Home :", "", "home", ids=acting, logprobs=(-1.0,) * 3),
        Step("Home :", "", "", failures=("format",), written="<think> yes", ids=thinking[:2]),
    )
    quiet = without_thoughts(replace(HAND, steps=steps)).steps
    assert [(step.ids, step.written) for step in quiet] == [((), None), (acting, None), ((), None)]
    assert quiet[1] == steps[1]


def test_the_world_models_view_keeps_the_next_observation_and_its_end():
    assert marked(outcome_example(HAND, FORM)) == (
        "<bos> open the WiFi <obs> Home : Maps <think> WiFi off <act> open Settings <eos> "
        "<obs> Settings : Chat <act> open Network <eos> "
        "<obs> Network : Camera <think> needs WiFi <act> open WiFi <eos> "
        "<obs> WiFi : off <think> yes <act> home <eos> <obs> HOME : MAPS <EOS>"
    )
    first = replace(HAND, steps=STEPS[1:2], last_observation="Not possible .\nSettings : Chat")
    assert marked(outcome_example(first, FORM)) == (
        "<bos> open the WiFi <obs> Settings : Chat <act> open Network <eos> "
        "<obs> NOT POSSIBLE . SETTINGS : CHAT <EOS>"
    )


def test_the_world_models_view_begins_what_the_policy_would_see_next():
    worlds = [PhoneWorld(max_steps=6) for _ in range(4)] + [CraftWorld(max_steps=6) for _ in range(4)]
    for found in play(worlds, NoisyExpert(0.5), seed=2):
        for t in range(1, len(found.steps) + 1):
            triple = replace(found, steps=found.steps[:t], last_observation=found.observation(t + 1))
            ids, keep = outcome_example(triple, FORM)
            prompt = FORM.prompt_ids(found.goal, found.history(t + 1), found.observation(t + 1))
            assert ids == prompt + FORM.ids("<eos>")
            seen = len(found.observation(t + 1).split())
            assert keep == [False] * (len(ids) - seen - 1) + [True] * (seen + 1)


def test_whether_a_step_is_trained_says_nothing_about_its_outcome():
    assert outcome_example(HAND.with_mask([False] * 4), FORM) == outcome_example(HAND, FORM)


def test_ids_that_were_sampled_stay_before_their_outcome():
    odd = tuple(FORM.ids("<think> Chat Chat <act> ok <eos>"))
    ids, keep = outcome_example(replace(HAND, steps=(replace(STEPS[0], ids=odd),)), FORM)
    assert FORM.text(ids).endswith(f"{FORM.text(odd)} <obs> Home : Maps <eos>")
    assert FORM.text([i for i, kept in zip(ids, keep, strict=True) if kept]) == "Home : Maps <eos>"


def test_an_episode_without_a_step_has_no_outcome():
    with pytest.raises(ValueError, match="a triple needs a step"):
        outcome_example(replace(HAND, steps=()), FORM)
