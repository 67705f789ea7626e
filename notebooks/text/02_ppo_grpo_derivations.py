# ---
# jupyter:
#   jupytext:
#     formats: notebooks//ipynb,notebooks/text//py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 02 · PPO and GRPO, derived
#
# *From the policy gradient to the losses that language models are trained with, in numbers small enough to check
# by hand.*
#
# After this notebook you can
#
# 1. derive the score-function gradient, and show what a baseline does and does not change;
# 2. say for each sign of the advantage where PPO's clip stops the gradient, and where it must not;
# 3. compute GAE by hand, across an observation and at an episode that was only cut off;
# 4. compute GRPO's advantages and the weight of a single token, and name the biases of both;
# 5. tell the value of a KL estimator from its gradient;
# 6. read Dr.GRPO, DAPO, RLOO, GSPO and CISPO as changes of a few parts, and find slips in printed formulas.
#
# **Needs** derivatives, and what a token's log-probability is. **Takes** about 120 minutes with exercises, 55
# without. Nothing is trained here except in the experiments of section 9.
#
# Every numbered equation stands beside a cell that evaluates it twice: by hand, and by the function of `labkit`
# that the other notebooks train with. The functions are short; look at any of them with `??`, as in
# `clipped_policy_loss??`.

# %%
from functools import partial

import pandas as pd
import torch

from labkit.workshop.learner import check, predict, progress, reveal, show
from labkit.workshop.verify import verify

numbers = partial(torch.tensor, dtype=torch.float64)  # double precision, so that 0 comes out as 0
pd.set_option("display.float_format", "{:.4g}".format)

# %% [markdown]
# ## 1. Guess first (2 minutes)
#
# *You will be able to see which of your intuitions about these formulas hold.*
#
# Three questions; each is answered further down by a computation, and nothing depends on your guess.

# %%
predict(
    "02.baseline",
    "Three actions with probabilities ½, ¼, ¼ pay 1, 0, 2. One action is sampled and the policy gradient estimated "
    "from it. Now the mean reward is subtracted first: which share of the estimate's variance is left?",
    (0.0, 1.0),
)

# %%
predict(
    "02.clip",
    "A bad action (A < 0) has become likelier: its ratio is 1.5, the clip ±0.2. Does PPO's loss still have a "
    "gradient there?",
    ["yes", "no, it is clipped"],
)

# %%
predict(
    "02.k3",
    "GRPO's k3 is an unbiased estimate of KL(π‖ref). Differentiated as a loss on sampled tokens, whose gradient does "
    "it have in expectation?",
    ["∇KL(π‖ref)", "∇KL(ref‖π)", "0", "neither"],
)

# %% [markdown]
# ## 2. The score-function gradient (8 minutes)
#
# *You will be able to derive the policy gradient and check it by enumerating every action.*
#
# The policy $\pi_\theta$ draws an action $a$, which pays $R(a)$. Wanted is the gradient of the expected pay. The
# reward is a number from outside (a verifier, a game): nothing can be differentiated through it. But
# $\nabla\pi = \pi\,\nabla\log\pi$, so
#
# $$\nabla_\theta \sum_a \pi_\theta(a)\,R(a) \;=\; \sum_a \pi_\theta(a)\,R(a)\,\nabla_\theta\log\pi_\theta(a) \;=\; \mathbb{E}_{a\sim\pi_\theta}\bigl[R(a)\,\nabla_\theta\log\pi_\theta(a)\bigr] \tag{02.1}$$
#
# The right-hand side is a mean over samples of things one can compute.
#
# By hand, with π = (½, ¼, ¼) as the softmax of three logits and R = (1, 0, 2): the expected pay, call it J, is
# ½·1 + ¼·0 + ¼·2 = 1. For a softmax $\log\pi(a) = \theta_a - \log\sum_k e^{\theta_k}$, so $\nabla\log\pi(a) = e_a - \pi$,
# with $e_a$ the unit vector of $a$. Put into (02.1), $\partial J/\partial\theta_k = \pi_k\,(R_k - J)$: that is ½·0,
# ¼·(−1), ¼·1.

# %%
policy = numbers([0.5, 0.25, 0.25])
rewards = numbers([1.0, 0.0, 2.0])
logits = policy.log().requires_grad_()

expected = (logits.softmax(-1) * rewards).sum()
print("expected pay", expected.item())
print("exact gradient", torch.autograd.grad(expected, logits)[0].numpy())

# %% [markdown]
# Now the estimate: one row for each action that could have been drawn. Its gradient is $R(a)(e_a - \pi)$.
# The weighted mean of the rows is the exact gradient, though no single row is.

# %%
from labkit.rl.losses import policy_gradient_loss


def sample_gradients(weights):
    """Row a: the gradient estimated when action a was drawn, [actions, logits]."""
    losses = policy_gradient_loss(logits.log_softmax(-1), weights)
    return torch.stack([0 - torch.autograd.grad(loss, logits, retain_graph=True)[0] for loss in losses])


estimates = sample_gradients(rewards)
table = pd.DataFrame(estimates, columns=["∂θ0", "∂θ1", "∂θ2"])
table.insert(0, "probability", policy)
table.insert(1, "reward", rewards)
table

# %%
# verify 02.1
verify("02.1", by_hand=[0, -0.25, 0.25], labkit=policy @ estimates)

# %% [markdown]
# **A baseline.** Subtract any number $b$ that does not depend on the action. The mean stays, since
# $\sum_a \pi(a)\nabla\log\pi(a) = \nabla\sum_a\pi(a) = \nabla 1 = 0$:
#
# $$\mathbb{E}\bigl[(R(a) - b)\,\nabla\log\pi(a)\bigr] = \mathbb{E}\bigl[R(a)\,\nabla\log\pi(a)\bigr] \tag{02.2}$$
#
# Reward less baseline is called the **advantage**, $A(a) = R(a) - b$: how much better than expected.
#
# What changes is the spread. With b = 1 the likeliest action has weight 0 and the other two pull with ∓1.


# %%
def variance(estimates):
    """Mean squared distance of a single-sample estimate from the mean, summed over the logits."""
    return (policy @ (estimates - policy @ estimates) ** 2).sum().item()


baselines = (0.0, 1.0, 5.0)
pd.DataFrame(
    [
        [*(policy @ sample_gradients(rewards - b)).tolist(), variance(sample_gradients(rewards - b))]
        for b in baselines
    ],
    index=pd.Index(baselines, name="baseline"),
    columns=["mean ∂θ0", "mean ∂θ1", "mean ∂θ2", "variance"],
)

# %%
# verify 02.2
verify("02.2", by_hand=[0, -0.25, 0.25], labkit=policy @ sample_gradients(rewards - 1))
reveal("02.baseline", variance(sample_gradients(rewards - 1)) / variance(estimates))

# %% [markdown]
# *Usual misconception:* that a bad baseline biases the gradient. Look at the row b = 5: the mean is right, only the
# variance is dreadful. What does bias is a baseline that depends on the action itself; section 6 has one.

