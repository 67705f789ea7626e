"""Episodes as rollouts: ids as sampled, masks without the world, returns that a fresh world repeats."""

from __future__ import annotations

from functools import lru_cache

import pytest
import torch

from labkit.agents.early import EarlyConfig, start_early
from labkit.agents.forms import FORMAT, INVENTED, WordForm
from labkit.agents.judge import EpisodeJudge
from labkit.agents.policies import NoisyExpert, silent
from labkit.agents.react import INADMISSIBLE, PREMATURE, play
from labkit.agents.thoughts import expert_thought
from labkit.agents.words import SPECIAL, tokenizer
from labkit.envs.craft.env import CraftWorld
from labkit.envs.craft.tasks import make_task
from labkit.envs.phone.env import PhoneWorld
from labkit.envs.phone.goals import Task, single
from labkit.lm.models import TinyConfig, tiny_model
from labkit.lm.sampling import SamplingConfig
from labkit.lm.shared_prompt import continuation_logprobs
from labkit.lm.training import OptimizerConfig, train
from labkit.rl.rollout import collect
from tests import tiny

FORM = WordForm(tokenizer())
GROUP, BUDGET, TEMPERATURE = 8, 5, 1.3
PHONE = [
    Task(single("open", "settings")),
    Task(single("on", "wifi"), airplane=True),
    Task(single("open", "settings"), airplane=True),
]
CRAFT = [make_task("rope", names="fixed"), make_task("plank", names="fixed")]
CASES = pytest.mark.parametrize(
    "make, tasks, thoughts, max_turns",
    [
        (PhoneWorld, PHONE, False, BUDGET),
        (PhoneWorld, PHONE, True, BUDGET + 2),
        (PhoneWorld, PHONE, False, 2),
        (CraftWorld, CRAFT, False, BUDGET + 2),
        (CraftWorld, CRAFT, True, BUDGET),
    ],
    ids=["phone", "phone-thinks", "phone-cut-short", "craft", "craft-thinks"],
)


class Listening(EpisodeJudge):
    """Remembers what each row wrote, turn by turn, and what it was told."""

    def __init__(self, *args):
        super().__init__(*args)
        self.heard = {}

    def __call__(self, rows, completions):
        answers = super().__call__(rows, completions)
        for row, completion, answer in zip(rows, completions, answers, strict=True):
            self.heard.setdefault(row, []).append((list(completion), answer))
        return answers


@lru_cache(maxsize=None)
def beginner(thoughts):
    """A model that has seen a little of what an expert does, so that some turns are paid and some cannot be
    read, and that begins an observation of its own now and then."""
    shown = []
    for make, tasks in ((PhoneWorld, PHONE), (CraftWorld, CRAFT)):
        expert = NoisyExpert(0.0, expert_thought if thoughts else silent)
        shown += play([make() for _ in tasks], expert, tasks)
    config = EarlyConfig(updates=25, optimizer=OptimizerConfig(learning_rate=1e-2))
    model = tiny_model(TinyConfig(1, 32, 2, 64, 512, 32**-0.5), FORM.tokenizer, 0)
    train(*start_early(model, FORM.tokenizer, config, 0, demonstrations=shown))
    lean = torch.zeros(len(FORM.tokenizer))
    lean[FORM.ids("<obs> finish")] = 3.0
    # In the output layer, which scoring runs by itself.
    model.lm_head.register_forward_hook(lambda head, states, logits: logits + lean)
    return model


def played(make, tasks, thoughts, max_turns, seed=2):
    judge = Listening(lambda: make(max_steps=BUDGET), tasks, FORM, GROUP, thoughts)
    rollouts = collect(
        beginner(thoughts),
        judge.prompts,
        judge,
        SamplingConfig(12 if thoughts else 5, temperature=TEMPERATURE),
        group_size=GROUP,
        generator=tiny.seeded(seed),
        max_turns=max_turns,
    )
    return beginner(thoughts), judge, rollouts


def action_in(words):
    """What a turn says to do, read by hand: `[<think> ...] <act> ... [<eos>]` before any observation of its
    own; "" if it is not that."""
    words = words[: words.index("<obs>")] if "<obs>" in words else words
    words = words[: words.index("<eos>")] if "<eos>" in words else words
    if words.count("<act>") != 1:
        return ""
    thought, action = words[: words.index("<act>")], words[words.index("<act>") + 1 :]
    if thought and thought[0] != "<think>" or set(SPECIAL) & set(thought[1:] + action):
        return ""
    return " ".join(action)


