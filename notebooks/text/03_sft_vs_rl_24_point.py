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
# # 03 · SFT versus RL on the 24-point game
#
# *Does supervised fine-tuning memorise where reinforcement learning generalises?*
#
# After this notebook you can
#
# 1. write a verifier that no floating-point number can fool, and name each way in which an answer fails;
# 2. say which tokens a supervised loss sees, and find the four usual bugs in it;
# 3. compute GRPO's advantage by hand, and say why a group of equal rewards teaches nothing;
# 4. train the same small model both ways, live, and watch accuracy under the *other* rule;
# 5. read the study's figures beside the paper's, with intervals, and say what they do not show.
#
# **Needs** Python and what a token's log-probability is. **Takes** about 85 minutes with exercises, 35 without;
# the training in it takes under five minutes on two cores.
#
# The claim is that of [Chu et al. 2025, *SFT Memorizes, RL Generalizes*](https://arxiv.org/abs/2501.17161): train
# on the card game under one rule, test under another. Theirs are models of 7 to 11 billion parameters; ours has
# 0.9 million, so that you can train it here. Numbers will differ, and where the conclusion differs too, we say so.

# %%
import torch

from labkit.envs.points24 import compact
from labkit.envs.points24.compact import prompt_tokens, response_tokens
from labkit.envs.points24.data import demonstration, split_hands, writable
from labkit.envs.points24.metrics import reading_accuracy
from labkit.envs.points24.play import Codec, attempts
from labkit.envs.points24.rules import FACES_AS_RANK, FACES_AS_TEN
from labkit.envs.points24.solver import evaluate, is_solvable, solutions, to_infix
from labkit.lm.models import load_model, num_parameters
from labkit.lm.runtime import configure
from labkit.studies.points24 import STUDY
from labkit.studies.points24.base import base_folder
from labkit.study import active_profile, load_study
from labkit.workshop import display
from labkit.workshop.learner import check, predict, progress, reveal, show

runtime = configure()
print(f"profile {active_profile()}, {runtime.threads} thread(s), {runtime.device}")

# %% [markdown]
# ## 1. Guess first (3 minutes)
#
# *You will be able to say what the claim is, and what you expected before you saw any result.*
#
# In the 24-point game you get four cards and combine all four with `+ - × ÷` to make 24. J, Q and K count 10
# under one rule and 11, 12, 13 under the other. One model is trained under the first rule only, once by SFT on
# solved hands, once by RL on its own attempts. Then both are asked to play under the *second* rule, which the
# prompt names. The base model, before any of this, could read cards under both rules.
#
# Before training, the base solves a few of ten hands under either rule. Make your guesses; nothing depends on
# them, and you will be shown how far off they were.

# %%
predict(
    "03.sft_ood", "After SFT on rule A, which share of rule-B hands is solved (base: see below)?", (0.0, 1.0)
)

# %%
predict("03.rl_ood", "And after RL on rule A?", (0.0, 1.0))

# %% [markdown]
# ## 2. The result in one picture (3 minutes)
#
# *You will be able to read the figure that the rest of the notebook explains.*

# %%
display.figure("points24", "beside_paper")

# %%
study = load_study(STUDY, "full")
last = study.sort_values("step").groupby(["arm", "seed"]).tail(1).groupby("arm")["ood_accuracy"].mean()
reveal("03.sft_ood", last["sft-0.001"])

# %%
reveal("03.rl_ood", last["grpo"])

# %% [markdown]
# Bars are means over seeds (their number stands in the claims table of section 8), whiskers 95 % bootstrap intervals. How to read it: the *differences* between
# bars of one panel are the claim; the levels are not comparable between a model of 0.9M parameters and one of
# several billion. SFT stands there twice, at two learning rates, for a reason that section 8 comes to. The middle
# panel is the other direction, which the paper does not report: train with 11, 12, 13, test with 10.

# %% [markdown]
# ## 3. The game by hand (10 minutes)
#
# *You will be able to decide exactly whether a hand can be solved, and an answer is right.*
#
# Take 3, 3, 8, 8. There is one solution, and it needs a fraction.

