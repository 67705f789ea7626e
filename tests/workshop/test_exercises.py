"""Checks proven by the bank of wrong answers, hints run as the code they are, the registry."""

import inspect
import itertools
import re
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest
import torch

from labkit.envs.points24.data import multiset, split_hands, writable
from labkit.envs.points24.rules import FACES_AS_RANK, FACES_AS_TEN, has_face
from labkit.envs.points24.solver import Node, all_hands, evaluate, is_solvable, solutions
from labkit.envs.trajectory import Step, Trajectory
from labkit.workshop import exercises
from labkit.workshop.build import read_text, text_files
from labkit.workshop.checking import call
from labkit.workshop.exercises import NOT_ATTEMPTED, OTHER, RAISED, CheckResult, Exercise, Mistake, get
from labkit.workshop.exercises_03 import (
    group_advantage,
    matched_accuracy,
    ood_hands,
    reading_accuracy,
    sft_loss_bug_hunt,
)
from tests.workshop.wrong_answers_01 import RIGHT, WRONG

EXERCISES = {e.id: e for notebook in exercises.notebooks() for e in exercises.of_notebook(notebook)}
GENERAL = {OTHER, RAISED, "wrong_type", "wrong_shape", "changes_inputs", "unknown_option", "incomplete"}
"""Mistakes that are typical of no exercise in particular."""


def each(table):
    return [
        pytest.param(id, answer, id=f"{id}-{number}")
        for id, answers in table.items()
        for number, answer in enumerate(answers)
    ]


def code_exercises():
    return [e for e in EXERCISES.values() if callable(e.solution)]


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_the_solution_passes(exercise):
    result = exercise.check(exercise.solution)
    assert result.passed and result.mistake is None, result.message


@pytest.mark.parametrize(("id", "answer"), each(RIGHT))
def test_right_answers_of_another_make_pass(id, answer):
    result = get(id).check(answer)
    assert result.passed, result.message


@pytest.mark.parametrize(("id", "case"), each(WRONG))
def test_each_wrong_answer_is_caught_by_its_name(id, case):
    mistake, answer = case
    result = get(id).check(answer)
    assert (result.passed, result.mistake) == (False, mistake), result.message
    assert result.attempted


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_the_bank_has_three_typical_mistakes_or_more_each_with_a_message_of_its_own(exercise):
    messages = {}
    for mistake, answer in WRONG[exercise.id]:
        if mistake not in GENERAL:
            messages.setdefault(mistake, exercise.check(answer).message)
    assert len(messages) >= 3
    assert len(set(messages.values())) == len(messages)
    assert all(len(message.split()) >= 8 for message in messages.values())
    assert exercise.id in RIGHT


@pytest.mark.parametrize("exercise", code_exercises(), ids=lambda e: e.id)
def test_no_message_gives_the_solution_away(exercise):
    lines = [line.strip() for line in inspect.getsource(exercise.solution).splitlines()]
    code = [line for line in lines if len(line) > 20 and re.search(r"[=(]", line)]
    assert code
    for _, answer in WRONG[exercise.id]:
        message = exercise.check(answer).message
        assert not [line for line in code if line in message]


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_every_mistake_a_check_can_name_is_in_the_bank(exercise):
    module = inspect.getmodule(exercise.examine)
    named = set(re.findall(r"(?:Mistake|fail)\(\s*\"(\w+)\"", inspect.getsource(module)))
    for table in (v for k, v in vars(module).items() if k.endswith("MESSAGES")):
        named |= set(table)
    assert named
    assert named - GENERAL <= {mistake for mistake, _ in WRONG[exercise.id]}


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_stubs_count_as_unattempted(exercise):
    namespace = {}
    exec(exercise.stub, namespace)
    for answer in (namespace[exercise.answer_name], None, ...):
        result = exercise.check(answer)
        assert (result.passed, result.mistake, result.attempted) == (False, NOT_ATTEMPTED, False)


