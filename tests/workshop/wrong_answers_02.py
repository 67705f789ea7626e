"""Answers to notebook 02's exercises as learners write them, put into the bank beside those of notebook 03.

`WRONG` and `RIGHT` are the tables of both.
"""

from __future__ import annotations

import torch

from labkit.rl.advantages import generalized_advantages, reward_to_go, whiten
from labkit.rl.losses import token_weights
from labkit.workshop.exercises import get
from tests.workshop.wrong_answers_03 import RIGHT, WRONG, right, wrong

SURROGATE = "02.policy_gradient_loss"


@right(SURROGATE)
def by_a_ratio_of_one(logprobs, advantages):
    return -advantages * (logprobs - logprobs.detach()).exp()


WRONG[SURROGATE] += [
    ("sign", lambda logprobs, advantages: advantages * logprobs),
    ("probability", lambda logprobs, advantages: -advantages * logprobs.exp()),
    ("reward_ignored", lambda logprobs, advantages: -logprobs),
    ("likelihood_of_good_ones", lambda logprobs, advantages: -(advantages > 0).double() * logprobs),
    ("no_gradient", lambda logprobs, advantages: -advantages * logprobs.detach()),
    ("no_gradient", lambda logprobs, advantages: -advantages * torch.ones_like(logprobs)),
    ("wrong_shape", lambda logprobs, advantages: -(advantages * logprobs).mean()),
    ("changes_inputs", lambda logprobs, advantages: -logprobs.mul_(advantages)),
    ("other", lambda logprobs, advantages: -2 * advantages * logprobs),
]

CLIP = "02.clip_loss"


@right(CLIP)
def by_cases(ratio, advantages, clip_low, clip_high):
    stopped = torch.where(advantages > 0, ratio > 1 + clip_high, ratio < 1 - clip_low)
    bound = torch.where(advantages > 0, 1 + clip_high, 1 - clip_low)
    return torch.where(stopped, -bound * advantages, -ratio * advantages)


@right(CLIP)
def as_maximum_of_losses(ratio, advantages, clip_low, clip_high):
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high)
    return torch.maximum(-ratio * advantages, -clipped * advantages)


def clipped_with(low, high, pick=torch.minimum):
    def loss(ratio, advantages, clip_low, clip_high):
        bounds = low(clip_low, clip_high), high(clip_low, clip_high)
        return -pick(ratio * advantages, ratio.clamp(*bounds) * advantages)

    return loss


WRONG[CLIP] += [
    ("bounds_swapped", clipped_with(lambda low, high: 1 + high, lambda low, high: 1 - low)),
    ("sides_swapped", clipped_with(lambda low, high: 1 - high, lambda low, high: 1 + low)),
    ("one_bound_for_both", clipped_with(lambda low, high: 1 - low, lambda low, high: 1 + low)),
    ("one_bound_for_both", clipped_with(lambda low, high: 1 - high, lambda low, high: 1 + high)),
    ("absolute_bounds", clipped_with(lambda low, high: low, lambda low, high: high)),
    (
        "max_for_min",
        clipped_with(lambda low, high: 1 - low, lambda low, high: 1 + high, pick=torch.maximum),
    ),
]


@wrong(CLIP, "max_for_min")
def minimum_of_losses(ratio, advantages, clip_low, clip_high):
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high)
    return torch.minimum(-ratio * advantages, -clipped * advantages)


@wrong(CLIP, "clip_on_product")
def product_clipped(ratio, advantages, clip_low, clip_high):
    objective = ratio * advantages
    return -torch.minimum(objective, objective.clamp(1 - clip_low, 1 + clip_high))


@wrong(CLIP, "no_minimum")
def always_clipped(ratio, advantages, clip_low, clip_high):
    return -ratio.clamp(1 - clip_low, 1 + clip_high) * advantages


@wrong(CLIP, "no_clip")
def never_clipped(ratio, advantages, clip_low, clip_high):
    return -ratio * advantages


@wrong(CLIP, "sign")
def objective_returned(ratio, advantages, clip_low, clip_high):
    return -as_maximum_of_losses(ratio, advantages, clip_low, clip_high)


