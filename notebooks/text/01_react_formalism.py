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
# # 01 · ReAct, symbol by symbol
#
# *What an agent sees, what it does not see, and what its history is good for.*
#
# After this notebook you can
#
# 1. name every symbol of the loop — goal, state, observation, history, thought, action — and the object that holds it;
# 2. say what the history $h_t$ contains at step t, and which printed version of it is wrong;
# 3. find states that look alike, and say why a policy without memory fails on them;
# 4. read a step from whatever a model wrote, and count the ways in which it failed;
# 5. tell an episode that was cut off from one that ended, and say which tokens of it are trained on;
# 6. read the study's figures, and say what history and thoughts are worth here, and where they are not.
#
# **Needs** Python, and what a policy is. **Takes** about 100 minutes with exercises, 40 without; one policy is trained
# live, in about a minute on two cores.
#
# The loop is that of [Yao et al. 2022, *ReAct*](https://arxiv.org/abs/2210.03629), the formalism that of partially
# observed Markov decision processes (POMDPs). The paper prompts a model of 540 billion parameters; ours has 0.9 million and
# learned from experts, so that you can look at every state, and train it here.

# %%
import pandas as pd

from labkit.envs.craft.env import CraftWorld
from labkit.envs.craft.tasks import make_task
from labkit.envs.phone.env import PhoneWorld
from labkit.envs.phone.goals import Task, single
from labkit.lm.runtime import configure
from labkit.study import active_profile
from labkit.workshop import display
from labkit.workshop.learner import check, predict, progress, reveal, show
from labkit.workshop.verify import verify

runtime = configure()
print(f"profile {active_profile()}, {runtime.threads} thread(s), {runtime.device}")

# %% [markdown]
# ## 1. Guess first (2 minutes)
#
# *You will be able to see which of your intuitions about memory and thought hold in this world.*
#
# Each guess is answered below by a measurement. Nothing depends on it.

# %%
predict(
    "01.memory",
    "A small policy learned from an expert on a phone, once with its full history and once seeing the present screen "
    "only. On tasks in which different states share a screen, how much larger is the share of goals reached with history?",
    (0.0, 1.0),
)

# %%
predict(
    "01.thoughts",
    "The policy either writes a thought before each action, or acts at once. How much larger is the share of goals "
    "reached with thoughts, on all tasks? (A number below 0: acting alone is better.)",
    (-0.5, 1.0),
)

# %% [markdown]
# ## 2. A world that shows less than it is (9 minutes)
#
# *You will be able to compute a transition and an observation by hand, and find two states that look the same.*
#
# A phone. The **goal** $g$ is "open the WiFi". The **state** $s_t$ is all there is to know: which screens were opened
# over one another, which switches are on, what each app may do. The **observation** $o_t$ is what the screen shows:
#
# $$o_t = \Omega(s_t) \tag{01.1}$$

# %%
world = PhoneWorld()
observation, info = world.reset(options={"task": Task(single("open", "wifi"))})
print("g  ", world.goal)
print("o_1", observation)
print("s_1", world.state)

# %%
from IPython.display import HTML

HTML(world.picture())

# %% [markdown]
# An **action** $a_t$ moves the state, by the **transition** $T$; then something else is seen:
#
# $$s_{t+1} = T(s_t, a_t) \qquad o_{t+1} = \Omega(s_{t+1}) \tag{01.2}$$
#
# By hand: `open Settings` puts the settings screen on top of home and changes nothing else.

# %%
from labkit.envs.phone.rules import State, observe, transition

# verify 01.1, 01.2
layout = world.task.layout
by_hand = State(path=("home", "settings"), on=world.state.on)
after = transition(layout, world.state, "open Settings")
verify("01.2", by_hand=by_hand, labkit=after)
verify("01.1", by_hand="Home : Settings , Maps , Camera , Chat", labkit=observe(layout, world.state))

# %%
show("01.transition")

# %%
my_steps = {
    "on_2": ...,
    "observation_2": ...,
    "path_3": ...,
    "observation_3": ...,
    "path_4": ...,
    "observation_4": ...,
}

# %%
check("01.transition", my_steps)

