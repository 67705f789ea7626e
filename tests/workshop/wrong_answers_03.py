"""Answers to notebook 03's exercises as learners write them: typical mistakes, and other right ones.

`WRONG[id]` is a list of (name of the mistake, answer), `RIGHT[id]` a list of answers.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction

import numpy as np
import torch

from labkit.envs.points24.data import multiset, split_hands, writable
from labkit.envs.points24.grading import Outcome
from labkit.envs.points24.rules import has_face
from labkit.envs.points24.solver import Node, is_solvable, to_infix

WRONG = defaultdict(list)
RIGHT = defaultdict(list)


def wrong(exercise, mistake):
    def keep(answer):
        WRONG[exercise].append((mistake, answer))
        return answer

    return keep


def right(exercise):
    def keep(answer):
        RIGHT[exercise].append(answer)
        return answer

    return keep


def evaluator(number, divide, *, none=lambda left, right: left is None or right is None):
    """A recursive evaluator over some number type and division."""

    def exact_value(expr):
        if isinstance(expr, int):
            return number(expr)
        op, left, right = expr[0], exact_value(expr[1]), exact_value(expr[2])
        if none(left, right):
            return None
        if op == "/":
            return divide(left, right)
        return left + right if op == "+" else left - right if op == "-" else left * right

    return exact_value


def or_none(divide):
    return lambda a, b: divide(a, b) if b != 0 else None


EXACT = "03.exact_value"
WRONG[EXACT] += [
    ("inexact", evaluator(float, or_none(lambda a, b: a / b))),
    ("inexact", evaluator(Decimal, or_none(lambda a, b: a / b))),
    ("integer_division", evaluator(int, or_none(lambda a, b: a // b))),
    ("raises_on_zero", evaluator(Fraction, lambda a, b: a / b)),
    ("zero_division_has_value", evaluator(Fraction, lambda a, b: a / b if b else Fraction(0))),
    ("zero_division_has_value", evaluator(Fraction, lambda a, b: a / b if b else math.inf)),
    ("none_not_passed_on", evaluator(Fraction, or_none(lambda a, b: a / b), none=lambda a, b: False)),
    ("none_not_passed_on", evaluator(Fraction, or_none(lambda a, b: a / b), none=lambda a, b: a is None)),
    (
        "zero_taken_for_none",
        evaluator(Fraction, or_none(lambda a, b: a / b), none=lambda a, b: not a or not b),
    ),
    ("swapped_operands", evaluator(Fraction, or_none(lambda a, b: b / a if a else None))),
]


@wrong(EXACT, "rounded")
def rounded_floats(expr):
    value = evaluator(float, or_none(lambda a, b: a / b))(expr)
    return None if value is None else round(value, 6)


@wrong(EXACT, "rounded")
def snapped_to_a_simple_fraction(expr):
    value = evaluator(float, or_none(lambda a, b: a / b))(expr)
    return None if value is None else Fraction(value).limit_denominator(10_000)


@wrong(EXACT, "inexact")
def evaluated_as_text(expr):
    try:
        return eval(to_infix(expr))
    except ZeroDivisionError:
        return None


@wrong(EXACT, "returns_bool")
def says_whether_it_is_24(expr):
    return evaluator(Fraction, or_none(lambda a, b: a / b))(expr) == 24


@wrong(EXACT, "wrong_type")
def returns_text(expr):
    return to_infix(expr)


@wrong(EXACT, "raised")
def does_not_recurse(expr):
    if isinstance(expr, int):
        return Fraction(expr)
    op, left, right = expr
    if op == "/":
        return None if right == 0 else Fraction(left, right)
    return {"+": left + right, "-": left - right, "*": left * right}[op]


@right(EXACT)
def by_attributes(expr):
    if not isinstance(expr, Node):
        return expr
    left, right = by_attributes(expr.left), by_attributes(expr.right)
    if left is None or right is None:
        return None
    try:
        return {
            "+": lambda: left + right,
            "-": lambda: left - right,
            "*": lambda: left * right,
            "/": lambda: Fraction(left) / right,
        }[expr.op]()
    except ZeroDivisionError:
        return None


MASK = "03.completion_mask"


def positions(ids):
    return torch.arange(ids.shape[1]).expand(ids.shape)


def mask_to_first_eos(ids, prompt_lengths, eos_id, pad_id, start=0):
    mask = torch.zeros_like(ids, dtype=torch.bool)
    for row, tokens in enumerate(ids.tolist()):
        for t in range(int(prompt_lengths[row]) + start, len(tokens)):
            if tokens[t] == pad_id and tokens[t] != eos_id:
                break
            mask[row, t] = True
            if tokens[t] == eos_id:
                break
    return mask


right(MASK)(mask_to_first_eos)


@right(MASK)
def as_integers(ids, prompt_lengths, eos_id, pad_id):
    return mask_to_first_eos(ids, prompt_lengths, eos_id, pad_id).long()


@wrong(MASK, "inverted")
def what_is_masked_out(ids, prompt_lengths, eos_id, pad_id):
    return ~mask_to_first_eos(ids, prompt_lengths, eos_id, pad_id)


@wrong(MASK, "eos_left_out")
def eos_and_padding_dropped(ids, prompt_lengths, eos_id, pad_id):
    return (positions(ids) >= prompt_lengths[:, None]) & (ids != eos_id) & (ids != pad_id)


@wrong(MASK, "eos_left_out")
def up_to_the_eos(ids, prompt_lengths, eos_id, pad_id):
    in_response = positions(ids) >= prompt_lengths[:, None]
    return in_response & ((in_response & (ids == eos_id)).cumsum(-1) == 0) & (ids != pad_id)


@wrong(MASK, "eos_taken_for_padding")
def all_padding_dropped(ids, prompt_lengths, eos_id, pad_id):
    return (positions(ids) >= prompt_lengths[:, None]) & (ids != pad_id)


@wrong(MASK, "padding_kept")
def everything_after_the_prompt(ids, prompt_lengths, eos_id, pad_id):
    return positions(ids) >= prompt_lengths[:, None]


@wrong(MASK, "prompt_kept")
def everything_but_padding(ids, prompt_lengths, eos_id, pad_id):
    return mask_to_first_eos(ids, torch.zeros_like(prompt_lengths), -1, pad_id)


@wrong(MASK, "off_by_one")
def one_too_late(ids, prompt_lengths, eos_id, pad_id):
    return mask_to_first_eos(ids, prompt_lengths, eos_id, pad_id, start=1)


@wrong(MASK, "off_by_one")
def one_too_early(ids, prompt_lengths, eos_id, pad_id):
    return mask_to_first_eos(ids, prompt_lengths, eos_id, pad_id, start=-1)


@wrong(MASK, "off_by_one")
def greater_than(ids, prompt_lengths, eos_id, pad_id):
    in_response = positions(ids) > prompt_lengths[:, None]
    return in_response & mask_to_first_eos(ids, prompt_lengths, eos_id, pad_id)


@wrong(MASK, "eos_in_prompt")
def first_eos_of_the_row(ids, prompt_lengths, eos_id, pad_id):
    ends = ids == eos_id
    ended_before = ends.cumsum(-1) - ends.long() > 0
    return (positions(ids) >= prompt_lengths[:, None]) & ~ended_before & ((ids != pad_id) | ends)


@wrong(MASK, "cut_off")
def padding_forgotten(ids, prompt_lengths, eos_id, pad_id):
    ends = (positions(ids) >= prompt_lengths[:, None]) & (ids == eos_id)
    return (positions(ids) >= prompt_lengths[:, None]) & (ends.cumsum(-1) - ends.long() == 0)


@wrong(MASK, "cut_off")
def position_of_the_eos(ids, prompt_lengths, eos_id, pad_id):
    in_response = positions(ids) >= prompt_lengths[:, None]
    end = (in_response & (ids == eos_id)).int().argmax(-1)
    return in_response & (positions(ids) <= end[:, None])


@wrong(MASK, "labels_not_mask")
def labels(ids, prompt_lengths, eos_id, pad_id):
    return ids.masked_fill(~mask_to_first_eos(ids, prompt_lengths, eos_id, pad_id), -100)


@wrong(MASK, "wrong_shape")
def shifted_for_the_loss(ids, prompt_lengths, eos_id, pad_id):
    return mask_to_first_eos(ids, prompt_lengths, eos_id, pad_id)[:, 1:]


@wrong(MASK, "changes_inputs")
def overwrites_ids(ids, prompt_lengths, eos_id, pad_id):
    mask = mask_to_first_eos(ids, prompt_lengths, eos_id, pad_id)
    ids[~mask] = -100
    return mask


@wrong(MASK, "other")
def nothing_kept(ids, prompt_lengths, eos_id, pad_id):
    return mask_to_first_eos(ids, prompt_lengths, eos_id, pad_id) & (ids == eos_id)


LOSS = "03.sft_loss_bug_hunt"


def picked(logits, ids):
    return logits.log_softmax(-1).gather(-1, ids.unsqueeze(-1)).squeeze(-1)


@right(LOSS)
def by_cross_entropy(logits, ids, completion_mask):
    labels = torch.where(completion_mask, ids, -100)
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


@wrong(LOSS, "no_shift")
def only_the_mean_repaired(logits, ids, completion_mask):
    return -(picked(logits, ids) * completion_mask).sum() / completion_mask.sum()


@wrong(LOSS, "no_shift")
def stub_in_other_words(logits, ids, completion_mask):
    return -torch.mean(picked(logits, ids) * completion_mask)


@wrong(LOSS, "wrong_shift")
def shifted_the_other_way(logits, ids, completion_mask):
    kept = completion_mask[:, :-1]
    return -(picked(logits[:, 1:], ids[:, :-1]) * kept).sum() / kept.sum()


@wrong(LOSS, "mask_not_shifted")
def mask_left_behind(logits, ids, completion_mask):
    kept = completion_mask[:, :-1]
    return -(picked(logits[:, :-1], ids[:, 1:]) * kept).sum() / kept.sum()


@wrong(LOSS, "mean_over_all")
def only_the_shift_repaired(logits, ids, completion_mask):
    return -(picked(logits[:, :-1], ids[:, 1:]) * completion_mask[:, 1:]).mean()


@wrong(LOSS, "mean_over_all")
def divided_by_all_tokens(logits, ids, completion_mask):
    return -(picked(logits[:, :-1], ids[:, 1:]) * completion_mask[:, 1:]).sum() / ids.numel()


@wrong(LOSS, "mean_of_row_means")
def mean_of_rows(logits, ids, completion_mask):
    kept = completion_mask[:, 1:]
    rows = -(picked(logits[:, :-1], ids[:, 1:]) * kept).sum(-1) / kept.sum(-1)
    return rows.mean()


@wrong(LOSS, "mean_of_row_means")
def sum_of_row_means(logits, ids, completion_mask):
    kept = completion_mask[:, 1:]
    return (-(picked(logits[:, :-1], ids[:, 1:]) * kept).sum(-1) / kept.sum(-1)).sum()


@wrong(LOSS, "sum")
def summed(logits, ids, completion_mask):
    return -(picked(logits[:, :-1], ids[:, 1:]) * completion_mask[:, 1:]).sum()


@wrong(LOSS, "first_token_counted")
def divided_by_the_whole_mask(logits, ids, completion_mask):
    return -(picked(logits[:, :-1], ids[:, 1:]) * completion_mask[:, 1:]).sum() / completion_mask.sum()


@wrong(LOSS, "sign")
def log_likelihood(logits, ids, completion_mask):
    return picked(logits[:, :-1], ids[:, 1:])[completion_mask[:, 1:]].mean()


@wrong(LOSS, "no_gradient")
def a_plain_number(logits, ids, completion_mask):
    return by_cross_entropy(logits, ids, completion_mask).item()


@wrong(LOSS, "no_gradient")
def detached(logits, ids, completion_mask):
    return by_cross_entropy(logits.detach(), ids, completion_mask)


@wrong(LOSS, "wrong_gradient")
def normaliser_detached(logits, ids, completion_mask):
    logprobs = logits - logits.logsumexp(-1, keepdim=True).detach()
    chosen = logprobs[:, :-1].gather(-1, ids[:, 1:, None]).squeeze(-1)
    return -chosen[completion_mask[:, 1:]].mean()


@wrong(LOSS, "wrong_shape")
def one_loss_a_token(logits, ids, completion_mask):
    return -picked(logits[:, :-1], ids[:, 1:])[completion_mask[:, 1:]]


@wrong(LOSS, "other")
def probabilities_without_log(logits, ids, completion_mask):
    chosen = logits[:, :-1].softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)
    return -chosen[completion_mask[:, 1:]].mean()


@wrong(LOSS, "changes_inputs")
def overwrites_the_mask(logits, ids, completion_mask):
    completion_mask[:, 0] = False
    return by_cross_entropy(logits, ids, completion_mask)


ADVANTAGE = "03.group_advantage"


@right(ADVANTAGE)
def one_group_at_a_time(rewards, group_size, eps=1e-4):
    return torch.cat([(g - g.mean()) / (g.std() + eps) for g in rewards.split(group_size)])


@right(ADVANTAGE)
def in_numpy(rewards, group_size, eps=1e-4):
    groups = rewards.numpy().reshape(-1, group_size)
    centred = groups - groups.mean(1, keepdims=True)
    return (centred / (groups.std(1, ddof=1, keepdims=True) + eps)).ravel()


def standardised(groups, eps, std=None):
    std = groups.std(-1, keepdim=True) if std is None else std
    return (groups - groups.mean(-1, keepdim=True)) / (std + eps)


@wrong(ADVANTAGE, "biased_std")
def numpy_default(rewards, group_size, eps=1e-4):
    groups = rewards.view(-1, group_size)
    return standardised(groups, eps, groups.std(-1, keepdim=True, correction=0)).view(-1)


@wrong(ADVANTAGE, "batch_statistics")
def whole_batch(rewards, group_size, eps=1e-4):
    return (rewards - rewards.mean()) / (rewards.std() + eps)


@wrong(ADVANTAGE, "batch_statistics")
def whole_batch_biased(rewards, group_size, eps=1e-4):
    return (rewards - rewards.mean()) / (rewards.std(correction=0) + eps)


@wrong(ADVANTAGE, "batch_std")
def group_mean_batch_std(rewards, group_size, eps=1e-4):
    return standardised(rewards.view(-1, group_size), eps, rewards.std()).view(-1)


@wrong(ADVANTAGE, "no_eps")
def without_eps(rewards, group_size, eps=1e-4):
    return standardised(rewards.view(-1, group_size), 0.0).view(-1)


@wrong(ADVANTAGE, "ranks")
def ranked(rewards, group_size, eps=1e-4):
    ranks = rewards.view(-1, group_size).argsort(-1).argsort(-1).float()
    return standardised(ranks, eps).view(-1)


@wrong(ADVANTAGE, "ranks")
def ranked_from_0_to_1(rewards, group_size, eps=1e-4):
    return (rewards.view(-1, group_size).argsort(-1).argsort(-1) / (group_size - 1)).view(-1)


@wrong(ADVANTAGE, "not_centred")
def only_divided(rewards, group_size, eps=1e-4):
    groups = rewards.view(-1, group_size)
    return (groups / (groups.std(-1, keepdim=True) + eps)).view(-1)


@wrong(ADVANTAGE, "not_scaled")
def only_centred(rewards, group_size, eps=1e-4):
    groups = rewards.view(-1, group_size)
    return (groups - groups.mean(-1, keepdim=True)).view(-1)


@wrong(ADVANTAGE, "variance")
def divided_by_variance(rewards, group_size, eps=1e-4):
    groups = rewards.view(-1, group_size)
    return standardised(groups, eps, groups.var(-1, keepdim=True)).view(-1)


@wrong(ADVANTAGE, "interleaved_groups")
def groups_in_columns(rewards, group_size, eps=1e-4):
    columns = rewards.view(group_size, -1)
    return ((columns - columns.mean(0)) / (columns.std(0) + eps)).view(-1)


@wrong(ADVANTAGE, "sign")
def turned_round(rewards, group_size, eps=1e-4):
    return -one_group_at_a_time(rewards, group_size, eps)


@wrong(ADVANTAGE, "wrong_shape")
def left_in_groups(rewards, group_size, eps=1e-4):
    return standardised(rewards.view(-1, group_size), eps)


@wrong(ADVANTAGE, "eps_ignored")
def eps_of_its_own(rewards, group_size, eps=1e-4):
    return standardised(rewards.view(-1, group_size), 1e-4).view(-1)


@wrong(ADVANTAGE, "changes_inputs")
def in_place(rewards, group_size, eps=1e-4):
    groups = rewards.view(-1, group_size)
    groups -= groups.mean(-1, keepdim=True)
    return (groups / (groups.std(-1, keepdim=True) + eps)).view(-1).clone()


@wrong(ADVANTAGE, "equal_group_pushed")
def equal_rewards_kept(rewards, group_size, eps=1e-4):
    groups = rewards.view(-1, group_size)
    equal = (groups == groups[:, :1]).all(-1, keepdim=True)
    return torch.where(equal, groups, standardised(groups, eps)).view(-1)


@wrong(ADVANTAGE, "other")
def nothing_at_all(rewards, group_size, eps=1e-4):
    return torch.zeros_like(rewards)


@wrong(ADVANTAGE, "raised")
def without_an_eps_parameter(rewards, group_size):
    return rewards


READING = "03.reading_accuracy"


@right(READING)
def counted(verdicts, hands, rule):
    right = 0
    for verdict, hand in zip(verdicts, hands, strict=True):
        if verdict.values_read is not None and list(verdict.values_read) == [
            rule.value(card) for card in hand
        ]:
            right += 1
    return np.float64(right / len(hands))


def share(kept):
    kept = list(kept)
    return sum(kept) / len(kept)


@wrong(READING, "only_solved")
def among_solved(verdicts, hands, rule):
    return share(v.values_read == rule.values(h) for v, h in zip(verdicts, hands, strict=True) if v.correct)


@wrong(READING, "solving_accuracy")
def read_and_solved(verdicts, hands, rule):
    return share(v.values_read == rule.values(h) and v.correct for v, h in zip(verdicts, hands, strict=True))


@wrong(READING, "per_card")
def cards_read(verdicts, hands, rule):
    read = 0
    for verdict, hand in zip(verdicts, hands, strict=True):
        read += sum(a == b for a, b in zip(verdict.values_read or (), rule.values(hand), strict=False))
    return read / (4 * len(hands))


@wrong(READING, "order_ignored")
def as_multisets(verdicts, hands, rule):
    return share(
        sorted(v.values_read or ()) == sorted(rule.values(h)) for v, h in zip(verdicts, hands, strict=True)
    )


@wrong(READING, "wrong_rule")
def against_ranks(verdicts, hands, rule):
    return share(v.values_read == tuple(h) for v, h in zip(verdicts, hands, strict=True))


@wrong(READING, "unread_left_out")
def where_something_was_read(verdicts, hands, rule):
    pairs = [(v, h) for v, h in zip(verdicts, hands, strict=True) if v.values_read]
    return share(v.values_read == rule.values(h) for v, h in pairs)


@wrong(READING, "by_outcome")
def not_misread(verdicts, hands, rule):
    return share(v.outcome != Outcome.MISREAD_CARDS for v in verdicts)


@wrong(READING, "percent")
def in_percent(verdicts, hands, rule):
    return 100 * counted(verdicts, hands, rule)


@wrong(READING, "misread_share")
def misread(verdicts, hands, rule):
    return share(v.values_read != rule.values(h) for v, h in zip(verdicts, hands, strict=True))


@wrong(READING, "rule_ignored")
def faces_are_ten(verdicts, hands, rule):
    return share(v.values_read == tuple(min(c, 10) for c in h) for v, h in zip(verdicts, hands, strict=True))


@wrong(READING, "wrong_type")
def one_a_hand(verdicts, hands, rule):
    return [v.values_read == rule.values(h) for v, h in zip(verdicts, hands, strict=True)]


@wrong(READING, "other")
def counts_hands(verdicts, hands, rule):
    return len(hands)


HANDS = "03.ood_hands"


@right(HANDS)
def brute_force(hands, train_rule, test_rule):
    kept = []
    for hand in hands:
        orders = set(itertools.permutations(test_rule.values(hand)))
        shown = any(train_rule.values(h) in orders for h in split_hands().train)
        if has_face(hand) and not shown and writable([hand], test_rule):
            kept.append(list(hand))
    return kept


def fair(hands, train_rule, test_rule, **changes):
    options = {
        "face": has_face,
        "solve_under": test_rule,
        "value_training_by": train_rule,
        "value_test_by": test_rule,
        "key": lambda hand, rule: multiset(hand, rule),
    } | changes
    key = options["key"]
    shown = {key(h, options["value_training_by"]) for h in split_hands().train}
    playable = writable([h for h in hands if options["face"](h)], options["solve_under"])
    return [h for h in playable if key(h, options["value_test_by"]) not in shown]


@wrong(HANDS, "leak")
def leakage_forgotten(hands, train_rule, test_rule):
    return writable([h for h in hands if has_face(h)], test_rule)


@wrong(HANDS, "compares_hands")
def by_cards(hands, train_rule, test_rule):
    return fair(hands, train_rule, test_rule, key=lambda hand, rule: tuple(sorted(hand)))


@wrong(HANDS, "solvable_by_training_rule")
def solvable_in_training(hands, train_rule, test_rule):
    return fair(hands, train_rule, test_rule, solve_under=train_rule)


@wrong(HANDS, "no_face_kept")
def faces_forgotten(hands, train_rule, test_rule):
    return fair(hands, train_rule, test_rule, face=lambda hand: True)


@wrong(HANDS, "training_valued_by_test_rule")
def one_rule_for_both(hands, train_rule, test_rule):
    return fair(hands, train_rule, test_rule, value_training_by=test_rule)


@wrong(HANDS, "hand_valued_by_training_rule")
def training_rule_for_both(hands, train_rule, test_rule):
    return fair(hands, train_rule, test_rule, value_test_by=train_rule)


@wrong(HANDS, "order_matters")
def in_the_order_dealt(hands, train_rule, test_rule):
    return fair(hands, train_rule, test_rule, key=lambda hand, rule: rule.values(hand))


@wrong(HANDS, "unsolvable_kept")
def unsolvable_kept(hands, train_rule, test_rule):
    shown = {multiset(h, train_rule) for h in split_hands().train}
    return [h for h in hands if has_face(h) and multiset(h, test_rule) not in shown]


@wrong(HANDS, "wrong_type")
def how_many(hands, train_rule, test_rule):
    return len(fair(hands, train_rule, test_rule))


@wrong(HANDS, "other")
def nothing_left(hands, train_rule, test_rule):
    return []


@wrong(HANDS, "other")
def other_hands(hands, train_rule, test_rule):
    return fair(split_hands().validation, train_rule, test_rule)


MATCHED = "03.matched_accuracy"


@right(MATCHED)
def by_segments(id_accuracy, ood_accuracy, target):
    if id_accuracy[0] >= target:
        return ood_accuracy[0]
    for a, b, c, d in zip(id_accuracy, id_accuracy[1:], ood_accuracy, ood_accuracy[1:], strict=False):
        if a < target <= b:
            return np.interp(target, [a, b], [c, d])
    return np.nan


@wrong(MATCHED, "best_ood")
def best(id_accuracy, ood_accuracy, target):
    return max(ood_accuracy)


@wrong(MATCHED, "last_point")
def at_the_end(id_accuracy, ood_accuracy, target):
    return ood_accuracy[-1]


@wrong(MATCHED, "best_id")
def at_the_peak(id_accuracy, ood_accuracy, target):
    return ood_accuracy[int(np.argmax(id_accuracy))]


@wrong(MATCHED, "no_interpolation")
def nearest(id_accuracy, ood_accuracy, target):
    return ood_accuracy[int(np.argmin(np.abs(np.array(id_accuracy) - target)))]


@wrong(MATCHED, "no_interpolation")
def first_above(id_accuracy, ood_accuracy, target):
    return next((y for x, y in zip(id_accuracy, ood_accuracy, strict=True) if x >= target), math.nan)


@wrong(MATCHED, "order_lost")
def numpy_interp(id_accuracy, ood_accuracy, target):
    return np.interp(target, id_accuracy, ood_accuracy)


@wrong(MATCHED, "order_lost")
def sorted_first(id_accuracy, ood_accuracy, target):
    pairs = sorted(zip(id_accuracy, ood_accuracy, strict=True))
    return np.interp(target, [x for x, _ in pairs], [y for _, y in pairs])


@wrong(MATCHED, "last_crossing")
def from_the_end(id_accuracy, ood_accuracy, target):
    for i in range(len(id_accuracy) - 1, 0, -1):
        low, high = sorted(id_accuracy[i - 1 : i + 1])
        if low <= target <= high:
            share = (target - id_accuracy[i - 1]) / (id_accuracy[i] - id_accuracy[i - 1])
            return ood_accuracy[i - 1] + share * (ood_accuracy[i] - ood_accuracy[i - 1])
    return math.nan


def crossing_with(mix):
    def matched_accuracy(id_accuracy, ood_accuracy, target):
        for i, x in enumerate(id_accuracy):
            if x >= target:
                if i == 0:
                    return ood_accuracy[0]
                share = (target - id_accuracy[i - 1]) / (x - id_accuracy[i - 1])
                return mix(ood_accuracy[i - 1], ood_accuracy[i], share)
        return math.nan

    return matched_accuracy


WRONG[MATCHED] += [
    ("weights_swapped", crossing_with(lambda a, b, share: share * a + (1 - share) * b)),
    ("midpoint", crossing_with(lambda a, b, share: (a + b) / 2)),
]


@wrong(MATCHED, "wraps_around")
def without_a_first_point(id_accuracy, ood_accuracy, target):
    x, y = np.array(id_accuracy), np.array(ood_accuracy)
    if not (x >= target).any():
        return math.nan
    i = int(np.argmax(x >= target))
    return y[i - 1] + (target - x[i - 1]) / (x[i] - x[i - 1]) * (y[i] - y[i - 1])


@wrong(MATCHED, "on_a_point")
def strictly_above(id_accuracy, ood_accuracy, target):
    if id_accuracy[0] >= target:
        return ood_accuracy[0]
    for i, x in enumerate(id_accuracy):
        if x > target:
            share = (target - id_accuracy[i - 1]) / (x - id_accuracy[i - 1])
            return ood_accuracy[i - 1] + share * (ood_accuracy[i] - ood_accuracy[i - 1])
    return math.nan


@wrong(MATCHED, "number_if_never_reached")
def the_end_if_never(id_accuracy, ood_accuracy, target):
    found = by_segments(id_accuracy, ood_accuracy, target)
    return ood_accuracy[-1] if math.isnan(found) else found


@wrong(MATCHED, "fails_if_never_reached")
def fails_if_never(id_accuracy, ood_accuracy, target):
    next(x for x in id_accuracy if x >= target)
    return by_segments(id_accuracy, ood_accuracy, target)


@wrong(MATCHED, "other")
def the_target_itself(id_accuracy, ood_accuracy, target):
    return target


CONTROL = "03.design_control"
GOOD_CONTROL = {
    "start": "base",
    "responses": "sampled from the policy",
    "reward": "shuffled within the group",
    "compute": 1,
    "measured_on": ("in-distribution", "out-of-distribution"),
    "settings_chosen_on": "validation hands",
    "seeds": 3,
    "claim_holds_if": "RL is higher out of distribution",
}
RIGHT[CONTROL] += [
    GOOD_CONTROL,
    GOOD_CONTROL | {"reward": "coin flip", "measured_on": "out-of-distribution", "seeds": 10},
]
SFT = {"start": "base", "responses": "solver demonstrations", "reward": "1 for every response"}
WRONG[CONTROL] += [
    ("two_changes", GOOD_CONTROL | SFT),
    ("two_changes", GOOD_CONTROL | {"compute": 0.5}),
    ("no_change", GOOD_CONTROL | {"reward": "verifier"}),
    ("wrong_change", GOOD_CONTROL | {"reward": "verifier", "compute": 2.0}),
    ("wrong_change", GOOD_CONTROL | {"reward": "verifier", "responses": "solver demonstrations"}),
    ("same_signal", GOOD_CONTROL | {"reward": "verifier, doubled"}),
    ("no_update", GOOD_CONTROL | {"reward": "1 for every response"}),
    ("in_distribution_only", GOOD_CONTROL | {"measured_on": ["in-distribution"]}),
    ("chosen_on_test", GOOD_CONTROL | {"settings_chosen_on": "test hands"}),
    ("too_few_seeds", GOOD_CONTROL | {"seeds": 1}),
    ("wrong_prediction", GOOD_CONTROL | {"claim_holds_if": "RL and the control do not differ"}),
    ("incomplete", {key: value for key, value in GOOD_CONTROL.items() if key != "seeds"}),
    ("incomplete", GOOD_CONTROL | {"compute": ...}),
    ("unknown_option", GOOD_CONTROL | {"reward": "shuffled"}),
    ("unknown_option", GOOD_CONTROL | {"measured_on": []}),
    ("unknown_option", GOOD_CONTROL | {"seeds": "many"}),
    ("wrong_type", "shuffle the rewards"),
]


@right(HANDS)
def by_the_other_solver(hands, train_rule, test_rule):
    # The compact form cannot write a few solvable hands; those given are chosen by what it can.
    kept = fair(hands, train_rule, test_rule)
    assert all(is_solvable(test_rule.values(h)) for h in kept)
    return kept
