"""The gymnasium environment: gymnasium's own check, the two ends of an episode, one reward an outcome."""

import json
import subprocess
import sys
import warnings

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

import labkit.envs
from labkit.envs.points24 import compact
from labkit.envs.points24.data import multiset, split_hands
from labkit.envs.points24.forms import FORMS
from labkit.envs.points24.grading import BINARY_REWARDS, PAPER_REWARDS, Outcome
from labkit.envs.points24.json_form import feedback_text, prompt_text
from labkit.envs.points24.rules import FACES_AS_RANK, FACES_AS_TEN
from labkit.envs.points24.solver import is_solvable

HAND = (1, 8, 13, 8)  # A 8 K 8

RESPONSES = {
    "compact": {
        "correct": "1 8 10 8 ; 10 - 8 = 2 : 1 8 2 ; 1 + 2 = 3 : 8 3 ; 8 * 3 = 24 <eos>",
        "wrong_value": "1 8 10 8 ; 10 - 8 = 2 : 1 8 2 ; 1 + 2 = 3 : 8 3 ; 8 + 3 = 11 <eos>",
        "wrong_numbers": "1 8 10 8 ; 3 * 8 = 24 : 1 8 2 ; 1 + 2 = 3 : 8 3 ; 8 * 3 = 24 <eos>",
        "misread_cards": "1 8 13 8 ; 13 - 8 = 5 : 1 8 5 ; 1 + 5 = 6 : 8 6 ; 8 + 6 = 14 <eos>",
        "illegal": "1 8 10 8 ; 10 - 8 = 3 : 1 8 3 ; 1 * 3 = 3 : 8 3 ; 8 * 3 = 24 <eos>",
        "no_answer": "1 8 10 8",
    },
    "json": {
        name: json.dumps({"cards": ["A", "8", "K", "8"], "number": number, "formula": formula})
        for name, number, formula in [
            ("correct", [1, 8, 10, 8], "(10-8+1)*8=24"),
            ("wrong_value", [1, 8, 10, 8], "(10-8+1)+8=24"),
            ("wrong_numbers", [1, 8, 10, 8], "3*8=24"),
            ("misread_cards", [1, 8, 13, 8], "(10-8+1)*8=24"),
            ("illegal", [1, 8, 10, 8], "(10-8+1)*8=25"),
            ("no_answer", [1, 8, 10, 8], ""),
        ]
    },
}
both_forms = pytest.mark.parametrize("form", ["compact", "json"])


def make(**options):
    return gymnasium.make("labkit/Points24-v0", **options).unwrapped


@both_forms
@pytest.mark.parametrize("options", [{}, {"rule": FACES_AS_RANK, "hands": "test", "rewards": BINARY_REWARDS}])
def test_gymnasiums_check_passes_without_a_warning(form, options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make(form=form, **options))


@both_forms
@pytest.mark.parametrize("name", [o.value for o in Outcome])
def test_each_outcome_earns_its_one_value_from_the_table(form, name):
    # Pitfall 23.
    for rewards in (PAPER_REWARDS, BINARY_REWARDS, {o.value: i for i, o in enumerate(Outcome)}):
        env = make(form=form, rewards=rewards)
        env.reset(options={"hand": HAND})
        _, reward, terminated, truncated, info = env.step(RESPONSES[form][name])
        assert info["outcome"] == name
        assert reward == rewards[name] and type(reward) is float
        assert (terminated, truncated) == (name == "correct", False)


@both_forms
def test_a_correct_answer_terminates_even_on_the_last_turn(form):
    # Terminated: nothing more to earn. Truncated: there would have been. Never both.
    env = make(form=form, max_turns=3)
    env.reset(options={"hand": HAND})
    ends = [env.step(RESPONSES[form][name])[2:4] for name in ("illegal", "wrong_value", "correct")]
    assert ends == [(False, False), (False, False), (True, False)]


