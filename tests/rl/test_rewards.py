"""Reward functions, and their sum, as TRL's trainers call them."""

import math
import pickle
from types import SimpleNamespace

import pytest
import torch

from labkit.envs.completions import completion_text
from labkit.envs.points24.grading import PAPER_REWARDS
from labkit.envs.points24.trl_reward import points24_reward
from labkit.rl.rewards import (
    CombinedReward,
    LanguageReward,
    OverlongReward,
    RewardTerm,
    accuracy_reward,
    format_reward,
    scripts_of_words,
)

RIGHT = "<think>two and two</think><answer>4</answer>"


def length_of_text(completions, **columns):
    return [float(len(text)) for text in completions]


def only_long(completions, **columns):
    return [1.0 if len(text) > 2 else None for text in completions]


def one_short(completions, **columns):
    return [0.0] * (len(completions) - 1)


def not_a_number(completions, **columns):
    return [math.nan] * len(completions)


def test_text_of_a_completion_is_what_the_policy_said_last():
    say = {"role": "assistant", "content": "b"}
    assert completion_text("b") == "b"
    assert completion_text([{"role": "assistant", "content": "a"}, say]) == "b"
    assert completion_text([{"content": "b"}]) == "b", "TRL's own examples leave the role out"
    assert completion_text([{"role": "assistant", "content": [{"type": "text", "text": "b"}]}]) == "b"
    assert completion_text([say, {"role": "tool", "content": RIGHT}]) == "", "a tool's words are not its own"
    for nothing in (None, "", [], [{"role": "assistant", "content": None}]):
        assert completion_text(nothing) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (RIGHT, 1.0),
        ("  <think>a\nb</think>\n\n<answer>4</answer>\n", 1.0),
        ("<think></think><answer></answer>", 1.0),
        ("", 0.0),
        ("4", 0.0),
        ("<answer>4</answer>", 0.0),
        ("<think>a</think>4", 0.0),
        ("<answer>4</answer><think>a</think>", 0.0),
        ("<think>a<answer>4</answer></think>", 0.0),
        ("Sure! " + RIGHT, 0.0),
        (RIGHT + " Done.", 0.0),
        ("<think>a</think> so <answer>4</answer>", 0.0),
        (RIGHT + RIGHT, 0.0),
        ("<think>a<think>b</think><answer>4</answer>", 0.0),
        ("<think>a</think><answer>4</answer><answer>5</answer>", 0.0),
        (RIGHT.removesuffix("</answer>"), 0.0),
        (RIGHT.upper(), 0.0),
    ],
)
def test_format_is_the_whole_template_each_tag_once_and_in_order(text, expected):
    assert format_reward(completions=[text, [{"role": "assistant", "content": text}]]) == [expected] * 2


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        (RIGHT, "4", 1.0),
        (RIGHT, 4, 1.0),
        (RIGHT, "5", 0.0),
        ("<answer>5</answer> no: <answer>4</answer>", "4", 1.0),
        ("<answer>4</answer> no: <answer>5</answer>", "4", 0.0),
        ("<answer>4</answer> no: <answer>5", "4", 0.0),
        ("<answer> new\n YORK </answer>", "New York", 1.0),
        ("<answer>４</answer>", "4", 1.0),
        ("<answer>14</answer>", "4", 0.0),
        ("4", "4", 0.0),
        ("<answer></answer>", "", 0.0),
        ("<answer>None</answer>", None, 0.0),
        (None, "4", 0.0),
        ("", None, 0.0),
    ],
)
def test_accuracy_compares_the_last_answer_with_the_column(text, answer, expected):
    assert accuracy_reward(completions=[text], answer=[answer]) == [expected]


def test_an_answer_in_the_prompt_does_not_count():
    # Pitfall 22.
    asked = f"Write like this: {RIGHT}"
    chat = [{"role": "user", "content": asked}]
    for prompt, completion in ((asked, "4"), (chat, [{"role": "assistant", "content": "4"}])):
        given = {"prompts": [prompt], "completions": [completion], "answer": ["4"]}
        assert accuracy_reward(**given) == format_reward(**given) == [0.0]