@pytest.mark.parametrize("exercise", code_exercises(), ids=lambda e: e.id)
def test_functions_that_return_nothing_count_as_unattempted(exercise):
    for answer in (lambda *args, **kwargs: None, lambda *args, **kwargs: ...):
        result = exercise.check(answer)
        assert result.mistake == NOT_ATTEMPTED and "return" in result.message


@pytest.mark.parametrize("exercise", code_exercises(), ids=lambda e: e.id)
def test_an_answer_that_raises_is_told_what_and_where(exercise):
    def broken(*args, **kwargs):
        numbers = [1]
        return numbers[3]

    result = exercise.check(broken)
    assert result.mistake == RAISED
    assert "IndexError: list index out of range" in result.message
    assert "`return numbers[3]`" in result.message


@pytest.mark.parametrize("exercise", code_exercises(), ids=lambda e: e.id)
def test_another_signature_or_no_function_is_explained(exercise):
    result = exercise.check(lambda: 1)
    assert result.mistake == RAISED and f"`{exercise.answer_name}(" in result.message
    assert exercise.check(3.5).mistake == "not_a_function"
    assert exercise.check({"a": 1}).mistake == "not_a_function"


@pytest.mark.parametrize(
    "result", ["text", 1.5, [1], {}, float("nan"), torch.tensor(1.0), object()], ids=repr
)
@pytest.mark.parametrize("exercise", code_exercises(), ids=lambda e: e.id)
def test_whatever_an_answer_returns_the_check_has_something_to_say(exercise, result):
    checked = exercise.check(lambda *args, **kwargs: result)
    assert not checked.passed and checked.attempted
    assert checked.mistake != RAISED, checked.message


# What fills the blanks of the last hint.
BLANKS = {
    "01.history": ("t - 1", "t - 1"),
    "01.parse": ("0", ".*?", '""'),
    "01.failures": ("truncated", '"budget"', "1"),
    "01.policy": ('"toggle Airplane"', '"allow"', "land_first", '"back"'),
    "01.truncation": ("terminated", "gamma"),
    "01.mask": ('"<think>", "<act>"', "writing", '"<eos>"'),
    "02.policy_gradient_loss": ("advantages", "logprobs"),
    "02.clip_loss": ("1 - clip_low", "1 + clip_high", "minimum"),
    "02.gae": ("last_values", "gamma * next_value", "gamma * lam", "values[:, t]"),
    "02.rloo": ("groups", "(group_size - 1)"),
    "02.token_weights": ("mask.sum().clamp(min=1)", "rows", "max_length"),
    "02.kl_k3": ("reference_logprobs - logprobs", "log_ratio.exp()"),
    "02.sequence_ratio": ("sum", "mask.sum(-1, keepdim=True)", "exp"),
    "02.cispo": ("detach", "1 + clip_high", "logprobs"),
    "02.grpo_bug_hunt": ("groups.mean(-1, keepdim=True)", "ratio", "mask.sum(-1)"),
    "03.exact_value": ("left is None or right is None", "left / right"),
    "03.completion_mask": ("prompt_lengths.unsqueeze(-1)", "> 0"),
    "03.sft_loss_bug_hunt": ("ids[:, 1:]", "completion_mask[:, 1:]", "kept.sum()"),
    "03.group_advantage": ("-1, group_size", "groups.mean(-1, keepdim=True)"),
    "03.reading_accuracy": ("rule.values(hand)", "len(right)"),
    "03.ood_hands": ("train_rule", "test_rule", "test_rule"),
    "03.matched_accuracy": ("ood_accuracy[0]", "ood_accuracy[i] - ood_accuracy[i - 1]"),
}


@pytest.mark.parametrize("exercise", code_exercises(), ids=lambda e: e.id)
def test_the_last_hint_is_an_answer_that_passes_once_its_blanks_are_filled(exercise):
    (code,) = re.findall(r"```python\n(.*?)```", exercise.hints[-1], re.DOTALL)
    assert code.count("____") == len(BLANKS[exercise.id]) >= 1
    for blank in BLANKS[exercise.id]:
        code = code.replace("____", blank, 1)
    namespace = {}
    exec(exercise.stub, namespace)
    exec(code, namespace)
    result = exercise.check(namespace[exercise.answer_name])
    assert result.passed, result.message


