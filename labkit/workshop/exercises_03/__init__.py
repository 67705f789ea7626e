"""Exercises of notebook 03, SFT versus RL on the 24-point game: a module each, text and check together."""

from labkit.workshop.exercises import register
from labkit.workshop.exercises_03 import (
    completion_mask,
    design_control,
    exact_value,
    group_advantage,
    matched_accuracy,
    ood_hands,
    reading_accuracy,
    sft_loss_bug_hunt,
)

register(
    exact_value.EXERCISE,
    reading_accuracy.EXERCISE,
    ood_hands.EXERCISE,
    completion_mask.EXERCISE,
    sft_loss_bug_hunt.EXERCISE,
    group_advantage.EXERCISE,
    matched_accuracy.EXERCISE,
    design_control.EXERCISE,
)
