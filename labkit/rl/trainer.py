"""Policy-gradient training as an algorithm of `labkit.lm.training.train`: roll out, compare, update.

One loop for GRPO, Dr.GRPO, DAPO, GSPO, CISPO, RLOO and PPO: what tells them apart is in `RLConfig`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from labkit.envs.judging import Judge
from labkit.lm.sampling import SamplingConfig
from labkit.lm.training import Algorithm, TrainState
from labkit.rl.config import RLConfig
from labkit.rl.credit import assign_credit
from labkit.rl.kl import kl_estimate
from labkit.rl.reference import Reference
from labkit.rl.rollout import Rollouts, collect, join
from labkit.rl.updates import Updates, critic_values, score_rollouts

Prompts = tuple[Sequence[Sequence[int]], Judge]
"""Prompts of one step and who judges their completions (row `i * group_size + j`: sample j of prompt i)."""


def policy_gradient_algorithm(
    config: RLConfig, next_prompts: Callable[[TrainState], Prompts], reference: Reference | None = None
) -> Algorithm:
    """One step: sample groups, assign credit, take the updates.

    Source: DeepSeekMath (arXiv 2402.03300), algorithm 1, for GRPO; PPO (arXiv 1707.06347), algorithm 1.
    """
    if config.kl_coef and reference is None:
        raise ValueError(f"kl_coef is {config.kl_coef} but there is no reference model to stay close to")

    def algorithm(state: TrainState) -> Mapping[str, float]:
        if config.critic and not hasattr(state.model, "critic"):
            raise ValueError(
                f"critic is {config.critic!r} but the model has none; call "
                "labkit.rl.critic.attach_critic(model, config.critic) before the TrainState is made"
            )
        rollouts, metrics = roll_out(config, next_prompts, state)
        reference_logprobs = values = None
        if config.kl_coef and config.kl_estimator != "exact":
            with reference.model() as model:
                reference_logprobs = score_rollouts(model, rollouts, config)
            state.tokens_sampled += rollouts.num_tokens
        in_reward = bool(config.kl_coef) and config.kl_in == "reward"
        if in_reward:
            kept = rollouts.completion_mask
            kl = kl_estimate(rollouts.logprobs, reference_logprobs, config.kl_estimator)
            metrics["kl"] = float((kl * kept).sum() / kept.sum())
        if config.critic:
            values = critic_values(state.model, rollouts, config)
            state.tokens_sampled += rollouts.num_tokens
        credit = assign_credit(
            config, rollouts, reference_logprobs=reference_logprobs if in_reward else None, values=values
        )
        updates = Updates(config, rollouts, credit, values, reference, reference_logprobs)
        return {**metrics, **updates.run(state)}

    return algorithm


def roll_out(
    config: RLConfig, next_prompts: Callable[[TrainState], Prompts], state: TrainState
) -> tuple[Rollouts, dict[str, float]]:
    """The rollouts to train on, and metrics of all that was sampled.

    With `max_refills`, groups of equal rewards are replaced by those of further prompts, until
    `prompts_per_step` groups carry a signal or the refills are used up (DAPO, arXiv 2503.14476, section
    3.2).

    The metrics are means over every group sampled, those left out of training too. With refills each is
    still biased, since the rewards decide when sampling stops: while few completions are right, a batch with
    more of them is more often the last, and unlucky ones are diluted by what follows. Steps weighted by
    `batches` have no such bias under one policy (Wald's identity): sum of `reward * batches` over sum of
    `batches`.
    """
    sampling = SamplingConfig(config.max_new_tokens, temperature=config.temperature)
    batches: list[Rollouts] = []
    for _ in range(1 + config.max_refills):
        prompts, judge = next_prompts(state)
        batch = collect(
            state.model,
            prompts,
            judge,
            sampling,
            group_size=config.group_size,
            generator=state.generator,
            max_turns=config.max_turns,
        )
        batches.append(batch)
        if sum(int(b.groups_with_signal.sum()) for b in batches) >= config.prompts_per_step:
            break
    sampled = join(batches)
    state.tokens_sampled += sampled.num_tokens
    metrics = _metrics(sampled) | {"batches": float(len(batches))}
    if not config.max_refills:
        return sampled, metrics
    chosen = sampled.groups_with_signal.nonzero().squeeze(-1)[: config.prompts_per_step]
    # Without any signal one batch is kept as it is: its update changes nothing, and the step still counts.
    return (sampled.select(chosen) if len(chosen) else batches[0]), metrics


def _metrics(sampled: Rollouts) -> dict[str, float]:
    kept = sampled.completion_mask
    groups = sampled.rewards.view(-1, sampled.group_size)
    return {
        "reward": float(sampled.rewards.mean()),
        "reward_std_in_group": float(groups.std(-1).mean()) if sampled.group_size > 1 else 0.0,
        "groups_without_signal": float((~sampled.groups_with_signal).float().mean()),
        "surprise": float(-(sampled.logprobs * kept).sum() / kept.sum()),
        "turns": float(sampled.turns.float().mean()),
        "length": float(kept.sum(-1).float().mean()),
    }