# %%
show("02.policy_gradient_loss")


# %%
def my_policy_gradient_loss(logprobs, advantages):
    """One loss a token, [rows, time], whose gradient is -A times that of the log-probability."""
    raise NotImplementedError


# %%
check("02.policy_gradient_loss", my_policy_gradient_loss)

# %% [markdown]
# ## 3. From one action to a sequence, and to old samples (4 minutes)
#
# *You will be able to say what the ratio corrects, and what it leaves uncorrected.*
#
# A language model's action is a token, and a completion is many:
#
# $$\pi_\theta(y \mid x) = \prod_t \pi_\theta(y_t \mid x, y_{<t}) \qquad\text{so}\qquad \log\pi_\theta(y \mid x) = \sum_t \log\pi_\theta(y_t \mid x, y_{<t}) \tag{02.3}$$
#
# Three tokens of probability ½, ⅕ and ⅘: the completion has ½ · ⅕ · ⅘ = 0.08. Padding is masked out of the sum.

# %%
from labkit.lm.scoring import sequence_logprobs

# verify 02.3
logprobs = numbers([[0.5, 0.2, 0.8, 0.3]]).log()
kept = numbers([[1.0, 1.0, 1.0, 0.0]])
verify("02.3", by_hand=[0.08], labkit=sequence_logprobs(logprobs, kept).exp())

# %% [markdown]
# Sampling costs more than an update, so one wants several updates from one batch. After the first, the samples come
# from an *older* policy. Weighing each with the ratio repairs the mean:
#
# $$\mathbb{E}_{a\sim\pi_{old}}\bigl[r(a)\,A(a)\bigr] = \mathbb{E}_{a\sim\pi_\theta}\bigl[A(a)\bigr], \qquad r(a) = \frac{\pi_\theta(a)}{\pi_{old}(a)} \tag{02.4}$$
#
# By hand: the old policy is (½, ¼, ¼), the new one (¼, ¼, ½), so r = (½, 1, 2). With A = (1, 0, 2) the left side is
# ½·½·1 + 0 + ¼·2·2 = 1.25, the right side ¼·1 + ½·2 = 1.25.

# %%
from labkit.rl.losses import token_ratio

# verify 02.4
new_policy = numbers([0.25, 0.25, 0.5])
ratio = token_ratio(new_policy.log(), policy.log())
verify("02.4", by_hand=[0.5, 1, 2, 1.25], labkit=[*ratio, policy @ (ratio * rewards)])

# %% [markdown]
# At the first update new and old are the same policy and every ratio is 1. There the gradient of $r\,A$ is the policy
# gradient of section 2:
#
# $$\nabla_\theta\, r(a)\,A(a)\,\Big|_{\theta=\theta_{old}} = A(a)\,\nabla_\theta\log\pi_\theta(a) \tag{02.5}$$

# %%
# verify 02.5
objective = policy @ (token_ratio(logits.log_softmax(-1), policy.log()) * rewards)
verify("02.5", by_hand=[0, -0.25, 0.25], labkit=torch.autograd.grad(objective, logits)[0])

# %% [markdown]
# *Usual misconception:* that PPO's ratios make old samples as good as new. For whole completions the exact weight is
# the *product* of the token ratios, and products run away:

# %%
print(f"50 tokens of ratio 1.05: {1.05**50:.1f}    of ratio 0.95: {0.95**50:.3f}")

# %% [markdown]
# PPO and GRPO weigh each token by its own ratio only. That leaves out that the *prefix* was drawn by the old policy as
# well. It is a first-order approximation, good while the policy stays near. Hence the clip.

# %% [markdown]
# ## 4. The clip (11 minutes)
#
# *You will be able to draw PPO's objective for both signs of the advantage, and say where its gradient is zero.*
#
# $$L^{CLIP} = \mathbb{E}_t\Bigl[\min\bigl(r_t A_t,\; \operatorname{clip}(r_t,\, 1-\varepsilon,\, 1+\varepsilon)\,A_t\bigr)\Bigr] \tag{02.6}$$
#
# with $r_t = \pi_\theta(a_t \mid s_t)\,/\,\pi_{old}(a_t \mid s_t)$; $a_t$ is the next token, $s_t$ the prompt and the
# tokens so far. $L^{CLIP}$ is to be *maximised*, in spite of its letter; labkit's loss is its negative. Four numbers,
# ε = 0.2:
#
# | | r = 1.5 | r = 0.5 |
# | --- | --- | --- |
# | A = 2 | min(3, **2.4**) = 2.4 | min(**1**, 1.6) = 1 |
# | A = −2 | min(**−3**, −2.4) = −3 | min(−1, **−1.6**) = −1.6 |
#
# Bold is what the minimum takes. 2.4 and −1.6 are constants: there the gradient is zero.

# %%
from labkit.rl.losses import clipped_policy_loss, clipped_share

# verify 02.6
ratio = numbers([[1.5, 0.5], [1.5, 0.5]])
advantages = numbers([[2.0], [-2.0]])
verify("02.6", by_hand=[[2.4, 1], [-3, -1.6]], labkit=-clipped_policy_loss(ratio, advantages, 0.2, 0.2))
print("no gradient:", clipped_share(ratio, advantages, 0.2, 0.2).tolist())

# %% [markdown]
# The gradient piece by piece, by autograd: the derivative of the objective with respect to $\log r$, which is what
# multiplies $\nabla\log\pi$. Unclipped it is $r A$. The last three columns are variants: two come below, CISPO in
# section 8.

# %%
from labkit.workshop.ppo_clip import clip_curves

at = numbers([0.5, 0.7, 0.9, 1.0, 1.1, 1.3, 1.5, 4.0])
pd.DataFrame(
    {
        "A = +1": clip_curves(at, 1.0, 0.2, 0.2).gradient,
        "A = −1": clip_curves(at, -1.0, 0.2, 0.2).gradient,
        "A = −1, dual clip 3": clip_curves(at, -1.0, 0.2, 0.2, 3.0).gradient,
        "A = +1, clip-higher 0.28": clip_curves(at, 1.0, 0.2, 0.28).gradient,
        "A = +1, CISPO 0.28": clip_curves(at, 1.0, 0.2, 0.28).cispo_gradient,
    },
    index=pd.Index(at.tolist(), name="ratio"),
)

# %%
still_has_a_gradient = clip_curves(numbers([1.5]), -1.0, 0.2, 0.2).gradient.item() != 0
reveal("02.clip", "yes" if still_has_a_gradient else "no, it is clipped")

# %% [markdown]
# The case table in words:
#
# | | r too low | r within | r too high |
# | --- | --- | --- | --- |
# | A > 0, a good action | push up: it has moved the wrong way | push up | stop: likelier enough |
# | A < 0, a bad action | stop: rarer enough | push down | push down: it has moved the wrong way |
#
# Move the ratio through it. The panels on the right redraw figure 1 of the PPO paper
# ([1707.06347](https://arxiv.org/abs/1707.06347)).

