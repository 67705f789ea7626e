"""The JSON form: what counts as the answer, exact arithmetic, and no garbage that breaks the parser."""

import ast
import json
import random
import re
import time
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from labkit.envs.points24.grading import Outcome
from labkit.envs.points24.json_form import (
    MAX_FORMULA,
    MAX_TEXT,
    feedback_text,
    grade_text,
    parse_formula,
    prompt_text,
    response_text,
)
from labkit.envs.points24.rules import FACES_AS_RANK, FACES_AS_TEN, Rule
from labkit.envs.points24.solver import Node, all_hands, evaluate, is_solvable, solutions, to_infix


def answer(formula="(10-8+1)*8=24", cards=("A", "8", "K", "8"), number=(1, 8, 10, 8), **more):
    return json.dumps({"cards": list(cards), "number": list(number), "formula": formula, **more})


def outcome(text, hand=(1, 8, 13, 8), rule=FACES_AS_TEN, target=24):
    return grade_text(text, hand, rule, target).outcome


GOOD = answer()

# Pitfall 23: a table of outcomes, one value each. The hand is A 8 K 8, which counts 1 8 10 8.
TABLE = [
    ("correct", GOOD),
    ("correct", answer("(10-8+1)*8")),
    ("correct", answer(" ( 10 - 8 + 1 ) * 8 = 24 ")),
    ("correct", answer("(10−8+1)×8=24")),
    ("correct", answer("(10–8+1)·8=24")),
    ("correct", json.dumps(json.loads(GOOD), indent=2)),
    ("correct", f"Let me think.\n```json\n{GOOD}\n```\nI hope {{this}} helps: {{}}"),
    ("correct", f"{answer('1+2+3+4')} no, rather {GOOD}"),
    ("correct", f"<think>{{'a': 1, \"b</think>{GOOD}"),
    ("correct", GOOD.replace('"', "'")),
    ("correct", 'I\'d say "so": ' + GOOD.replace('"', "'")),
    ("correct", answer(number=("1", "8", "10", "8"), cards=("A", 8, " k ", 8))),
    ("correct", answer(number=(10, 1, 8, 8), cards=("K", "A", "8", "8"))),  # another order
    ("correct", answer(thought="K counts 10 {so: 10-8}")),
    ("correct", "{" * 50 + GOOD),
    ("wrong_value", answer("(10-8)*8+1=24")),  # "=24" is form, not arithmetic
    ("wrong_value", answer("(10-8)*8+1=17")),
    ("wrong_value", answer("(10-8)*8+1")),
    ("wrong_value", answer("(10-8)/8/1=24")),
    ("wrong_numbers", answer("3*8=24")),
    ("wrong_numbers", answer("24")),
    ("wrong_numbers", answer("8+8+8=24")),
    ("wrong_numbers", answer("(10-8+1)*8+8-8=24")),
    ("misread_cards", answer("(11-8+1)*8", number=(1, 8, 11, 8))),
    ("misread_cards", answer(number=(8, 1, 10, 8))),  # each value is there, but not at its card
    ("misread_cards", answer(cards=("A", "8", "Q", "8"))),
    ("misread_cards", answer(number=(1, 8, 10))),
    ("misread_cards", answer(number=(1, 8, 10), cards=("A", "8", "K"))),
    ("misread_cards", answer(number=())),
    ("misread_cards", answer("3*8=24", number=(1, 8, 13, 8))),  # and wrong numbers: one value
    ("illegal", answer("(10-8+1)*8=25")),
    ("illegal", answer("(10-8+1)*8=24=24")),
    ("illegal", answer("24=(10-8+1)*8")),
    ("illegal", answer("(10-8+1)*8=")),
    ("illegal", answer("(10-8+1*8=24")),
    ("illegal", answer("10-8+1)*8=24")),
    ("illegal", answer("(10-8+1)8=24")),
    ("illegal", answer("10 8 1 8")),
    ("illegal", answer("()")),
    ("illegal", answer("-8+10*8/1")),  # a sign before a number
    ("illegal", answer("10+-8")),
    ("illegal", answer("8**8+10+1")),
    ("illegal", answer("8//8+10+1")),
    ("illegal", answer("8^8+10+1")),
    ("illegal", answer("(K-8+A)*8=24")),
    ("illegal", answer("(10-8+1)*8.0=24")),
    ("illegal", answer("(10-8+1)x8=24")),
    ("illegal", answer("8/(8-8)+10")),
    ("illegal", answer("８*3")),  # full-width digit
    ("illegal", answer("²+3")),
    ("illegal", answer("__import__('os')")),
    ("illegal", answer("10" + "+0" * MAX_FORMULA)),
    ("illegal", answer(24)),
    ("illegal", answer(["(10-8+1)*8"])),
    ("illegal", answer(number=(1, 8, 10.0, 8))),
    ("illegal", answer(number=(True, 8, 10, 8))),
    ("illegal", answer(number=(1, 8, -10, 8))),
    ("illegal", answer(cards=(None, "8", "K", "8"))),
    ("illegal", json.dumps({"cards": ["A", "8", "K", "8"], "formula": "(10-8+1)*8"})),
    ("illegal", json.dumps({"number": [1, 8, 10, 8], "formula": "(10-8+1)*8"})),
    ("illegal", json.dumps({"cards": {}, "number": {}, "formula": "(10-8+1)*8"})),
    ("illegal", '{"formula": "1+1", ' + GOOD[1:]),  # a key given twice
    ("illegal", GOOD[:-1] + ', "formula": "(10-8+1)*8"}'),
    ("illegal", GOOD.replace(",", "")),  # not JSON, but plainly an answer
    ("illegal", GOOD + GOOD.replace(":", "=")),  # the last one counts
    ("illegal", GOOD.replace("24", "24,") + GOOD.replace("]", "")),
    ("illegal", GOOD.replace("10, 8]", "NaN, 8]")),
    ("illegal", GOOD.replace("10, 8]", "9" * 5000 + ", 8]")),
    ("illegal", GOOD.replace("10, 8]", "1e999999999, 8]")),
    ("no_answer", ""),
    ("no_answer", "(10-8+1)*8=24"),
    ("no_answer", GOOD[:-1]),  # cut off
    ("no_answer", GOOD[: len(GOOD) // 2]),
    ("no_answer", "{}"),
    ("no_answer", "[1, 8, 10, 8]"),
    ("no_answer", json.dumps({"cards": ["A", "8", "K", "8"], "number": [1, 8, 10, 8]})),
    ("no_answer", answer("")),
    ("no_answer", answer(" ")),
    ("no_answer", answer(None)),
    ("no_answer", json.dumps({"answer": json.loads(GOOD)})),  # outermost objects alone
]


@pytest.mark.parametrize(("name", "text"), TABLE)
def test_table_of_outcomes(name, text):
    assert outcome(text) == name


def test_the_table_has_every_outcome():
    assert {name for name, _ in TABLE} == {o.value for o in Outcome}


def test_the_reference_answer_of_every_solvable_hand_is_correct_fractions_included():
    # Pitfall 21.
    rng, graded = random.Random(0), 0
    for number, hand in enumerate(all_hands()):
        for rule in (FACES_AS_RANK, FACES_AS_TEN)[: 1 + (number % 10 == 0)]:
            if not is_solvable(rule.values(hand)):
                continue
            expr = rng.choice(solutions(rule.values(hand)))
            cards = tuple(rng.sample(hand, 4))
            text = response_text(cards, rule, expr)
            verdict = grade_text(text, cards, rule)
            assert verdict.correct and verdict.value == 24
            assert verdict.values_read == rule.values(cards)
            graded += rule is FACES_AS_RANK
    assert graded == 1362
    assert outcome(answer("8/(3-8/3)=24", ("3", "3", "8", "8"), (3, 3, 8, 8)), (3, 3, 8, 8)) == "correct"


def test_the_reference_answer_is_the_papers_form():
    expr = Node("*", Node("+", Node("-", 10, 8), 1), 8)
    text = response_text((1, 8, 13, 8), FACES_AS_TEN, expr)
    assert json.loads(text) == {
        "cards": ["A", "8", "K", "8"],
        "number": [1, 8, 10, 8],
        "formula": "((10-8)+1)*8=24",
    }
    for bad, said in [
        (Node("/", 8, 3), "8/3"),
        (Node("-", 3, 8), "-5"),
        (Node("/", 3, Node("-", 8, 8)), "None"),
    ]:
        with pytest.raises(ValueError, match=f"comes to {said}; .* an integer"):
            response_text((3, 3, 8, 8), FACES_AS_TEN, bad)


def test_the_same_answer_under_the_other_rule_is_misread():
    assert outcome(GOOD, rule=FACES_AS_TEN) == "correct"
    assert outcome(GOOD, rule=FACES_AS_RANK) == "misread_cards"


def test_other_targets():
    assert outcome(answer("(10-8)*8+1=17"), target=17) == "correct"
    assert outcome(answer("(10-8)*8+1=24"), target=17) == "illegal"
    assert outcome(answer("10-8/8-1-8")) == "wrong_numbers"
    assert outcome(answer("8-8", ("8", "8"), (8, 8)), (8, 8), target=0) == "correct"


def test_the_prompt_has_no_answer_that_counts():
    # Pitfall 22: were the prompt read too, or held it an example, this would be an answer.
    for wording in range(4):
        prompt = prompt_text((1, 8, 13, 8), FACES_AS_TEN, wording=wording)
        assert outcome(prompt) == "no_answer"
        assert outcome(prompt + "\n" + GOOD[:-1]) == "no_answer"


def test_the_prompt_names_cards_rule_and_target():
    prompts = {prompt_text((1, 11, 12, 10), Rule(7, 5, 2), 17, wording) for wording in range(4)}
    assert len(prompts) == 4
    for wording, prompt in enumerate(prompt_text((1, 11, 12, 10), Rule(7, 5, 2), 17, w) for w in range(4)):
        assert "Cards: A, J, Q, 10\n" in prompt
        assert Rule(7, 5, 2).text(wording) in prompt
        assert '"=17"' in prompt and "24" not in prompt
        assert all(f'"{key}"' in prompt for key in ("cards", "number", "formula"))


@pytest.mark.parametrize(("hand", "said"), [((1, 2, 3), "four cards"), ((1, 2, 3, 14), "rank 14")])
def test_a_prompt_for_no_hand_is_refused(hand, said):
    with pytest.raises(ValueError, match=said):
        prompt_text(hand, FACES_AS_TEN)


def test_feedback_differs_by_outcome_and_gives_no_number_away():
    texts = [feedback_text(o) for o in Outcome]
    assert len(set(texts)) == len(Outcome)
    assert not re.search(r"\d", "".join(texts))
    assert all(outcome(text) == "no_answer" for text in texts)


def test_what_was_read_is_told_in_the_order_of_the_hand():
    hand = (1, 8, 13, 8)
    turned = answer(number=(10, 8, 8, 1), cards=("K", "8", "8", "A"))
    assert grade_text(turned, hand, FACES_AS_TEN).values_read == (1, 8, 10, 8)
    assert grade_text(answer("oops"), hand, FACES_AS_TEN).values_read == (1, 8, 10, 8)
    assert grade_text(answer(number=(1, 8, 13, 8)), hand, FACES_AS_TEN).values_read == (1, 8, 13, 8)
    assert grade_text("", hand, FACES_AS_TEN).values_read is None


def test_only_the_end_of_a_long_completion_is_read():
    assert outcome("a" * 10 * MAX_TEXT + GOOD) == "correct"
    assert outcome(GOOD + "a" * MAX_TEXT) == "no_answer"


HUGE = [
    "(" * 60 + "1" + ")" * 59,
    "(" * 10**6,
    "1" * 119 + "x",  # a careless regular expression takes for ever here
    "9" * 10**6,
    "9**9**9**9**9",
    "9*" * 10**5 + "9",
    "1/" * 59 + "1",
    " " * 119 + "x",
    "24=" + "2" * 9000,  # Python refuses to read an integer this long
]


@pytest.mark.parametrize("formula", HUGE)
def test_huge_formulas_are_judged_at_once(formula):
    start = time.process_time()
    assert outcome(answer(formula)) in ("illegal", "wrong_numbers", "no_answer")
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    "text",
    [
        '{"a":' * 10**5,
        "[" * 10**5 + "{" + "[" * 10**5,
        '{"formula": ' + "[" * 10**5 + "]" * 10**5 + "}",
        '{"formula": "' * 10**4,
        "{" * 10**5 + "}" * 10**5,
        '{"a":' * 3000 + GOOD + "}" * 3000,
        "\x00\ud800{\U0001f0a1}" * 1000,
        "{'" * 10**5,
        "formula{" * 10**4 + "}",
    ],
)
def test_huge_and_nested_texts_are_judged_at_once(text):
    start = time.process_time()
    assert outcome(text) in Outcome
    assert outcome(text + GOOD) in Outcome
    assert time.process_time() - start < 5


def test_brackets_nest_as_deep_as_a_formula_is_long():
    depth = MAX_FORMULA // 2 - 1
    assert parse_formula("(" * depth + "7" + ")" * depth) == 7
    assert parse_formula("(" * (depth + 2) + "7" + ")" * (depth + 2)) is None
    assert parse_formula("1" * MAX_FORMULA) == int("1" * MAX_FORMULA)
    assert parse_formula("1" * 9000) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1-2-3", -4),
        ("24/4/3", 2),
        ("2+3*4", 14),
        ("2*3+4", 10),
        ("(2+3)*4", 20),
        ("8-6/2*3", -1),
        ("1-(2-3)", 2),
        ("8/(3-8/3)", 24),
        ("007", 7),
        ("8÷2×3−1", 11),
    ],
)
def test_precedence_and_association(text, value):
    assert evaluate(parse_formula(text)) == value


