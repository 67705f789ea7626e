"""The closed vocabulary: every word of both worlds and of every thought has a token of its own."""

import random

import pytest

from labkit.agents.thoughts import expert_thought
from labkit.agents.words import SPECIAL, THOUGHT_WORDS, tokenizer, vocabulary
from tests.envs.walks import make


def test_the_order_begins_with_the_layouts_tokens_and_repeats_nothing():
    assert (
        vocabulary()[:9]
        == SPECIAL
        == tuple("<pad> <bos> <eos> <obs> <think> <act> <done> <ask> <answer>".split())
    )
    assert len(set(vocabulary())) == len(vocabulary())


def test_the_tokenizer_gives_the_positions_as_ids():
    words = tokenizer()
    assert words.convert_ids_to_tokens(list(range(len(words)))) == list(vocabulary())
    assert (words.pad_token_id, words.bos_token_id, words.eos_token_id) == (0, 1, 2)


@pytest.mark.parametrize(
    "world, options",
    [
        ("labkit/PhoneWorld-v0", {"tasks": "many_phones"}),
        ("labkit/PhoneWorld-v0", {"tasks": "known_phone"}),
        ("labkit/CraftWorld-v0", {"tasks": "more_distractors"}),
        ("labkit/CraftWorld-v0", {"tasks": "deeper"}),
    ],
)
def test_every_text_of_the_worlds_and_every_thought_is_made_of_these_words(world, options):
    env, draw, met = make(world, **options), random.Random(0), set()
    observation, info = env.reset(seed=0)
    met.update(f"{info['goal']} {observation}".split())
    for _ in range(400):
        met.update(expert_thought(env).split())
        actions = [*env.admissible_actions(), env.expert_action(), "craft nonsense", "back"]
        action = draw.choice(actions)
        observation, _, terminated, truncated, _ = env.step(action)
        met.update(observation.split())
        if "nonsense" not in action:
            met.update(action.split())
        if terminated or truncated:
            observation, info = env.reset()
            met.update(f"{info['goal']} {observation}".split())
    assert met <= set(vocabulary())


def test_no_word_for_thoughts_is_idle():
    env = make("labkit/PhoneWorld-v0")
    craft = make("labkit/CraftWorld-v0")
    met = set()
    for world, seeds in ((env, 60), (craft, 3)):
        for seed in range(seeds):
            world.reset(seed=seed)
            while not world.is_over:
                met.update(expert_thought(world).split())
                world.step(world.expert_action())
    assert {word for word in THOUGHT_WORDS.split() if word not in ("yes", "no")} <= met