def test_a_missing_or_short_answer_column_is_an_error():
    with pytest.raises(ValueError, match="the dataset has no column 'answer'"):
        accuracy_reward(completions=[RIGHT])
    with pytest.raises(ValueError, match="'answer' has 1 rows for 2 completions"):
        accuracy_reward(completions=[RIGHT] * 2, answer=["4"])


@pytest.mark.parametrize(
    ("text", "scripts"),
    [
        ("Don't panic", ["LATIN"] * 2),
        ("café cafe\u0301", ["LATIN"] * 2),
        ("да, нет!", ["CYRILLIC"] * 2),
        ("我们 wait", ["HAN", "HAN", "LATIN"]),
        ("东京tower", ["HAN", "HAN", "LATIN"]),
        ("3 + 4 = 7", []),
        ("<think>да</think><answer>7</answer>", ["CYRILLIC"]),
    ],
)
def test_words_are_runs_of_one_script(text, scripts):
    assert scripts_of_words(text) == scripts


def test_language_is_the_share_of_words_in_the_target_script():
    texts = ["so we wait", "so 我们 wait", "да", "12 + 3", ""]
    assert LanguageReward("LATIN")(completions=texts) == [1.0, 0.5, 0.0, 0.0, 0.0]
    assert LanguageReward("HAN")(completions=texts) == [0.0, 0.5, 0.0, 0.0, 0.0]
    assert LanguageReward("CYRILLIC")(completions=texts) == [0.0, 0.0, 1.0, 0.0, 0.0]
    with pytest.raises(ValueError, match="'English' is not one of ARABIC"):
        LanguageReward("English")


def test_overlong_punishment_by_hand():
    lengths = [0, 80, 81, 90, 100, 101, 500]
    found = OverlongReward(100, 20)(completion_ids=[[7] * n for n in lengths])
    assert found == [0.0, 0.0, -0.05, -0.5, -1.0, -1.0, -1.0]


@pytest.mark.parametrize(("longest", "cache"), [(10, 4), (10, 10), (10, 0), (7, 3), (1, 1)])
def test_overlong_punishment_equals_trls(longest, cache):
    rewards = pytest.importorskip("trl.rewards")
    ids = [[0] * n for n in range(longest + 4)]
    assert OverlongReward(longest, cache)(completion_ids=ids) == (
        rewards.get_soft_overlong_punishment(longest, cache)(completion_ids=ids)
    )


def test_overlong_errors():
    for longest, cache in ((10, 11), (10, -1)):
        with pytest.raises(ValueError, match=f"cache {cache} must lie between 0 and max_length {longest}"):
            OverlongReward(longest, cache)
    with pytest.raises(ValueError, match="pass the column completion_ids"):
        OverlongReward(10, 2)(completions=["a"])


def combined():
    return CombinedReward(
        (
            RewardTerm("accuracy", accuracy_reward),
            RewardTerm("format", format_reward, 0.5),
            RewardTerm("overlong", OverlongReward(10, 4), 2.0),
        )
    )


BATCH = {
    "prompts": ["2+2?"] * 4,
    "completions": [RIGHT, RIGHT.replace("4", "5"), "<answer>4</answer>", "4"],
    "completion_ids": [[1] * 6, [1] * 8, [1] * 10, [1] * 99],
    "answer": ["4"] * 4,
}


def test_combined_is_the_weighted_sum_and_the_table_has_the_terms():
    assert combined().table(**BATCH) == {
        "accuracy": [1.0, 0.0, 1.0, 0.0],
        "format": [1.0, 1.0, 0.0, 0.0],
        "overlong": [0.0, -0.5, -1.0, -1.0],
    }
    assert combined()(**BATCH) == [1.5, -0.5, -1.0, -2.0]