ARITHMETIC = {
    ast.Add: Fraction.__add__,
    ast.Sub: Fraction.__sub__,
    ast.Mult: Fraction.__mul__,
    ast.Div: Fraction.__truediv__,
}


def python_value(text):
    """Value of a formula by Python's parser: a Fraction, None for a division by zero, or "malformed"."""

    def value(node):
        if isinstance(node, ast.Constant):
            return Fraction(node.value)
        return ARITHMETIC[type(node.op)](value(node.left), value(node.right))

    try:
        tree = ast.parse(re.sub(r"(?<!\d)0+(?=\d)", "", text).strip(), mode="eval").body
    except SyntaxError:
        return "malformed"
    for node in ast.walk(tree):
        if type(node) not in (ast.BinOp, ast.Constant, *ARITHMETIC):
            return "malformed"
    try:
        return value(tree)
    except ZeroDivisionError:
        return None


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@settings(deadline=None, max_examples=400)
@given(st.text(alphabet="0123456789+-*/() ", max_size=12))
@example("1*(2+3)")
@example("1/0")
@example("1+")
@example("1/0+-1")
@example("(1)(2)")
def test_formulas_are_read_as_python_reads_them(text):
    expected = python_value(text)
    expr = parse_formula(text)
    if expr is None:
        assert expected == "malformed" or "**" in text or "//" in text
    else:
        assert evaluate(expr) == expected


