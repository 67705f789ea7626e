"""Exercises of notebook 02, PPO and GRPO derivations: a module each, text and check together."""

from labkit.workshop.exercises import register
from labkit.workshop.exercises_02 import (
    cispo,
    clip_loss,
    gae,
    grpo_bug_hunt,
    kl_k3,
    policy_gradient_loss,
    rloo,
    sequence_ratio,
    spot_slip,
    token_weights,
    which_groups,
)

register(
    policy_gradient_loss.EXERCISE,
    clip_loss.EXERCISE,
    gae.EXERCISE,
    rloo.EXERCISE,
    token_weights.EXERCISE,
    which_groups.EXERCISE,
    kl_k3.EXERCISE,
    sequence_ratio.EXERCISE,
    cispo.EXERCISE,
    spot_slip.EXERCISE,
    grpo_bug_hunt.EXERCISE,
)