# %%
from labkit.workshop.widgets import clip_explorer, static_clip

clip_explorer()

# %%
static_clip()

# %% [markdown]
# *Usual misconception:* that the clip keeps the ratio within 1 ± ε. It only stops *pushing* from there on. Other tokens
# move the same weights, the optimiser has momentum, and nothing pulls a ratio back that has left in the direction its
# advantage asked for.
#
# **Dual clip.** For A < 0 the objective falls without bound as the ratio grows, so one token can dominate the batch.
# A third bound $c$ (commonly 3; Ye et al., [1912.09729](https://arxiv.org/abs/1912.09729)) limits it, for negative
# advantages only. Its price: beyond it the token gets no gradient.
#
# $$L^{DUAL} = \max\Bigl(\min\bigl(r A,\; \operatorname{clip}(r, 1-\varepsilon, 1+\varepsilon) A\bigr),\; c A\Bigr) \quad\text{for } A < 0 \tag{02.7}$$
#
# A = −2, r = 5, c = 3: min(−10, −2.4) = −10, and max(−10, −6) = −6.

# %%
# verify 02.7
loss = clipped_policy_loss(numbers(5.0), numbers(-2.0), 0.2, 0.2, dual_clip=3.0)
verify("02.7", by_hand=-6, labkit=-loss)

# %% [markdown]
# **Clip-higher.** With one ε for both sides, a token of probability 0.01 may rise to 0.012 before it is stopped, one of
# 0.9 to 1.08, that is, as far as it likes. Rare tokens are held back most, and exploration with them,
# argues DAPO ([2503.14476](https://arxiv.org/abs/2503.14476)), and sets the upper bound higher, 0.28 against 0.2.

# %%
for probability in (0.01, 0.9):
    print(f"{probability}: up to {probability * 1.2:.4g} with 0.2, up to {probability * 1.28:.4g} with 0.28")

# %%
show("02.clip_loss")


# %%
def my_clip_loss(ratio, advantages, clip_low, clip_high):
    """Clipped loss a token: [rows, time]; both clips are distances from 1."""
    raise NotImplementedError


# %%
check("02.clip_loss", my_clip_loss)

# %% [markdown]
# ## 5. The advantage: credit in time (15 minutes)
#
# *You will be able to compute GAE by hand, and keep observations and cut-off episodes from spoiling it.*
#
# In this section $r_t$ is the *reward* of step t, not a ratio. An action cannot earn what was paid before it. So each
# step is weighed with the **reward-to-go**
#
# $$G_t = r_t + \gamma\,G_{t+1} \tag{02.8}$$
#
# Rewards 0, 0, 1 and γ = ½: from the end, 1, then 0 + ½·1 = ½, then ¼.

# %%
from labkit.rl.advantages import generalized_advantages, reward_to_go

# verify 02.8
rewards_in_time = numbers([[0.0, 0.0, 1.0]])
all_steps = torch.ones(1, 3)
verify("02.8", by_hand=[[0.25, 0.5, 1]], labkit=reward_to_go(rewards_in_time, all_steps, gamma=0.5))

# %% [markdown]
# A critic $V$ predicts the reward-to-go, and is the baseline: the simplest advantage is $A_t = G_t - V_t$. It is
# unbiased and noisy: everything that happens later is in $G_t$. The other extreme looks one step ahead,
# $\delta_t = r_t + \gamma V_{t+1} - V_t$: little noise, but all the critic's errors. GAE blends them with λ:
#
# $$A_t = \delta_t + \gamma\lambda\,A_{t+1}, \qquad \delta_t = r_t + \gamma V_{t+1} - V_t \tag{02.9}$$
#
# By hand, γ = 1, λ = ½, rewards 0, 0, 1, values 0.5, 0.6, 0.8, and 0 after the end:
#
# | t | δ | A |
# | --- | --- | --- |
# | 3 | 1 + 0 − 0.8 = 0.2 | 0.2 |
# | 2 | 0 + 0.8 − 0.6 = 0.2 | 0.2 + ½ · 0.2 = 0.3 |
# | 1 | 0 + 0.6 − 0.5 = 0.1 | 0.1 + ½ · 0.3 = 0.25 |
#
# The critic learns $A_t + V_t$ = 0.75, 0.9, 1.

# %%
# verify 02.9
values = numbers([[0.5, 0.6, 0.8]])
advantages, returns = generalized_advantages(rewards_in_time, values, all_steps, gamma=1.0, lam=0.5)
verify(
    "02.9", by_hand=[[0.25, 0.3, 0.2], [0.75, 0.9, 1.0]], labkit=[advantages[0].tolist(), returns[0].tolist()]
)

# %%
pd.DataFrame(
    {
        lam: generalized_advantages(rewards_in_time, values, all_steps, gamma=1.0, lam=lam)[0][0]
        for lam in (0.0, 0.5, 1.0)
    },
    index=pd.Index([1, 2, 3], name="t"),
).rename_axis("λ", axis="columns")

# %% [markdown]
# λ = 0 is δ; λ = 1 is $G_t - V_t$ = 0.5, 0.4, 0.2. Language tasks with one reward at the end often take γ = λ = 1 and
# no critic at all: every token gets the whole reward.
#
# **Cut off is not over.** Say no reward came, and after three steps the episode ran out of room; the critic thinks the
# state reached is worth 0.9. *Terminated* means: nothing follows, its value is 0. *Truncated* means: it would have gone
# on. By hand, the last δ is 0 + 0.9 − 0.8 = 0.1 if truncated, and 0 + 0 − 0.8 = −0.8 if taken for an end.

# %%
nothing_yet = numbers([[0.0, 0.0, 0.0]])
truncated, _ = generalized_advantages(
    nothing_yet, values, all_steps, gamma=1.0, lam=0.5, last_values=numbers([0.9])
)
terminated, _ = generalized_advantages(nothing_yet, values, all_steps, gamma=1.0, lam=0.5)
pd.DataFrame(
    {"truncated": truncated[0], "taken for an end": terminated[0]}, index=pd.Index([1, 2, 3], name="t")
)

# %% [markdown]
# The same actions get praise or blame by what one takes the end for.
#
# **Observations are not steps of the policy.** Put two tokens of a tool result between the second and the third step.
# The critic says something about them, but nobody chose them. GAE steps over what the mask leaves out, and the three
# advantages are those from above.

# %%
mask = numbers([[1.0, 1.0, 0.0, 0.0, 1.0]])
with_observation, _ = generalized_advantages(
    numbers([[0.0, 0.0, 0.0, 0.0, 1.0]]),
    numbers([[0.5, 0.6, -9.0, 7.0, 0.8]]),
    mask,
    gamma=1.0,
    lam=0.5,
)
print(with_observation.numpy().round(4))