@settings(deadline=None, max_examples=200)
@given(
    st.recursive(st.integers(0, 99), lambda e: st.builds(Node, st.sampled_from("+-*/"), e, e), max_leaves=8)
)
def test_what_is_written_out_is_read_back(expr):
    if len(to_infix(expr)) <= MAX_FORMULA:
        assert parse_formula(to_infix(expr)) == expr


hands = st.tuples(*[st.integers(1, 13)] * 4)
pieces = st.sampled_from(
    [
        *'{}[]:,"',
        "'",
        '"cards"',
        '"number"',
        '"formula"',
        '"1+2"',
        "24",
        "null",
        "\\",
        "K",
        "```",
        "\n",
        GOOD,
        GOOD[:40],
    ]
)


@settings(deadline=None, max_examples=300)
@given(st.one_of(st.text(max_size=60), st.lists(pieces, max_size=25).map("".join)), hands)
def test_any_text_gives_a_named_outcome(text, hand):
    verdict = grade_text(text, hand, FACES_AS_TEN)
    assert verdict.outcome in Outcome
    assert verdict.correct is (verdict.outcome == "correct")


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, max_examples=150)
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(("cards", "number", "formula"), json_values)))
def test_any_json_gives_a_named_outcome_and_none_is_correct_by_luck(fields):
    found = outcome(json.dumps(fields))
    assert found in ("no_answer", "illegal", "misread_cards")
    formula = fields.get("formula")
    assert (found == "no_answer") is (formula is None or isinstance(formula, str) and not formula.strip())


