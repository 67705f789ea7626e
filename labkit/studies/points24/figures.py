"""The figures of the 24-point study with their captions."""

from __future__ import annotations

from functools import partial

from labkit.plotting import drawing
from labkit.studies.points24 import bars, curves
from labkit.studies.points24.claims import CHU, DIVERSE, RAZOR, VLAA

_drawing = partial(drawing, "points24")

FIGURES = [
    _drawing(
        bars.beside_paper,
        "Base, RL and SFT under the other rule",
        "Three bar charts of accuracy under the rule not trained on, for base, RL and SFT (at two learning "
        "rates): ours in both directions, and the paper's 11.5, 15.0 and 3.4 percent.",
        f"{CHU}, Fig. 6 (GP-L)",
        "rl-raises-ood",
        "sft-lowers-ood",
        "sft-lowers-ood-gentle",
        "sft-lowers-ood-reverse",
    ),
    _drawing(
        curves.compute_curves,
        "Accuracy against training compute",
        "Two line charts of accuracy against training compute for SFT and RL, on the left under the "
        "training rule, on the right under the other rule.",
        f"{CHU}, Fig. 5",
        "rl-raises-ood",
        "sft-lowers-ood",
    ),
    _drawing(
        curves.trade_off,
        "The path of each run",
        "Accuracy under the other rule against accuracy under the training rule, one line a seed, for SFT at "
        "two learning rates, SFT with varied rules, and RL.",
        f"{CHU}, Fig. 5; {DIVERSE}",
        "rl-better-at-matched-id",
        "rl-better-at-matched-id-fast-sft",
        "varied-rules-help-sft",
    ),
    _drawing(
        curves.reading,
        "Reading cards apart from solving",
        "Two line charts against training compute under the other rule: share of hands whose four cards "
        "are read right, and share solved, for SFT and RL.",
        f"{CHU}, Fig. 8 (recognition against success)",
    ),
    _drawing(
        bars.outcomes,
        "What goes wrong under the other rule",
        "Stacked bars of the outcomes of responses under the other rule, for base, RL, SFT at two rates and "
        "SFT with varied rules: solved, other value, wrong numbers, cards misread, false arithmetic, none.",
        "none: a breakdown of ours",
    ),
    _drawing(
        curves.two_bases,
        "By heart or by reading",
        "Three line charts against updates: accuracy under the training rule, under the other rule, and "
        "cards read right, for SFT from a base of two rules, from one that reads any, and on varied rules.",
        DIVERSE,
        "reading-base-keeps-ood",
        "varied-rules-help-sft",
    ),
    _drawing(
        curves.divergence,
        "KL spent for accuracy",
        "Two line charts of accuracy, under the training rule and under the other, against the KL "
        "divergence from the base, for SFT and RL.",
        f"{RAZOR}, Fig. 1",
        "rl-spends-less-kl",
    ),
    _drawing(
        curves.learning_rates,
        "SFT at three learning rates",
        "Three line charts against updates for SFT at three learning rates: accuracy under the training "
        "rule, under the other rule, and cards read right under the other rule.",
        f"{CHU}, appendix (SFT ablations)",
        "sft-lowers-ood",
        "sft-lowers-ood-gentle",
        "sft-peaks-early",
    ),
    _drawing(
        bars.data_amount,
        "SFT data amount",
        "Bars of accuracy under both rules after the same number of SFT updates, by number of training "
        "hands, with the base as dotted lines.",
        f"{VLAA} (SFT data scale)",
        "more-sft-data-hurts-ood",
    ),
    _drawing(
        bars.sft_before_rl,
        "SFT before RL",
        "Bars of accuracy under both rules for RL alone, RL after short SFT, RL after long SFT, and long "
        "SFT alone, with the base as dotted lines.",
        f"{VLAA} (GRPO with and without SFT)",
        "long-sft-hurts-rl",
    ),
    _drawing(
        bars.turns,
        "Verify and revise",
        "Two bar charts of the gain by RL under the other rule against the number of attempts allowed: ours "
        "on the left, the paper's on the right.",
        f"{CHU}, Fig. 10",
        "more-turns-gain-more",
    ),
    _drawing(
        curves.collapse,
        "A failing control: no clip",
        "Two line charts against RL steps, accuracy under the training rule and KL from the base, for GRPO "
        "with four updates a batch at learning rate 3e-4, with and without clip.",
        "none: a control of ours",
        "clip-prevents-collapse",
    ),
]
TRIED = _drawing(
    bars.tried,
    "What was tried",
    "Bars of accuracy on validation hands under both rules for each setting of SFT and GRPO that was tried.",
    "none: the choice of settings",
)
"""Drawn from the tuning's data."""