@wrong(CLIP, "no_gradient")
def in_numpy(ratio, advantages, clip_low, clip_high):
    return as_maximum_of_losses(ratio.detach(), advantages, clip_low, clip_high)


@wrong(CLIP, "wrong_gradient")
def clipped_part_detached(ratio, advantages, clip_low, clip_high):
    value = as_maximum_of_losses(ratio, advantages, clip_low, clip_high).detach()
    plain = -ratio * advantages
    return value + plain - plain.detach()


@wrong(CLIP, "wrong_shape")
def averaged(ratio, advantages, clip_low, clip_high):
    return as_maximum_of_losses(ratio, advantages, clip_low, clip_high).mean()


@wrong(CLIP, "other")
def halved(ratio, advantages, clip_low, clip_high):
    return 0.5 * as_maximum_of_losses(ratio, advantages, clip_low, clip_high)


GAE = "02.gae"


def gae(rewards, values, mask, gamma, lam, last_values, *, trace=None, skip=True, cut=False, shift=0):
    """The loop with the usual places to go wrong."""
    advantages = torch.zeros_like(rewards)
    following, next_value = torch.zeros_like(last_values), last_values
    rewards = torch.cat([rewards[:, shift:], torch.zeros_like(rewards[:, :shift])], dim=1)
    trace = gamma * lam if trace is None else trace
    for t in reversed(range(rewards.shape[1])):
        kept = mask[:, t].bool()
        acts = kept if skip else torch.ones_like(kept)
        advantage = rewards[:, t] + gamma * next_value - values[:, t] + trace * following
        advantages[:, t] = torch.where(kept, advantage, 0.0)
        following = torch.where(acts, advantage, 0.0 if cut else following)
        next_value = torch.where(acts, values[:, t], 0.0 if cut else next_value)
    return advantages, (advantages + values) * mask


@right(GAE)
def as_a_double_sum(rewards, values, mask, gamma, lam, last_values):
    advantages = torch.zeros_like(rewards)
    for row in range(len(rewards)):
        steps = mask[row].nonzero().flatten().tolist()
        following = [*values[row, steps[1:]].tolist(), float(last_values[row])]
        deltas = [
            float(rewards[row, t] - values[row, t]) + gamma * v for t, v in zip(steps, following, strict=True)
        ]
        for i, t in enumerate(steps):
            advantages[row, t] = sum((gamma * lam) ** k * d for k, d in enumerate(deltas[i:]))
    return advantages, torch.where(mask.bool(), advantages + values, torch.zeros_like(values))


@wrong(GAE, "bootstrap_lost")
def ends_at_the_last_step(rewards, values, mask, gamma, lam, last_values):
    return gae(rewards, values, mask, gamma, lam, 0 * last_values)


@wrong(GAE, "mask_ignored")
def through_observations(rewards, values, mask, gamma, lam, last_values):
    return gae(rewards, values, mask, gamma, lam, last_values, skip=False)


@wrong(GAE, "cut_at_observation")
def episode_ends_at_observations(rewards, values, mask, gamma, lam, last_values):
    return gae(rewards, values, mask, gamma, lam, last_values, cut=True)


@wrong(GAE, "lambda_forgotten")
def discounted_by_gamma(rewards, values, mask, gamma, lam, last_values):
    return gae(rewards, values, mask, gamma, lam, last_values, trace=gamma)


@wrong(GAE, "gamma_forgotten")
def discounted_by_lambda(rewards, values, mask, gamma, lam, last_values):
    return gae(rewards, values, mask, gamma, lam, last_values, trace=lam)


@wrong(GAE, "one_step_only")
def delta_alone(rewards, values, mask, gamma, lam, last_values):
    return gae(rewards, values, mask, gamma, lam, last_values, trace=0.0)


@wrong(GAE, "off_by_one")
def reward_of_the_next_step(rewards, values, mask, gamma, lam, last_values):
    return gae(rewards, values, mask, gamma, lam, last_values, shift=1)


