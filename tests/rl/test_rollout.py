import pytest
import torch

from labkit.envs.judging import Judgement
from labkit.lm.sampling import SamplingConfig
from labkit.lm.shared_prompt import continuation_logprobs
from labkit.rl.rollout import collect, join
from tests.tiny import BOS, EOS, PAD, A, B, C, D, E, gpt2, llama, one_by_one_logprobs, seeded

PROMPTS = [[BOS, A], [BOS, B, C, D], [BOS, E, A]]
FEEDBACK = (E, D, BOS)
GROUP = 3


class ScriptedJudge:
    """Row r gets r % 3 answers with feedback before its episode ends; its reward tells row and turn."""

    def __init__(self):
        self.calls, self.attempts = [], {}

    def __call__(self, rows, completions):
        self.calls.append(list(rows))
        answers = []
        for row, completion in zip(rows, completions, strict=True):
            tries = self.attempts.setdefault(row, [])
            tries.append(list(completion))
            answers.append(Judgement(row + len(tries) / 10, FEEDBACK if len(tries) <= row % 3 else None))
        return answers


def rollouts_of(model, judge, max_turns=3, temperature=1.0, prompts=PROMPTS, seed=0, **more):
    sampling = SamplingConfig(4, temperature=temperature)
    return collect(
        model, prompts, judge, sampling, group_size=GROUP, generator=seeded(seed), max_turns=max_turns, **more
    )


def episode(attempts):
    """What a row must hold: attempts with feedback between them; and the turn of what was sampled."""
    ids, turns = [], []
    for turn, attempt in enumerate(attempts):
        if turn:
            ids += FEEDBACK
            turns += [-1] * len(FEEDBACK)
        ids += attempt
        turns += [turn] * len(attempt)
    return ids, turns


@pytest.mark.parametrize("max_turns", [1, 2, 3, 5])
def test_rows_hold_every_attempt_with_feedback_between(max_turns):
    judge = ScriptedJudge()
    rollouts = rollouts_of(llama(), judge, max_turns)
    for row in range(len(PROMPTS) * GROUP):
        attempts = judge.attempts[row]
        assert len(attempts) == min(1 + row % 3, max_turns)
        ids, turns = episode(attempts)
        # Pitfall 9: the ids trained on are the ids sampled. Feedback is never trained on.
        assert rollouts.ids[row, rollouts.mask[row]].tolist() == ids
        assert rollouts.turn_of_token[row, : len(turns)].tolist() == turns
        assert rollouts.turn_of_token[row, len(turns) :].eq(-1).all()
        assert not rollouts.mask[row, len(turns) :].any(), "padding goes on the right"
        assert rollouts.ids[row, len(turns) :].eq(PAD).all()
        assert rollouts.turn_rewards[row, : len(attempts)].tolist() == pytest.approx(
            [row + (turn + 1) / 10 for turn in range(len(attempts))]
        )
        assert rollouts.turn_rewards[row, len(attempts) :].eq(0).all()


def test_each_prompt_stands_once_padded_on_the_left():
    rollouts = rollouts_of(llama(), ScriptedJudge())
    assert rollouts.prompt_of_row.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    for ids, mask, prompt in zip(rollouts.prompt_ids, rollouts.prompt_mask, PROMPTS, strict=True):
        assert ids[mask].tolist() == prompt
        assert mask[-1]