def retold(make, task, begin, turns):
    """The row by words and its rewards, by a fresh world that is told what the turns say.

    Words that were not sampled are in brackets.
    """
    world = make(max_steps=BUDGET)
    observation, _ = world.reset(options={"task": task})
    told = [f"[{w}]" for w in f"<bos> {world.goal} <obs> {observation} {begin}".split()]
    paid, over = [], False
    for completion in turns:
        assert not over
        if paid:
            told += [f"[{w}]" for w in f"<obs> {observation} {begin}".split()]
        words = FORM.text(completion).split()
        told += words
        action = action_in([begin, *words])
        if action == "finish":
            over, reward = True, 0.0
        else:
            observation, reward, terminated, truncated, _ = world.step(action)
            over = terminated or truncated
        paid.append(reward)
    return told, paid, over


@CASES
def test_a_row_is_what_was_sampled_between_what_a_fresh_world_says(make, tasks, thoughts, max_turns):
    _, judge, rollouts = played(make, tasks, thoughts, max_turns)
    begin = "<think>" if thoughts else "<act>"
    for row, task in enumerate(task for task in tasks for _ in range(GROUP)):
        told, paid, over = retold(make, task, begin, [completion for completion, _ in judge.heard[row]])
        prompt = rollouts.prompt_ids[row // GROUP][rollouts.prompt_mask[row // GROUP]].tolist()
        real = rollouts.mask[row]
        # Pitfall 9: ids stay ids. Neither observations nor the word that begins a step are ever trained on.
        words = [f"[{word}]" for word in FORM.text(prompt).split()] + [
            word if sampled else f"[{word}]"
            for word, sampled in zip(
                FORM.text(rollouts.ids[row, real].tolist()).split(),
                rollouts.completion_mask[row, real].tolist(),
                strict=True,
            )
        ]
        assert words == told
        assert judge.returns[row] == pytest.approx(sum(paid)) == rollouts.rewards[row].item()
        for turn in range(len(paid)):
            assert rollouts.turn_rewards[row, turn].item() == pytest.approx(sum(paid[: turn + 1]))
        assert over or len(paid) == max_turns
        assert judge.episodes[row].over == over


def test_what_the_cases_must_hold_comes_up_in_them():
    # Else the tests around this one say nothing: ends of each kind, pay and none, and writing of each kind.
    ends, failures, paid = set(), set(), set()
    for make, tasks, thoughts, max_turns in CASES.args[1]:
        _, judge, rollouts = played(make, tasks, thoughts, max_turns)
        for episode in judge.episodes:
            ends.add((episode.terminated, episode.truncated, episode.finished))
            failures.update(kind for step in episode.history for kind in step.failures)
        paid.add(len(set(judge.returns)) > 1)
        assert len(set(rollouts.turns.tolist())) > 1 or max_turns == BUDGET
    assert {(True, False, False), (False, True, False)} < ends and paid == {True}
    assert {FORMAT, INVENTED, INADMISSIBLE} <= failures


def test_who_says_finish_too_soon_is_over_and_earns_nothing():
    judge = EpisodeJudge(PhoneWorld, PHONE[:1], FORM, 2, thoughts=False)
    finish, other = FORM.ids("finish <eos>"), FORM.ids("back <eos>")
    over, going = judge([0, 1], [finish, other])
    assert over.reward == 0 and over.feedback_ids is None and judge.episodes[0].finished
    assert judge.episodes[0].history[0].failures == (PREMATURE,)
    assert going.feedback_ids is not None and not judge.episodes[1].over


@CASES
def test_who_is_over_is_told_nothing_more_and_who_is_not_sees_the_next_observation(
    make, tasks, thoughts, max_turns
):
    _, judge, rollouts = played(make, tasks, thoughts, max_turns, seed=1)
    for row, heard in judge.heard.items():
        assert all(answer.feedback_ids is not None for _, answer in heard[:-1])
        last = heard[-1][1]
        assert (last.feedback_ids is None) == judge.episodes[row].over
        assert rollouts.turns[row] == len(heard)
        # Nothing stands behind the last word that was sampled.
        assert rollouts.completion_mask[row, int(rollouts.mask[row].sum()) - 1]
        if judge.episodes[row].over:
            with pytest.raises(RuntimeError, match="the episode is over"):
                judge([row], [FORM.ids("back <eos>")])


@CASES
def test_rescoring_gives_the_logprobs_that_were_sampled(make, tasks, thoughts, max_turns):
    model, judge, rollouts = played(make, tasks, thoughts, max_turns)
    kept = rollouts.completion_mask
    scored = continuation_logprobs(
        model,
        rollouts.prompt_ids,
        rollouts.prompt_mask,
        rollouts.prompt_of_row,
        rollouts.ids,
        rollouts.mask,
        TEMPERATURE,
    )
    torch.testing.assert_close(scored[kept].detach(), rollouts.logprobs[kept], atol=2e-4, rtol=1e-4)
    assert rollouts.logprobs[~kept].eq(0).all()
    # Against one pass a word, of a row of several turns.
    row = int(rollouts.turns.argmax())
    turn = int(rollouts.turns[row]) - 1
    at = rollouts.turn_of_token[row] == turn
    start = int(at.float().argmax())
    prompt = rollouts.prompt_ids[row // GROUP][rollouts.prompt_mask[row // GROUP]].tolist()
    expected = tiny.one_by_one_logprobs(
        model, prompt + rollouts.ids[row, :start].tolist(), rollouts.ids[row, at].tolist(), TEMPERATURE
    )
    torch.testing.assert_close(rollouts.logprobs[row, at], expected, atol=2e-4, rtol=1e-4)


def test_there_is_one_prompt_a_task_and_a_group_plays_it_side_by_side():
    judge = EpisodeJudge(lambda: PhoneWorld(max_steps=BUDGET), PHONE, FORM, GROUP, thoughts=False)
    assert [FORM.text(ids) for ids in judge.prompts] == [
        "<bos> open the Settings <obs> Home : Settings , Maps , Camera , Chat <act>",
        "<bos> turn on the WiFi <obs> Home airplane : Settings , Maps , Camera , Chat <act>",
        "<bos> open the Settings <obs> Home airplane : Settings , Maps , Camera , Chat <act>",
    ]
    assert [e.world.task for e in judge.episodes] == [task for task in PHONE for _ in range(GROUP)]
    assert len({id(e.world) for e in judge.episodes}) == len(PHONE) * GROUP


def test_a_turn_by_hand():
    judge = EpisodeJudge(lambda: CraftWorld(max_steps=9), CRAFT, FORM, 2, thoughts=False)
    # Rope takes five actions; row 2 is of the other task, plank from two wood: three.
    one, two = judge([1, 2], [FORM.ids("get wool <eos>"), FORM.ids("get wood <eos>")])
    assert FORM.text(one.feedback_ids) == "<obs> have : 1 wool <act>"
    assert one.reward == pytest.approx(1 / 5) and two.reward == pytest.approx(1 / 3)
    # Rewards add up; what cannot be done earns nothing and says why.
    (refused,) = judge([1], [FORM.ids("craft rope <eos>")])
    assert refused.reward == pytest.approx(1 / 5)
    assert FORM.text(refused.feedback_ids) == "<obs> missing 2 thread have : 1 wool <act>"
    judge([2], [FORM.ids("get wood <eos>")])
    (done,) = judge([2], [FORM.ids("craft plank <eos>")])
    assert (done.reward, done.feedback_ids) == (pytest.approx(1.0), None)
    assert judge.returns == [0.0, pytest.approx(1 / 5), pytest.approx(1.0), 0.0]


def test_who_thinks_begins_each_step_with_a_thought():
    judge = EpisodeJudge(lambda: PhoneWorld(max_steps=9), PHONE[1:2], FORM, 1, thoughts=True)
    assert FORM.text(judge.prompts[0]).endswith(" <think>")
    (answer,) = judge([0], [FORM.ids("airplane on <act> open Settings <eos>")])
    assert FORM.text(answer.feedback_ids).startswith("<obs> Settings :")
    assert FORM.text(answer.feedback_ids).endswith(" <think>")
    (step,) = judge.episodes[0].history
    assert (step.thought, step.action, step.failures) == ("airplane on", "open Settings", ())


def test_who_says_finish_too_early_is_over_and_paid_what_was_earned():
    judge = EpisodeJudge(lambda: CraftWorld(max_steps=9), CRAFT, FORM, 1, thoughts=False)
    judge([0], [FORM.ids("get wool <eos>")])
    (answer,) = judge([0], [FORM.ids("finish <eos>")])
    assert (answer.reward, answer.feedback_ids) == (pytest.approx(1 / 5), None)