@wrong(GAE, "off_by_one")
def own_delta_left_out(rewards, values, mask, gamma, lam, last_values):
    right, _ = gae(rewards, values, mask, gamma, lam, last_values)
    deltas, _ = gae(rewards, values, mask, gamma, lam, last_values, trace=0.0)
    return right - deltas, (right - deltas + values) * mask


@wrong(GAE, "values_swapped")
def this_and_next_exchanged(rewards, values, mask, gamma, lam, last_values):
    advantages = torch.zeros_like(rewards)
    following, next_value = torch.zeros_like(last_values), last_values
    for t in reversed(range(rewards.shape[1])):
        kept = mask[:, t].bool()
        advantage = rewards[:, t] + gamma * values[:, t] - next_value + gamma * lam * following
        advantages[:, t] = torch.where(kept, advantage, 0.0)
        following = torch.where(kept, advantage, following)
        next_value = torch.where(kept, values[:, t], next_value)
    return advantages, (advantages + values) * mask


@wrong(GAE, "whitened")
def whitened_first(rewards, values, mask, gamma, lam, last_values):
    advantages = whiten(gae(rewards, values, mask, gamma, lam, last_values)[0], mask)
    return advantages, (advantages + values) * mask


@wrong(GAE, "whitened")
def whitened_by_the_biased_std(rewards, values, mask, gamma, lam, last_values):
    advantages, _ = gae(rewards, values, mask, gamma, lam, last_values)
    kept = advantages[mask.bool()]
    advantages = (advantages - kept.mean()) / kept.std(correction=0) * mask
    return advantages, (advantages + values) * mask


@wrong(GAE, "sign")
def worse_than_expected(rewards, values, mask, gamma, lam, last_values):
    advantages, returns = gae(rewards, values, mask, gamma, lam, last_values)
    return -advantages, returns


@wrong(GAE, "not_zeroed")
def observations_keep_a_number(rewards, values, mask, gamma, lam, last_values):
    advantages, returns = gae(rewards, values, mask, gamma, lam, last_values)
    return torch.where(mask.bool(), advantages, 7.0), returns


@wrong(GAE, "not_zeroed")
def returns_not_masked(rewards, values, mask, gamma, lam, last_values):
    advantages, _ = gae(rewards, values, mask, gamma, lam, last_values)
    return advantages, advantages + values


@wrong(GAE, "monte_carlo_returns")
def rewards_to_go(rewards, values, mask, gamma, lam, last_values):
    advantages, _ = gae(rewards, values, mask, gamma, lam, last_values)
    with_end = rewards.clone()
    for row, last in enumerate(mask.int().cumsum(-1).argmax(-1)):
        with_end[row, last] += gamma * last_values[row]
    return advantages, reward_to_go(with_end, mask, gamma)


@wrong(GAE, "returns_are_advantages")
def the_same_twice(rewards, values, mask, gamma, lam, last_values):
    advantages, _ = gae(rewards, values, mask, gamma, lam, last_values)
    return advantages, advantages


@wrong(GAE, "wrong_type")
def advantages_only(rewards, values, mask, gamma, lam, last_values):
    return generalized_advantages(rewards, values, mask, gamma=gamma, lam=lam, last_values=last_values)[0]


@wrong(GAE, "changes_inputs")
def writes_into_rewards(rewards, values, mask, gamma, lam, last_values):
    rewards += gamma * values
    return gae(rewards, values, mask, gamma, lam, last_values)


@wrong(GAE, "other")
def everything_zero(rewards, values, mask, gamma, lam, last_values):
    return torch.zeros_like(rewards), torch.zeros_like(rewards)


@wrong(GAE, "other")
def returns_without_values(rewards, values, mask, gamma, lam, last_values):
    advantages, returns = gae(rewards, values, mask, gamma, lam, last_values)
    return advantages, returns + advantages


RLOO = "02.rloo"


@right(RLOO)
def one_at_a_time(rewards, group_size):
    found = torch.zeros_like(rewards)
    for i in range(len(rewards)):
        start = i // group_size * group_size
        others = [rewards[j] for j in range(start, start + group_size) if j != i]
        found[i] = rewards[i] - sum(others) / len(others)
    return found


def centred(groups):
    return groups - groups.mean(-1, keepdim=True)