# %%
(only,) = solutions((3, 3, 8, 8))
print(to_infix(only), "=", evaluate(only))
print("in floating point:", 8 / (3 - 8 / 3))

# %% [markdown]
# A verifier that evaluates with floats and compares with `==` calls a right answer wrong here, and its reward
# punishes the hardest success there is. One that accepts "close to 24" can be fooled the other way. Ours uses
# rational numbers. Of the 1,820 hands of four values from 1 to 13, these can be solved:

# %%
from labkit.envs.points24.solver import all_hands

solvable = [hand for hand in all_hands() if is_solvable(hand)]
print(f"{len(solvable):,} of {len(all_hands()):,}")

# %%
show("03.exact_value")

# %%
from fractions import Fraction


def my_exact_value(expr):
    """Exact value of a whole number or of (op, left, right); None if it divides by zero anywhere."""
    raise NotImplementedError


# %%
check("03.exact_value", my_exact_value)

# %% [markdown]
# `hint("03.exact_value")` gives the next hint, `solution("03.exact_value")` shows labkit's own source. The rest
# of the notebook runs whether or not you solve the exercises.

# %% [markdown]
# ## 4. What the model sees and says (8 minutes)
#
# *You will be able to read the model's language, and name six ways in which an answer ends.*
#
# A model this small does not speak English. Its prompt is ten tokens, one word each: what J, Q and K count, the
# target, four cards. Its answer first *reads* the cards, then makes three steps, writing down what is left.

# %%
hand = (12, 4, 10, 11)  # Q 4 10 J
print("prompt  ", " ".join(prompt_tokens(hand, FACES_AS_TEN)))
steps = [(10, "-", 4, 6), (10, "+", 10, 20), (6, "+", 20, 26)]
answer = response_tokens(FACES_AS_TEN.values(hand), steps)
print("answer  ", " ".join(answer))
print("verdict ", compact.grade(answer, hand, FACES_AS_TEN).outcome)
print("the same answer under the other rule:", compact.grade(answer, hand, FACES_AS_RANK).outcome)

# %% [markdown]
# Reading and reasoning are apart in this form, so that one can see which of the two fails. Every answer ends in
# exactly one outcome:
#
# | outcome | meaning |
# | --- | --- |
# | `correct` | reaches the target |
# | `wrong_value` | legal, but reaches something else |
# | `wrong_numbers` | does not use every value exactly once |
# | `misread_cards` | the values read are not what the rule says |
# | `illegal` | breaks the form, or an equation is false |
# | `no_answer` | nothing that claims to be an answer |
#
# *Usual misconception:* that "wrong answer" is one thing. Under the other rule, a model may still do its
# arithmetic without fault on cards that it misread.

# %%
model, tokenizer = load_model(base_folder())
codec = Codec(tokenizer)
print(f"{num_parameters(model):,} parameters, {len(tokenizer)} words")

test_hands = writable(split_hands().test, FACES_AS_TEN)
for (attempt,) in attempts(model, codec, test_hands[:6], FACES_AS_TEN):
    print(f"{attempt.verdict.outcome:14}", " ".join(attempt.tokens[:-1]))

# %% [markdown]
# The base was trained on random three-step reductions *to whatever they reach* and never aimed at 24; no
# held-out hand was ever shown reaching it. It reads well and reckons so-so:

# %%
graded = [a[0].verdict for a in attempts(model, codec, test_hands, FACES_AS_TEN)]
print(f"{len(test_hands)} test hands under faces = 10, greedy:")
print(f"  all four cards read right {reading_accuracy(graded, test_hands, FACES_AS_TEN):.0%}")
print(f"  solved {sum(v.correct for v in graded) / len(graded):.0%}")

# %% [markdown]
# Play a hand against it. Type an expression such as `(10-4)*(12-8)`; everything can be reached with the Tab key.

# %%
from labkit.workshop.widgets import play_hand, static_play

play_hand(model, codec)

# %%
static_play(model, codec)

# %%
show("03.reading_accuracy")