@both_forms
def test_used_up_attempts_truncate_and_do_not_terminate(form):
    env = make(form=form, max_turns=3)
    _, info = env.reset(options={"hand": HAND})
    assert info["turns_left"] == 3
    steps = [env.step(RESPONSES[form]["wrong_value"]) for _ in range(3)]
    assert [s[2:4] for s in steps] == [(False, False), (False, False), (False, True)]
    assert [s[4]["turns_left"] for s in steps] == [2, 1, 0]
    assert [s[1] for s in steps] == [-1.0] * 3


@both_forms
@pytest.mark.parametrize("name", ["correct", "illegal"])
def test_nothing_happens_after_the_end_until_reset(form, name):
    env = make(form=form, max_turns=1)
    with pytest.raises(RuntimeError, match=r"has not begun.*reset\(\)"):
        env.step("")
    env.reset(options={"hand": HAND})
    env.step(RESPONSES[form][name])
    with pytest.raises(RuntimeError, match=r"Call reset\(\)"):
        env.step(RESPONSES[form][name])
    env.reset()
    env.step("")


def test_the_compact_observation_is_the_context_a_model_continues():
    env = make(form="compact")
    observation, info = env.reset(options={"hand": HAND})
    prompt = compact.prompt_tokens(HAND, FACES_AS_TEN)
    assert observation.split() == prompt
    expected = prompt
    for name in ("illegal", "wrong_value", "no_answer"):
        observation, *_, info = env.step(RESPONSES["compact"][name])
        feedback = compact.feedback_tokens(Outcome(name))
        expected = expected + RESPONSES["compact"][name].split() + feedback
        assert observation.split() == expected
        assert info["feedback"].split() == feedback
    observation, *_, info = env.step(RESPONSES["compact"]["correct"])
    assert observation.split() == expected + RESPONSES["compact"]["correct"].split()
    assert info["feedback"] == ""


def test_the_json_observation_is_prompt_attempt_and_feedback():
    env = make(wording=2, rule=FACES_AS_RANK)
    observation, _ = env.reset(options={"hand": HAND})
    assert observation == prompt_text(HAND, FACES_AS_RANK, wording=2)
    after, *_, info = env.step(" I do not know.\n")
    assert info["feedback"] == feedback_text(Outcome.NO_ANSWER)
    assert after == f"{observation}\n\nI do not know.\n\n{info['feedback']}"


def test_an_answer_in_the_history_does_not_count_for_the_next_attempt():
    # Pitfall 22: only the completion is read, never the context.
    env = make(form="json")
    env.reset(options={"hand": HAND})
    env.step(RESPONSES["json"]["correct"].replace("24", "25"))
    *_, info = env.step("see above")
    assert info["outcome"] == "no_answer"


@both_forms
def test_any_text_is_graded_and_observations_stay_in_their_space(form):
    env = make(form=form, max_turns=5)
    env.reset(seed=3)
    for action in ("", "日本語 \x00 {" * 3, "x" * 100_000, "\n" * 50, "{}" * 5000):
        observation, _, terminated, _, info = env.step(action)
        assert observation in env.observation_space
        assert not terminated and info["outcome"] in [o.value for o in Outcome]
    env.reset(options={"hand": HAND})
    name = RESPONSES["json"]["correct"] if form == "json" else RESPONSES["compact"]["correct"]
    _, reward, terminated, *_ = env.step("日本語\n" + name if form == "json" else name)
    assert terminated and reward == 5


@pytest.mark.parametrize("action", [None, 3, b"{}", ["1", "2"]])
def test_an_action_that_is_no_text_is_refused(action):
    env = make()
    env.reset()
    with pytest.raises(TypeError, match=f"not {type(action).__name__}"):
        env.step(action)
    assert env.step("")[4]["turns_left"] == 4


@both_forms
def test_the_same_seed_deals_the_same_hands_and_another_seed_others(form):
    def deal(seed):
        env = make(form=form)
        return [env.reset(seed=seed if i == 0 else None)[1]["hand"] for i in range(20)]

    # Pitfall 42.
    assert deal(1) == deal(1) != deal(2)
    assert len(set(deal(1))) > 10
    assert any(list(hand) != sorted(hand) for hand in deal(1))