WRONG[RLOO] += [
    ("own_reward_in_baseline", lambda rewards, size: centred(rewards.view(-1, size)).view(-1)),
    (
        "factor_inverted",
        lambda rewards, size: (centred(rewards.view(-1, size)) * (size - 1) / size).view(-1),
    ),
    ("sign", lambda rewards, size: -one_at_a_time(rewards, size)),
    ("interleaved_groups", lambda rewards, size: one_at_a_time(rewards.view(size, -1).T.reshape(-1), size)
     .view(-1, size).T.reshape(-1)),
    ("whole_batch", lambda rewards, size: one_at_a_time(rewards, len(rewards))),
    ("wrong_shape", lambda rewards, size: centred(rewards.view(-1, size)) * size / (size - 1)),
    ("other", lambda rewards, size: torch.zeros_like(rewards)),
]  # fmt: skip


@wrong(RLOO, "divided_by_all")
def others_over_group_size(rewards, group_size):
    groups = rewards.view(-1, group_size)
    return (groups - (groups.sum(-1, keepdim=True) - groups) / group_size).view(-1)


@wrong(RLOO, "standardised")
def as_in_grpo(rewards, group_size):
    groups = rewards.view(-1, group_size)
    return (centred(groups) / (groups.std(-1, keepdim=True) + 1e-4)).view(-1)


@wrong(RLOO, "best_of_others")
def against_the_best(rewards, group_size):
    groups = rewards.view(-1, group_size)
    found = [
        [r - max(x for j, x in enumerate(g) if j != i) for i, r in enumerate(g)] for g in groups.tolist()
    ]
    return torch.tensor(found).view(-1)


@wrong(RLOO, "other")
def right_for_four_only(rewards, group_size):
    return (centred(rewards.view(-1, group_size)) * 4 / 3).view(-1)


WEIGHTS = "02.token_weights"
TOKEN, ROW, NORM = "token_mean", "sequence_mean_token_mean", "sequence_mean_token_sum_norm"


@right(WEIGHTS)
def counted(mask, aggregation, max_length):
    weights = torch.zeros(mask.shape)
    for row, kept in enumerate(mask):
        for t, keep in enumerate(kept):
            if keep and aggregation == TOKEN:
                weights[row, t] = 1 / int(mask.sum())
            elif keep and aggregation == ROW:
                weights[row, t] = 1 / int(kept.sum()) / len(mask)
            elif keep:
                weights[row, t] = 1 / max_length / len(mask)
    return weights


def instead(mode, formula):
    """Right but for one mode, whose weights are `formula(mask, max_length)`."""

    def weights(mask, aggregation, max_length):
        if aggregation == mode:
            return formula(mask.float(), max_length)
        return token_weights(mask, aggregation, max_length)

    return weights


def lengths(mask):
    return mask.sum(-1, keepdim=True)


WRONG[WEIGHTS] += [
    ("modes_confused", lambda mask, aggregation, max_length: token_weights(mask, ROW)),
    ("modes_confused", lambda mask, aggregation, max_length: token_weights(mask, TOKEN)),
    ("padding_counted", instead(TOKEN, lambda mask, n: mask / mask.numel())),
    ("padding_counted", instead(ROW, lambda mask, n: mask / mask.shape[1] / len(mask))),
    ("padding_weighted", instead(TOKEN, lambda mask, n: torch.ones_like(mask) / mask.sum())),
    ("padding_weighted", instead(ROW, lambda mask, n: torch.ones_like(mask) / lengths(mask) / len(mask))),
    ("padding_weighted", instead(NORM, lambda mask, n: torch.ones_like(mask) / n / len(mask))),
    ("rows_forgotten", instead(ROW, lambda mask, n: mask / lengths(mask))),
    ("rows_forgotten", instead(NORM, lambda mask, n: mask / n)),
    ("longest_in_batch", instead(NORM, lambda mask, n: mask / mask.numel())),
    ("longest_in_batch", instead(NORM, lambda mask, n: mask / lengths(mask).max() / len(mask))),
    ("not_normalised", instead(TOKEN, lambda mask, n: mask)),
    ("not_normalised", instead(NORM, lambda mask, n: mask / len(mask))),
    ("empty_row", instead(ROW, lambda mask, n: mask / lengths(mask) / len(mask))),
    ("empty_row", instead(ROW, lambda mask, n: (mask / lengths(mask).clamp(min=1)) / mask.any(-1).sum())),
    ("wrong_shape", lambda mask, aggregation, max_length: lengths(mask.float())),
    ("other", lambda mask, aggregation, max_length: torch.zeros(mask.shape)),
]  # fmt: skip

