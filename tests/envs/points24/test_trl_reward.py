"""The verifier behind TRL's reward-function signature, and the dataset that goes with it."""

import json
import pickle

import pytest

from labkit.envs.points24 import compact
from labkit.envs.points24.data import multiset, out_of_distribution, split_hands
from labkit.envs.points24.forms import FORMS
from labkit.envs.points24.grading import BINARY_REWARDS, PAPER_REWARDS, Outcome
from labkit.envs.points24.rules import FACES_AS_RANK, FACES_AS_TEN, Rule
from labkit.envs.points24.trl_reward import points24_dataset, points24_reward
from labkit.lm.tokenizer import word_tokenizer

HAND = [1, 8, 13, 8]
TEN, RANK = [10, 10, 10], [11, 12, 13]


def answer(formula="(10-8+1)*8=24", number=(1, 8, 10, 8)):
    return json.dumps({"cards": ["A", "8", "K", "8"], "number": list(number), "formula": formula})


BY_OUTCOME = {
    "correct": answer(),
    "wrong_value": answer("10-8+1+8"),
    "wrong_numbers": answer("3*8"),
    "misread_cards": answer(number=(1, 8, 13, 8)),
    "illegal": answer("(10-8+1)*8=25"),
    "no_answer": "I give up.",
}


def columns(rows, rule=TEN):
    return {"prompts": ["?"] * rows, "hand": [HAND] * rows, "rule": [rule] * rows}


@pytest.mark.parametrize(
    "rewards", [PAPER_REWARDS, BINARY_REWARDS, {o.value: i for i, o in enumerate(Outcome)}]
)
def test_each_outcome_earns_its_one_value(rewards):
    # Pitfall 23.
    found = points24_reward(rewards=rewards)(completions=list(BY_OUTCOME.values()), **columns(6))
    assert found == [rewards[name] for name in BY_OUTCOME]
    assert all(type(reward) is float for reward in found)


def test_trls_other_arguments_are_accepted_and_outcomes_are_logged():
    logged = {}
    found = points24_reward()(
        completions=list(BY_OUTCOME.values()),
        completion_ids=[[1]] * 6,
        trainer_state=None,
        log_extra=logged.__setitem__,
        log_metric=lambda name, value: None,
        difficulty=[1] * 6,
        **columns(6),
    )
    assert found[0] == 5 and logged == {"outcome": list(BY_OUTCOME)}


def test_completions_may_be_chat_messages():
    def chats(text):
        yield [{"role": "assistant", "content": text}]
        yield [{"role": "assistant", "content": answer("1+1")}, {"role": "assistant", "content": text}]
        yield [{"role": "assistant", "content": [{"type": "text", "text": text}]}]

    completions = [*chats(answer()), [{"role": "assistant", "content": None}], []]
    assert points24_reward()(completions=completions, **columns(5)) == [5, 5, 5, -1, -1]


def test_an_answer_in_the_prompt_does_not_count():
    # Pitfall 22.
    reward = points24_reward()
    texts = {"prompts": [answer()], "completions": ["as above"], "hand": [HAND], "rule": [TEN]}
    assert reward(**texts) == [PAPER_REWARDS[Outcome.NO_ANSWER]]
    message = [{"role": "user", "content": answer()}]
    chat = texts | {"prompts": [message], "completions": [[{"role": "assistant", "content": "as above"}]]}
    assert reward(**chat) == [PAPER_REWARDS[Outcome.NO_ANSWER]]


def test_each_row_is_graded_by_its_own_hand_and_rule():
    found = points24_reward()(
        prompts=["?"] * 3,
        completions=[answer()] * 3,
        hand=[HAND, HAND, [1, 8, 12, 8]],
        rule=[TEN, RANK, TEN],
    )
    assert found == [5, -2, -2]


def test_a_fixed_rule_needs_no_column_and_never_contradicts_one():
    fixed = points24_reward(FACES_AS_TEN)
    assert fixed(["?"], [answer()], hand=[HAND]) == [5]
    assert fixed(["?"], [answer()], hand=[HAND], rule=[TEN]) == [5]
    with pytest.raises(ValueError, match="names faces=11,12,13, the reward was made for faces=10"):
        fixed(["?"], [answer()], hand=[HAND], rule=[RANK])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rule": [TEN]}, "no column 'hand'"),
        ({"hand": [HAND]}, "no column 'rule'"),
        ({"hand": [HAND] * 2, "rule": [TEN]}, "'hand' has 2 rows for 1 completions"),
        ({"hand": [HAND], "rule": []}, "'rule' has 0 rows"),
    ],
)
def test_missing_columns_are_named(given, said):
    with pytest.raises(ValueError, match=said):
        points24_reward()(prompts=["?"], completions=[answer()], **given)