# %% [markdown]
# **Over turns.** One may also count a whole turn as one action, discount from turn to turn, and give every token its
# turn's advantage. Rewards 0 and 1, values 0.4 and 0.7, γ = 0.9, λ = 0.95: the second turn has δ = 0.3, the first
# δ = 0.9 · 0.7 − 0.4 = 0.23 and A = 0.23 + 0.855 · 0.3 = 0.4865.

# %%
from labkit.rl.advantages import spread_over_turns, whiten

per_turn, _ = generalized_advantages(
    numbers([[0.0, 1.0]]), numbers([[0.4, 0.7]]), torch.ones(1, 2), gamma=0.9, lam=0.95
)
turn_of_token = torch.tensor([[-1, 0, 0, -1, -1, 1, 1, 1]])  # -1: prompt and observation
print(spread_over_turns(per_turn, turn_of_token).numpy().round(4))

# %% [markdown]
# **What the critic learns** is pulled towards the returns $\hat G = A + V_{old}$ of above, with a clip like the policy's
# (from PPO's public code, not the paper):
#
# $$L^V = \tfrac12 \max\bigl((V - \hat G)^2,\; (\operatorname{clip}(V,\, V_{old} - c_V,\, V_{old} + c_V) - \hat G)^2\bigr) \tag{02.10}$$
#
# V = 0.5, before the update 0.2, Ĝ = 1, c_V = 0.1: clipped, V is 0.3, and ½ · 0.7² = 0.245 is larger than ½ · 0.5². The
# larger one is a constant: the critic gets no gradient here.

# %%
from labkit.rl.losses import value_loss

# verify 02.10
verify("02.10", by_hand=0.245, labkit=value_loss(numbers(0.5), numbers(0.2), numbers(1.0), clip=0.1))

# %% [markdown]
# Advantages are usually **whitened** over the batch, shifted to mean 0 and scaled to standard deviation 1:
# 0.25, 0.3, 0.2 become 0, 1, −1. *Usual misconception:* that this may be done at any time. The critic's targets are made
# of the advantages as they are; whitened first, it would learn a scale that changes with every batch.

# %%
print(whiten(advantages, all_steps).numpy().round(4))

# %%
show("02.gae")

# %%
import torch


def my_gae(rewards, values, mask, gamma, lam, last_values):
    """Advantages and returns, each [rows, time], 0 outside the mask."""
    raise NotImplementedError


# %%
check("02.gae", my_gae)

# %% [markdown]
# ## 6. GRPO: the group as baseline (23 minutes)
#
# *You will be able to compute a group's advantages and the weight of one token, and say which biases they carry.*
#
# A critic is a second network. The policy of the 24-point game, as an example:

# %%
from labkit.lm.models import load_model, num_parameters
from labkit.studies.points24.base import base_folder

small_policy, _ = load_model(base_folder())
size, width = num_parameters(small_policy), small_policy.config.hidden_size
print(f"policy {size:,} parameters; a critic of its own as much again, and {width + 1} for the head")

# %% [markdown]
# GRPO ([2402.03300](https://arxiv.org/abs/2402.03300)) asks the policy itself what a prompt is worth: draw $G$
# completions, and compare each with the rest. (From here on $G$ is their number, not a return.)
#
# $$A_i = \frac{R_i - \operatorname{mean}(R)}{\operatorname{std}(R) + \mathrm{eps}} \tag{02.11}$$
#
# By hand, R = 1, 0, 0, 0: the mean is ¼, the squared distances sum to ¾. Divided by G − 1 the variance is ¼, std ½,
# A = 1.5, −0.5, −0.5, −0.5. Divided by G instead, std is √3/4, and A = √3 = 1.732, −0.577, −0.577, −0.577. `eps` takes a
# little off (the guard, 1e-4 here, is the libraries'; the paper has none).

# %%
from labkit.rl.advantages import LIBRARY_GROUP_STD, group_advantages, rloo_advantages

# verify 02.11
one_right = numbers([1.0, 0.0, 0.0, 0.0])
verify("02.11", by_hand=[1.5, -0.5, -0.5, -0.5], labkit=group_advantages(one_right, 4))
verify("02.11", by_hand=[1.732, -0.577, -0.577, -0.577], labkit=group_advantages(one_right, 4, ddof=0))

# %% [markdown]
# What it gives and costs against a critic: no second network, nothing to train, and a baseline that needs no
# learning. But every prompt has to be sampled $G$ times, the baseline is itself a noisy estimate from few
# completions, and all tokens of a completion get the same advantage. For rewards 0 and 1 with success rate $p$, the
# mean of the *other* completions has variance $p(1-p)/(G-1)$:

# %%
sizes = [2, 4, 8, 16, 64]
pd.DataFrame(
    {f"p = {p}": [(p * (1 - p) / (size - 1)) ** 0.5 for size in sizes] for p in (0.5, 0.1)},
    index=pd.Index(sizes, name="G"),
).rename_axis("standard deviation of the baseline", axis="columns")

# %% [markdown]
# `eps` looks harmless: it is there so that a group of equal rewards gives 0 and not 0/0. It matters when rewards differ by
# little, as a length penalty may make them. Rewards 0.5, 0.5, 0.5, 0.5002 have standard deviation 1e-4.

# %%
almost_equal = numbers([0.5, 0.5, 0.5, 0.5002])
pd.DataFrame(
    {
        name: group_advantages(almost_equal, 4, ddof=std.ddof, eps=std.eps)
        for name, std in LIBRARY_GROUP_STD.items()
    }
)

# %% [markdown]
# The last two treat a difference of 0.0002 almost like one between right and wrong. *Usual misconception:* that the
# advantage measures how much better an answer was. Standardised, it measures how *unusual* it was in its group.
#
# ### 6.1 Difficulty bias
#
# Dividing by the standard deviation weighs prompts: hard and easy ones, where the rewards hardly vary, are blown up.
# Dr.GRPO ([2503.20783](https://arxiv.org/abs/2503.20783)) leaves the division out. The total push
# $\sum_i |A_i|$ of a group of 16, by how many of its answers are right:

# %%
group = 16
pushes = {}
for right in (0, 1, 2, 4, 8, 12, 15, 16):
    marks = numbers([1.0] * right + [0.0] * (group - right))
    ours, centred = group_advantages(marks, group), group_advantages(marks, group, scale_by_std=False)
    pushes[right] = [ours[0].item(), centred[0].item(), ours.abs().sum().item(), centred.abs().sum().item()]
pd.DataFrame.from_dict(
    pushes,
    orient="index",
    columns=["first A, GRPO", "first A, Dr.GRPO", "total push, GRPO", "total push, Dr.GRPO"],
).rename_axis("right of 16")