# Names that inline code in hints uses, with values of the right kind.
EPISODE = Trajectory("world", {}, "goal", (Step("o", "ρ", "a"),), "o", False, True)
NAMES = {
    "01.history": {"trajectory": EPISODE, "t": 1},
    "01.parse": {"re": re, "written": ""},
    "01.failures": {"trajectory": EPISODE},
    "01.policy": {"observation": "WiFi : off", "history": EPISODE.steps},
    "02.policy_gradient_loss": {"logprobs": torch.zeros(2, 3)},
    "02.clip_loss": {"torch": torch, "ratio": torch.ones(2), "a": torch.ones(2), "b": torch.zeros(2)},
    "02.gae": {"torch": torch, "mask": torch.ones(2, 3), "t": 0, "kept": torch.tensor(True)}
    | {"new": torch.ones(2), "old": torch.zeros(2)},
    "02.rloo": {"rewards": torch.arange(4.0), "group_size": 2},
    "02.token_weights": {"mask": torch.ones(2, 3)},
    "02.sequence_ratio": {"mask": torch.ones(2, 3)},
    "02.cispo": {"ratio": torch.ones(2)},
    "02.grpo_bug_hunt": {"rewards": torch.arange(4.0), "group_size": 2},
    "03.exact_value": {"Fraction": Fraction, "left": None, "right": 0, "op": "/"},
    "03.completion_mask": {
        "torch": torch,
        "ids": torch.ones(2, 3, dtype=torch.long),
        "prompt_lengths": torch.tensor([1, 2]),
    },
    "03.sft_loss_bug_hunt": {"logits": torch.zeros(2, 3, 5), "ids": torch.ones(2, 3, dtype=torch.long)},
    "03.group_advantage": {"rewards": torch.arange(4.0), "group_size": 2},
    "03.ood_hands": {"rule": FACES_AS_TEN, "hand": (1, 2, 3, 11)},
    "03.matched_accuracy": {"target": 0.5, "x0": 0.4, "x1": 0.6},
}
NOT_EXPRESSIONS = {
    "+ - * /", "is None", "if", "J", ".mean()", "eps", "cumsum(-1)", "set", "None", "mean(-1, keepdim=True)",
    "[batch, time]", "clamp(min=1)", "kept = mask[:, t].bool()", "mean(-1)", "sum(-1, keepdim=True)",
    "(?=^(?:Thought|Action):|\\Z)", "(.*?)", "^", "home", "maps",
}  # fmt: skip


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_code_in_the_text_of_hints_runs(exercise):
    prose = re.sub(r"```.*?```", "", "\n".join(exercise.hints), flags=re.DOTALL)
    for code in re.findall(r"`([^`]+)`", prose):
        if code not in NOT_EXPRESSIONS:
            eval(code, dict(NAMES.get(exercise.id, {})))


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_hints_go_from_nudge_to_nearly_the_answer(exercise):
    assert len(exercise.hints) >= 3
    assert "```" not in exercise.hints[0]
    if callable(exercise.solution):
        assert "____" in exercise.hints[-1]
        assert exercise.solution.__module__.startswith("labkit.")
        assert exercise.solution.__doc__


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_an_exercise_says_how_long_and_why(exercise):
    assert exercise.notebook == exercise.id[:2]
    question, answer = exercise.why
    assert question.endswith("?") and len(answer.split()) > 15
    assert 3 <= exercise.minutes <= 20
    if isinstance(exercise.solution, Mapping):
        assert all(f"`{key}`" in exercise.task for key in exercise.solution)
        assert all(f'"{key}": ...' in exercise.stub for key in exercise.solution)
    else:
        assert f"{exercise.answer_name}(" in exercise.task