def reference_outcome(cards, number, formula, hand, rule, target):
    """The docstring once more, for answers that are whole JSON objects with a text as formula."""
    left, equals, right = formula.partition("=")
    value = python_value(left)
    if value == "malformed" or value is None or (equals and not re.fullmatch(" *[0-9]+ *", right)):
        return "illegal"
    if equals and int(right) not in (target, value):
        return "illegal"
    names = "A 2 3 4 5 6 7 8 9 10 J Q K".split()
    wanted = sorted((names[rank - 1], rule.value(rank)) for rank in hand)
    if len(cards) != len(number) or sorted(zip(cards, number, strict=True)) != wanted:
        return "misread_cards"
    if sorted(map(int, re.findall("[0-9]+", left))) != sorted(rule.values(hand)):
        return "wrong_numbers"
    return "correct" if value == target else "wrong_value"


SOLVABLE = [h for h in random.Random(0).sample(all_hands(), 60) if is_solvable(h)]


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@settings(deadline=None, max_examples=300)
@given(st.sampled_from(SOLVABLE), st.sampled_from([FACES_AS_RANK, FACES_AS_TEN]), st.data())
def test_mutated_answers_are_judged_like_an_independent_reading(hand, rule, data):
    expr = data.draw(st.sampled_from(solutions(hand)))
    fields = json.loads(response_text(hand, FACES_AS_RANK, expr))
    formula, cards, number = fields["formula"], fields["cards"], fields["number"]
    for _ in range(data.draw(st.integers(0, 2))):
        kind = data.draw(st.sampled_from(["character", "character", "number", "card", "drop"]))
        at = data.draw(st.integers(0, 3))
        if kind == "character":
            i = data.draw(st.integers(0, len(formula)))
            new = data.draw(st.text(alphabet="0123456789+-*/()=", max_size=1))
            formula = formula[:i] + new + formula[i + data.draw(st.integers(0, 1)) :]
        elif kind == "number" and at < len(number):
            number[at] = data.draw(st.integers(1, 13))
        elif kind == "card":
            cards[at] = data.draw(st.sampled_from(["A", "5", "10", "K"]))
        elif kind == "drop":
            number = number[:at]
    if not re.fullmatch(r"[^*/]*([*/][^*/]+)*", formula) or not formula:
        return  # `**` and `//` mean something to Python
    assert outcome(answer(formula, cards, number), hand, rule) == reference_outcome(
        cards, number, formula, hand, rule, 24
    )