GROUPS = "02.which_groups"
WANTED = dict(get(GROUPS).solution)
RIGHT[GROUPS] += [WANTED | {"prompts_to_draw": 10.0}]
WRONG[GROUPS] += [
    ("mixed_group_dropped", WANTED | {"one_right": "dropped"}),
    ("mixed_group_dropped", WANTED | {"one_wrong": "dropped"}),
    ("easy_group_kept", WANTED | {"all_right": "kept"}),
    ("hard_group_kept", WANTED | {"all_wrong": "kept"}),
    ("judged_by_reward", WANTED | {"one_too_long": "kept"}),
    ("counts_wanted_not_drawn", WANTED | {"prompts_to_draw": 4}),
    ("counts_dropped", WANTED | {"prompts_to_draw": 6}),
    ("wrong_number", WANTED | {"prompts_to_draw": 1.6}),
    ("kl_forgotten", WANTED | {"kl_still_pushes": "no"}),
    ("incomplete", WANTED | {"prompts_to_draw": ...}),
    ("incomplete", {key: value for key, value in WANTED.items() if key != "one_right"}),
    ("unknown_option", WANTED | {"all_wrong": "drop"}),
    ("unknown_option", WANTED | {"prompts_to_draw": "ten"}),
    ("unknown_option", WANTED | {"kl_still_pushes": True}),
    ("wrong_type", ["kept", "dropped"]),
]

K3 = "02.kl_k3"


@right(K3)
def from_probabilities(logprobs, reference_logprobs):
    ratio = reference_logprobs.exp() / logprobs.exp()
    return ratio - 1 - ratio.log()


@right(K3)
def by_expm1(logprobs, reference_logprobs):
    return torch.expm1(reference_logprobs - logprobs) + logprobs - reference_logprobs


WRONG[K3] += [
    ("direction", lambda new, ref: from_probabilities(ref, new)),
    ("sign", lambda new, ref: -from_probabilities(new, ref)),
    ("sign_of_the_log", lambda new, ref: (ref - new).exp() - 1 + (ref - new)),
    ("one_forgotten", lambda new, ref: (ref - new).exp() - (ref - new)),
    ("k1", lambda new, ref: new - ref),
    ("k1", lambda new, ref: ref - new),
    ("k2", lambda new, ref: 0.5 * (new - ref) ** 2),
    ("not_exponentiated", lambda new, ref: ref / new - 1 - (ref - new)),
    ("times_probability", lambda new, ref: new.exp() * (new - ref)),
    ("no_gradient", lambda new, ref: from_probabilities(new.detach(), ref)),
    ("wrong_gradient", lambda new, ref: (ref - new.detach()).exp() - 1 - (ref - new)),
    ("wrong_shape", lambda new, ref: from_probabilities(new, ref).mean()),
    ("other", lambda new, ref: torch.zeros_like(new)),
]

SEQUENCE = "02.sequence_ratio"


@right(SEQUENCE)
def root_of_the_product(logprobs, old_logprobs, mask):
    ratio = torch.where(mask, logprobs - old_logprobs, 0.0).exp()
    return ratio.prod(-1, keepdim=True) ** (1 / mask.sum(-1, keepdim=True).clamp(min=1))


def summed(new, old, mask):
    return ((new - old) * mask).sum(-1, keepdim=True)


def count(mask):
    return mask.sum(-1, keepdim=True).clamp(min=1)