def test_mistakes_the_checks_tell_apart_by_number_give_different_numbers():
    reading = list(reading_accuracy.reading_mistakes().values())
    right = sum(row[3] for row in reading_accuracy.READINGS) / len(reading_accuracy.READINGS)
    assert len({round(n, 6) for n in [*reading, right]}) == len(reading) + 1
    crossings = {k: tuple(round(n, 6) for n in v) for k, v in matched_accuracy.crossing_mistakes().items()}
    wanted = tuple(round(c.wanted, 6) for c in matched_accuracy.CROSSINGS)
    assert len({*crossings.values(), wanted}) == len(crossings) + 1
    rewards = group_advantage.REWARDS
    advantages = group_advantage.advantage_mistakes(rewards, 1e-4)
    by_hand = group_advantage.advantages_by_hand(rewards, 1e-4)
    rounded = {tuple(round(n, 3) for n in numbers) for numbers in [*advantages.values(), by_hand]}
    assert len(rounded) == len(advantages) + 1
    right = [sft_loss_bug_hunt.loss_by_loop(case) for case in sft_loss_bug_hunt.loss_cases()]
    losses = sft_loss_bug_hunt.loss_mistakes()
    assert all(max(abs(a - b) for a, b in zip(loss, right, strict=True)) > 1e-2 for loss in losses.values())


@pytest.mark.parametrize("train_rule", [FACES_AS_TEN, FACES_AS_RANK], ids=lambda r: r.name)
def test_the_brute_force_oracle_agrees_with_labkit_on_all_held_out_hands(train_rule):
    hands = split_hands().test
    by_labkit = set(writable(hands, train_rule))
    assert by_labkit == {h for h in hands if ood_hands.can_reach(multiset(h, train_rule))}


def test_what_the_texts_say_of_the_game_is_so():
    eights = Node("/", 8, Node("-", 3, Node("/", 8, 3)))
    assert solutions((3, 3, 8, 8)) == [eights] and evaluate(eights) == 24
    assert 8 / (3 - 8 / 3) != 24
    seen = [h for h in split_hands().test if has_face(h) and is_solvable(FACES_AS_RANK.values(h))]
    shown = {multiset(h, FACES_AS_TEN) for h in split_hands().train}
    assert not [h for h in seen if multiset(h, FACES_AS_RANK) in shown]
    other_way = [h for h in writable(split_hands().test, FACES_AS_TEN) if has_face(h)]
    shown = {multiset(h, FACES_AS_RANK) for h in split_hands().train}
    assert sum(multiset(h, FACES_AS_TEN) in shown for h in other_way) > 0.4 * len(other_way)


def as_float(expr):
    if not isinstance(expr, Node):
        return float(expr)
    left, right = as_float(expr.left), as_float(expr.right)
    if expr.op == "/":
        return left / right
    return left + right if expr.op == "+" else left - right if expr.op == "-" else left * right


@pytest.mark.slow
def test_what_the_texts_say_of_floats_is_so():
    found = {hand: [as_float(e) == 24 for e in solutions(hand)] for hand in all_hands() if is_solvable(hand)}
    accepted = [a for hand in found.values() for a in hand]
    assert (len(accepted), accepted.count(False)) == (16_583, 58)
    assert [hand for hand, right in found.items() if not any(right)] == [(3, 3, 8, 8)]


def test_no_hand_misses_24_by_less_than_a_thirteenth():
    hands = np.array(all_hands(), dtype=float).T
    nearest = np.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        for a, b, c, d in itertools.permutations(hands):
            for ab in combinations_of(a, b):
                values = [v for abc in combinations_of(ab, c) for v in combinations_of(abc, d)]
                values += [v for cd in combinations_of(c, d) for v in combinations_of(ab, cd)]
                gaps = np.abs(np.array(values) - 24)
                nearest = min(nearest, gaps[np.isfinite(gaps) & (gaps > 1e-6)].min())
    assert nearest == pytest.approx(1 / 13)


def combinations_of(x, y):
    return (x + y, x - y, x * y, x / y, y - x, y / x)


def throw(error):
    raise error


def example(**changes):
    fields = {
        "id": "99.example",
        "title": "t",
        "difficulty": 1,
        "importance": 1,
        "minutes": 1,
        "task": "task",
        "stub": "def f(x):\n    raise NotImplementedError\n",
        "hints": ("a", "b", "c"),
        "solution": len,
        "examine": lambda answer: str(call(answer, [1])),
        "why": ("Why?", "So."),
    }
    return Exercise(**fields | changes)