# %% [markdown]
# **Aliasing.** Two states can share an observation. Here are two: the page of the WiFi switch looks the same whether or not
# airplane mode is on. To turn the WiFi on, one must flip the switch in one of them and leave the page in the other.

# %%
from labkit.envs.phone.planner import aliases

pairs = aliases(layout, single("on", "wifi"))
pair = next(p for p in pairs if p.observation.startswith("WiFi"))
pd.DataFrame(
    {
        "observation": [pair.observation] * 2,
        "screens": [" > ".join(s.path) for s in (pair.first, pair.second)],
        "airplane mode": ["on" if "airplane" in s.on else "off" for s in (pair.first, pair.second)],
        "begins a shortest plan": [", ".join(b) for b in (pair.first_best, pair.second_best)],
    }
)

# %%
show("01.aliases")

# %%
my_aliases = {"first": ..., "second": ...}

# %%
check("01.aliases", my_aliases)

# %% [markdown]
# *Usual misconception:* that partial observation is a matter of noise. Nothing here is random; the screen just does not
# tell everything.
#
# ## 3. The loop (11 minutes)
#
# *You will be able to step the loop by hand, and say what the history holds at each step.*
#
# The policy writes a **thought** $\rho_t$ and an action $a_t$, from what it sees now, what it has seen and done, and the
# goal:
#
# $$(\rho_t, a_t) \sim \pi_\theta(\,\cdot \mid o_t, h_t, g) \tag{01.3}$$
#
# $$h_t = \bigl((o_1, \rho_1, a_1), \ldots, (o_{t-1}, \rho_{t-1}, a_{t-1})\bigr) \tag{01.4}$$
#
# *Erratum:* $h_t$ is often printed with $(o_t, \rho_t, a_t)$ as its last member. It cannot be: the policy would be given
# what it is about to write.
#
# | symbol | object |
# | --- | --- |
# | $g$ | `episode.goal` |
# | $s_t$ | `episode.world.state`, never shown to the policy |
# | $o_t$ | `episode.observation` |
# | $h_t$ | `episode.history` |
# | $(\rho_t, a_t)$ | `step.thought`, `step.action` |
# | $T$, $\Omega$ | `episode.world.step`, inside `episode.advance` |

# %%
from labkit.agents.forms import TextForm
from labkit.agents.react import Episode, Written

form = TextForm()
episode = Episode(PhoneWorld(), Task(single("open", "wifi")))
print("t = 1, steps in h_1:", len(episode.history))
episode.advance(Written("Thought: WiFi is a setting\nAction: open Settings"), form)
print("t = 2, steps in h_2:", len(episode.history), "  o_2:", episode.observation)
episode.advance(Written("Thought: it belongs to the network\nAction: open Network"), form)
print("t = 3, steps in h_3:", len(episode.history), "  o_3:", episode.observation)

# %%
# verify 01.4
steps = [(step.observation, step.thought, step.action) for step in episode.history]
verify(
    "01.4",
    by_hand=[
        ("Home : Settings , Maps , Camera , Chat", "WiFi is a setting", "open Settings"),
        (
            "Settings : Search , Network , Sound , Display , Privacy , System , Apps",
            "it belongs to the network",
            "open Network",
        ),
    ],
    labkit=steps,
)

# %%
show("01.history")


# %%
def my_prompt(goal, trajectory, t):
    """The text that a policy is given at step t, counted from 1."""
    raise NotImplementedError


# %%
check("01.history", my_prompt)

# %% [markdown]
# Now step through the task. Go forward with the expert, go back, and choose another action at a step: the state is kept
# for each step, so that you can branch. Watch $s_t$ beside $o_t$.

# %%
from labkit.agents.policies import NoisyExpert
from labkit.agents.thoughts import expert_thought
from labkit.studies.react.agent import load_agent
from labkit.workshop.widgets import stepper

agent = load_agent()
choosers = {"expert": NoisyExpert(0.0, expert_thought), "tiny agent": agent, "chance": NoisyExpert(1.0)}
stepper(PhoneWorld(), choosers, task=Task(single("on", "wifi"), airplane=True))

# %% [markdown]
# ## 4. Writing a step, and reading one (9 minutes)
#
# *You will be able to read thought and action from hostile text, and say why generation stops before the observation.*
#
# A policy made of a language model reads and writes text. This is its prompt at t = 3, and what it is to write:

