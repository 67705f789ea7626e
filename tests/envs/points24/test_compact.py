"""The compact form: round trip, one outcome a response, and no garbage that breaks the grader."""

import random
import re
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from labkit.envs.points24 import compact
from labkit.envs.points24.compact import EOS, VOCABULARY, grade, prompt_tokens
from labkit.envs.points24.grading import BINARY_REWARDS, PAPER_REWARDS, Outcome, RewardTable, reward_table
from labkit.envs.points24.rules import FACES_AS_RANK, FACES_AS_TEN, Rule
from labkit.envs.points24.solver import Node, all_hands, evaluate, is_solvable, solutions

HAND = (10, 3, 8, 2)
CORRECT = "10 3 8 2 ; 10 - 8 = 2 : 3 2 2 ; 3 * 2 = 6 : 2 6 ; 2 + 6 = 8 <eos>"


def outcome(text, hand=HAND, rule=FACES_AS_TEN, target=8):
    return grade(text.split(), hand, rule, target).outcome


_N = r"(0|[1-9][0-9]?)"
_STEP = rf" ; {_N} ([-+*/]) {_N} = {_N}"
_RESPONSE = re.compile(rf"{_N} {_N} {_N} {_N}{_STEP} : {_N} {_N} {_N}{_STEP} : {_N} {_N}{_STEP}")


def reference_outcome(tokens, hand, rule, target):
    """What the docstrings say, by one regular expression and counting."""
    text = " ".join(tokens)
    if EOS not in tokens:
        return "no_answer"
    text = " ".join(tokens[: tokens.index(EOS)])
    if ";" not in text:
        return "no_answer"
    if not (match := _RESPONSE.fullmatch(text)):
        return "illegal"
    parts = match.groups()
    values = [int(n) for n in parts[:4]]
    first, second, third = parts[4:8], parts[11:15], parts[17:21]
    rests = [Counter(map(int, parts[8:11])), Counter(map(int, parts[15:17]))]
    for a, op, b, result in (first, second, third):
        a, b, result = int(a), int(b), int(result)
        holds = {"+": a + b == result, "-": a - b == result, "*": a * b == result}
        if not holds.get(op, b != 0 and Fraction(a, b or 1) == result):
            return "illegal"
    if values != list(rule.values(hand)):
        return "misread_cards"
    pool = Counter(values)
    for (a, _, b, result), rest in zip((first, second, third), [*rests, None], strict=True):
        used = Counter((int(a), int(b)))
        if used - pool:
            return "wrong_numbers"
        pool = pool - used + Counter([int(result)])
        if rest is not None and rest != pool:
            return "wrong_numbers"
    return "correct" if int(third[3]) == target else "wrong_value"


def test_28_of_the_1362_solvable_hands_cannot_be_written():
    solvable = [hand for hand in all_hands() if is_solvable(hand)]
    writable = [hand for hand in solvable if compact.expressible_solutions(hand)]
    assert (len(solvable), len(solvable) - len(writable)) == (1362, 28)
    assert (3, 3, 8, 8) in set(solvable) - set(writable)


@pytest.mark.parametrize(
    ("expr", "yes"),
    [
        (7, True),
        (100, False),
        (Node("-", 3, 8), False),
        (Node("+", Node("-", 3, 8), 10), False),
        (Node("/", 8, 3), False),
        (Node("*", 13, 13), False),
        (Node("*", 9, 11), True),
        (Node("/", 5, Node("-", 3, 3)), False),
        (Node("*", 0, Node("/", 1, 2)), False),
    ],
)
def test_expressible_means_integers_from_0_to_99_all_the_way(expr, yes):
    assert compact.is_expressible(expr) is yes


def test_every_expressible_solution_makes_the_round_trip():
    rng, words_in_vocabulary = random.Random(0), set(VOCABULARY)
    for hand in all_hands():
        for expr in compact.expressible_solutions(hand):
            steps = compact.expression_steps(expr, rng.choice((None, rng)))
            values = tuple(rng.sample(hand, 4))
            tokens = compact.response_tokens(values, steps)
            verdict = grade(tokens, values, FACES_AS_RANK)
            assert verdict.correct and verdict.value == 24 and verdict.values_read == values
            assert len(tokens) == compact.RESPONSE_LENGTH
            assert words_in_vocabulary.issuperset(tokens)