# %%
def my_reading_accuracy(verdicts, hands, rule):
    """Share of responses, 0 to 1, whose four values are read right, solved or not."""
    raise NotImplementedError


# %%
check("03.reading_accuracy", my_reading_accuracy)

# %% [markdown]
# ## 5. SFT: imitate a solution (12 minutes)
#
# *You will be able to say which tokens the loss sees, and find the bugs that make it see others.*
#
# Supervised fine-tuning maximises the likelihood of a given solution $y$ for a prompt $x$:
#
# $$\max_\theta\; \sum_{t=1}^{|y|} \log p_\theta(y_t \mid x, y_{<t}) \tag{03.1}$$
#
# The sum runs over the answer's tokens alone, the end-of-sequence token included. By hand, for one hand:

# %%
import random

from labkit.lm.scoring import token_logprobs

example = demonstration(test_hands[0], FACES_AS_TEN, random.Random(0))
ids = torch.tensor([codec.encode(example.tokens)])
kept = sum(example.keep)
with torch.no_grad():
    logprobs = token_logprobs(model, ids, torch.ones_like(ids), kept)[0]
for token, logprob in list(zip(example.tokens[-kept:], logprobs.tolist(), strict=True))[:14]:
    print(f"{token:>6} {logprob:8.3f}  {'#' * round(-4 * logprob)}")
print(f"log p(y|x) = {logprobs.sum():.2f} over {kept} tokens; the SFT loss is {-logprobs.mean():.3f}")

# %% [markdown]
# Reading costs nothing: those tokens are certain already. Nearly all the surprise is in *which* step to take,
# since one solution is as good as another and the loss wants this one.

# %%
show("03.completion_mask")

# %%
import torch


def my_completion_mask(ids, prompt_lengths, eos_id, pad_id):
    """True on the tokens of each response, its EOS included: [batch, time], bool."""
    raise NotImplementedError


# %%
check("03.completion_mask", my_completion_mask)

# %%
show("03.sft_loss_bug_hunt")


# %%
def my_sft_loss(logits, ids, completion_mask):
    """Mean of -log p over the kept tokens of the batch."""
    logprobs = logits.log_softmax(-1)
    chosen = logprobs.gather(-1, ids.unsqueeze(-1)).squeeze(-1)
    loss = -(chosen * completion_mask)
    return loss.mean()


# %%
check("03.sft_loss_bug_hunt", my_sft_loss)

# %% [markdown]
# ## 6. RL: try, be graded, compare (12 minutes)
#
# *You will be able to compute a group's advantages by hand, and say what the clip stops.*
#
# RL sees no solution. The model makes $G$ attempts $y_1, …, y_G$ at one hand; the verifier gives each a reward
# $R_i$ (here 1 for solved, else 0); each attempt is compared with its siblings:
#
# $$A_i = \frac{R_i - \operatorname{mean}(R)}{\operatorname{std}(R) + \epsilon} \tag{03.2}$$
#
# Four attempts, one solved: what is its advantage? Mean ¼, deviations ¾, −¼, −¼, −¼, sum of squares ¾, divided by
# G − 1 = 3 gives variance ¼, so std ½ and advantages 1.5, −0.5, −0.5, −0.5.

# %%
from labkit.rl.advantages import group_advantages

print(group_advantages(torch.tensor([1.0, 0.0, 0.0, 0.0]), group_size=4))
print(group_advantages(torch.tensor([1.0, 1.0, 1.0, 1.0]), group_size=4), "<- nothing to compare")

# %% [markdown]
# Then every token of attempt $i$ is made likelier or less likely by the same $A_i$, with the ratio $r_{i,t}$ of
# new to old probability clipped, so that several updates on one batch cannot run away:
#
# $$J = \frac{1}{G}\sum_{i=1}^{G}\frac{1}{|y_i|}\sum_{t}\min\bigl(r_{i,t}A_i,\; \operatorname{clip}(r_{i,t},\,1-\varepsilon,\,1+\varepsilon)\,A_i\bigr) \tag{03.3}$$
#
# *Usual misconceptions:* the group is not *ranked*, it is standardised; the clip is on $r$, not on $r\,A$; a hand
# that is always or never solved gives no gradient at all, so what RL learns from are hands it solves *sometimes*.