def test_malformed_exercises_are_refused():
    for changes, words in (
        ({"id": "mask"}, "not like"),
        ({"difficulty": 6}, "1 to 5"),
        ({"minutes": 0}, "positive"),
        ({"hints": ("one",)}, "three steps"),
    ):
        with pytest.raises(ValueError, match=words):
            example(**changes)


def test_check_turns_every_way_of_failing_into_a_result():
    def fails_with(error):
        # `len` has no source, so that the error cannot be taken for one of the answer's.
        return example(examine=lambda answer: throw(error)).check(len)

    assert fails_with(Mistake("name", "message")) == CheckResult(False, "message", "name")
    assert fails_with(NotImplementedError()).mistake == NOT_ATTEMPTED
    assert fails_with(RuntimeError("boom\nsecond line")) == CheckResult(
        False,
        "The check stopped with `RuntimeError: boom second line`. It calls your function as `f(x)`.",
        RAISED,
    )
    with pytest.raises(KeyboardInterrupt):
        fails_with(KeyboardInterrupt())


def test_an_untouched_stub_is_told_from_a_changed_one():
    stub = 'import math\n\n\ndef f(x):\n    """Doc."""\n    return [y * 1 for y in x]\n'
    namespace = {}
    exec("\n\n\n" + stub, namespace)
    assert exercises.is_untouched(namespace["f"], stub)
    for change in (("* 1", "* 2"), ("y * 1", "y + 1"), ("in x", "in math"), ("return", "yield")):
        exec(stub.replace(*change), namespace)
        assert not exercises.is_untouched(namespace["f"], stub), change
    assert exercises.is_untouched({"a": ..., "b": None}, stub)
    assert not exercises.is_untouched({"a": ..., "b": 1}, stub)
    assert not exercises.is_untouched(len, stub)


def test_call_gives_copies_and_notices_changes():
    given = [torch.zeros(2), {"a": [1]}]
    assert call(lambda x: x[0].sum().item(), given) == 0
    for change in (lambda x: x[0].add_(1), lambda x: x[1]["a"].append(2) or 1, lambda x: x.pop()):
        with pytest.raises(Mistake, match="work on a copy"):
            call(change, given)
    assert given[0].sum() == 0 and given[1] == {"a": [1]}


def test_unknown_ids_name_near_ones():
    assert get("03.completion_mask").title == "What is trained on"
    with pytest.raises(ValueError, match=r"did you mean 03\.completion_mask"):
        get("03.completion_masks")
    with pytest.raises(ValueError, match=r"did you mean 03\.exact_value"):
        get("3.exact_value")
    with pytest.raises(ValueError, match=r"did you mean 03\.ood_hands"):
        get("ood_hands")
    with pytest.raises(ValueError, match=r"there are 01\.transition, 01\..*, 02\..*, 03\."):
        get("zzzz")
    with pytest.raises(ValueError, match="these have: 01, 02, 03"):
        exercises.of_notebook("99")


@pytest.mark.parametrize("text", text_files(), ids=lambda t: t.stem)
def test_a_notebook_holds_task_stub_and_check_of_each_exercise_side_by_side(text):
    sources = [cell.source.strip() for cell in read_text(text).cells if cell.cell_type == "code"]
    for exercise in exercises.of_notebook(text.stem[:2]):
        start = sources.index(exercise.cells[0])
        assert tuple(sources[start : start + 3]) == exercise.cells


def test_notebook_03_has_its_exercises_in_order():
    assert [e.id for e in exercises.of_notebook("03")] == [
        "03.exact_value",
        "03.reading_accuracy",
        "03.ood_hands",
        "03.completion_mask",
        "03.sft_loss_bug_hunt",
        "03.group_advantage",
        "03.matched_accuracy",
        "03.design_control",
    ]


def test_registering_an_id_from_elsewhere_is_refused():
    first = get("03.exact_value")
    with pytest.raises(ValueError, match="registered twice"):
        exercises.register(example(id=first.id))
    exercises.register(first)
    assert get("03.exact_value") is first