def test_solutions_left_out_are_those_with_a_number_that_has_no_token():
    def numbers_on_the_way(expr):
        inner = [numbers_on_the_way(e) for e in (expr.left, expr.right)] if isinstance(expr, Node) else []
        return [evaluate(expr), *sum(inner, [])]

    tokens = {Fraction(n) for n in range(100)}
    for hand in random.Random(1).sample(all_hands(), 200):
        expected = [e for e in solutions(hand) if set(numbers_on_the_way(e)) <= tokens]
        assert list(compact.expressible_solutions(hand)) == expected


def test_random_order_varies_operands_and_steps():
    rng = random.Random(0)
    written = {tuple(compact.expression_steps(solutions((1, 2, 3, 4))[0], rng)) for _ in range(100)}
    assert len(written) > 4


def test_random_reduction_is_legal_and_ends_in_one_number():
    rng = random.Random(0)
    for _ in range(3000):
        values = tuple(rng.randint(1, 99) for _ in range(4))
        steps = compact.random_reduction(values, rng)
        tokens = compact.response_tokens(values, steps)
        assert set(tokens) <= set(VOCABULARY)
        rule, hand = Rule(*values[1:]), (1, 11, 12, 13)
        if values[0] == 1:
            assert grade(tokens, hand, rule, steps[-1][-1]).correct


def test_the_prompt_names_rule_target_and_cards():
    tokens = prompt_tokens((13, 3, 1, 10), FACES_AS_RANK, 7)
    assert " ".join(tokens) == "<bos> 11 12 13 7 [K] [3] [A] [10] =>"
    assert len(tokens) == compact.PROMPT_LENGTH and set(tokens) <= set(VOCABULARY)


@pytest.mark.parametrize(
    ("hand", "target", "said"),
    [((1, 2, 3), 24, "four cards"), ((1, 2, 3, 4), 100, "target 100"), ((1, 2, 3, 4), -1, "0 to 99")],
)
def test_a_prompt_that_cannot_be_written_is_refused(hand, target, said):
    with pytest.raises(ValueError, match=said):
        prompt_tokens(hand, FACES_AS_TEN, target)


def test_the_vocabulary_has_each_word_once_and_all_of_them_are_words():
    assert len(set(VOCABULARY)) == len(VOCABULARY)
    assert all(token.split() == [token] for token in VOCABULARY)
    wrong = [o for o in Outcome if o is not Outcome.CORRECT]
    assert all(set(compact.feedback_tokens(o)) <= set(VOCABULARY) for o in wrong)
    assert len({tuple(compact.feedback_tokens(o)) for o in wrong}) == 5


# Pitfall 23: a table of outcomes, one value each.
TABLE = [
    ("correct", CORRECT),
    ("correct", CORRECT + " 9 9 garbage"),  # after the end nothing is read
    ("correct", "10 3 8 2 ; 3 * 2 = 6 : 6 8 10 ; 10 - 8 = 2 : 6 2 ; 6 + 2 = 8 <eos>"),
    ("wrong_value", "10 3 8 2 ; 10 - 8 = 2 : 3 2 2 ; 3 * 2 = 6 : 2 6 ; 2 * 6 = 12 <eos>"),
    # a number that is not there; one used twice; what is left is told wrong
    ("wrong_numbers", "10 3 8 2 ; 10 - 9 = 1 : 3 2 1 ; 3 * 2 = 6 : 1 6 ; 1 + 6 = 7 <eos>"),
    ("wrong_numbers", "10 3 8 2 ; 10 - 10 = 0 : 3 8 2 ; 3 * 2 = 6 : 8 0 ; 8 + 0 = 8 <eos>"),
    ("wrong_numbers", "10 3 8 2 ; 10 - 8 = 2 : 3 2 3 ; 3 * 2 = 6 : 2 6 ; 2 + 6 = 8 <eos>"),
    ("misread_cards", "11 3 8 2 ; 11 - 8 = 3 : 3 2 3 ; 3 * 2 = 6 : 3 6 ; 3 + 6 = 9 <eos>"),
    ("misread_cards", "3 10 8 2 ; 10 - 8 = 2 : 3 2 2 ; 3 * 2 = 6 : 2 6 ; 2 + 6 = 8 <eos>"),
    # misread and wrong numbers at once: the first in the list is given, once
    ("misread_cards", "11 3 8 2 ; 9 - 8 = 1 : 3 2 1 ; 3 * 2 = 6 : 1 6 ; 1 + 6 = 7 <eos>"),
    ("illegal", "10 3 8 2 ; 10 - 8 = 3 : 3 2 3 ; 3 * 2 = 6 : 3 6 ; 3 + 6 = 9 <eos>"),
    ("illegal", "11 3 8 2 ; 10 - 8 = 3 : 3 2 3 ; 3 * 2 = 6 : 3 6 ; 3 + 6 = 9 <eos>"),
    ("illegal", "10 3 8 2 ; 10 / 0 = 0 : 3 8 2 ; 3 * 2 = 6 : 8 0 ; 8 + 0 = 8 <eos>"),
    ("illegal", "10 3 8 2 ; 10 / 3 = 3 : 3 8 2 ; 3 * 2 = 6 : 8 3 ; 8 + 3 = 11 <eos>"),
    ("illegal", "10 3 8 2 ; 10 - 8 = 2 : 3 2 2 ; 3 * 2 = 6 : 2 6 <eos>"),
    ("illegal", "10 3 8 2 ; 10 - 8 = 2 : 3 2 2 ; 3 * 2 = 6 : 2 6 ; 2 + 6 = 8 ; <eos>"),
    ("illegal", "10 3 8 ; 10 - 8 = 2 : 3 2 2 ; 3 * 2 = 6 : 2 6 ; 2 + 6 = 8 <eos>"),
    ("illegal", "[10] 3 8 2 ; 10 - 8 = 2 : 3 2 2 ; 3 * 2 = 6 : 2 6 ; 2 + 6 = 8 <eos>"),
    ("illegal", "10 3 8 2 ; 10 ** 8 = 2 : 3 2 2 ; 3 * 2 = 6 : 2 6 ; 2 + 6 = 8 <eos>"),
    ("illegal", "010 3 8 2 ; 10 - 8 = 2 : 3 2 2 ; 3 * 2 = 6 : 2 6 ; 2 + 6 = 8 <eos>"),
    ("no_answer", CORRECT.removesuffix(" <eos>")),  # cut off
    ("no_answer", "10 3 8 2 <eos>"),  # cards read, but no formula
    ("no_answer", "<eos> " + CORRECT),
    ("no_answer", ""),
]