def test_ids_and_logprobs_are_those_of_the_sampler():
    seen, judge = [], ScriptedJudge()
    rollouts = rollouts_of(llama(), judge, max_turns=1, on_samples=seen.append)
    (samples,) = seen
    for row, completion in enumerate(samples.completions()):
        kept = rollouts.completion_mask[row]
        assert rollouts.ids[row, kept].tolist() == completion == judge.attempts[row][0]
        assert rollouts.logprobs[row, kept].tolist() == samples.logprobs[row, : len(completion)].tolist()


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("make", [llama, gpt2])
def test_stored_logprobs_equal_rescored_ones_over_all_turns(make, temperature):
    model, judge = make(), ScriptedJudge()
    rollouts = rollouts_of(model, judge, temperature=temperature)
    scored = continuation_logprobs(
        model,
        rollouts.prompt_ids,
        rollouts.prompt_mask,
        rollouts.prompt_of_row,
        rollouts.ids,
        rollouts.mask,
        temperature,
    )
    kept = rollouts.completion_mask
    torch.testing.assert_close(scored[kept].detach(), rollouts.logprobs[kept], atol=2e-5, rtol=0)
    assert rollouts.logprobs[~kept].eq(0).all()
    # A second attempt is conditioned on the first one and on the feedback.
    row = 4
    ids, _ = episode(judge.attempts[row])
    start = len(ids) - len(judge.attempts[row][-1])
    expected = one_by_one_logprobs(model, PROMPTS[row // GROUP] + ids[:start], ids[start:], temperature)
    torch.testing.assert_close(rollouts.logprobs[row, start : len(ids)], expected, atol=2e-5, rtol=0)


def test_groups_lie_side_by_side_and_only_open_episodes_are_judged_again():
    judge = ScriptedJudge()
    rollouts_of(llama(), judge)
    assert judge.calls == [[0, 1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 4, 5, 7, 8], [2, 5, 8]]


def test_the_reward_is_that_of_the_last_attempt_and_turns_are_counted():
    rollouts = rollouts_of(llama(), ScriptedJudge())
    assert rollouts.turns.tolist() == [1, 2, 3] * 3
    assert rollouts.rewards.tolist() == pytest.approx([row + (1 + row % 3) / 10 for row in range(9)])


def test_whole_number_rewards_are_rewards_too():
    rollouts = rollouts_of(llama(), lambda rows, completions: [Judgement(1) for _ in rows])
    assert rollouts.rewards.dtype == torch.float32


def test_no_feedback_is_shown_after_the_last_turn():
    # It would stand behind the last sampled token, where nothing answers it.
    rollouts = rollouts_of(llama(), lambda rows, completions: [Judgement(0.0, FEEDBACK) for _ in rows], 2)
    for row in range(9):
        real = int(rollouts.mask[row].sum())
        assert rollouts.completion_mask[row, real - 1]


def test_shapes_agree_and_tokens_are_counted_with_their_prompt():
    rollouts = rollouts_of(llama(), ScriptedJudge())
    per_token = (rollouts.ids, rollouts.mask, rollouts.turn_of_token, rollouts.logprobs)
    assert len({x.shape for x in per_token}) == 1
    assert rollouts.rewards.shape == rollouts.turns.shape == (9,)
    assert rollouts.turn_rewards.shape == (9, 3)
    assert rollouts.num_tokens == GROUP * sum(map(len, PROMPTS)) + rollouts.mask.sum()


def test_joined_rollouts_hold_the_episodes_of_both_and_can_be_told_apart_again():
    one, other = (rollouts_of(llama(), ScriptedJudge(), turns) for turns in (1, 3))
    both = join([one, other])
    assert both.group_size == GROUP
    assert len(both.prompt_ids) == 6
    for number, part in enumerate((one, other)):
        again = both.select(torch.arange(6)[3 * number : 3 * number + 3])
        for row in range(9):
            assert again.ids[row, again.mask[row]].tolist() == part.ids[row, part.mask[row]].tolist()
        assert torch.equal(again.rewards, part.rewards)
        assert again.completion_mask.sum() == part.completion_mask.sum()


def test_groups_with_signal_are_those_whose_rewards_differ():
    rollouts = rollouts_of(llama(), lambda rows, c: [Judgement(float(r == 4)) for r in rows], 1)
    assert rollouts.groups_with_signal.tolist() == [False, True, False]
    assert rollouts.select(rollouts.groups_with_signal).rewards.tolist() == [0.0, 1.0, 0.0]


def test_an_episode_has_at_least_one_turn():
    with pytest.raises(ValueError, match="max_turns is 0"):
        rollouts_of(llama(), ScriptedJudge(), 0)


def test_eos_is_trained_on():
    rollouts = rollouts_of(llama(), ScriptedJudge(), max_turns=1)
    ends = (rollouts.ids == EOS) & rollouts.mask
    assert ends.any()
    assert rollouts.completion_mask[ends].all()


def test_the_seed_decides_the_rollouts():
    first, again, other = (rollouts_of(llama(), ScriptedJudge(), seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first.ids, again.ids)
    assert torch.equal(first.logprobs, again.logprobs)
    assert first.ids.shape != other.ids.shape or not torch.equal(first.ids, other.ids)


@pytest.mark.parametrize("settings", [{"top_k": 3}, {"top_p": 0.9}, {"greedy": True}])
def test_sampling_that_the_policy_cannot_rescore_is_refused(settings):
    with pytest.raises(ValueError, match="rollouts need plain sampling"):
        collect(
            llama(), PROMPTS, ScriptedJudge(), SamplingConfig(4, **settings), group_size=2, generator=seeded()
        )


def test_top_p_of_one_and_top_k_none_are_plain_sampling():
    sampling = SamplingConfig(2, top_p=1.0)
    collect(llama(), PROMPTS, ScriptedJudge(), sampling, group_size=2, generator=seeded())