# %%
sampled = attempts(
    model,
    codec,
    [h for h in test_hands[:40] for _ in range(16)],
    FACES_AS_TEN,
    generator=torch.Generator().manual_seed(0),
)
solved = torch.tensor([a[0].verdict.correct for a in sampled]).view(40, 16)
mixed = (solved.any(1) & ~solved.all(1)).float().mean()
print(
    f"sampled once: {solved.float().mean():.0%} solved; at least once in 16: {solved.any(1).float().mean():.0%}"
)
print(f"groups of 16 with a signal: {mixed:.0%}")

# %%
show("03.group_advantage")


# %%
def my_group_advantages(rewards, group_size, eps=1e-4):
    """Rewards standardised within each group: [groups * group_size] -> the same shape."""
    raise NotImplementedError


# %%
check("03.group_advantage", my_group_advantages)

# %% [markdown]
# ## 7. Train both, live (10 minutes)
#
# *You will be able to watch accuracy under both rules move while the model learns under one.*
#
# Both start from the same base and train under faces = 10. Start SFT, let it run, then RL; or stop half-way and
# resume. What do you expect of the dashed line?

# %%
from labkit.workshop.widgets import TrainingPanel

panel = TrainingPanel(model, codec)
panel

# %% [markdown]
# The cell below trains without the buttons if you have not pressed them, so that Run All tells the story.

# %%
panel.run_blocking()
panel.static()

# %% [markdown]
# The same hand at each checkpoint, under both rules. Drag the slider, or use the arrow keys: what changes first, the
# steps or the reading of the face cards? (A minute of training seldom reaches the reading; the study below does.)

# %%
from labkit.workshop.widgets import checkpoint_slider, static_checkpoints

checkpoint_slider(panel.snapshots, codec)

# %%
static_checkpoints(panel.snapshots, codec)

# %% [markdown]
# ## 8. The study (15 minutes)
#
# *You will be able to say which of the papers' claims hold at this scale, and how firmly.*
#
# What you just saw was one seed and a minute. The study ran every arm to the end with several seeds
# (`python -m labkit run points24 --profile full`). Verdicts are computed from the data, and the test suite
# computes them again.

# %%
display.claims("points24")

# %% [markdown]
# ### 8.1 Accuracy against compute

# %%
display.figure("points24", "compute_curves")

# %% [markdown]
# Compute is counted as in the paper: 6 × parameters × tokens for training, and 2 × parameters × tokens for the
# sampling that RL needs. The final point of a curve hides the path, so here is the path of each run:

# %%
display.figure("points24", "trade_off")

# %%
show("03.matched_accuracy")


# %%
def my_matched_accuracy(id_accuracy, ood_accuracy, target):
    """Out-of-distribution accuracy where in-distribution accuracy first reaches target; NaN if never."""
    raise NotImplementedError


# %%
check("03.matched_accuracy", my_matched_accuracy)

# %% [markdown]
# ### 8.2 What is lost: reading
#
# *Predict:* when SFT fails under the other rule, is it the arithmetic that fails, or the reading?

# %%
display.figure("points24", "reading")

# %%
display.figure("points24", "outcomes")

# %% [markdown]
# Under faces = 10 the tokens 11, 12 and 13 never occur as the value of a card, so nothing in the training data
# keeps the model reading them. In the other direction the value 10 does occur in training (the ten itself), and a
# queen read as 10 stays familiar: compare the two left panels of the first figure.
#
# ### 8.3 By heart, or by reading?
#
# Two controls change one thing each. *Varied rules*: the same SFT, but each sequence draws what J, Q and K count
# (never the test rule). *Base of many rules*: the same SFT on one rule, from a base that had to read random rules
# in the prompt, where ours had seen two and could know them by heart.

# %%
display.figure("points24", "two_bases")

# %% [markdown]
# ### 8.4 How far from the base

