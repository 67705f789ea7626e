"""The reading corpus: answers found again by readers of the text alone, and what must not be in it."""

import random
import re
from collections import Counter, defaultdict

import pytest

from labkit.agents.reading import (
    LONGEST_ANSWER,
    READING_PHONES,
    TEST_PHONES,
    craft_scene,
    draw_book,
    draw_phone,
    draw_scene,
    phone_scene,
    prompt,
    sequence,
)
from labkit.agents.words import vocabulary
from labkit.envs.craft.recipes import TABLE
from labkit.envs.phone.goals import HELD_OUT_PHONES, TRAINING_PHONES, split_goals
from labkit.envs.phone.layout import STANDARD
from labkit.envs.phone.rules import State, observe


def parts(scene):
    """(goal, observations shown, actions, whether it is a summary), cut out of the scene's text."""
    text = " ".join(scene.words)
    assert text.startswith("<bos> ")
    goal, *rest = re.split(" <obs> ", text.removeprefix("<bos> "))
    goal, _, done = goal.partition(" <done> ")
    observations, actions = [], done.split(" , ") if done else []
    for piece in rest:
        observation, _, action = piece.partition(" <act> ")
        observations.append(observation)
        if action:
            assert action.endswith(" <eos>")
            actions.append(action.removesuffix(" <eos>"))
    assert len(observations) == 1 if done else len(observations) == len(actions) + 1
    return goal, observations, actions, bool(done)


def bare(observation):
    """An observation without what an inadmissible action was answered."""
    return re.sub("^(Not possible . |cannot do that |missing .* (?=have :)|full : \\w+ )", "", observation)


def read_craft(question, scene):
    goal, observations, actions, _ = parts(scene)
    lines = re.findall(r"craft (\w+) using (.*?)(?= craft | goal )", goal.removeprefix("recipes : "))
    item, _, kind = question.text.rpartition(" ")
    if kind == "needs":
        return dict(lines).get(item, "nothing")
    if kind in ("have", "had"):
        seen = bare(observations[-1 if kind == "have" else -2])
        held = dict(
            reversed(pair.split()) for pair in seen.removeprefix("have : ").split(" , ") if " " in pair
        )
        return held.get(item, "nothing")
    refused = bare(observations[-1]) != observations[-1]
    return {"goal": goal.split()[-1], "last": (actions or [""])[-1], "possible": "no" if refused else "yes"}[
        kind
    ]


def offered(screen):
    """The actions of a screen by its text; None for the search box, whose actions are not on it."""
    title, _, shown = screen.partition(" :")
    if title.split()[0] == "Home":
        return [f"open {word}" for word in shown.split() if word != ","]
    if title == "Blocked by airplane":
        return ["ok", "home"]
    if not shown:
        return None
    if title.startswith("Allow"):
        own = ["allow", "deny"]
    elif "location" in shown:
        own = ["reset"]
    elif shown.strip() in ("on", "off"):
        own = [f"toggle {title}"]
    else:
        own = [f"open {word}" for word in shown.split() if word != ","]
    return [*own, "back", "home"]


def read_phone(question, scene):
    goal, observations, actions, _ = parts(scene)
    screens = [bare(o) for o in observations]
    titles = [screen.partition(" :")[0].removesuffix(" airplane") for screen in screens]
    # "Blocked by airplane" is the one title that ends in the word.
    titles = ["Blocked by airplane" if title == "Blocked by" else title for title in titles]
    here, kind = offered(screens[-1]), question.kind.split()[1]
    if kind == "goal":
        return " , ".join(re.findall(r"\b[A-Z]\w+", goal))
    if kind == "can":
        action = question.text.removeprefix("can ")
        return "yes" if action in (here or ["back", "home"]) else "no"
    if kind == "shows":
        name = question.text.removesuffix(" shows")
        return [s for s in screens if s.startswith(f"{name} : ")][-1].partition(" : ")[2]
    if kind == "airplane":
        return "on" if [s for s in screens if s.startswith("Home")][-1].startswith("Home airplane") else "off"
    refused = bare(observations[-1]) != observations[-1]
    return {
        "here": titles[-1],
        "before": titles[-2] if len(titles) > 1 else "",
        "offers": " , ".join(here or []),
        "last": (actions or [""])[-1],
        "possible": "no" if refused else "yes",
    }[kind]