# %% [markdown]
# With one right of 16 the total push is 2·(15/16) without the division, and four times that with it; at half right the
# division does not quite double it. Both give **nothing** at 0 and 16: such a group was sampled in vain. That is why DAPO draws
# further prompts in their place.
#
# ### 6.2 Its own reward in the baseline
#
# The group's mean contains the reward it is subtracted from, so it is a baseline that depends on the action. RLOO
# ([2402.14740](https://arxiv.org/abs/2402.14740)) leaves it out:
#
# $$A_i = R_i - \frac{1}{G-1}\sum_{j\neq i} R_j \;=\; \frac{G}{G-1}\bigl(R_i - \operatorname{mean}(R)\bigr) \tag{02.12}$$
#
# R = 1, 0, 0, 0: the right one gets 1 − 0 = 1, the others 0 − ⅓.

# %%
# verify 02.12
verify("02.12", by_hand=[1, -1 / 3, -1 / 3, -1 / 3], labkit=rloo_advantages(one_right, 4))

# %% [markdown]
# How much it matters, exactly: the policy of section 2, all nine pairs that a group of two can be. Let the third action
# pay 4 now, R = (1, 0, 4). The expected pay is 1.5, and the gradient should be ½ · (−0.5), ¼ · (−1.5), ¼ · 2.5.

# %%
pay = numbers([1.0, 0.0, 4.0])
pairs = torch.cartesian_prod(torch.arange(3), torch.arange(3))
chance = policy[pairs].prod(-1)
score = torch.eye(3) - policy  # row a: gradient of log π(a)


def mean_gradient(advantage):
    """Gradient a group of two gives on average over all pairs, [logits]."""
    weights = torch.stack([advantage(pay[pair]) for pair in pairs])
    return torch.einsum("p,pi,pik->k", chance, weights, score[pairs]) / 2


means = pd.DataFrame(
    {
        "exact": policy * (pay - policy @ pay),
        "RLOO": mean_gradient(lambda r: rloo_advantages(r, 2)),
        "Dr.GRPO": mean_gradient(lambda r: group_advantages(r, 2, scale_by_std=False)),
        "GRPO": mean_gradient(lambda r: group_advantages(r, 2)),
    },
    index=["∂θ0", "∂θ1", "∂θ2"],
)
means.T.round(4) + 0.0  # so that no -0 is shown

# %% [markdown]
# RLOO is exact. Dr.GRPO is too small by (G − 1)/G = ½, the same for every prompt: a smaller learning rate, no more.
# GRPO points elsewhere and leaves the first action alone: standardising a pair keeps only which of the two was better,
# so that a gain of 3 or 4 counts like one of 1. (For rewards of 0 and 1 it weighs prompts, as above, and nothing else.)

# %%
show("02.rloo")


# %%
def my_rloo(rewards, group_size):
    """Each reward less the mean of the others of its group: [groups * group_size] -> the same shape."""
    raise NotImplementedError


# %%
check("02.rloo", my_rloo)

# %% [markdown]
# ### 6.3 From tokens to one number: length bias
#
# The loss of a batch is the sum of its token losses with weights $w_{i,t}$. With $B$ rows, $|y_i|$ tokens in row $i$
# and $L$ a constant length:
#
# $$w_{i,t} = \underbrace{\frac{1}{B\,|y_i|}}_{\text{GRPO}} \qquad \underbrace{\frac{1}{\sum_j |y_j|}}_{\text{DAPO}} \qquad \underbrace{\frac{1}{B\,L}}_{\text{Dr.GRPO}} \tag{02.13}$$
#
# Two rows of 2 and 6 tokens, L = 8. A token weighs ¼ in the short row and 1/12 in the long one; or ⅛ in both; or 1/16
# in both.

# %%
from labkit.rl.losses import token_weights

# verify 02.13
two_rows = torch.arange(6) < torch.tensor([[2], [6]])
modes = {
    "GRPO": "sequence_mean_token_mean",
    "DAPO": "token_mean",
    "Dr.GRPO": "sequence_mean_token_sum_norm",
}
weights = {name: token_weights(two_rows, mode, max_length=8) for name, mode in modes.items()}
verify(
    "02.13",
    by_hand=[[1 / 4, 1 / 12], [1 / 8, 1 / 8], [1 / 16, 1 / 16]],
    labkit=[w[:, 0].tolist() for w in weights.values()],
)

# %%
pd.DataFrame(
    {
        name: [-0.5 * w[0, 0].item(), -0.5 * w[1, 0].item(), w[0].sum().item(), w[1].sum().item()]
        for name, w in weights.items()
    },
    index=[
        "push on a token, short",
        "push on a token, long",
        "weight of the short row",
        "weight of the long row",
    ],
).T

# %% [markdown]
# The pushes are for A = −0.5 in both rows, that is, two wrong answers. Under GRPO's mean each token of the long one is
# punished a third as hard. Being wrong at length pays, relatively; for right answers it is the other way round. Under
# the other two a token counts the same wherever it stands, and a long row more than a short one.
#
# **GRPO whole**, in our letters (β weighs the KL penalty, next section):
#
# $$J = \mathbb{E}\Bigl[\frac{1}{G}\sum_{i=1}^{G}\frac{1}{|y_i|}\sum_{t}\Bigl(\min\bigl(r_{i,t}A_i,\; \operatorname{clip}(r_{i,t},\,1-\varepsilon,\,1+\varepsilon)\,A_i\bigr) - \beta\,k_{3;i,t}\Bigr)\Bigr] \tag{02.14}$$
#
# By hand, for one group: G = 2 with rewards 1 and 0, so A = ±0.5/0.7071 = ±0.707. All ratios of the first row are 1.5, clipped to
# 1.2, those of the second 1. The reference is where π is in the first row and twice as likely in the second:
# $k_3$ = 2 − 1 − log 2 = 0.307. With β = 0.04: J = ½(1.2 · 0.707 − 0.707) − ½ · 0.04 · 0.307 = 0.0707 − 0.0061.

# %%
from labkit.rl.kl import kl_estimate

# verify 02.14
old = torch.full((2, 6), -1.0)
new = old + numbers([[1.5], [1.0]]).log()
reference = new + numbers([[1.0], [2.0]]).log()
advantages = group_advantages(numbers([1.0, 0.0]), 2)[:, None]
loss = clipped_policy_loss(token_ratio(new, old), advantages, 0.2, 0.2) + 0.04 * kl_estimate(new, reference)
verify("02.14", by_hand=0.0646, labkit=-(loss * weights["GRPO"]).sum())

# %% [markdown]
# Mark answers right or wrong, and see what each variant makes of every token. When does a token of one right answer
# weigh more than one of another? What happens when all are right?

# %%
from labkit.workshop.widgets import group_marker, static_group_marker

group_marker()

# %%
static_group_marker()

# %%
show("02.token_weights")


# %%
def my_token_weights(mask, aggregation, max_length):
    """Weight of each token's loss in the loss of the batch: [rows, time]."""
    raise NotImplementedError


# %%
check("02.token_weights", my_token_weights)

# %%
show("02.which_groups")