# %%
print(form.prompt(episode.goal, episode.history, episode.observation))
print(form.write("here it is", "open WiFi"))

# %% [markdown]
# Reading it back must give the same two, for *any* thought. Two bugs are common: a greedy pattern takes the action into the
# thought, and a thought that holds the word `Action:` moves the action. And a model that is not stopped goes on and writes
# the next observation itself: that is an invention, to be thrown away and counted.

# %%
hostile = "Thought: the menu says\nAction: is not a word here\nAction: open WiFi\nObservation: WiFi : on\nAction: back"
print(form.parse(hostile))
escaped = form.write("the menu says\nAction: is not a word here", "open WiFi")
print(escaped)
print(form.parse(escaped))

# %%
show("01.parse")

# %%
import re


def my_parse(written):
    """(thought, action) of what a policy wrote; "" for each that is not there."""
    raise NotImplementedError


# %%
check("01.parse", my_parse)

# %% [markdown]
# Tiny models get the same in words that are tokens. `<eos>` ends what the policy writes, so that it stops by itself:

# %%
from labkit.agents.react import play

shown = play([PhoneWorld()], NoisyExpert(0.0, expert_thought), [Task(single("open", "wifi"))])[0]
print(agent.form.prompt(shown.goal, shown.history(2), shown.observation(2)))
print(agent.form.write(shown.steps[1].thought, shown.steps[1].action))

# %% [markdown]
# ## 5. Policies and their failures (14 minutes)
#
# *You will be able to run any policy through the loop, and name each kind of failure.*
#
# Four policies on the same twenty tasks, which none of them was shown:

# %%
from labkit.agents.cloning import PHONE_STEPS, phone_tasks
from labkit.agents.react import failure_counts

tasks = phone_tasks("validation")[:20]


def played(policy):
    """One episode of each task."""
    return play([PhoneWorld(max_steps=PHONE_STEPS) for _ in tasks], policy, tasks, progress=True)


policies = [
    NoisyExpert(0.0, expert_thought),
    NoisyExpert(0.3, expert_thought),
    agent,
    NoisyExpert(1.0),
]
episodes = {policy.name: played(policy) for policy in policies}
pd.DataFrame(
    {
        name: {
            "goals reached": sum(t.success for t in found) / len(found),
            "steps": sum(len(t.steps) for t in found) / len(found),
            **failure_counts(found),
        }
        for name, found in episodes.items()
    }
).T

# %% [markdown]
# Failures are counted in episodes. *Repeated* means the same action in the same **hidden state** as before: in a
# deterministic world that leads to nothing new. The same action on the same *screen* may well be right.
#
# Where the agent fails, look at how:

# %%
failed = next((t for t in episodes[agent.name] if not t.success), episodes[agent.name][0])
print("g:", failed.goal)
pd.DataFrame(
    [(s.observation, s.thought, s.action, ", ".join(s.failures)) for s in failed.steps[:12]],
    columns=["o", "ρ", "a", "failures"],
    index=pd.RangeIndex(1, min(len(failed.steps), 12) + 1, name="t"),
)

# %%
show("01.failures")


# %%
def my_failure_counts(trajectories):
    """In how many trajectories each kind of failure occurred, as a mapping."""
    raise NotImplementedError


# %%
check("01.failures", my_failure_counts)

# %%
show("01.policy")


# %%
def my_policy(goal, observation, history):
    """The next action, from what a policy may see."""
    raise NotImplementedError


# %%
check("01.policy", my_policy)

# %% [markdown]
# ## 6. How an episode ends (6 minutes)
#
# *You will be able to say when a return may be bootstrapped, and when it must not be.*
#
# An episode is **terminated** when the world is over by its own rules: the goal holds. It is **truncated** when the budget
# of steps is used up, which is our doing and not the world's. A terminal state has value 0. A state that was cut off has
# the value it always had, so that the one-step target is
#
# $$y_t = r_t + \gamma\,(1 - \text{terminated}_t)\,V(s_{t+1}) \tag{01.5}$$
#
# By hand, with r = 0, γ = 0.9 and V = 0.5: 0.45 at a cut, 0 if the same step had ended the world.

# %%
from labkit.workshop.exercises_01.truncation import one_step_target