def test_unknown_form_and_incomplete_table_are_refused():
    with pytest.raises(ValueError, match="'xml' is not one of"):
        points24_reward(form="xml")
    with pytest.raises(ValueError, match="missing or unknown"):
        points24_reward(rewards={"correct": 1})


def test_it_has_a_name_for_logs_and_can_be_sent_to_a_worker():
    reward = pickle.loads(pickle.dumps(points24_reward(FACES_AS_TEN, rewards=BINARY_REWARDS)))
    assert reward.__name__ == "points24_reward"
    assert reward(["?"], [answer()], hand=[HAND]) == [1]


def test_compact_completions_as_trl_decodes_them():
    # TRL decodes with skip_special_tokens: the end-of-sequence token is gone, and must not be missed.
    text = "1 8 10 8 ; 10 - 8 = 2 : 1 8 2 ; 1 + 2 = 3 : 8 3 ; 8 * 3 = 24 <eos>"
    tokenizer = word_tokenizer(compact.VOCABULARY)
    decoded = tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True)
    assert compact.EOS not in decoded
    cut = text.split(" ; 8 *")[0]
    found = points24_reward(form="compact")(completions=[decoded, text, cut, ""], **columns(4))
    assert found == [5, 5, -3, -1]


@pytest.mark.parametrize("form", ["compact", "json"])
@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_the_dataset_has_a_row_for_each_hand_that_can_be_answered(form, split):
    data = points24_dataset(split, FACES_AS_RANK, form)
    assert data.column_names == ["prompt", "hand", "rule"]
    expected = [
        h for h in getattr(split_hands(), split) if FORMS[form].has_answer(multiset(h, FACES_AS_RANK), 24)
    ]
    assert [tuple(sorted(hand)) for hand in data["hand"]] == expected
    for row in data.select(range(20)):
        assert row["rule"] == RANK
        assert row["prompt"] == FORMS[form].prompt(row["hand"], FACES_AS_RANK, 24, 0)
    assert any(hand != sorted(hand) for hand in data["hand"])


def test_wordings_multiply_rows_and_chat_wraps_prompts():
    hands = out_of_distribution(split_hands().test, FACES_AS_TEN, FACES_AS_RANK).hands[:5]
    data = points24_dataset(hands, FACES_AS_RANK, wordings=(0, 2, 3), chat=True)
    assert len(data) == 15
    assert data[:3]["hand"] == [list(hands[0])] * 3
    texts = [row["prompt"][0]["content"] for row in data]
    assert len(set(texts)) == 15
    assert all(FACES_AS_RANK.text(w) in text for w, text in zip((0, 2, 3), texts[:3], strict=True))
    assert all([m["role"] for m in row["prompt"]] == ["user"] for row in data)


def test_the_same_seed_gives_the_same_dataset():
    first, again, other = (points24_dataset("test", FACES_AS_TEN, seed=s)["prompt"] for s in (0, 0, 1))
    assert list(first) == list(again) != list(other)


def test_an_unknown_split_is_refused():
    with pytest.raises(ValueError, match="'dev' is not train, validation or test"):
        points24_dataset("dev", FACES_AS_TEN)


def test_a_dataset_row_and_the_reward_fit_each_other():
    data = points24_dataset([HAND], Rule(10, 10, 10))
    assert points24_reward()(
        completions=[answer()], prompts=data["prompt"], hand=data["hand"], rule=data["rule"]
    ) == [5]


@pytest.mark.slow
def test_trls_trainer_takes_a_step_with_them(tmp_path):
    from trl import GRPOConfig, GRPOTrainer

    from labkit.lm.models import TinyConfig, tiny_model

    tokenizer = word_tokenizer(compact.VOCABULARY)
    model = tiny_model(TinyConfig(layers=1, width=16, heads=2, mlp_width=16), tokenizer, seed=0)
    config = GRPOConfig(
        output_dir=str(tmp_path),
        max_steps=1,
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=32,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        bf16=False,
    )
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=points24_reward(form="compact"),
        train_dataset=points24_dataset("train", FACES_AS_TEN, "compact"),
        args=config,
        processing_class=tokenizer,
    )
    trainer.train()
    logged = [row for row in trainer.state.log_history if "reward" in row]
    assert logged[0]["rewards/points24_reward/mean"] == logged[0]["reward"] <= -1