@pytest.mark.parametrize("draw, read", [(craft_scene, read_craft), (phone_scene, read_phone)])
def test_every_answer_stands_in_the_text(draw, read):
    rng, answers = random.Random(0), defaultdict(Counter)
    for _ in range(1200):
        scene = draw(rng)
        for question in scene.questions:
            assert read(question, scene) == question.answer, (" ".join(scene.words), question)
            answers[question.kind][question.answer] += 1
        assert len({question.text for question in scene.questions}) == len(scene.questions) > 0
        assert set(" ".join(prompt(scene, scene.questions[0])).split()) <= set(vocabulary())
    for kind, counts in answers.items():
        # No answer is right nearly always, or the test of reading would test nothing.
        assert counts.most_common(1)[0][1] < 0.85 * counts.total(), (kind, counts)
        assert max(len(answer.split()) for answer in counts) <= LONGEST_ANSWER


def test_answers_alone_are_trained_on():
    rng = random.Random(1)
    for _ in range(300):
        scene = draw_scene(rng)
        words, keep = sequence(scene, 160)
        assert len(words) == len(keep) and words[: len(scene.words)] == list(scene.words)
        asked = " ".join(words[len(scene.words) :]).split("<ask> ")[1:]
        assert len(asked) >= min(3, len(scene.questions))
        assert len(words) <= 160 or len(asked) == min(3, len(scene.questions))
        kept = " ".join(word for word, kept in zip(words, keep, strict=True) if kept)
        expected = [f"{question.answer} <eos>" for question in scene.questions[: len(asked)]]
        assert kept == " ".join(expected)
        for question, text in zip(scene.questions, asked, strict=False):
            assert text.strip() == f"{question.text} <answer> {question.answer} <eos>"


def test_books_have_no_loop_and_are_not_the_tables():
    rng, drawn, from_table = random.Random(2), 0, 0
    known = {frozenset(used.items()) for used in TABLE.values()}
    for _ in range(200):
        book = draw_book(rng)
        uses = {recipe.item: {name for name, _ in recipe.ingredients} for recipe in book.book}
        left = dict(uses)
        while ready := [item for item, used in left.items() if not used & set(left)]:
            for item in ready:
                del left[item]
        assert not left
        drawn += len(uses)
        from_table += sum(
            dict(recipe.ingredients) == dict(TABLE.get(recipe.item, {})) for recipe in book.book
        )
    assert known and from_table < 0.01 * drawn


def test_no_map_is_in_the_corpus():
    assert not set(READING_PHONES) & {*TRAINING_PHONES, *HELD_OUT_PHONES, *TEST_PHONES}
    rng = random.Random(3)
    menus = [path for path in STANDARD.entries if path != "home"]
    screens = {observe(STANDARD, State(("home", menu))) for menu in menus} | {observe(STANDARD, State())}
    places = Counter()
    for _ in range(400):
        _, observations, _, _ = parts(phone_scene(rng))
        assert not screens & {bare(observation) for observation in observations}
        phone = draw_phone(rng, READING_PHONES)
        assert len(set(phone.label.values())) == len(phone.label)
        places.update(key for key, name in phone.names if name in ("WiFi", "Wireless", "WLAN"))
    # The names of the WiFi are anywhere: on some 5 % of the phones in the usual place.
    assert len(places) == len(STANDARD.label) and places["wifi"] < 0.15 * places.total()


def test_goals_are_those_of_training_and_no_question_is_about_what_to_do():
    rng, training = random.Random(4), {goal.text for goal in split_goals()[0]}
    kinds = set()
    for _ in range(400):
        scene = phone_scene(rng)
        assert parts(scene)[0] in training
        kinds |= {question.kind for question in (*scene.questions, *craft_scene(rng).questions)}
    assert kinds == {
        *(f"craft {kind}" for kind in ("goal", "needs", "have", "had", "last", "possible")),
        *(f"phone {kind}" for kind in "goal here offers can shows airplane before last possible".split()),
    }


def test_scenes_of_both_worlds_can_be_had_short():
    rng = random.Random(6)
    scenes = [draw_scene(rng, longest=32) for _ in range(60)]
    assert max(len(scene.words) for scene in scenes) <= 32
    assert 15 < sum("recipes" in scene.words for scene in scenes) < 45
    with pytest.raises(ValueError, match="31"):
        draw_scene(rng, longest=31)


def test_the_same_seed_gives_the_same_scenes():
    assert [draw_scene(random.Random(5)) for _ in range(2)][0] == draw_scene(random.Random(5))
    assert draw_scene(random.Random(5)) != draw_scene(random.Random(6))