# %%
my_groups = {
    "one_right": ...,
    "all_right": ...,
    "all_wrong": ...,
    "one_wrong": ...,
    "one_too_long": ...,
    "prompts_to_draw": ...,
    "kl_still_pushes": ...,
}

# %%
check("02.which_groups", my_groups)

# %% [markdown]
# ## 7. The KL penalty (10 minutes)
#
# *You will be able to say what k1, k2 and k3 estimate, and what each of them does as a loss.*
#
# A penalty keeps the policy near a reference, usually the checkpoint that RL started from:
#
# $$\mathrm{KL}(\pi\,\|\,ref) = \sum_x \pi(x)\,\log\frac{\pi(x)}{ref(x)} \tag{02.15}$$
#
# Three tokens, π = (½, ¼, ¼), ref = (0.1, 0.4, 0.5): ½·log 5 + ¼·log 0.625 + ¼·log 0.5 = 0.805 − 0.118 − 0.173 = 0.514
# nats. The other way round, KL(ref‖π), it is 0.374: a divergence, not a distance.

# %%
from labkit.rl.kl import exact_kl

# verify 02.15
reference = numbers([0.1, 0.4, 0.5])
both = [exact_kl(policy.log(), reference.log()).item(), exact_kl(reference.log(), policy.log()).item()]
verify("02.15", by_hand=[0.514, 0.374], labkit=both)

# %% [markdown]
# The sum runs over the vocabulary at every step. Usually one keeps only the log-probabilities of tokens that π *sampled*.
# With $r = ref/\pi$ (here, not the ratio of section 4), Schulman's three estimators ([his note](http://joschu.net/blog/kl-approx.html)):
#
# $$k_1 = -\log r \qquad k_2 = \tfrac12(\log r)^2 \qquad k_3 = r - 1 - \log r \tag{02.16}$$
#
# For the first token r = 0.1/0.5 = 0.2: k1 = 1.609, k2 = 1.295, k3 = 0.2 − 1 + 1.609 = 0.809.

# %%
# verify 02.16
names = ("k1", "k2", "k3")
estimates = {name: kl_estimate(policy.log(), reference.log(), name) for name in names}
verify("02.16", by_hand=[1.609, 1.295, 0.809], labkit=[estimates[name][0] for name in names])

# %%
table = pd.DataFrame({"π": policy, "ref": reference, "r": reference / policy} | estimates)
mean = {name: (policy @ estimates[name]).item() for name in names}
spread = {name: (policy @ (estimates[name] - mean[name]) ** 2).sqrt().item() for name in names}
bias = {name: round(mean[name] - both[0], 6) for name in names}
summary = pd.DataFrame([mean, bias, spread], index=["mean under π", "bias", "standard deviation"])
pd.concat([table.astype(object), summary]).fillna("")

# %% [markdown]
# As *values*: k1 and k3 are unbiased, k2 is not; k1 is negative on some tokens, k3 on none.
#
# *Usual misconception:* that an unbiased estimate makes an unbiased loss. The samples are held fixed when one
# differentiates, so what is lost is the change of *which* tokens would be drawn. Here are the gradients, by
# enumeration of the three tokens with autograd, and named by comparison with both exact gradients:

# %%
from labkit.workshop.ppo_kl_report import USES, gradient_name, kl_report

report = kl_report(policy.log(), reference.log())
pd.DataFrame(
    {
        name: {"as a value": "unbiased" if abs(e.bias) < 1e-9 else "biased"}
        | {text: gradient_name(e.gradients[use], report) for use, text in USES.items()}
        for name, e in report.estimators.items()
    }
).T

# %%
reveal("02.k3", gradient_name(report.estimators["k3"].gradients["loss"], report))

# %% [markdown]
# Read it by column. **As a loss** (where GRPO puts it): k1 does nothing on average, k2 does what one wanted, k3 descends
# the *other* divergence. **In the reward** (where PPO for language models puts it): k1 is right. **With the ratio**, as a
# loss: k1 and k3 are right, since the ratio carries the change of which tokens are drawn:
#
# $$\nabla\,\mathbb{E}_{a\sim\pi_{old}}\Bigl[\tfrac{\pi}{\pi_{old}}\,k_3\Bigr] = \nabla\,\mathrm{KL}(\pi\,\|\,ref), \qquad \frac{\partial\,\mathrm{KL}}{\partial\theta_k} = \pi_k\Bigl(\log\frac{\pi_k}{ref_k} - \mathrm{KL}\Bigr) \tag{02.17}$$
#
# By hand: ½(1.609 − 0.514) = 0.548, ¼(−0.470 − 0.514) = −0.246, ¼(−0.693 − 0.514) = −0.302.
#
# All this is for the choice of one token. For a completion, a penalty in the loss, with or without the ratio, ignores
# that earlier tokens decide which later contexts come up. In the reward, summed over what follows, k1 covers that too
# ([2506.09477](https://arxiv.org/abs/2506.09477)). And all columns suppose that π itself drew the samples; after the
# first update on a batch only the column with the ratio still holds.

# %%
from labkit.rl.kl import with_ratio

# verify 02.17
logprobs = logits.log_softmax(-1)
corrected = policy @ with_ratio(kl_estimate(logprobs, reference.log(), "k3"), logprobs, policy.log())
verify("02.17", by_hand=[0.548, -0.246, -0.302], labkit=torch.autograd.grad(corrected, logits)[0])

# %% [markdown]
# In the reward, the penalty is a number a token, and no gradient flows through it ($r_t$ is a reward again):
#
# $$r'_t = r_t - \beta\,\log\frac{\pi(y_t \mid \dots)}{ref(y_t \mid \dots)} \tag{02.18}$$
#
# Tokens of probability ½ and ¼ under π, 0.1 and 0.4 under the reference, reward 1 at the end, β = 0.1: the first gets
# −0.161, the second 1 + 0.047.

# %%
from labkit.rl.kl import subtract_kl

# verify 02.18
penalised = subtract_kl(numbers([[0.0, 1.0]]), policy[None, :2].log(), reference[None, :2].log(), kl_coef=0.1)
verify("02.18", by_hand=[[-0.161, 1.047]], labkit=penalised)

# %% [markdown]
# Drag π and the reference apart. Which estimator's spread grows fastest? Which gradients stay together?

# %%
from labkit.workshop.widgets import kl_explorer, static_kl

kl_explorer()

# %%
static_kl()

# %%
show("02.kl_k3")


# %%
def my_k3(logprobs, reference_logprobs):
    """k3 of each token, in nats: the same shape as the inputs."""
    raise NotImplementedError


# %%
check("02.kl_k3", my_k3)

# %% [markdown]
# ## 8. Variants are changes of parts (16 minutes)
#
# *You will be able to say of any variant which parts it changes, and to read a library's settings as one.*
#
# Every method here is: an advantage, a ratio, a clip, a way to add up tokens, a penalty, and a critic or none.