WRONG[SEQUENCE] += [
    ("product", lambda new, old, mask: summed(new, old, mask).exp()),
    ("padding_in_the_count", lambda new, old, mask: ((new - old) * mask).mean(-1, keepdim=True).exp()),
    ("mask_ignored", lambda new, old, mask: (new - old).mean(-1, keepdim=True).exp()),
    ("mask_ignored", lambda new, old, mask: (new - old).sum(-1, keepdim=True).exp()),
    (
        "mean_of_ratios",
        lambda new, old, mask: ((new - old).exp() * mask).sum(-1, keepdim=True) / count(mask),
    ),
    ("inverted", lambda new, old, mask: root_of_the_product(old, new, mask)),
    ("left_in_logs", lambda new, old, mask: summed(new, old, mask) / count(mask)),
    (
        "one_for_the_batch",
        lambda new, old, mask: (summed(new, old, mask).sum() / mask.sum()).exp().expand(len(new), 1),
    ),
    (
        "empty_row",
        lambda new, old, mask: (summed(new, old, mask) / mask.sum(-1, keepdim=True)).exp(),
    ),
    ("no_gradient", lambda new, old, mask: root_of_the_product(new.detach(), old, mask)),
    ("wrong_shape", lambda new, old, mask: root_of_the_product(new, old, mask).squeeze(-1)),
    ("other", lambda new, old, mask: torch.ones(len(new), 1)),
]  # fmt: skip


@wrong(SEQUENCE, "wrong_gradient")
def length_forgotten_in_the_gradient(logprobs, old_logprobs, mask):
    moving = summed(logprobs, logprobs.detach(), mask).exp()
    return root_of_the_product(logprobs, old_logprobs, mask).detach() * moving


CISPO = "02.cispo"


@right(CISPO)
def without_a_graph(logprobs, ratio, advantages, clip_high):
    with torch.no_grad():
        weight = torch.minimum(ratio, torch.tensor(1 + clip_high))
    return -(weight * advantages) * logprobs


def weighted(weight):
    return lambda logprobs, ratio, advantages, clip_high: (
        -weight(ratio, clip_high).detach() * advantages * logprobs
    )


def ppo(ratio, advantages, low, high):
    return -torch.minimum(ratio * advantages, ratio.clamp(low, high) * advantages)


WRONG[CISPO] += [
    ("no_logprobs", lambda lp, ratio, adv, high: -ratio.clamp(max=1 + high) * adv),
    ("ppo", lambda lp, ratio, adv, high: ppo(ratio, adv, 1 - high, 1 + high)),
    ("ppo", lambda lp, ratio, adv, high: ppo(ratio, adv, None, 1 + high)),
    ("absolute_bound", weighted(lambda ratio, high: ratio.clamp(max=high))),
    ("two_sided", weighted(lambda ratio, high: ratio.clamp(1 - high, 1 + high))),
    ("not_clipped", weighted(lambda ratio, high: ratio)),
    ("ratio_ignored", weighted(lambda ratio, high: torch.ones_like(ratio))),
    ("clip_on_product", lambda lp, ratio, adv, high: -(ratio.detach() * adv).clamp(max=1 + high) * lp),
    ("sign", lambda lp, ratio, adv, high: -without_a_graph(lp, ratio, adv, high)),
    ("no_stop_gradient", lambda lp, ratio, adv, high: -ratio.clamp(max=1 + high) * adv * lp),
    ("no_gradient", lambda lp, ratio, adv, high: without_a_graph(lp.detach(), ratio, adv, high)),
    ("wrong_shape", lambda lp, ratio, adv, high: without_a_graph(lp, ratio, adv, high).sum()),
    ("other", lambda lp, ratio, adv, high: 2 * without_a_graph(lp, ratio, adv, high)),
]  # fmt: skip


@wrong(CISPO, "wrong_gradient")
def weight_without_gradient(logprobs, ratio, advantages, clip_high):
    value = without_a_graph(logprobs, ratio, advantages, clip_high).detach()
    return value - advantages * (logprobs - logprobs.detach())