@pytest.mark.parametrize(("name", "text"), TABLE)
def test_table_of_outcomes(name, text):
    assert outcome(text) == name
    assert reference_outcome(text.split(), HAND, FACES_AS_TEN, 8) == name


def test_the_table_has_every_outcome_and_each_earns_one_value():
    assert {name for name, _ in TABLE} == {o.value for o in Outcome}
    assert dict(PAPER_REWARDS) == {
        "correct": 5,
        "wrong_value": -1,
        "wrong_numbers": -2,
        "misread_cards": -2,
        "illegal": -3,
        "no_answer": -1,
    }
    assert sum(BINARY_REWARDS.values()) == BINARY_REWARDS[Outcome.CORRECT] == 1


def test_a_reward_table_is_whole_and_stays_as_it_is():
    with pytest.raises(ValueError, match="missing or unknown: illegal"):
        reward_table(correct=1, no_answer=0, misread_cards=0, wrong_numbers=0, wrong_value=0)
    with pytest.raises(ValueError, match="missing or unknown: corect, correct"):
        reward_table(corect=1, illegal=0, no_answer=0, misread_cards=0, wrong_numbers=0, wrong_value=0)
    with pytest.raises(TypeError):
        PAPER_REWARDS[Outcome.CORRECT] = 6
    import copy
    import pickle

    for twin in (copy.deepcopy(PAPER_REWARDS), pickle.loads(pickle.dumps(PAPER_REWARDS))):
        assert isinstance(twin, RewardTable) and twin == PAPER_REWARDS
    assert "correct=5" in repr(PAPER_REWARDS)


def test_the_rule_decides_how_cards_are_read():
    text = "10 13 1 1 ; 10 + 13 = 23 : 1 1 23 ; 1 * 1 = 1 : 23 1 ; 23 + 1 = 24 <eos>"
    assert outcome(text, (10, 13, 1, 1), FACES_AS_RANK, 24) == "correct"
    assert outcome(text, (10, 13, 1, 1), FACES_AS_TEN, 24) == "misread_cards"


def test_values_are_read_off_whatever_else_is_wrong():
    assert grade("10 3 8 2 ; oops".split(), HAND, FACES_AS_TEN).values_read == (10, 3, 8, 2)
    assert grade("10 3 8 9 ; oops <eos>".split(), HAND, FACES_AS_TEN).values_read == (10, 3, 8, 9)
    assert grade("10 3 8".split(), HAND, FACES_AS_TEN).values_read is None