# %%
variants = pd.DataFrame(
    [
        ("PPO", "GAE", "token", "±0.2", "token mean", "k1 in reward", "yes", "1707.06347"),
        ("GRPO", "(R − mean) / std", "token", "±ε", "mean of row means", "k3 in loss", "no", "2402.03300"),
        ("Dr.GRPO", "R − mean", "token", "±ε", "token sum / constant", "none", "no", "2503.20783"),
        ("RLOO", "R − mean of others", "none", "none", "row sum", "k1 in reward", "no", "2402.14740"),
        ("DAPO", "(R − mean) / std", "token", "−0.2, +0.28", "token mean", "none", "no", "2503.14476"),
        ("GSPO", "(R − mean) / std", "row", "−3e-4, +4e-4", "row mean", "left out", "no", "2507.18071"),
        ("CISPO", "(R − mean) / std", "token weight", "≤ 1 + ε", "token mean", "none", "no", "2506.13585"),
    ],
    columns=["method", "advantage", "ratio", "clip", "adding up", "KL", "critic", "arXiv"],
).set_index("method")
variants

# %% [markdown]
# PPO's row is the usual one for language models; the paper itself has no reference policy. DAPO also drops and refills
# groups that are all right or all wrong, and takes reward off answers that come near the length limit. *Usual
# misconception:* that these are rival algorithms. They share a frame, and the columns combine.
#
# In labkit they are settings of one training loop; here are those settings in which they differ. (No KL penalty is
# set: how much of it one wants is a matter of the task. RLOO has PPO's clip for when samples are used more than once.
# `scale_by_std` acts on `group` advantages only, `clip_low` not on CISPO.)

# %%
from labkit.rl.config import ALGORITHMS

settings = pd.DataFrame({name: vars(config) for name, config in ALGORITHMS.items()})
settings[settings.nunique(axis=1, dropna=False) > 1]

# %% [markdown]
# **GSPO** ([2507.18071](https://arxiv.org/abs/2507.18071)): rewards are given to sequences, so it clips a sequence's
# ratio, with the length taken out by a root:
#
# $$s = \left(\frac{\pi_\theta(y \mid x)}{\pi_{old}(y \mid x)}\right)^{1/|y|} = \exp\Bigl(\frac{1}{|y|}\sum_t \log r_t\Bigr) \tag{02.19}$$
#
# Token ratios 4 and 1: s = √4 = 2. Ratios 2 and ½: s = 1, and nothing is clipped; PPO would have stopped one of
# the two tokens, the 2 if A > 0, the ½ if A < 0.

# %%
from labkit.rl.losses import sequence_ratio

# verify 02.19
log_ratios = numbers([[4.0, 1.0], [2.0, 0.5]]).log()
verify("02.19", by_hand=[[2], [1]], labkit=sequence_ratio(log_ratios, torch.zeros(2, 2), torch.ones(2, 2)))

# %%
show("02.sequence_ratio")


# %%
def my_sequence_ratio(logprobs, old_logprobs, mask):
    """Length-normalised ratio of each completion: [rows, 1]."""
    raise NotImplementedError


# %%
check("02.sequence_ratio", my_sequence_ratio)

# %% [markdown]
# **CISPO** ([2506.13585](https://arxiv.org/abs/2506.13585)): where PPO silences a token, it goes on pushing, with a
# bounded weight. (The paper prints a lower bound as well and switches it off.) sg is "stop gradient":
#
# $$L = -\operatorname{sg}\bigl[\min(r,\, 1+\varepsilon)\bigr]\,A\,\log\pi_\theta \tag{02.20}$$
#
# A = 1, log π = −1, r = 3, ε = 0.5: the loss is 1.5, its gradient −1.5. PPO's gradient there is 0.

# %%
from labkit.rl.losses import cispo_loss

# verify 02.20
logprob = numbers(-1.0, requires_grad=True)
ratio = token_ratio(logprob, numbers(-1.0) - numbers(3.0).log())
loss = cispo_loss(logprob, ratio, numbers(1.0), clip_high=0.5)
(slope,) = torch.autograd.grad(loss, logprob, retain_graph=True)
verify("02.20", by_hand=[1.5, -1.5], labkit=[loss.item(), slope.item()])
(ppo_slope,) = torch.autograd.grad(clipped_policy_loss(ratio, numbers(1.0), 0.5, 0.5), logprob)
print("PPO's gradient there:", ppo_slope.item())

# %%
show("02.cispo")


# %%
def my_cispo_loss(logprobs, ratio, advantages, clip_high):
    """CISPO's loss a token: [rows, time]; clip_high is a distance from 1."""
    raise NotImplementedError


# %%
check("02.cispo", my_cispo_loss)

# %% [markdown]
# ### 8.1 A library's "GRPO"
#
# TRL's trainer is called `GRPOTrainer`; its defaults are not the paper's GRPO. Read from the installed version, beside
# what DeepSeekMath used (*s*: taken from secondary sources that agree):

# %%
from dataclasses import fields

import trl

defaults = {field.name: field.default for field in fields(trl.GRPOConfig)}
paper = {
    "loss_type": "'grpo': mean of row means",
    "beta": "0.04 (s)",
    "use_bias_correction_kl": "no: k3 as a loss",
    "num_generations": "64 (s)",
    "num_iterations": "1 (s)",
    "epsilon": "ε",
    "epsilon_high": "the same ε",
    "delta": "no dual clip",
    "scale_rewards": "by the group's std",
    "importance_sampling_level": "token",
    "learning_rate": "1e-6 (s)",
}
print("trl", trl.__version__)
pd.DataFrame({"TRL's default": {name: str(defaults[name]) for name in paper}, "DeepSeekMath": paper})

# %% [markdown]
# So by default one trains DAPO's token mean, with a symmetric clip, no dropping of groups, and no KL penalty. If β is
# set above 0, the penalty is k3 *times the ratio*: by the table of section 7 the gradient of each token's KL(π‖ref), not
# that of the paper's GRPO. Two things that no name shows: with one update a batch, TRL's default and the paper's choice,
# every ratio is 1 and no clip ever acts; and `epsilon_high` is a distance from 1, but for `loss_type="cispo"` the bound
# itself.

# %% [markdown]
# ## 9. Experiments (12 minutes)
#
# *You will be able to say which of these differences can be seen in training, at this scale.*
#
# All runs start from the base model of notebook 03 (0.9M parameters), train on the 24-point game with reward 1 for a
# right answer and 0 otherwise, 16 prompts of 8 completions a step and two updates from each batch unless said otherwise,
# one learning rate for all. Of three rates it gave GRPO and PPO the most reward in training, in one run each (last figure
# of this section); the other variants were not tuned. Points are means over seeds, bands 95 % bootstrap intervals; the
# claims' intervals are Student's t.
#
# ### 9.1 A critic or a group
#
# *Predict:* GRPO compares a completion with the mean of its group of eight, PPO with what a critic expects. The critic starts
# from nothing. Who is ahead after eighty steps? (PPO needs no groups and could have seen 128 prompts a step; that was not
# run.) In the figure of costs all three train on every row: with the verifier's reward GRPO would also skip the groups
# without signal.