SPOT = "02.spot_slip"
VERDICTS = dict(get(SPOT).solution)
RIGHT[SPOT] += [VERDICTS]
WRONG[SPOT] += [
    ("state_given_action", VERDICTS | {"line_1": "right"}),
    ("bounds_swapped", VERDICTS | {"line_3": "right"}),
    ("clip_on_product", VERDICTS | {"line_4": "right"}),
    ("ranked", VERDICTS | {"line_5": "right"}),
    ("false_alarm", VERDICTS | {"line_2": "sum over rewards, not values"}),
    ("false_alarm", VERDICTS | {"line_6": "put the reference first"}),
    ("wrong_repair", VERDICTS | {"line_3": "clip the ratio, not the product"}),
    ("incomplete", VERDICTS | {"line_6": None}),
    ("unknown_option", VERDICTS | {"line_6": "fine"}),
    ("wrong_type", "all are right"),
]

HUNT = "02.grpo_bug_hunt"


def hunted(*, group=True, ddof=1, clip="ratio", mean="rows", old_over_new=False):
    """The stub, with each of its bugs repaired or not."""

    def grpo_loss(logprobs, old_logprobs, rewards, mask, group_size, clip_low, clip_high):
        among = rewards.view(-1, group_size if group else len(rewards))
        advantages = centred(among) / (among.std(-1, keepdim=True, correction=ddof) + 1e-4)
        advantages = advantages.view(-1, 1)
        ratio = (logprobs - old_logprobs).exp()
        ratio = 1 / ratio if old_over_new else ratio
        bounds = (1 - clip_low, 1 + clip_high)
        plain, clipped = ratio * advantages, ratio.clamp(*bounds) * advantages
        objective = {
            "ratio": torch.minimum(plain, clipped),
            "product": torch.minimum(plain, plain.clamp(*bounds)),
            "none": plain,
            "always": clipped,
            "max": torch.maximum(plain, clipped),
        }[clip]
        loss = -objective * mask
        return {
            "rows": (loss.sum(-1) / mask.sum(-1)).mean(),
            "rows_summed": (loss.sum(-1) / mask.sum(-1)).sum(),
            "padding": loss.mean(),
            "tokens": loss.sum() / mask.sum(),
        }[mean]

    return grpo_loss


@right(HUNT)
def in_a_loop(logprobs, old_logprobs, rewards, mask, group_size, clip_low, clip_high):
    total = 0.0
    for i, reward in enumerate(rewards):
        group = rewards[i // group_size * group_size :][:group_size]
        advantage = (reward - group.mean()) / (group.std() + 1e-4)
        tokens = []
        for t in range(int(mask[i].sum())):
            ratio = torch.exp(logprobs[i, t] - old_logprobs[i, t])
            clipped = ratio.clamp(1 - clip_low, 1 + clip_high)
            tokens.append(-torch.min(ratio * advantage, clipped * advantage))
        total = total + sum(tokens) / len(tokens)
    return total / len(rewards)


WRONG[HUNT] += [
    ("batch_statistics", hunted(group=False)),
    ("batch_statistics", hunted(group=False, mean="padding")),
    ("batch_statistics", hunted(group=False, clip="product")),
    ("biased_std", hunted(ddof=0)),
    ("ratio_inverted", hunted(old_over_new=True)),
    ("clip_on_product", hunted(clip="product")),
    ("clip_on_product", hunted(clip="product", mean="padding")),
    ("no_clip", hunted(clip="none")),
    ("no_minimum", hunted(clip="always")),
    ("max_for_min", hunted(clip="max")),
    ("padding_counted", hunted(mean="padding")),
    ("token_mean", hunted(mean="tokens")),
    ("sum_over_rows", hunted(mean="rows_summed")),
    ("sign", lambda *args: -hunted()(*args)),
    ("no_gradient", lambda *args: hunted()(*args).detach()),
    ("other", lambda *args: 3 * hunted()(*args)),
]


@wrong(HUNT, "wrong_gradient")
def half_of_it_detached(logprobs, *rest):
    loss = hunted()(logprobs, *rest)
    return (loss + loss.detach()) / 2


@wrong(HUNT, "batch_statistics")
def the_stub_in_other_words(logprobs, old_logprobs, rewards, mask, group_size, clip_low, clip_high):
    return hunted(group=False, clip="product", mean="padding")(
        logprobs, old_logprobs, rewards, mask, group_size, clip_low, clip_high
    )