def test_the_table_is_told_to_trls_log():
    logged = {}
    combined()(**BATCH, log_extra=logged.__setitem__)
    assert logged == combined().table(**BATCH)


def test_combined_rewards_nest():
    outer = CombinedReward([RewardTerm("all", combined(), 2.0), RewardTerm("format", format_reward)])
    assert outer(**BATCH) == [4.0, 0.0, -2.0, -4.0]


def test_a_term_that_abstains_adds_nothing_and_all_of_them_none():
    reward = CombinedReward((RewardTerm("long", only_long, 3.0), RewardTerm("length", length_of_text)))
    assert reward(completions=["ab", "abc"]) == [2.0, 6.0]
    assert CombinedReward((RewardTerm("long", only_long),))(completions=["ab", "abc"]) == [None, 1.0]


def test_an_outcome_keeps_its_one_value_inside_a_sum():
    # Pitfall 23: outcomes exclude each other in one table; terms are what adds up.
    reward = CombinedReward((RewardTerm("points24", points24_reward()), RewardTerm("format", format_reward)))
    columns = {"prompts": ["?"], "hand": [[1, 8, 13, 8]], "rule": [[10, 10, 10]]}
    misread = '{"cards": ["A", "8", "K", "8"], "number": [1, 8, 13, 8], "formula": "1+1"}'
    for text, outcome in (("no idea", "no_answer"), (misread, "misread_cards")):
        assert reward(completions=[text], **columns) == [PAPER_REWARDS[outcome]]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: CombinedReward(()), "at least one RewardTerm"),
        (lambda: CombinedReward((RewardTerm("a", format_reward),) * 2), "two rewards have the name a"),
        (lambda: RewardTerm("a", format_reward, math.nan), "weight of reward 'a' is nan"),
        (lambda: RewardTerm("a", format_reward, -math.inf), "weight of reward 'a' is -inf"),
        (lambda: CombinedReward((RewardTerm("a", one_short),))(completions=["x", "y"]), "1 values for 2"),
        (lambda: CombinedReward((RewardTerm("a", not_a_number),))(completions=["x"]), "'a' returned nan"),
    ],
)
def test_what_cannot_be_summed_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()


@pytest.mark.parametrize(
    "reward", [accuracy_reward, format_reward, LanguageReward(), OverlongReward(10, 4), combined()]
)
def test_rewards_have_a_name_for_logs_and_can_be_sent_to_a_worker(reward):
    sent = pickle.loads(pickle.dumps(reward))
    assert sent(**BATCH) == reward(**BATCH)
    assert sent.__name__ in {
        "accuracy_reward", "format_reward", "language_reward", "overlong_reward", "combined_reward"
    }  # fmt: skip


def test_trls_trainer_can_call_it():
    # The calling code is TRL's own; the rest of a trainer is not needed for it.
    trl = pytest.importorskip("trl")
    trainer = SimpleNamespace(
        accelerator=SimpleNamespace(device="cpu", is_main_process=True),
        args=SimpleNamespace(report_to=[]),
        state=SimpleNamespace(global_step=0),
        reward_funcs=[combined(), LanguageReward()],
        reward_func_names=["combined_reward", "language_reward"],
        reward_processing_classes=[None, None],
        environments=None,
        _log_completion_extra=lambda name, values: None,
        _log_metric=lambda name, value: None,
    )
    for chat in (False, True):
        completions = BATCH["completions"]
        if chat:
            completions = [[{"role": "assistant", "content": text}] for text in completions]
        rows = [{"prompt": "2+2?", "answer": answer, "difficulty": 1} for answer in BATCH["answer"]]
        found = trl.GRPOTrainer._calculate_rewards(
            trainer, rows, BATCH["prompts"], completions, BATCH["completion_ids"]
        )
        expected = [[1.5, 1.0], [-0.5, 1.0], [-1.0, 0.0], [-2.0, 0.0]]
        torch.testing.assert_close(found, torch.tensor(expected))