# %%
from labkit.workshop import display

display.figure("ppo_grpo", "critic_or_group")

# %%
display.figure("speed", "critic_cost")

# %%
display.claims("ppo_grpo", ["ppo_grpo/grpo-beats-ppo-shared", "ppo_grpo/grpo-beats-ppo-separate"])

# %% [markdown]
# ### 9.2 The variants side by side
#
# DAPO draws further groups in place of those without signal, so that a step of it costs more samples: the third panel.
# Answers in this game are nearly all equally long, as the cell below the figure says. Then the weights of "GRPO, no std",
# Dr.GRPO and RLOO differ by a constant factor only, which Adam takes out again: three names for one algorithm. How far
# their bars lie apart is chance, and a measure of how far bars lie apart by chance.

# %%
display.figure("ppo_grpo", "variants")

# %%
from labkit.studies.ppo_grpo import STUDY
from labkit.study import load_study

study = load_study(STUDY, "full")
lengths = study[study["arm"] == "grpo"]["length"]
print(f"mean length of GRPO's answers, by step: {lengths.min():.1f} to {lengths.max():.1f} tokens")

# %%
display.claims("ppo_grpo", ["ppo_grpo/rloo-beats-ppo", "ppo_grpo/dynamic-sampling-learns-faster"])

# %% [markdown]
# ### 9.3 How large a group
#
# The number of completions stays 128 a step: 64 groups of 2, or 2 of 64. Small groups have a noisy baseline, and most
# of them no signal; large ones see few prompts. The last three panels are measured on the base policy, without training.
# "Agreement" is the mean cosine between gradients of independent batches: 1 would mean that every batch points the same
# way.

# %%
display.figure("ppo_grpo", "group_sizes")

# %%
display.claims("ppo_grpo", ["ppo_grpo/groups-steady-the-gradient", "ppo_grpo/groups-learn-better"])

# %% [markdown]
# ### 9.4 Dividing by the standard deviation
#
# The left panel is exact: how hard one sample of a group of eight pushes on average, by how often its prompt is solved.

# %%
display.figure("ppo_grpo", "std_bias")

# %%
display.claims("ppo_grpo", ["ppo_grpo/no-std-learns-better"])

# %% [markdown]
# ### 9.5 The clip, where it matters
#
# With one update a batch every ratio is 1 and the clip never acts. Here each batch is used for eight updates. CISPO and
# GSPO are shown in this regime too, each with its own clip.
#
# *Predict:* without the clip, does training become slower, noisier, or does it break?

# %%
display.figure("ppo_grpo", "clip")

# %%
display.claims(
    "ppo_grpo",
    [
        "ppo_grpo/clip-prevents-collapse",
        "ppo_grpo/clip-bounds-drift",
        "ppo_grpo/gspo-learns-faster",
        "ppo_grpo/cispo-learns-faster",
    ],
)

# %% [markdown]
# ### 9.6 The penalty: how much, and which

# %%
display.figure("ppo_grpo", "kl_coefficient")

# %%
display.figure("ppo_grpo", "kl_estimators")

# %%
display.claims(
    "ppo_grpo",
    [
        "ppo_grpo/kl-coefficient-bounds-drift",
        "ppo_grpo/k1-in-the-loss-does-not-hold-back",
        "ppo_grpo/k1-in-the-reward-holds-back",
    ],
)

# %% [markdown]
# The table of section 7 says what each gradient is on average. k1's as a loss is zero on average at the first update of
# a batch, and not zero on any sample: noise, scaled by the coefficient. At the second update the samples are the older
# policy's, and it even pushes away from that policy, a little.
#
# In the reward the same coefficient means more than in the loss: there a completion pays for the *sum* over its tokens,
# here the loss takes their mean. And taken off before a group is standardised, the penalty would be standardised with it:
# in a group where all are right or all wrong, its small differences would be scaled up to full size. So the arm "k1,
# reward" does not divide by the standard deviation.
#
# ### 9.7 Settings tried

# %%
display.figure("ppo_grpo", "tried")

# %% [markdown]
# ## 10. Spot the slip (17 minutes)
#
# *You will be able to find errors in formulas and in code by evaluating them, not by reading.*
#
# Popular write-ups of these methods contain slips that have been copied from one to the next. Evaluate each line with
# numbers; a policy that has not moved (every ratio 1) settles two of them.

# %%
show("02.spot_slip")

# %%
my_verdicts = {
    "line_1": ...,
    "line_2": ...,
    "line_3": ...,
    "line_4": ...,
    "line_5": ...,
    "line_6": ...,
}

# %%
check("02.spot_slip", my_verdicts)

# %%
show("02.grpo_bug_hunt")


# %%
def my_grpo_loss(logprobs, old_logprobs, rewards, mask, group_size, clip_low, clip_high):
    """GRPO's loss for a batch: a scalar."""
    advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
    ratio = (logprobs - old_logprobs).exp()
    objective = ratio * advantages.unsqueeze(-1)
    clipped = objective.clamp(1 - clip_low, 1 + clip_high)
    loss = -objective.minimum(clipped) * mask
    return loss.mean(-1).mean()


# %%
check("02.grpo_bug_hunt", my_grpo_loss)

# %% [markdown]
# ### 10.1 What could be wrong with this
#
# - **Expectations are not runs.** What is shown here by enumeration holds on average over samples, at one policy. How
#   much a bias matters in training depends on the step size, the noise and how long one trains; section 9 is for that.
# - **Softmax with a logit for each action.** A network shares weights among tokens and contexts. The gradients in the
#   logits are exact for any of them; what an update does to *other* tokens is not in these tables.
# - **"Unbiased" is no verdict.** RLOO is unbiased and Dr.GRPO is not, by a constant factor that a learning rate absorbs.
#   GRPO's changes what is optimised, and models such as DeepSeek-R1 were trained with it all the same.
# - **Clip ranges are not comparable** between methods: GSPO's 3e-4 is on a mean over tokens, PPO's 0.2 on one token.
# - **Formulas drift.** Papers appear in versions, and libraries change defaults. The table of section 8.1 is read from
#   the version installed here; equations are cited with their arXiv number.
#
# ### 10.2 On from here
#
# - Notebook 03 trains with these losses on the 24-point game, and compares with supervised fine-tuning.
# - Read: PPO ([1707.06347](https://arxiv.org/abs/1707.06347)); GAE ([1506.02438](https://arxiv.org/abs/1506.02438));
#   DeepSeekMath ([2402.03300](https://arxiv.org/abs/2402.03300)); on KL gradients
#   [2506.09477](https://arxiv.org/abs/2506.09477), [2510.01555](https://arxiv.org/abs/2510.01555) and
#   [2512.21852](https://arxiv.org/abs/2512.21852).

# %%
progress("02")