@both_forms
@pytest.mark.parametrize("split", ["train", "validation", "test"])
@pytest.mark.parametrize("rule", [FACES_AS_TEN, FACES_AS_RANK])
def test_hands_come_from_the_split_and_can_be_answered(form, split, rule):
    env = make(form=form, hands=split, rule=rule)
    known = set(getattr(split_hands(), split))
    env.reset(seed=0)
    for _ in range(30):
        _, info = env.reset()
        assert tuple(sorted(info["hand"])) in known
        assert FORMS[form].has_answer(multiset(info["hand"], rule), 24)
        assert info["rule"] == rule.name and info["outcome"] is None


def test_the_compact_form_leaves_out_hands_that_it_cannot_write():
    hand = (3, 3, 8, 8)
    assert is_solvable(hand)
    split = next(s for s in ("train", "validation", "test") if hand in getattr(split_hands(), s))
    assert hand in make(form="json", hands=split).hands
    assert hand not in make(form="compact", hands=split).hands


def test_given_hands_are_dealt_and_a_given_hand_keeps_its_order():
    env = make(hands=[[13, 8, 8, 1]])
    assert sorted(env.reset(seed=0)[1]["hand"]) == [1, 8, 8, 13]
    assert env.reset(options={"hand": [8, 13, 1, 8]})[1]["hand"] == (8, 13, 1, 8)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"form": "xml"}, "'xml' is not one of compact, json"),
        ({"hands": "dev"}, "'dev' is not train, validation or test"),
        ({"hands": []}, "no hand to play"),
        ({"hands": [(1, 2, 3)]}, "not four ranks"),
        ({"max_turns": 0}, "max_turns is 0"),
        ({"rewards": {"correct": 1}}, "missing or unknown: illegal"),
    ],
)
def test_settings_that_make_no_sense_are_named(options, said):
    with pytest.raises(ValueError, match=said):
        make(**options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"hand": (1, 2, 3)}, "not four ranks"),
        ({"hand": (1, 2, 3, 14)}, "not four ranks"),
        ({"hands": (1, 2, 3, 4)}, "reset knows 'hand'"),
    ],
)
def test_reset_options_that_make_no_sense_are_named(options, said):
    with pytest.raises(ValueError, match=said):
        make().reset(options=options)


def test_an_environment_does_not_share_state_with_another():
    # Pitfall 27, for two environments made alike.
    one, two = make(form="compact"), make(form="compact")
    start, _ = one.reset(seed=0)
    two.reset(seed=0)
    one.step("garbage")
    assert two.step("")[0] == f"{start} <no_answer> =>"


def test_render_shows_the_conversation():
    env = make(render_mode="ansi", form="compact")
    observation, _ = env.reset(options={"hand": HAND})
    assert env.render() == observation
    with pytest.raises(ValueError, match="'human' is not 'ansi'"):
        type(env)(render_mode="human")


def test_it_runs_in_a_vector_environment():
    envs = gymnasium.make_vec(
        "labkit/Points24-v0", num_envs=2, vectorization_mode="sync", form="compact", rewards=BINARY_REWARDS
    )
    observations, infos = envs.reset(seed=0)
    assert len(observations) == 2 and infos["turns_left"].tolist() == [5, 5]
    _, rewards, *_ = envs.step(("garbage", "<eos>"))
    assert rewards.tolist() == [0, 0]
    envs.close()


def test_importing_registers_once_and_loads_no_model_code():
    code = (
        "import sys, importlib, warnings; warnings.simplefilter('error');"
        "import labkit.envs, gymnasium; importlib.reload(labkit.envs);"
        "assert labkit.envs.POINTS24_ID in gymnasium.registry;"
        "assert 'labkit.envs.points24.env' not in sys.modules;"
        "gymnasium.make('labkit/Points24-v0');"
        "assert not {'torch', 'transformers', 'datasets', 'trl'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert gymnasium.spec(labkit.envs.POINTS24_ID).entry_point == "labkit.envs.points24.env:Points24Env"