# verify 01.5
verify(
    "01.5",
    by_hand=[0.45, 0.0],
    labkit=[one_step_target(0.0, 0.5, terminated=end, truncated=not end, gamma=0.9) for end in (False, True)],
)

# %%
cut = play([PhoneWorld(max_steps=2)], NoisyExpert(0.0), [Task(single("open", "wifi"))])[0]
whole = play([PhoneWorld()], NoisyExpert(0.0), [Task(single("open", "wifi"))])[0]
print(f"cut off: terminated {cut.terminated}, truncated {cut.truncated}, reward {cut.reward}")
print(f"ended:   terminated {whole.terminated}, truncated {whole.truncated}, reward {whole.reward}")

# %%
show("01.truncation")


# %%
def my_one_step_target(reward, next_value, terminated, truncated, gamma):
    """The target of V(s_t)."""
    raise NotImplementedError


# %%
check("01.truncation", my_one_step_target)

# %% [markdown]
# ## 7. From episodes to a policy (9 minutes)
#
# *You will be able to say which tokens of a trajectory are trained on.*
#
# The tiny agent began as a **reading base**: a fresh model trained to answer questions about screens and recipe books, never
# about what to do. What it can read, on names and phones it was not trained on:

# %%
import json

from labkit.agents.base import base_folder

base = json.loads((base_folder() / "base.json").read_text())
pd.Series(base["reading_accuracy"], name="answers right to the word").to_frame()

# %% [markdown]
# Then it learned from an expert by **behaviour cloning**: make what the expert wrote likely. An episode is one sequence, and
# the loss is taken on thoughts, actions and the `<eos>` after them. Observations are the world's: they are read, never
# trained on.

# %%
from html import escape

from labkit.agents.cloning import phone_demonstrations
from labkit.agents.examples import examples

demonstration = min(phone_demonstrations(40, seed=0), key=lambda t: len(t.steps))
ids, keep = examples(demonstration, agent.form)[0]
words = agent.form.tokenizer.convert_ids_to_tokens(ids)
marked = [
    f"<b><u>{escape(word)}</u></b>" if kept else escape(word) for word, kept in zip(words, keep, strict=True)
]
HTML(" ".join(marked))

# %%
show("01.mask")


# %%
def my_mask(words):
    """True on the words that are trained on."""
    raise NotImplementedError


# %%
check("01.mask", my_mask)

# %% [markdown]
# It reads screens nearly without a mistake, and recipe books badly: what an item needs is two or three look-ups in a row.
# So the agent learns on the phone only.
#
# **Train one, live.** From the reading base, on forty expert episodes. The committed agent learned from forty others, and
# for longer; the table below has both, on tasks that neither was shown.

# %%
from labkit.agents.evaluation import measure
from labkit.studies.react.arms import BOTH, arms
from labkit.studies.react.evaluate import evaluation_sets
from labkit.studies.react.run import clone

config = arms(active_profile())[BOTH]
state, policy = clone(config.cloning, seed=1, progress=True)
sets = evaluation_sets("validation", {"smoke": 2, "workshop": 12, "full": 40}[active_profile()])
rows = [
    {"policy": name, **row}
    for name, found in (("trained here", policy), ("committed", agent))
    for row in measure(found, sets)
]
pd.DataFrame(rows).pivot(index="policy", columns="set", values="success")

# %% [markdown]
# The other world, for a look: crafting, with a recipe book in the goal whose names mean nothing and change every episode.
# The expert's thought goes down the book from the target to what is missing.

# %%
expert_or_chance = {name: choosers[name] for name in ("expert", "chance")}
stepper(CraftWorld(), expert_or_chance, task=make_task("rope", distractors=1, rng=3))

# %% [markdown]
# ## 8. Experiments (12 minutes)
#
# *You will be able to say what history and thoughts were worth, with intervals, and where the claims fail here.*
#
# Every policy is the same network from the same base, cloned from the same experts with as many updates; one thing is changed
# at a time, in training as in use. Points are means over seeds, whiskers 95 % bootstrap intervals; the claims' intervals
# are Student's t. Tasks measured on were never demonstrated.
#
# ### 8.1 What the history is good for
#
# *Predict* the order of the bars before you look.