def test_the_value_is_told_for_legal_formulas_alone():
    verdicts = {grade(text.split(), HAND, FACES_AS_TEN, 8) for _, text in TABLE}
    for verdict in verdicts:
        legal = verdict.outcome in (Outcome.CORRECT, Outcome.WRONG_VALUE)
        assert (verdict.value is not None) is legal
        assert verdict.correct is (verdict.value == 8)


def test_mutations_of_correct_responses_reach_every_outcome():
    rng, seen = random.Random(0), Counter()
    for _ in range(4000):
        tokens = CORRECT.split()
        for _ in range(rng.randint(1, 3)):
            tokens[rng.randrange(len(tokens))] = rng.choice(VOCABULARY)
        seen[outcome(" ".join(tokens))] += 1
        assert outcome(" ".join(tokens)) == reference_outcome(tokens, HAND, FACES_AS_TEN, 8)
    assert set(seen) >= {Outcome.NO_ANSWER, Outcome.ILLEGAL, Outcome.MISREAD_CARDS, Outcome.WRONG_NUMBERS}
    # A change that keeps all steps true and ends elsewhere takes a change of operator and results.
    other = CORRECT.replace("2 + 6 = 8", "2 * 6 = 12")
    assert outcome(other) == Outcome.WRONG_VALUE


ranks = st.integers(1, 13)
rules = st.builds(Rule, *[st.integers(1, 13)] * 3)
words = st.one_of(st.sampled_from(VOCABULARY), st.text(max_size=4))


@settings(deadline=None, max_examples=150)
@given(st.lists(words, max_size=40), st.tuples(*[ranks] * 4), rules, st.integers(0, 99))
@example(["²", "3", "8", "2", ";", EOS], HAND, FACES_AS_TEN, 24)
@example([EOS], HAND, FACES_AS_TEN, 24)
def test_any_token_sequence_gives_a_named_outcome(tokens, hand, rule, target):
    before = list(tokens)
    verdict = grade(tokens, hand, rule, target)
    assert verdict.outcome in Outcome
    assert verdict.correct is (verdict.outcome == "correct")
    assert tokens == before


@settings(deadline=None, max_examples=300)
@given(st.tuples(*[ranks] * 4), rules, st.randoms(use_true_random=False), st.data())
def test_mutated_responses_are_judged_like_an_independent_reading(hand, rule, rng, data):
    values = rule.values(hand)
    steps = compact.random_reduction(values, rng)
    target = data.draw(st.sampled_from([steps[-1][-1], 24]))
    tokens = compact.response_tokens(values, steps)
    position = st.integers(0, len(tokens) - 1)
    for _ in range(data.draw(st.integers(0, 3))):
        i, j = data.draw(position), data.draw(position)
        kind = data.draw(st.sampled_from(["replace", "number", "swap", "delete", "insert"]))
        if kind == "swap":
            tokens[i], tokens[j] = tokens[j], tokens[i]
        elif kind == "delete":
            tokens = tokens[:i] + tokens[i + 1 :] + [EOS]
        elif kind == "insert":
            tokens = tokens[:i] + [data.draw(st.sampled_from(VOCABULARY))] + tokens[i:]
        else:
            pool = VOCABULARY if kind == "replace" else compact.NUMBER_TOKENS[:20]
            tokens[i] = data.draw(st.sampled_from(pool))
    assert grade(tokens, hand, rule, target).outcome == reference_outcome(tokens, hand, rule, target)


@pytest.mark.parametrize("bad", [0, 100, "10", 10.0, None])
def test_a_rule_with_another_value_is_refused(bad):
    with pytest.raises(ValueError, match="from 1 to 99"):
        Rule(bad, 12, 13)


def test_rules_have_names_values_and_wordings():
    assert (FACES_AS_TEN.name, FACES_AS_RANK.name) == ("faces=10", "faces=11,12,13")
    assert FACES_AS_RANK.values((1, 10, 11, 12, 13)) == (1, 10, 11, 12, 13)
    assert FACES_AS_TEN.values((1, 10, 11, 12, 13)) == (1, 10, 10, 10, 10)
    assert Rule(7, 5, 2).values((13, 12, 11)) == (2, 5, 7)
    texts = {Rule(7, 5, 2).text(wording) for wording in range(4)}
    assert len(texts) == 4
    assert all(re.search(r"7\D*5\D*2", text) for text in texts)
    with pytest.raises(ValueError, match="rank 14"):
        FACES_AS_TEN.value(14)