# %%
display.figure("points24", "divergence")

# %% [markdown]
# ### 8.5 More data, and SFT before RL

# %%
display.figure("points24", "data_amount")

# %%
display.figure("points24", "sft_before_rl")

# %% [markdown]
# ### 8.6 Verify and revise
#
# The verifier names the outcome, the model tries again in the same episode, up to 1, 3 or 5 attempts.

# %%
display.figure("points24", "turns")

# %% [markdown]
# ### 8.7 A failing control: RL without its brakes

# %%
display.figure("points24", "collapse")

# %% [markdown]
# ## 9. What could be wrong with this (10 minutes)
#
# *You will be able to attack the result, and design the run that would answer you.*
#
# - **Scale.** 0.9M parameters trained from nothing on one task are not a language model of billions. What carries
#   over is the mechanism, not the number.
# - **Settings.** Learning rates change the answer: at 1e-3 SFT forgets the other rule, at 3e-4 it does so later,
#   if at all within the run. "SFT memorises" is a statement about SFT *at a rate and for a time*. The rates, the KL
#   penalty and the rewards were chosen on validation hands (below: one seed each, GRPO's from the base of many rules); its
#   group of 8 only for its cost. One choice was not blind: a first run of the study, with 200 SFT updates, was looked at
#   on test hands (one seed) and showed no collapse. The arms were then made longer, and 1e-3 became the rate of the
#   controls, after longer runs on validation hands. That SFT collapses at 1e-3 is thus a finding after a search for it.
# - **Leakage.** In the other direction a test hand can be the *same puzzle* as a training hand (trained on 10 3 4 5,
#   tested on K 3 4 5 with K = 10). The headline set leaves those out; the cell below counts them.
#   The base itself was kept from test hands by their cards, not by their values, and a failed attempt that stands in
#   one of its training sequences can happen to reach 24. All arms start from it, so that differences between arms stay
#   fair; the level they start from may be a little high.
# - **Seeds.** The interval is over training seeds with one base, one split and one set of test hands. Another base
#   could shift all arms together.
# - **Objective.** SFT sees 588 solved hands with all their solutions; RL sees a reward. SFT has more to learn from
#   per token, and solves more hands of the training rule in the end: compare at equal accuracy, not only at the end.

# %%
from labkit.envs.points24.data import count_shared_multisets

print("train 10, test 11/12/13:", count_shared_multisets(FACES_AS_TEN, FACES_AS_RANK))
print("train 11/12/13, test 10:", count_shared_multisets(FACES_AS_RANK, FACES_AS_TEN))

# %%
display.figure("points24", "learning_rates")

# %%
display.figure("points24", "tried")

# %%
show("03.ood_hands")

# %%
from labkit.envs.points24.data import split_hands, writable
from labkit.envs.points24.rules import has_face


def my_ood_hands(hands, train_rule, test_rule):
    """Held-out hands that are a fair test under test_rule after training under train_rule."""
    raise NotImplementedError


# %%
check("03.ood_hands", my_ood_hands)

# %%
show("03.design_control")

# %%
my_control = {
    "start": ...,
    "responses": ...,
    "reward": ...,
    "compute": ...,
    "measured_on": ...,
    "settings_chosen_on": ...,
    "seeds": ...,
    "claim_holds_if": ...,
}

# %%
check("03.design_control", my_control)

# %% [markdown]
# ## 10. On from here (2 minutes)
#
# - Notebook 02 derives equations 03.2 and 03.3, with their variants and their bugs.
# - The same verifier grades English answers of larger models: `labkit.envs.points24.json_form`, and
#   `labkit.envs.points24.trl_reward` is a reward function for TRL.
# - Read: Chu et al. 2025 ([2501.17161](https://arxiv.org/abs/2501.17161)); Shenfeld et al. 2025 on why on-policy
#   RL forgets less ([2509.04259](https://arxiv.org/abs/2509.04259)); the counter-evidence
#   ([2510.00237](https://arxiv.org/abs/2510.00237)).

# %%
progress("03")