# %%
display.figure("react", "history")

# %%
from labkit.studies.episodes import success
from labkit.studies.react import STUDY
from labkit.studies.react.arms import ACT_ONLY, NONE
from labkit.studies.react.claims import ALIASED, INSIDE
from labkit.study import load_study

study = load_study(STUDY, "full")


def mean_gap(better, worse, sets):
    """Difference of success, mean over seeds."""
    one, other = (success(study, arm, sets) for arm in (better, worse))
    return sum(one[s] - other[s] for s in one) / len(one)


reveal("01.memory", max(mean_gap(BOTH, NONE, [ALIASED]), 0.0))

# %%
display.claims(
    "react",
    [
        "react/history-needed-where-aliased",
        "react/history-matters-more-where-aliased",
        "react/full-history-beats-window",
        "react/observations-worth-more-than-actions",
        "react/thoughts-are-memory",
    ],
)

# %% [markdown]
# ### 8.2 Thinking, acting, and both
#
# "Thinks only" sees the first observation and reasons and acts blindly from there: chain of thought with hands. "Acts only"
# never writes a thought. On the right are the paper's own numbers, for a prompted model a million times larger on other
# tasks: compare the shape, not the height.

# %%
display.figure("react", "thoughts")

# %%
reveal("01.thoughts", mean_gap(BOTH, ACT_ONLY, INSIDE))

# %%
display.claims(
    "react",
    [
        "react/thinking-and-acting-beats-acting",
        "react/thinking-and-acting-beats-thinking",
    ],
)

# %% [markdown]
# ### 8.3 Failures, budgets, and outside the distribution

# %%
display.figure("react", "failures")

# %%
display.figure("react", "budget")

# %%
display.figure("react", "outside")

# %% [markdown]
# ### 8.4 Settings tried
#
# On validation tasks, one seed each. Few demonstrations were taken on purpose: the notebooks on early experience and Agent-R
# start from an agent that still has much to learn.

# %%
display.figure("react", "tried")

# %% [markdown]
# ## 9. Real environments (5 minutes)
#
# *You will be able to run the same loop in ScienceWorld, TextWorldExpress and TextCraft.*
#
# They speak the same protocol. Two of them run in Java; without it there are recorded episodes.

# %%
from labkit.envs.java import why_missing
from labkit.envs.recorded import load_episodes
from labkit.envs.scienceworld import ScienceWorld

print(why_missing(ScienceWorld.package) or "the Java simulators are installed")
recorded = load_episodes("scienceworld")[0]
print("g:", recorded.goal)
pd.DataFrame(
    [(s.observation[:70].replace("\n", " "), s.action, s.reward) for s in recorded.steps[:8]],
    columns=["o (its beginning)", "a", "r"],
)

# %%
import gymnasium

import labkit.envs

textcraft = gymnasium.make("labkit/TextCraft-v0").unwrapped
trajectory = play([textcraft], NoisyExpert(0.0), seed=1)[0]
print(trajectory.goal[:160], "...")
print([step.action for step in trajectory.steps], "reward", trajectory.reward)

# %% [markdown]
# ## 10. What could be wrong with this (3 minutes)
#
# - **Cloned, not prompted.** ReAct's claims are about prompting a large model. Here each variant is trained. A thought that
#   an expert wrote from the hidden state teaches more than a thought a model made up.
# - **The expert's thoughts are good.** They name what is done and what comes next. Bad thoughts could hurt; that was not
#   tried.
# - **Long episodes are new.** Experts take short ways. A policy that errs soon has a history longer than any it was
#   trained on, and its writing breaks (format failures). That hits the full history hardest, and is a matter of training,
#   not of what a history is worth.
# - **Sizes differ.** With its full history an episode is one training sequence; with less, each step is one. At the same
#   number of steps the latter run several times as many tokens through the network (column `tokens` of the data).
# - **One map.** PhoneWorld's tasks are on one phone, whose map is learned by heart. No policy here explores, and
#   none was tried on another phone.
# - **Validation and test tasks are of the same phone**, and a goal may share a condition with a demonstrated one.
#
# On from here: notebook 02 derives the losses that train such policies by reward, and the notebooks on early experience and
# Agent-R start from the agent of this one.

# %%
progress("01")
